"""The verdict is never early, never goes back, and says what holds it."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.contract import SnapshotMode
from cdc_assets.lsn import Lsn
from cdc_assets.planning.advancing import BronzeProgress, advance_bronze, follow_bronze
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.pending import Due, pending_work
from cdc_assets.planning.records import ControlRow, Identity
from cdc_assets.planning.snapshots import Snapshot, Snapshots
from cdc_assets.planning.verdict import (
    PERIODS,
    Hold,
    Reason,
    finalized_until,
    judge_finality,
    silver_hold,
)

NOON = datetime(2026, 11, 30, 12)
IDENTITY = Identity(1, 2, "dbo_t", NOON)
S = Lsn.of_int(10)
DONE = Snapshots(complete=Snapshot(Offset(S, NOON), ("id",), NOON + timedelta(seconds=30)))


def text(number: int) -> str:
    return str(Lsn.of_int(number))


BRONZE = ControlRow(
    "bronze/t",
    finalized_until=NOON + timedelta(minutes=5),
    end_lsn=text(20),
    end_commit_ts=NOON + timedelta(minutes=5, seconds=3),
    updated_at=NOON + timedelta(minutes=5, seconds=4),
    changed_lsn=text(15),
)
SILVER = ControlRow("silver/t", applied_lsn=text(15), snapshot_lsn=str(S))


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)), st.sampled_from(sorted(PERIODS)))
def test_a_final_period_has_ended(end: datetime, granularity: str) -> None:
    until = finalized_until(end, granularity)
    assert until <= end < until + PERIODS[granularity]
    assert finalized_until(until, granularity) == until


OF_CHANGES = replace(SILVER, snapshot_lsn=None, table_id="id")
"""Of a stream without any snapshot."""


def progress(lsn: int, at: datetime) -> BronzeProgress:
    return BronzeProgress("bronze/t", Offset(Lsn.of_int(lsn), at), IDENTITY, "second")


def test_bronze_moves_forward_only() -> None:
    row = advance_bronze(None, progress(20, NOON))
    assert (row.end_lsn, row.finalized_until, row.identity) == (text(20), NOON, IDENTITY)
    assert advance_bronze(row, progress(19, NOON + timedelta(hours=1))) == row
    stepped_back = advance_bronze(row, progress(21, NOON - timedelta(hours=1)))
    assert (stepped_back.end_lsn, stepped_back.end_commit_ts) == (text(21), NOON)
    assert stepped_back.finalized_until == NOON


@pytest.mark.parametrize(
    ("silver", "snapshots", "bronze", "hold"),
    [
        (SILVER, DONE, BRONZE, None),
        (SILVER, Snapshots(), BRONZE, Hold.SNAPSHOT_OPEN),
        (None, DONE, BRONZE, Hold.BEHIND_BRONZE),
        (replace(SILVER, applied_lsn=text(14)), DONE, BRONZE, Hold.BEHIND_BRONZE),
        (replace(SILVER, snapshot_lsn=text(9)), DONE, BRONZE, Hold.BEHIND_BRONZE),
        (SILVER, DONE, replace(BRONZE, finalized_until=NOON), Hold.SNAPSHOT_SETTLING),
        (SILVER, DONE, replace(BRONZE, changed_lsn=None), None),
        (OF_CHANGES, Snapshots(), BRONZE, None),
        (replace(OF_CHANGES, applied_lsn=text(14)), Snapshots(), BRONZE, Hold.BEHIND_BRONZE),
        (OF_CHANGES, Snapshots(open=DONE.complete), BRONZE, Hold.SNAPSHOT_OPEN),
        (OF_CHANGES, Snapshots(discarded=frozenset({"id"})), BRONZE, Hold.SNAPSHOT_OPEN),
    ],
)
def test_what_holds_silver_back(
    silver: ControlRow | None, snapshots: Snapshots, bronze: ControlRow, hold: Hold | None
) -> None:
    assert silver_hold(bronze, silver, snapshots) is hold


def test_silver_takes_bronzes_verdict_and_its_own_version() -> None:
    row = follow_bronze(SILVER, BRONZE, DONE, version=7)
    assert row.finalized_until == BRONZE.finalized_until
    assert (row.end_lsn, row.verdict_version) == (BRONZE.end_lsn, 7)
    assert follow_bronze(row, BRONZE, DONE).verdict_version == 7


def test_a_held_silver_keeps_its_row() -> None:
    behind = replace(SILVER, applied_lsn=text(11))
    assert follow_bronze(behind, BRONZE, DONE, version=7) == behind


def judge(now: datetime, bronze: ControlRow | None, silver: ControlRow | None) -> Reason:
    return judge_finality(now, bronze, silver, DONE, "minute", timedelta(minutes=2)).reason


def test_reasons() -> None:
    final = replace(SILVER, finalized_until=BRONZE.finalized_until)
    soon, late = NOON + timedelta(minutes=8), NOON + timedelta(minutes=9)
    looked = replace(BRONZE, updated_at=late)
    assert judge(soon, BRONZE, final) is Reason.ON_TIME
    assert judge(late, None, None) is Reason.NEVER_LOADED
    assert judge(late, BRONZE, final) is Reason.SYNC_STOPPED
    assert judge(late, looked, final) is Reason.CAPTURE_STOPPED
    fresh = replace(looked, end_commit_ts=late)
    assert judge(late, fresh, replace(final, applied_lsn=text(1))) is Reason.BEHIND_BRONZE


def test_before_the_first_period_is_due_nothing_is_late() -> None:
    """A table that was just loaded cannot have a complete period: that is no reason to be red."""
    first, delay = NOON + timedelta(minutes=1), timedelta(minutes=2)
    settling = replace(BRONZE, finalized_until=NOON, end_commit_ts=NOON, updated_at=first + delay)
    opened = replace(DONE.complete, high_mark=None, mode=SnapshotMode.CHUNKED)
    for snapshots, told in (
        (DONE, "may show commits"),
        (Snapshots(open=opened), "cdc-assets backfill"),
    ):
        due, past = (
            judge_finality(now, settling, SILVER, snapshots, "minute", delay)
            for now in (first + delay, first + delay + timedelta(seconds=1))
        )
        assert (due.passed, due.reason) == (True, Reason.NO_PERIOD_YET)
        assert f"the first one ends at {first}" in due.text
        assert told in due.text
        assert not past.passed
        assert past.reason is not Reason.NO_PERIOD_YET
        assert "no period is complete yet" in past.text
    assert not judge_finality(first, settling, None, Snapshots(), "minute", delay).passed


def test_pending_is_a_level() -> None:
    def due(silver: ControlRow | None, newest: str | None = None) -> Due | None:
        work = pending_work("t", BRONZE, silver, DONE, newest)
        return None if work is None else work.due

    final = replace(SILVER, finalized_until=BRONZE.finalized_until)
    assert due(final) is None
    assert due(None) is Due.NO_POSITION
    assert due(replace(final, snapshot_lsn=text(9))) is Due.NEW_SNAPSHOT
    assert due(replace(final, applied_lsn=text(14))) is Due.NEW_CHANGES
    assert due(final, newest=text(16)) is Due.NEW_CHANGES
    assert due(SILVER) is Due.NEW_VERDICT
    without = Snapshots()
    assert pending_work("t", None, None, without, text(15)) is None
    assert pending_work("t", BRONZE, None, Snapshots(open=DONE.complete), None) is None
    given_up = Snapshots(discarded=frozenset({"b"}))
    assert pending_work("t", replace(BRONZE, table_id="b"), None, given_up, text(15)) is None
    rows = (None, replace(OF_CHANGES, applied_lsn=text(14)), OF_CHANGES)
    found = [pending_work("t", BRONZE, row, without, None) for row in rows]
    assert [p and p.due for p in found] == [Due.NO_POSITION, Due.NEW_CHANGES, Due.NEW_VERDICT]


def test_waves_of_an_open_snapshot_are_pending() -> None:
    """Beside a complete one, and before there is any; each until silver has applied it."""
    opened = Snapshot(Offset(Lsn.of_int(12), NOON), (), mode=SnapshotMode.CHUNKED)
    first = replace(SILVER, snapshot_lsn=None, open_snapshot_lsn=text(12), snapshot_wave=3)

    def due(silver: ControlRow | None, snapshots: Snapshots, wave: int | None) -> Due | None:
        work = pending_work("t", BRONZE, silver, snapshots, None, wave)
        return None if work is None else work.due

    assert due(None, Snapshots(open=opened), None) is Due.NO_POSITION
    assert due(first, Snapshots(open=opened), 3) is None
    assert due(first, Snapshots(open=opened), 4) is Due.NEW_WAVES
    assert due(replace(first, snapshot_wave=None), Snapshots(open=opened), 0) is Due.NEW_WAVES
    further = replace(DONE, open=replace(opened, at=Offset(Lsn.of_int(14), NOON)))
    assert due(replace(SILVER, open_snapshot_lsn=text(12), snapshot_wave=9), further, 2) is (
        Due.NEW_WAVES
    ), "another one's waves count for nothing"
    assert due(SILVER, further, None) is None
