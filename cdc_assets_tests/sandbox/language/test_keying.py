"""Strings beyond ASCII get their keys from a function: the same ones, NULL and refusals too."""

from __future__ import annotations

import duckdb
import pytest

from cdc_assets.sandbox.language.collation import equality_key
from cdc_assets.sandbox.language.keying import register
from cdc_assets.sandbox.language.macros import definitions
from cdc_assets.sandbox.results import SqlType

KIND = SqlType("nvarchar", length=20, collation="Latin1_General_CI_AS")
MANY = 5_000
"""More than DuckDB gives a function at once, and than are remembered."""


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect(":memory:")
    register(made)
    for statement in definitions():
        made.execute(statement)
    return made


def test_many_rows_keep_their_places(connection: duckdb.DuckDBPyConnection) -> None:
    """Plain ones, others and NULL by turns, on a cursor of the connection that registered it."""
    connection.execute(
        "CREATE OR REPLACE TABLE t AS SELECT i, CASE i % 3 WHEN 0 THEN 'PLAIN ' || i"
        f" WHEN 1 THEN 'ÉTÉ ' || i || ' ' END AS s FROM range({MANY}) r(i)"
    )
    found = connection.cursor().execute(f"SELECT {equality_key('s', KIND)} FROM t ORDER BY i")
    assert [key for (key,) in found.fetchall()] == [
        [f"plain {i}", f"été {i}", None][i % 3] for i in range(MANY)
    ]


def test_nothing_but_null_is_no_call(connection: duckdb.DuckDBPyConnection) -> None:
    key = equality_key("s", KIND)
    text = f"SELECT {key} FROM (SELECT CAST(NULL AS VARCHAR) AS s FROM range(3))"
    assert connection.execute(text).fetchall() == [(None,)] * 3


@pytest.mark.parametrize("rows", [1, MANY])
def test_what_no_rule_covers_is_said(connection: duckdb.DuckDBPyConnection, rows: int) -> None:
    text = f"SELECT {equality_key('s', KIND)} FROM (SELECT 'ʮ' || i AS s FROM range({rows}) r(i))"
    with pytest.raises(duckdb.Error, match=r"40515\|16\|1\|Comparing a character of 'ʮ0'"):
        connection.execute(text).fetchall()
