"""Which keys a piece of work touches, as conditions that file statistics can be held against.

Two engines wrote the files, and what they say of a column is not always exact: times are cut to
the millisecond, long text is shortened, and delta-rs notes a decimal as a float, or as an integer
of 64 bits that a larger one is cut to. So a bound is only given where every value inside it is
found whoever wrote the file. A key without bounds costs time; a wrong bound would be a lost change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from cdc_assets.contract import Column
from cdc_assets.planning.literals import quoted

KEY_RANGES_MAX = 1_000
"""Ranges that one apply is cut into at most; each is a MERGE of its own."""

KEY_SAMPLE_ROWS = 100_000
"""Rows whose keys say where to cut."""

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_WHOLE_DIGITS_MAX, _DIGITS_MAX = 18, 15
"""Digits of a decimal that statistics keep exactly: those of an integer, and those of a float."""
_TIME_STEP = timedelta(milliseconds=1)
"""Statistics of times leave out what is smaller."""


class Times(StrEnum):
    """How an engine writes a time without a zone; no text is read by both."""

    DATAFUSION = "arrow_cast('{}', 'Timestamp(Microsecond, None)')"
    SPARK = "CAST('{}' AS TIMESTAMP_NTZ)"


@dataclass(frozen=True, slots=True)
class Extent:
    """The smallest and the largest value of a column, and whether it has NULLs too."""

    low: object
    high: object
    has_null: bool


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from `low` on and below `high`; a side that is None is open, and the first has NULL."""

    key: Column
    low: object
    high: object

    def holds(self, times: Times, alias: str = "") -> str:
        """The condition that a row is in it."""
        name = f"{alias}.{quoted(self.key.name)}" if alias else quoted(self.key.name)
        sides = []
        if self.low is not None:
            sides.append(f"{name} >= {_literal(self.key.type, self.low, times)}")
        if self.high is not None:
            sides.append(f"{name} < {_literal(self.key.type, self.high, times)}")
        inside = " AND ".join(sides) or "true"
        return f"({inside} OR {name} IS NULL)" if self.low is None else f"({inside})"


def is_bounded(key: Column) -> bool:
    """Whether bounds of this key can be said and held against statistics."""
    if found := _DECIMAL.fullmatch(key.type):
        digits, scale = int(found.group(1)), int(found.group(2))
        return digits <= (_DIGITS_MAX if scale else _WHOLE_DIGITS_MAX)
    return key.type in (*_INTEGERS, "DATE", "TIMESTAMP_NTZ", "STRING")


def key_bounds(key: Column, extent: Extent, times: Times) -> str | None:
    """A condition on the target's key, or None where there is nothing to be said.

    A source that holds a NULL key looks at the target's NULL too.
    """
    if extent.low is None or not is_bounded(key):
        return None
    low, high = _floor(extent.low), _ceiling(extent.high)
    low_text, high_text = _literal(key.type, low, times), _literal(key.type, high, times)
    if low_text is None or high_text is None:
        return None
    name = f"t.{quoted(key.name)}"
    inside = f"{name} >= {low_text} AND {name} <= {high_text}"
    return f"({inside} OR {name} IS NULL)" if extent.has_null else f"({inside})"


def cut(key: Column, sample: Sequence[object], count: int) -> tuple[KeyRange, ...]:
    """At most `count` ranges that tile the key, with about as many of the sample in each.

    `sample` are values of the key in any order, without NULLs. Values of which there are many are
    not cut apart, and one that cannot be written as a literal is no place to cut at.
    """
    values = sorted(sample)  # type: ignore[type-var]
    count = min(count, KEY_RANGES_MAX)
    places: list[object] = []
    for number in range(1, count):
        place = _floor(values[number * len(values) // count]) if values else None
        is_new = place is not None and place > (places[-1] if places else _floor(values[0]))  # type: ignore[operator]
        if is_new and _literal(key.type, place, Times.SPARK) is not None:
            places.append(place)
    sides = [None, *places, None]
    return tuple(KeyRange(key, sides[i], sides[i + 1]) for i in range(len(sides) - 1))


def _floor(value: object) -> object:
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    return value


def _ceiling(value: object) -> object:
    if isinstance(value, datetime):
        floor = value.replace(microsecond=value.microsecond // 1000 * 1000)
        return datetime.max if floor > datetime.max - _TIME_STEP else floor + _TIME_STEP
    return value


def _literal(type_text: str, value: object, times: Times) -> str | None:
    if type_text in _INTEGERS and isinstance(value, int):
        return f"CAST({value} AS {type_text})"
    if type_text == "TIMESTAMP_NTZ" and isinstance(value, datetime):
        return times.format(value.isoformat(timespec="microseconds"))
    if type_text == "DATE" and isinstance(value, date) and not isinstance(value, datetime):
        return f"CAST('{value.isoformat()}' AS DATE)"
    if type_text.startswith("DECIMAL") and isinstance(value, Decimal):
        return f"CAST({value:f} AS {type_text})"
    if type_text == "STRING" and isinstance(value, str):
        return _string_literal(value)
    return None


def _string_literal(value: str) -> str | None:
    # Spark unescapes backslashes in literals and DataFusion does not, and Spark puts the values
    # of its settings in for ${names}; such keys go unpruned.
    if "\\" in value or "${" in value or not value.isprintable():
        return None
    return "'" + value.replace("'", "''") + "'"
