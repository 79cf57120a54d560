"""When a history has work that can be done, and what waits for a snapshot."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from cdc_assets.lsn import Lsn
from cdc_assets.planning.history import HistoryPosition, TakenSnapshot, missed, plan_history
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.pending import Due, pending_history
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.snapshots import Snapshot, Snapshots

NOON = datetime(2026, 3, 1, 12)


def at(number: int) -> Offset:
    return Offset(Lsn.of_int(number), NOON + timedelta(seconds=number))


def taken(number: int, read_to: int) -> TakenSnapshot:
    return TakenSnapshot(at(number), NOON + timedelta(seconds=read_to), ("id",))


def bronze(end: int, changed: int) -> ControlRow:
    last = at(end)
    return ControlRow(
        "bronze/t",
        end_lsn=str(last.lsn),
        end_commit_ts=last.commit_ts,
        changed_lsn=str(Lsn.of_int(changed)),
    )


def history(applied: int, snapshot: int) -> ControlRow:
    return ControlRow(
        "history/t",
        applied_lsn=str(Lsn.of_int(applied)),
        snapshot_lsn=str(Lsn.of_int(snapshot)),
    )


def judged(row: ControlRow) -> ControlRow:
    return replace(row, finalized_until=NOON + timedelta(seconds=40))


OPENED = Snapshots(open=Snapshot(at(50), ("id",)))


SETTLED = Snapshots(complete=Snapshot(at(10), ("id",), NOON + timedelta(seconds=12)))


@pytest.mark.parametrize(
    ("of_bronze", "row", "snapshots", "due"),
    [
        (None, None, Snapshots(), None),
        (bronze(12, 10), None, Snapshots(), None),  # Its read may have seen later commits.
        (bronze(13, 10), None, Snapshots(), "0x0000000000000000000D"),
        (bronze(40, 30), history(30, 10), Snapshots(), None),
        (bronze(40, 35), history(30, 10), Snapshots(), "0x00000000000000000028"),
        (bronze(90, 80), history(45, 10), OPENED, None),  # Only the snapshot ends that.
        # As a rule the sync moves its verdict.
        (judged(bronze(40, 30)), history(30, 10), SETTLED, "0x00000000000000000028"),
        (judged(bronze(40, 30)), judged(history(30, 10)), SETTLED, None),
    ],
)
def test_what_is_due(
    of_bronze: ControlRow | None, row: ControlRow | None, snapshots: Snapshots, due: str | None
) -> None:
    work = pending_history("t", of_bronze, row, snapshots, [taken(10, 12)])
    assert (work.lsn if work else None) == due
    assert work is None or work.due is Due.HISTORY_BEHIND


def test_snapshots_are_taken_in_one_by_one() -> None:
    """And no change above the next one before that."""
    both = [taken(10, 12), taken(50, 55)]
    first = plan_history(HistoryPosition(), both, Lsn.of_int(70), at(90))
    assert first is not None
    assert (first.snapshot, first.upto, first.since) == (both[0], Lsn.of_int(50), None)
    position = first.after(HistoryPosition(), Lsn.of_int(48))
    second = plan_history(position, both, Lsn.of_int(70), at(90))
    assert second is not None
    assert (second.snapshot, second.upto, second.since) == (
        both[1],
        Lsn.of_int(70),
        position.applied,
    )
    unsettled = plan_history(position, both, None, at(54))
    assert unsettled is not None
    assert (unsettled.snapshot, unsettled.upto) == (None, Lsn.of_int(50))


def test_a_snapshot_below_what_is_there_is_passed() -> None:
    """But for one that closes a gap, or has another key, which says something new: the history has
    missed that."""
    position = HistoryPosition(Lsn.of_int(60), Lsn.of_int(10))
    one, late = taken(10, 12), taken(50, 55)
    work = plan_history(position, [one, late], None, at(60))
    assert work is not None
    assert (work.passed, work.upto, work.at) == (late.at.lsn, Lsn.of_int(60), None)
    assert work.after(position, None) == HistoryPosition(Lsn.of_int(60), late.at.lsn)
    assert missed(position, [one, late]) is None
    for other in (replace(late, closes_gap=True), replace(late, keys=("code",))):
        assert plan_history(position, [one, other], None, at(60)) is None
        assert missed(position, [one, other]) == other
        told = [one, other]
        due = pending_history("t", bronze(60, 60), history(60, 10), Snapshots(), told)
        assert due is not None
        # Taken in in its turn: with no change above it yet, or itself.
        assert missed(HistoryPosition(other.at.lsn, one.at.lsn), told) is None
        assert missed(HistoryPosition(Lsn.of_int(60), other.at.lsn), told) is None
    due = pending_history("t", bronze(60, 60), history(60, 10), Snapshots(), [one, late])
    assert due is not None


def test_commits_that_a_read_saw_may_have_times_above_its_mark() -> None:
    """The server rounds them up to 1/300 s, then to the millisecond."""
    one = taken(10, 12)
    later = Offset(Lsn.of_int(14), NOON + timedelta(seconds=12, milliseconds=2))
    assert not one.is_settled(later)
    assert one.is_settled(at(13))


def test_versions_of_another_key_end_before_it_is_taken_in() -> None:
    one, other = taken(10, 12), replace(taken(50, 55), keys=("code",))
    position = HistoryPosition(Lsn.of_int(48), one.at.lsn)
    assert not other.has_keys(("id",))
    assert other.has_keys(("CODE",))
    waits = plan_history(position, [one, other], None, at(54))
    assert waits is not None
    assert (waits.upto, waits.keys, waits.at) == (Lsn.of_int(50), ("id",), None)
    ends = plan_history(position, [one, other], None, at(90))
    assert ends is not None
    assert (ends.keys, ends.ends, ends.upto, ends.snapshot) == (
        ("id",),
        at(50),
        Lsn.of_int(50),
        None,
    )
    ended = ends.after(position, None)
    assert ended == HistoryPosition(Lsn.of_int(50))
    row = position.moved(history(48, 10), ended)
    assert HistoryPosition.of(row) == ended
    assert position.moved(history(70, 50), ended) == history(70, 50), "another call has gone on"
    begins = plan_history(ended, [one, other], None, at(90))
    assert begins is not None
    assert (begins.keys, begins.since, begins.above) == (("code",), None, Lsn.of_int(50))
    assert begins.after(ended, None) == HistoryPosition(Lsn.of_int(50), Lsn.of_int(50))
    # One without a key ends what held, and begins nothing.
    without = replace(other, keys=())
    assert plan_history(position, [one, without], None, at(90)) == ends
    assert plan_history(ended, [one, without], None, at(90)) is None
