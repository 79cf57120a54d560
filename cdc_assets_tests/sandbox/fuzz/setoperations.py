"""UNION, EXCEPT and INTERSECT of rows."""

from __future__ import annotations

from typing import Any

from cdc_assets_tests.sandbox.fuzz import model
from cdc_assets_tests.sandbox.fuzz.model import Expr


def converted(
    items: list[Expr], rows: list[tuple[Any, ...]], kinds: list[model.SqlType]
) -> list[tuple[Any, ...]]:
    """An arm's rows in the types that all arms have in common."""
    return [
        tuple(
            model.convert(value, item.type, kind)
            for value, item, kind in zip(row, items, kinds, strict=True)
        )
        for row in rows
    ]


def set_operations(tables: list[list[tuple[Any, ...]]], ops: list[str]) -> list[tuple[Any, ...]]:
    """INTERSECT first, the rest from left to right."""
    stack, rest = [tables[0]], []
    for op, table in zip(ops, tables[1:], strict=True):
        if op == "INTERSECT":
            stack[-1] = _set_operation(op, stack[-1], table)
        else:
            stack.append(table)
            rest.append(op)
    found = stack[0]
    for op, table in zip(rest, stack[1:], strict=True):
        found = _set_operation(op, found, table)
    return found


def _set_operation(
    op: str, left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    if op == "UNION ALL":
        return left + right
    mine = {tuple(map(model.equality_key, row)): row for row in left}
    theirs = {tuple(map(model.equality_key, row)): row for row in right}
    if op == "UNION":
        return list({**theirs, **mine}.values())
    if op == "EXCEPT":
        return [row for key, row in mine.items() if key not in theirs]
    return [row for key, row in mine.items() if key in theirs]
