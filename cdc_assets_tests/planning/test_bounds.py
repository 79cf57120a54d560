"""Bounds of keys, and where a key is cut."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

from cdc_assets.contract import Column
from cdc_assets.planning.bounds import (
    KEY_RANGES_MAX,
    Extent,
    KeyRange,
    Times,
    cut,
    is_bounded,
    key_bounds,
)

ID = Column("id", "INT")
AT = Column("at", "TIMESTAMP_NTZ")
NOON = datetime(2026, 11, 30, 12, 0, 0, 123_456)


def test_bounds_look_at_null_where_the_source_has_one() -> None:
    some = "t.`id` >= CAST(1 AS INT) AND t.`id` <= CAST(5 AS INT)"
    assert key_bounds(ID, Extent(1, 5, False), Times.SPARK) == f"({some})"
    assert key_bounds(ID, Extent(1, 5, True), Times.SPARK) == f"({some} OR t.`id` IS NULL)"
    assert key_bounds(ID, Extent(None, None, True), Times.SPARK) is None


def test_bounds_of_times_are_whole_milliseconds_around_them() -> None:
    assert key_bounds(AT, Extent(NOON, NOON, False), Times.SPARK) == (
        "(t.`at` >= CAST('2026-11-30T12:00:00.123000' AS TIMESTAMP_NTZ)"
        " AND t.`at` <= CAST('2026-11-30T12:00:00.124000' AS TIMESTAMP_NTZ))"
    )
    ends = key_bounds(AT, Extent(datetime.min, datetime.max, False), Times.DATAFUSION)
    assert ends is not None
    assert "0001-01-01T00:00:00.000000" in ends
    assert "9999-12-31T23:59:59.999999" in ends


@pytest.mark.parametrize(
    ("kind", "bounded"),
    [
        *((kind, True) for kind in ("SMALLINT", "INT", "BIGINT", "DATE", "STRING")),
        *((kind, True) for kind in ("TIMESTAMP_NTZ", "DECIMAL(18,0)", "DECIMAL(15,4)")),
        *((kind, False) for kind in ("DECIMAL(19,0)", "DECIMAL(16,4)", "DECIMAL(19, 4)")),
        *((kind, False) for kind in ("TIMESTAMP", "DOUBLE", "FLOAT", "BINARY", "BOOLEAN")),
    ],
)
def test_types_whose_statistics_are_exact_have_bounds(kind: str, bounded: bool) -> None:
    assert is_bounded(Column("k", kind)) == bounded


@pytest.mark.parametrize(
    "text", ["back\\slash", "new\nline", "\x00", "${spark.sql.session.timeZone}"]
)
def test_text_that_the_engines_read_differently_has_none(text: str) -> None:
    key = Column("k", "STRING")
    assert key_bounds(key, Extent("a", text, False), Times.SPARK) is None
    assert all(r.high != text for r in cut(key, [text] * 5 + ["zz"] * 5, 4))


def test_ranges_tile_the_key_and_the_first_has_null() -> None:
    ranges = cut(ID, list(range(100, 0, -1)), 4)
    assert [(r.low, r.high) for r in ranges] == [(None, 26), (26, 51), (51, 76), (76, None)]
    first, *_, last = (r.holds(Times.SPARK, "t") for r in ranges)
    assert first == "(t.`id` < CAST(26 AS INT) OR t.`id` IS NULL)"
    assert last == "(t.`id` >= CAST(76 AS INT))"
    assert KeyRange(ID, None, None).holds(Times.SPARK) == "(true OR `id` IS NULL)"


def test_one_value_is_one_range() -> None:
    assert [(r.low, r.high) for r in cut(ID, [7] * 100, 4)] == [(None, None)]
    assert [(r.low, r.high) for r in cut(ID, [], 4)] == [(None, None)]
    assert [r.high for r in cut(ID, [1] * 90 + [2] * 10, 10)] == [2, None]


def test_ranges_have_a_limit() -> None:
    assert len(cut(ID, list(range(5_000)), 5_000)) == KEY_RANGES_MAX


def test_cuts_of_each_kind() -> None:
    for key, values in (
        (AT, [NOON.replace(hour=hour) for hour in range(10)]),
        (Column("d", "DATE"), [date(2026, 1, day) for day in range(1, 11)]),
        (Column("m", "DECIMAL(9,2)"), [Decimal(n) / 4 for n in range(10)]),
        (Column("s", "STRING"), [f"it's {n}" for n in range(10)]),
    ):
        ranges = cut(key, values, 2)
        assert len(ranges) == 2
        assert ranges[0].high == ranges[1].low
    assert cut(AT, [NOON, NOON.replace(hour=13)], 2)[0].high == datetime(
        2026, 11, 30, 13, 0, 0, 123_000
    )
