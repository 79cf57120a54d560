"""Runs a statement and compares what came back with what it must give."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from cdc_assets.sandbox.results import ResultColumn, SqlError
from cdc_assets_tests.sandbox.fuzz import model
from cdc_assets_tests.sandbox.fuzz.model import WIDE
from cdc_assets_tests.sandbox.fuzz.queries import Answer, Statement
from cdc_assets_tests.sandbox.harness import Client

UNSUPPORTED = 40515
_LEAKS = re.compile(
    r"[Dd]uck[Dd][Bb]|(Binder|Parser|Catalog|Conversion|Input|Range|implemented|INTERNAL) Error"
    r"|Traceback|HUGEINT|UTINYINT|BLOB\b|\bs\d+\.c\d+\b|\x02"
)
"""The store's words, which no error may show."""


def problem(client: Client, statement: Statement) -> str | None:
    """What is wrong with the server's answer; None when nothing is."""
    try:
        results = client.results(statement.text)
    except SqlError as error:
        return _error_problem(error, statement)
    except Exception as error:  # noqa: BLE001 - whatever escapes is the finding
        return f"escaped: {type(error).__name__}: {error}"
    if statement.answer is None:
        return f"no error, but one of {sorted(statement.errors)} expected"
    sets = [result for result in results if isinstance(result, tuple)]
    if len(sets) != 1:
        return f"{len(sets)} result sets"
    columns, rows = sets[0]
    return _columns_problem(columns, statement.answer) or rows_problem(rows, statement.answer)


def error_text_problem(error: SqlError) -> str | None:
    """An error must read as SQL Server's own."""
    if _LEAKS.search(error.text):
        return f"leaks the store's words: {error}"
    if not 11 <= error.severity <= 19:
        return f"severity: {error}"
    if not error.text.strip() or not error.number:
        return f"no number or text: {error}"
    return None


def _error_problem(error: SqlError, statement: Statement) -> str | None:
    leak = error_text_problem(error)
    if leak is not None:
        return leak
    if error.number in statement.errors:
        return None
    if statement.answer is None:
        return f"{error}, but one of {sorted(statement.errors)} expected"
    return f"an answer expected, got {error}"


def _columns_problem(columns: Sequence[ResultColumn], answer: Answer) -> str | None:
    if len(columns) != len(answer.columns):
        return f"{len(columns)} columns instead of {len(answer.columns)}"
    for column, name, wanted in zip(columns, answer.names, answer.columns, strict=True):
        if column.name != name:
            return f"column name {column.name!r} instead of {name!r}"
        got, kind = column.type, wanted.type
        if got.name != kind.name and {got.name, kind.name} != {"decimal", "numeric"}:
            return f"column {wanted.sql}: {got} instead of {kind}"
        if wanted.fixed_type and str(got).partition("(")[2] != str(kind).partition("(")[2]:
            return f"column {wanted.sql}: {got} instead of {kind}"
        if wanted.nullable is not None and column.nullable != wanted.nullable:
            return f"column {wanted.sql}: nullable {column.nullable}"
    return None


def rows_problem(rows: Sequence[tuple[Any, ...]], answer: Answer) -> str | None:
    """How the rows differ from the model's; None where they do not."""
    got = [_canonical(row, answer) for row in rows]
    wanted = [_canonical(row, answer) for row in answer.rows]
    blocks = answer.blocks or [len(wanted)]
    if len(got) != len(wanted):
        return f"{len(got)} rows instead of {len(wanted)}: {got} instead of {wanted}"
    start = 0
    for size in blocks:
        mine, theirs = got[start : start + size], wanted[start : start + size]
        if sorted(mine, key=repr) != sorted(theirs, key=repr):
            return f"rows {mine} instead of {theirs}"
        start += size
    return None


def _canonical(row: tuple[Any, ...], answer: Answer) -> tuple[Any, ...]:
    return tuple(
        _value(value, folded=i in answer.folded, name=answer.columns[i].type.name)
        for i, value in enumerate(row)
    )


def _value(value: Any, *, folded: bool, name: str) -> Any:
    if isinstance(value, float):
        return "0" if value == 0 else f"{value:.10e}" if math.isfinite(value) else repr(value)
    if isinstance(value, Decimal):
        return f"{value.normalize(WIDE):f}" if value else "0"
    if isinstance(value, str) and folded:
        return model.folded(value)
    if isinstance(value, bool) or name == "bit":
        return None if value is None else bool(value)
    return value
