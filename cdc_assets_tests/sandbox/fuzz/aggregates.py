"""Aggregates and window functions with their documented types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal
from random import Random
from typing import Any

from cdc_assets_tests.sandbox.fuzz import model
from cdc_assets_tests.sandbox.fuzz.expressions import Expressions
from cdc_assets_tests.sandbox.fuzz.model import BIGINT, FLOAT, INT, MONEY, Expr, Row, UnsureError

Work = Callable[[list[Row]], Any]


def aggregate(random: Random, make: Expressions) -> tuple[Expr, Work]:
    """An aggregate's text and type, and its value for a group of rows."""
    name = random.choice(
        ["COUNT(*)", "COUNT", "COUNT_BIG", "SUM", "SUM", "AVG", "MIN", "MAX", "MIN"]
    )
    if name == "COUNT(*)":
        return _shaped(name, INT), len
    family = random.choice(["number", "exact", "whole"])
    if name in ("MIN", "MAX", "COUNT", "COUNT_BIG"):
        family = random.choice(["number", "exact", "text", "date", "time"])
    operand = make.column(family) if random.random() < 0.7 else make.expression(family, 1)
    distinct = name in ("COUNT", "COUNT_BIG", "SUM", "AVG") and random.random() < 0.25
    mark = "DISTINCT " if distinct else ""
    if operand.type == FLOAT and (distinct or name in ("SUM", "AVG")):
        raise UnsureError  # the order of additions shows in the last digit

    def values(rows: list[Row]) -> list[Any]:
        found = [value for row in rows if (value := operand.run(row)) is not None]
        return list({model.equality_key(v): v for v in found}.values()) if distinct else found

    text = f"{name}({mark}{operand.sql})"
    if name in ("COUNT", "COUNT_BIG"):
        kind = INT if name == "COUNT" else BIGINT
        return _shaped(text, kind), lambda rows: len(values(rows))
    if name in ("MIN", "MAX"):
        pick = min if name == "MIN" else max
        return replace(
            _shaped(text, operand.type), fixed_type=operand.fixed_type
        ), lambda rows: pick(values(rows), key=model.order_key, default=None)
    kind = _sum_type(operand.type)
    if name == "SUM":
        return _shaped(text, kind), lambda rows: _sum(values(rows), kind)
    kind = _average_type(operand.type)
    return _shaped(text, kind), lambda rows: _average(values(rows), kind)


def _shaped(text: str, kind: model.SqlType) -> Expr:
    return Expr(text, kind, lambda row: row[text], None)


def _sum_type(kind: model.SqlType) -> model.SqlType:
    if kind.name in ("tinyint", "smallint", "int"):
        return INT
    if kind.name in ("decimal", "numeric"):
        return model.decimal_type(38, kind.scale or 0, kind.name)
    return kind


def _average_type(kind: model.SqlType) -> model.SqlType:
    if kind.name in ("decimal", "numeric"):
        return model.decimal_type(38, max(6, kind.scale or 0), kind.name)
    return _sum_type(kind)


def _sum(values: list[Any], kind: model.SqlType) -> Any:
    if not values:
        return None
    if kind.name in model.INTS:
        return model.in_range(sum(values), kind)
    return model.rounded(sum(values, Decimal(0)), kind)


def _average(values: list[Any], kind: model.SqlType) -> Any:
    if not values:
        return None
    if kind.name in model.INTS:
        total = model.in_range(sum(values), BIGINT)
        return abs(total) // len(values) * (1 if total >= 0 else -1)
    if kind == MONEY:
        raise UnsureError
    exact = model.WIDE.divide(sum(values, Decimal(0)), Decimal(len(values)))
    unit = Decimal(1).scaleb(-(kind.scale or 0))
    return exact.quantize(unit, rounding=ROUND_DOWN, context=model.WIDE)


# --- windows -----------------------------------------------------------------------------------


def windowed(random: Random, make: Expressions, keys: tuple[Expr, ...], rows: list[Row]) -> Expr:
    """A window function over these rows; its values are put into them under its text."""
    parts = [make.column(random.choice(["whole", "bit", "text"]))] if random.random() < 0.6 else []
    descending = random.random() < 0.4
    order = ", ".join(k.sql + (" DESC" if descending else "") for k in keys)
    split = f"PARTITION BY {parts[0].sql} " if parts else ""
    over = f"OVER ({split}ORDER BY {order})"
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(model.equality_key(p.run(row)) for p in parts), []).append(row)
    for group in groups.values():
        group.sort(key=lambda r: [model.order_key(k.run(r)) for k in keys], reverse=descending)
    return random.choice([_ranked, _offset, _running])(random, make, over, list(groups.values()))


def _ranked(random: Random, make: Expressions, over: str, groups: list[list[Row]]) -> Expr:
    name = random.choice(["ROW_NUMBER()", "RANK()", "DENSE_RANK()", "NTILE(2)"])
    text = f"{name} {over}"
    for group in groups:
        half = (len(group) + 1) // 2
        for place, row in enumerate(group):
            row[text] = (1 if place < half else 2) if name == "NTILE(2)" else place + 1
    return Expr(text, BIGINT, lambda row: row[text], None)


def _offset(random: Random, make: Expressions, over: str, groups: list[list[Row]]) -> Expr:
    operand = make.column(random.choice(["exact", "text", "date"]))
    name = random.choice(["LAG", "LEAD", "FIRST_VALUE"])
    steps = random.choice([1, 2])
    listed = operand.sql if name == "FIRST_VALUE" else f"{operand.sql}, {steps}"
    text = f"{name}({listed}) {over}"
    for group in groups:
        values = [operand.run(row) for row in group]
        for place, row in enumerate(group):
            at = {"LAG": place - steps, "LEAD": place + steps}.get(name, 0)
            row[text] = values[at] if 0 <= at < len(values) else None
    return Expr(text, operand.type, lambda row: row[text], None, fixed_type=operand.fixed_type)


def _running(random: Random, make: Expressions, over: str, groups: list[list[Row]]) -> Expr:
    operand = make.column(random.choice(["whole", "exact"]))
    if operand.type.name in model.INTS:
        operand = Expr(
            f"CAST({operand.sql} AS decimal(20,0))",
            model.decimal_type(20, 0),
            lambda row, o=operand: model.convert(o.run(row), o.type, model.decimal_type(20, 0)),
        )
    name = random.choice(["SUM", "COUNT", "MIN", "MAX"])
    frame, width = random.choice(
        [
            ("", None),
            (" ROWS UNBOUNDED PRECEDING", None),
            (" ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", 1),
        ]
    )
    text = f"{name}({operand.sql}) {over[:-1]}{frame})"
    kind = {"SUM": _sum_type(operand.type), "COUNT": INT}.get(name, operand.type)
    for group in groups:
        values = [operand.run(row) for row in group]
        for place, row in enumerate(group):
            start = 0 if width is None else max(0, place - width)
            known = [v for v in values[start : place + 1] if v is not None]
            if name == "COUNT":
                row[text] = len(known)
            elif name == "SUM":
                row[text] = _sum(known, kind)
            else:
                row[text] = (min if name == "MIN" else max)(known, default=None)
    return Expr(text, kind, lambda row: row[text], None)
