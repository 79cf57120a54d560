"""Which type holds the values of another, and what Delta can widen a column to.

Types are Spark SQL's, as text. Delta changes the type of a column without touching its files
through the table feature `typeWidening`, and knows these changes alone:
https://docs.delta.io/delta-type-widening.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from cdc_assets.planning.literals import quoted

DECIMAL_DIGITS_MAX = 38
"""Digits of the widest decimal, in Delta as in SQL Server."""

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_DIGITS = {"SMALLINT": 5, "INT": 10, "BIGINT": 19}
_DIGITS_WIDENED_MIN = {"SMALLINT": 10, "INT": 10, "BIGINT": 20}
"""Digits before the point of the least decimal that Delta widens an integer type to."""
_HELD = {
    "SMALLINT": {"BOOLEAN"},
    "INT": {"BOOLEAN", "SMALLINT"},
    "BIGINT": {"BOOLEAN", "SMALLINT", "INT"},
    "FLOAT": {"SMALLINT"},
    "DOUBLE": {"SMALLINT", "INT", "FLOAT"},
    "TIMESTAMP_NTZ": {"DATE"},
}
_WIDENED = {
    "SMALLINT": ("INT", "BIGINT", "DOUBLE"),
    "INT": ("BIGINT", "DOUBLE"),
    "FLOAT": ("DOUBLE",),
    "DATE": ("TIMESTAMP_NTZ",),
}


def holds(held: str, given: str) -> bool:
    """Whether every value of the type `given` is one of the type `held`."""
    if held == given or given in _HELD.get(held, ()):
        return True
    decimal, other = _decimal(held), _digits(given, _DIGITS)
    if decimal is None or other is None:
        return False
    return other[0] <= decimal[0] and other[1] <= decimal[1]


def widened(held: str, given: str) -> str | None:
    """The least type that holds both and that Delta can widen `held` to, or None."""
    for target in _WIDENED.get(held, ()):
        if holds(target, given):
            return target
    ours, theirs = _digits(held, _DIGITS_WIDENED_MIN), _digits(given, _DIGITS)
    if ours is None or theirs is None:
        return None
    before, after = max(ours[0], theirs[0]), max(ours[1], theirs[1])
    fits = before + after <= DECIMAL_DIGITS_MAX
    return f"DECIMAL({before + after},{after})" if fits else None


def widening_text(uri: str, targets: Iterable[tuple[str, str]]) -> str:
    """The Spark SQL that widens columns of the Delta table at `uri`: their names and new types."""
    table = f"delta.{quoted(uri)}"
    statements = [f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true');"]
    for column, target in targets:
        statements.append(f"ALTER TABLE {table} ALTER COLUMN {quoted(column)} TYPE {target};")
    return " ".join(statements)


def _decimal(type_text: str) -> tuple[int, int] | None:
    """A decimal's digits before and after the point; None for another type."""
    found = _DECIMAL.fullmatch(type_text)
    return None if found is None else (int(found[1]) - int(found[2]), int(found[2]))


def _digits(type_text: str, of_integers: Mapping[str, int]) -> tuple[int, int] | None:
    """Digits before and after the point; None for a type that is no exact number."""
    if type_text in of_integers:
        return of_integers[type_text], 0
    return _decimal(type_text)
