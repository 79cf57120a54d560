"""Comparison keys of strings beyond ASCII, computed by a function that DuckDB calls for them alone.

DuckDB binds every branch of a CASE, also one that no row takes, and the rules of all characters are
long: written out, they cost a short statement most of its time. Here they are one text that the
function gets, and computes with a DuckDB of its own.
"""

from __future__ import annotations

import threading
from functools import lru_cache

import duckdb
import pyarrow as pa

from cdc_assets.sandbox.language.macros import definitions
from cdc_assets.sandbox.language.values import quote

VALUE = "x"
"""What a rule calls its string."""

_FEW = 32
"""Strings of one call whose keys are remembered."""

_lock = threading.Lock()


def keyed(sql: str, rule: str) -> str:
    """DuckDB text of a rule, written for `VALUE`, applied to another expression; NULL for NULL."""
    return f"keyed({sql}, {quote(rule)})"


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the function known to a database's connections."""
    connection.create_function("keyed", _keyed, ["VARCHAR", "VARCHAR"], "VARCHAR", type="arrow")


def _keyed(texts: pa.Array, rules: pa.Array) -> pa.Array:
    values = tuple(texts.to_pylist())
    if not values:  # All of a batch were NULL: DuckDB leaves those out.
        return pa.array([], pa.string())
    compute = _remembered if len(values) <= _FEW else _computed
    return pa.array(compute(values, rules[0].as_py()), pa.string())


def _computed(values: tuple[str, ...], rule: str) -> list[str | None]:
    """Raises `duckdb.Error` with the mark of an error of SQL Server's in its text."""
    with _lock:
        connection = _scratch()
        connection.register("given", pa.table({VALUE: pa.array(values, pa.string())}))
        found = connection.execute(f"SELECT {rule} FROM given").fetchall()
    return [key for (key,) in found]


_remembered = lru_cache(maxsize=1024)(_computed)


@lru_cache(maxsize=1)
def _scratch() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    for statement in definitions():
        connection.execute(statement)
    return connection
