"""Which gaps a person has yet to acknowledge."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from cdc_assets.contract import Event
from cdc_assets.lsn import Lsn
from cdc_assets.planning.losses import may_resnapshot, open_gaps, resnapshots_by_target
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import FactsRow, event_row

NOON = datetime(2026, 11, 30, 12)
TARGET = "bronze/t"


def lost(event: Event, hour: int, lsn: str) -> FactsRow:
    start = NOON + timedelta(hours=hour)
    return FactsRow(
        target=TARGET,
        event=str(event),
        max_lsn=lsn,
        lost_from_ts=start,
        lost_to_ts=start + timedelta(minutes=5),
    )


def acknowledged(lsn: str) -> FactsRow:
    return FactsRow(target=TARGET, event=str(Event.GAP_ACKNOWLEDGED), max_lsn=lsn)


def test_a_healed_gap_is_one_gap() -> None:
    events = [lost(Event.RECOVERING, 0, "0x05"), lost(Event.RESNAPSHOT, 0, "0x05")]
    assert open_gaps(events)[TARGET].event is Event.RESNAPSHOT
    assert open_gaps([*events, acknowledged("0x05")]) == {}


def test_acknowledged_while_it_is_being_healed() -> None:
    events = [
        lost(Event.RECOVERING, 0, "0x05"),
        acknowledged("0x05"),
        lost(Event.RESNAPSHOT, 0, "0x05"),
    ]
    assert open_gaps(events) == {}


def test_the_oldest_comes_first_and_a_newer_one_stays() -> None:
    events = [lost(Event.DATA_SKIPPED, 0, "0x01"), lost(Event.DATA_SKIPPED, 1, "0x09")]
    assert open_gaps(events)[TARGET].lsn == "0x01"
    assert open_gaps([*events, acknowledged("0x01")])[TARGET].lsn == "0x09"
    assert open_gaps([*events, acknowledged("0x09")]) == {}


RESET = FactsRow(target=TARGET, event=str(Event.RESET))


def in_life(event: Event, start: int, lsn: int, *, lost: bool = True, **detail: str) -> FactsRow:
    """An event with LSNs of its own, of a loss or of a first snapshot."""
    row = event_row(event, TARGET, Offset(Lsn.of_int(lsn), NOON), detail=detail, written_at=NOON)
    lost_from = NOON if lost else None
    return replace(
        row, min_lsn=str(Lsn.of_int(start)), lost_from_ts=lost_from, lost_to_ts=lost_from
    )


@pytest.mark.parametrize(
    ("before", "stale"),
    [
        ([in_life(Event.SNAPSHOT_OPEN, 5, 5)], [in_life(Event.RESNAPSHOT, 5, 5)]),
        ([], [in_life(Event.RECOVERING, 1, 5)]),
        ([], [in_life(Event.RECOVERING, 1, 5), in_life(Event.SNAPSHOT_OPEN, 6, 6, kind="re")]),
        ([], [in_life(Event.DATA_SKIPPED, 1, 5)]),
    ],
    ids=["resnapshot", "recovering", "opened", "skipped"],
)
def test_a_loss_of_the_table_that_a_reset_gave_up_is_none(
    before: Sequence[FactsRow], stale: Sequence[FactsRow]
) -> None:
    """Its run began before the reset, and writes after it: at once, or beside the new life."""
    first = in_life(Event.SNAPSHOT_OPEN, 7, 7, lost=False)
    for events in ([*before, RESET, *stale], [*before, RESET, first, *stale]):
        assert open_gaps(events) == {}
        assert resnapshots_by_target(events)[TARGET] == datetime.min
    own = [in_life(Event.SNAPSHOT_OPEN, 9, 9), in_life(Event.RESNAPSHOT, 9, 9)]
    done = in_life(Event.BOOTSTRAP, 7, 7, lost=False)
    events = [*before, RESET, first, done, in_life(Event.RECOVERING, 7, 8), *own]
    assert open_gaps(events)[TARGET].event is Event.RESNAPSHOT
    assert resnapshots_by_target(events)[TARGET] == NOON


def test_a_resnapshot_was_when_the_server_says() -> None:
    """Who wrote its event may have had a clock that was a month ahead."""
    event = replace(
        lost(Event.RESNAPSHOT, 0, "0x05"),
        written_at=NOON + timedelta(days=30),
        detail=json.dumps({"high_mark": NOON.isoformat()}),
    )
    last = resnapshots_by_target([event])[TARGET]
    assert last == NOON
    assert may_resnapshot(last, NOON + timedelta(days=7), 7)
    assert not may_resnapshot(last, NOON + timedelta(days=6), 7)
    assert may_resnapshot(last, NOON - timedelta(seconds=1), 0)
