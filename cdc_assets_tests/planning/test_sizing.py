"""How large chunks are made so that a wave takes as long as is wanted, and what is said of it."""

import json
from dataclasses import replace
from datetime import datetime

import pytest

from cdc_assets.planning.chunks import CHUNKS_MAX
from cdc_assets.planning.records import FactsRow
from cdc_assets.planning.sizing import (
    ASSUMED_MB_PER_SECOND,
    SIZED_ROWS_MAX,
    SIZED_ROWS_MIN,
    Aim,
    LastRead,
    TableSize,
    aimed,
    newest_read,
)

NOON = datetime(2026, 11, 30, 12)
OWN, OTHER = "bronze/t", "bronze/u"
MINUTE = Aim(60, 4)
LARGE = TableSize(1_000_000_000, 100_000_000_000)
"""A hundred bytes a row."""
READ = LastRead(OWN, 900_000, 270.0, 9.0, NOON)


def test_a_wave_takes_as_long_as_the_table_was_read_last() -> None:
    """Whatever the bytes: 100,000 rows/s for a minute, by four."""
    found = aimed(MINUTE, OWN, LARGE, READ)
    assert found.rows == 60 * 100_000 // 4
    assert found.why == (
        "a wave takes about 60 s at 100,000 rows/s,"
        " as bronze/t's 900,000 rows of 2026-11-30 12:00 UTC were read"
    )
    assert aimed(replace(MINUTE, wave_seconds=6), OWN, LARGE, READ).rows == found.rows // 10


def test_another_tables_bytes_where_it_was_not_read_yet() -> None:
    """30 MB/s are 300,000 rows/s of a hundred bytes."""
    found = aimed(MINUTE, OTHER, LARGE, READ)
    assert found.rows == 60 * 300_000 // 4
    assert "300,000 rows/s, as bronze/t's 900,000 rows" in found.why
    assert "by the bytes of a row" in found.why


def test_what_is_assumed_is_said_to_be() -> None:
    for nothing in (None, replace(READ, seconds=0)):
        found = aimed(MINUTE, OWN, LARGE, nothing)
        assert found.rows == 60 * ASSUMED_MB_PER_SECOND * 10_000 // 4
        assert "which is 20 MB/s: nothing was measured yet" in found.why


@pytest.mark.parametrize(
    ("size", "rows_per_second", "wanted"),
    [
        pytest.param(TableSize(0, 0), 1e5, SIZED_ROWS_MIN, id="empty"),
        pytest.param(TableSize(400_001, 1), 1e5, 100_001, id="a chunk for each connection"),
        pytest.param(LARGE, 10, 2 * LARGE.rows // CHUNKS_MAX, id="slow: not too many chunks"),
        pytest.param(TableSize(90_000, 1), 10, SIZED_ROWS_MIN, id="slow: no tiny ones"),
        pytest.param(TableSize(10**12, 1), 1e12, SIZED_ROWS_MAX, id="a rate that is none"),
    ],
)
def test_bounds(size: TableSize, rows_per_second: float, wanted: int) -> None:
    read = replace(READ, rows=int(rows_per_second * 9))
    found = aimed(MINUTE, OWN, size, read)
    assert found.rows == wanted
    assert f"it is bounded by the table's {size.rows:,} rows" in found.why


def test_the_newest_read_is_its_own_if_there_is_one() -> None:
    own = FactsRow(target=OWN, rows=70_000, duration_ms=1500, read_mb=7.0, written_at=NOON)
    newer = replace(own, target=OTHER, written_at=NOON.replace(hour=13))
    assert newest_read({}, OWN) is None
    assert newest_read({OWN: own, OTHER: newer}, OWN) is own
    assert newest_read({OWN: own, OTHER: newer}, "bronze/v") is newer
    assert LastRead.of(own) == LastRead(OWN, 70_000, 7.0, 1.5, NOON)
    assert str(LastRead.of(replace(own, written_at=None))) == "bronze/t's 70,000 rows"


def test_waves_are_measured_together() -> None:
    """Each in the row of its first chunk; one that another run has told of was not."""

    def chunk(wave: int, rows: int, duration_ms: int | None = None) -> FactsRow:
        detail = json.dumps({"wave": wave})
        mb = 5.0 if duration_ms else None
        return FactsRow(target=OWN, rows=rows, detail=detail, duration_ms=duration_ms, read_mb=mb)

    plan = FactsRow(target=OWN, rows=0, detail="{}")
    waves = (chunk(0, 100, 2000), chunk(0, 50), chunk(1, 7), chunk(1, 8), chunk(2, 30, 1000))
    newest = replace(waves[-1], written_at=NOON)
    assert LastRead.of_waves(newest, (plan, *waves)) == LastRead(OWN, 180, 10.0, 3.0, NOON)
