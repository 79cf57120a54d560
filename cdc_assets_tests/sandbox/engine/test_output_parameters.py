"""Output parameters of sp_executesql: as a driver calls it, and as T-SQL does."""

from __future__ import annotations

from decimal import Decimal

import pytest

from cdc_assets.sandbox.results import OutputParameters, Parameter, SqlType
from cdc_assets_tests.sandbox.harness import Client

KINDS = [
    ("int", SqlType("int"), "41 + 1", 42),
    ("nvarchar(20)", SqlType("nvarchar", length=20), "N'käse 😀'", "käse 😀"),
    ("decimal(9,2)", SqlType("decimal", precision=9, scale=2), "12.34", Decimal("12.34")),
    ("bit", SqlType("bit"), "1", True),
    ("varbinary(4)", SqlType("varbinary", length=4), "0x00FF", b"\x00\xff"),
    ("time(7)", SqlType("time", scale=7), "'00:00:00.0000001'", 1),
    ("int", SqlType("int"), "NULL", None),
]


@pytest.mark.parametrize(("declared", "kind", "text", "value"), KINDS)
def test_a_driver_gets_them_at_the_end(
    shared: Client, declared: str, kind: SqlType, text: str, value: object
) -> None:
    given = [Parameter("@in", SqlType("int"), 7), Parameter("@Out", kind, None, output=True)]
    results = list(shared.session.execute(f"SELECT @in; SET @out = {text}; RETURN", given))
    assert [type(result) for result in results[:-1]].count(OutputParameters) == 0
    assert results[-1] == OutputParameters(0, (("@out", kind, value),))
    (row,) = shared.rows(
        f"DECLARE @x {declared}; "
        f"EXEC sp_executesql N'SET @out = {text.replace(chr(39), chr(39) * 2)}', "
        f"N'@in int, @out {declared} OUTPUT', 7, @x OUTPUT; SELECT @x"
    )
    assert row == (value,)


def test_the_value_given_goes_in_too(shared: Client) -> None:
    text = (
        "DECLARE @x int = 5, @y int = 1; EXEC sp_executesql N'SET @b = @b + @a', "
        "N'@a int, @b int OUT', @b = @x OUTPUT, @a = @y; SELECT @x, @y"
    )
    assert shared.rows(text) == [(6, 1)]


def test_one_that_is_not_declared_so_is_refused(shared: Client) -> None:
    text = "DECLARE @x int; EXEC sp_executesql N'SET @b = 1', N'@b int', @x OUTPUT"
    assert shared.error(text).number == 8162


def test_one_that_is_not_asked_for_stays(shared: Client) -> None:
    text = "DECLARE @x int = 5; EXEC sp_executesql N'SET @b = 1', N'@b int OUTPUT', @x; SELECT @x"
    assert shared.rows(text) == [(5,)]
