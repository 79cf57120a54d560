"""Comparisons and three-valued logic."""

from __future__ import annotations

from typing import Any

from cdc_assets_tests.sandbox.fuzz import model
from cdc_assets_tests.sandbox.fuzz.model import MONEY, Expr, FailedError, Row, Test, UnsureError


def evaluated(sides: tuple[Expr, Expr], row: Row) -> list[Any]:
    """Both values; where one side fails and the other is NULL, either may come first."""
    values, failures = [], []
    for side in sides:
        try:
            values.append(side.run(row))
        except FailedError as failed:
            failures.append(failed)
    if failures and None in values:
        raise UnsureError
    if failures:
        raise failures[0]
    return values


def both(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def negated(a: bool | None) -> bool | None:
    return None if a is None else not a


def comparison(op: str, left: Expr, right: Expr) -> Test:
    """`left op right` in the type of the higher precedence."""
    kind = model.common([left.type, right.type])
    exact = kind.name in ("decimal", "numeric", "money", *model.INTS)

    def run(row: Row) -> bool | None:
        if kind == MONEY and "bigint" in (left.type.name, right.type.name):
            raise UnsureError  # which of its whole numbers money has no room for, varies
        values = evaluated((left, right), row)
        sides = [
            value
            if value is None or (exact and side.type.name not in model.TEXTS)
            else model.convert(value, side.type, kind)
            for side, value in zip((left, right), values, strict=True)
        ]
        a, b = sides
        if a is None or b is None:
            return None
        if kind.name == "varbinary" and (a == b) != (a.rstrip(b"\0") == b.rstrip(b"\0")):
            raise UnsureError
        if op in ("=", "<>", "!="):
            return (model.equality_key(a) == model.equality_key(b)) == (op == "=")
        x, y = model.order_key(a), model.order_key(b)
        return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op]

    return Test(f"{left.sql} {op} {right.sql}", run)
