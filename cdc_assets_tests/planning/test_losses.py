"""Which gaps a person has yet to acknowledge."""

from datetime import datetime, timedelta

from cdc_assets.contract import Event
from cdc_assets.planning.losses import open_gaps
from cdc_assets.planning.records import FactsRow

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
