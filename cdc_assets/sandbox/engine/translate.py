"""DuckDB's errors as SQL Server's."""

from __future__ import annotations

import re

import duckdb

from cdc_assets.sandbox.language.values import raised
from cdc_assets.sandbox.results import SqlError


def translate(error: duckdb.Error) -> SqlError:
    """The error a client of SQL Server would see for the same cause."""
    text = str(error)
    own = raised(text)
    if own is not None:
        return own
    if isinstance(error, duckdb.InterruptException) or "Interrupted" in text:
        return SqlError(0, "Operation cancelled by user.", 11)
    if isinstance(error, duckdb.TransactionException) and "onflict" in text:
        return conflict()
    if "Scalar subquery" in text or "More than one row returned" in text:
        return SqlError(
            512,
            "Subquery returned more than 1 value. This is not permitted when the subquery follows "
            "=, !=, <, <= , >, >= or when the subquery is used as an expression.",
        )
    if "must appear in the GROUP BY" in text:
        return SqlError(
            8120,
            "A column is invalid in the select list because it is not contained in either an "
            "aggregate function or the GROUP BY clause.",
        )
    if "WHERE clause cannot contain aggregates" in text:
        return SqlError(
            147, "An aggregate may not appear in the WHERE clause unless it is in a subquery.", 15
        )
    if isinstance(error, (duckdb.ConversionException, duckdb.OutOfRangeException)) or re.search(
        r"[Oo]verflow|out of range", text
    ):
        return SqlError(8115, "Arithmetic overflow error converting expression to data type.")
    if isinstance(error, duckdb.OutOfMemoryException):
        return SqlError(701, "There is insufficient system memory to run this query.", 17)
    return SqlError(40515, "This statement is not supported by the sandbox.")


def conflict() -> SqlError:
    """Msg 3960: two transactions changed the same row."""
    return SqlError(
        3960,
        "Snapshot isolation transaction aborted due to update conflict. You cannot use snapshot "
        "isolation to access the table directly or indirectly to update, delete, or insert the row "
        "that has been modified or deleted by another transaction. Retry the transaction or change "
        "the isolation level for the update/delete statement.",
    )
