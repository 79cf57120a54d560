"""Which snapshots count: what a reset gave up does not, whenever its run writes of it."""

from datetime import datetime, timedelta

from cdc_assets.contract import Event
from cdc_assets.lsn import Lsn
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import FactsRow, event_row
from cdc_assets.planning.snapshots import Snapshots, snapshots_of

NOON = datetime(2026, 11, 30, 12)
RESET = FactsRow(target="bronze/t", event=str(Event.RESET), detail='{"bronze": "old"}')


def event(name: Event, lsn: int, **detail: object) -> FactsRow:
    return event_row(name, "bronze/t", Offset(Lsn.of_int(lsn), NOON), detail={"keys": [], **detail})


def opened(lsn: int, kind: Event = Event.BOOTSTRAP) -> FactsRow:
    return event(Event.SNAPSHOT_OPEN, lsn, kind=str(kind))


def lsns(found: Snapshots) -> tuple[int | None, int | None]:
    """Of the complete and of the open one."""
    complete, is_open = (one and int(str(one.at.lsn), 16) for one in (found.complete, found.open))
    return complete, is_open


def test_one_that_ends_after_a_reset_is_none() -> None:
    stale = [opened(1), RESET, event(Event.BOOTSTRAP, 1)]
    found = snapshots_of(stale)
    assert (lsns(found), found.bootstrap) == ((None, None), None)
    assert found.used == {Lsn.of_int(1)}, "its rows stand in bronze under it"
    assert lsns(snapshots_of([*stale, opened(2)])) == (None, 2)
    assert lsns(snapshots_of([*stale, opened(2), event(Event.BOOTSTRAP, 2)])) == (2, None)
    assert lsns(snapshots_of([RESET, opened(2), event(Event.BOOTSTRAP, 1)])) == (None, 2)


def test_a_further_one_that_is_opened_after_a_reset_is_none() -> None:
    """It was planned before: with nothing complete the next one is a first one."""
    stale = [
        *(opened(1), event(Event.BOOTSTRAP, 1), RESET),
        *(opened(2, Event.RESNAPSHOT), event(Event.RESNAPSHOT, 2)),
    ]
    found = snapshots_of(stale)
    assert (lsns(found), found.opens) == ((None, None), 2)
    found = snapshots_of([*stale, opened(3), event(Event.BOOTSTRAP, 3)])
    assert (lsns(found), found.bootstrap) == ((3, None), Offset(Lsn.of_int(3), NOON))
    again = [*stale, opened(3), event(Event.BOOTSTRAP, 3), opened(4, Event.RESNAPSHOT)]
    assert lsns(snapshots_of(again)) == (3, 4)


def test_one_may_take_the_place_of_a_first_one_in_chunks_that_is_given_up() -> None:
    first = event(Event.SNAPSHOT_OPEN, 2, mode="chunked", bronze_id="new")
    given_up = [opened(1), RESET, first, opened(3, Event.RESNAPSHOT)]
    found = snapshots_of(given_up)
    assert (lsns(found), found.bootstrap) == ((None, 3), Offset(Lsn.of_int(2), NOON))
    assert lsns(snapshots_of([*given_up, event(Event.RESNAPSHOT, 3)])) == (3, None)


def test_one_for_a_bronze_that_was_given_up_is_none() -> None:
    late = event(Event.SNAPSHOT_OPEN, 2, mode="chunked", bronze_id="old")
    found = snapshots_of([opened(1), RESET, late, event(Event.BOOTSTRAP, 2)])
    assert (lsns(found), found.bootstrap, found.opens) == ((None, None), None, 2)
    assert found.used == {Lsn.of_int(1), Lsn.of_int(2)}


def test_one_without_an_open_counts_where_nothing_was_reset() -> None:
    """Another tool that writes this format may not record that one is opened."""
    assert lsns(snapshots_of([event(Event.BOOTSTRAP, 1)])) == (1, None)
    assert lsns(snapshots_of([event(Event.BOOTSTRAP, 1), RESET])) == (None, None)


def test_of_two_reads_of_one_the_later_high_mark_counts() -> None:
    marks = [NOON + timedelta(seconds=seconds) for seconds in (5, 9, 7)]
    done = [event(Event.BOOTSTRAP, 1, high_mark=mark.isoformat()) for mark in marks]
    found = snapshots_of([opened(1), *done])
    assert found.complete is not None
    assert found.complete.high_mark == marks[1]
