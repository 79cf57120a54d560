"""What the facts tell of a snapshot's waves, and what may come next."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import SourceBehindError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.chunks import Chunk, ChunkPlan
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import ChangeCommit
from cdc_assets.planning.waves import (
    WaveCommit,
    Waves,
    check_stamp,
    low_headroom,
    plan_row,
    waves_of,
)

NOON = datetime(2026, 11, 30, 12)
S = Offset(Lsn.of_int(7), NOON)
TARGET = "bronze/t"
PLAN = ChunkPlan("p", S.lsn, ("id",), tuple(Chunk(n, None, None, 10) for n in range(5)))
COMMIT = WaveCommit(
    app_id=f"t#snap.{S.lsn}",
    wave=0,
    target=TARGET,
    instance="dbo_t",
    snapshot=S.lsn,
    stamp=Offset(Lsn.of_int(9), NOON),
    plan_id="p",
    chunks=(0, 1),
    chunks_total=5,
    engine="arrow",
)
LATER = replace(COMMIT, wave=1, chunks=(2, 3, 4), stamp=Offset(Lsn.of_int(11), NOON))


def test_a_commit_is_read_back() -> None:
    assert WaveCommit.from_json(COMMIT.to_json()) == COMMIT
    assert ChangeCommit.from_json(COMMIT.to_json()) is None
    for other in (None, "", "{}", '{"snapshot": "x"}', "[1]"):
        assert WaveCommit.from_json(other) is None


def test_what_the_facts_tell() -> None:
    rows = (
        plan_row(TARGET, S, PLAN),
        *COMMIT.facts_rows({0: 8}, None),
        *LATER.facts_rows({2: 1, 3: 2, 4: 3}, Offset(Lsn.of_int(20), NOON - timedelta(hours=1))),
    )
    found = waves_of(rows, TARGET, S.lsn)
    assert (found.plan_id, found.chunks_total, found.newest) == ("p", 5, 1)
    assert (found.done, found.rows, found.stamp) == ({0, 1, 2, 3, 4}, 14, LATER.stamp)
    assert [row.payload["last"] for row in rows[1:]] == [False, False, False, False, True]
    assert (rows[-1].max_lsn, rows[-1].max_commit_ts) == (str(Lsn.of_int(20)), NOON)
    assert rows[1].rows == 8
    assert rows[2].rows == 0
    assert rows[1].event == Event.SNAPSHOT_CHUNK


def test_what_is_not_of_it() -> None:
    """Another table's, another snapshot's, and a chunk that is told of twice."""
    rows = COMMIT.facts_rows({0: 8, 1: 2}, None)
    assert waves_of(rows, "bronze/u", S.lsn) == Waves()
    assert waves_of(rows, TARGET, Lsn.of_int(8)) == Waves()
    assert waves_of((*rows, *rows), TARGET, S.lsn).rows == 10
    uncounted = COMMIT.facts_rows(None, None)
    assert waves_of(uncounted, TARGET, S.lsn).rows is None


def test_only_what_was_told_since_is_read() -> None:
    rows = [
        replace(row, written_at=NOON + timedelta(seconds=n))
        for n, row in enumerate((plan_row(TARGET, S, PLAN), *COMMIT.facts_rows({0: 8}, None)))
    ]
    known = waves_of(rows[:2], TARGET, S.lsn)
    assert known.told_at == rows[1].written_at
    assert waves_of(rows[1:], TARGET, S.lsn, known) == waves_of(rows, TARGET, S.lsn)


def test_a_large_snapshot_of_one_wave_is_known_whole() -> None:
    count = 30_000
    large = replace(COMMIT, chunks=tuple(range(count)), chunks_total=count)
    waves = waves_of(large.facts_rows({}, None), TARGET, S.lsn)
    assert waves.done == set(range(count))
    assert waves.next_chunks(PLAN, 1) == ()


def test_the_next_chunks() -> None:
    waves = waves_of(COMMIT.facts_rows({}, None), TARGET, S.lsn)
    assert [chunk.number for chunk in waves.next_chunks(PLAN, 2)] == [2, 3]
    assert [chunk.number for chunk in waves.next_chunks(PLAN, 9)] == [2, 3, 4]
    after = waves.after(LATER)
    assert after.next_chunks(PLAN, 2) == ()
    assert (after.newest, after.stamp) == (1, LATER.stamp)
    assert after.after(COMMIT) == after.after(None) == after, "what is known is not known again"
    assert Waves().next_chunks(PLAN, 1) == PLAN.chunks[:1]


def test_a_stamp_below_s() -> None:
    check_stamp(S.lsn, S.lsn, where="t")
    with pytest.raises(SourceBehindError, match="is below the snapshot's"):
        check_stamp(Lsn.of_int(6), S.lsn, where="t")


@pytest.mark.parametrize(
    ("watermark", "created", "low"),
    [
        (None, NOON, None),
        (NOON - timedelta(hours=10), NOON - timedelta(days=9), None),
        (NOON - timedelta(hours=2), NOON - timedelta(days=9), 2.0),
        (NOON + timedelta(hours=1), NOON - timedelta(days=9), -1.0),
        (NOON - timedelta(minutes=5), NOON - timedelta(minutes=6), None),
    ],
)
def test_headroom(watermark: datetime | None, created: datetime, low: float | None) -> None:
    """What nobody has cleaned up is in no danger, however young."""
    assert low_headroom(NOON, watermark, created, 6.0) == low
