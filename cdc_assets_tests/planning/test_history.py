"""When a history has work that can be done, and what waits for a snapshot."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from cdc_assets.lsn import Lsn
from cdc_assets.planning.history import HistoryPosition, TakenSnapshot, plan_history
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.pending import Due, pending_history
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.snapshots import Snapshot, Snapshots

NOON = datetime(2026, 3, 1, 12)


def at(number: int) -> Offset:
    return Offset(Lsn.of_int(number), NOON + timedelta(seconds=number))


def taken(number: int, read_to: int) -> TakenSnapshot:
    return TakenSnapshot(at(number), NOON + timedelta(seconds=read_to))


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


OPENED = Snapshots(open=Snapshot(at(50), ("id",)))


@pytest.mark.parametrize(
    ("of_bronze", "row", "snapshots", "due"),
    [
        (None, None, Snapshots(), None),
        (bronze(12, 10), None, Snapshots(), None),  # Its read may have seen later commits.
        (bronze(13, 10), None, Snapshots(), "0x0000000000000000000D"),
        (bronze(40, 30), history(30, 10), Snapshots(), None),
        (bronze(40, 35), history(30, 10), Snapshots(), "0x00000000000000000028"),
        (bronze(90, 80), history(45, 10), OPENED, None),  # Only the snapshot ends that.
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
