"""Constants computed while binding, so that DuckDB sees plain literals it can prune with."""

from __future__ import annotations

import threading
from functools import lru_cache

import duckdb

from cdc_assets.sandbox.language.keying import register
from cdc_assets.sandbox.language.macros import definitions
from cdc_assets.sandbox.language.values import Value, of_python, raised
from cdc_assets.sandbox.results import SqlError

_LONGEST = 4000
_lock = threading.Lock()


@lru_cache(maxsize=1)
def _scratch() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    register(connection)
    for statement in definitions():
        connection.execute(statement)
    return connection


@lru_cache(maxsize=8192)
def _evaluate(sql: str) -> object | SqlError:
    try:
        with _lock:
            row = _scratch().execute(f"SELECT {sql}").fetchone()
    except duckdb.Error as error:
        return raised(str(error)) or SqlError(
            8115, "Arithmetic overflow error converting expression to data type."
        )
    return row[0] if row else None


def fold(value: Value, origin: Value) -> Value:
    """`value`, computed now if `origin`, which it was made from, is a constant.

    An error stays in the text: it may stand in a branch that no row reaches.
    """
    if not origin.is_constant or len(value.sql) > _LONGEST:
        return value
    if value.sql == origin.sql:
        return Value(value.sql, value.type, value.nullable, origin.constant)
    result = _evaluate(value.sql)
    if isinstance(result, SqlError):
        return value
    return of_python(result, value.type)


def attempt(value: Value) -> object:
    """A constant expression's Python value; raises the `SqlError` it runs into."""
    result = _evaluate(value.sql)
    if isinstance(result, SqlError):
        raise result
    return result
