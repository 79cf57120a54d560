"""Where a table may go on from."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from cdc_assets.errors import CaptureNotReadyError, DataLossError, HistoryChangedError
from cdc_assets.lsn import Lsn
from cdc_assets.names import DatabaseName
from cdc_assets.planning.clocks import ServerClock
from cdc_assets.planning.instances import readers
from cdc_assets.planning.offsets import Offset, furthest
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import (
    check_continues,
    check_history,
    check_mapped,
    newest_lsn,
    readable_end,
    snapshot_lsn,
)
from cdc_assets.planning.records import Identity

NOON = datetime(2026, 11, 30, 12)
TABLE = DatabaseName("db", "lake").table("t")
IDENTITY = Identity(1, 2, "dbo_t", NOON)


def at(number: int) -> Offset:
    return Offset(Lsn.of_int(number), NOON)


def instance(start: int = 10) -> CaptureInstance:
    return CaptureInstance(IDENTITY, "dbo", "t", Lsn.of_int(start), ("id",))


def poll(newest: int | None = 50, watermark: int | None = 10, start: int = 10) -> Poll:
    return Poll(
        clock=ServerClock.fixed(NOON, 0),
        max=None if newest is None else at(newest),
        instances={"dbo_t": instance(start)},
        watermarks={"dbo_t": None if watermark is None else Lsn.of_int(watermark)},
    )


def check(position: int, seen: Poll, known: Identity | None = IDENTITY) -> None:
    found = seen.instances["dbo_t"]
    check_continues(at(position), readers(known or found.identity, ()), seen, where="t")
    check_history(at(position), newest_lsn(seen, found), TABLE)


@pytest.mark.parametrize("position", [10, 9, 50])
def test_goes_on_when_the_next_needed_lsn_is_there(position: int) -> None:
    """B003: equal to the watermark, and the next needed equal to it."""
    check(position, poll())


def test_loss_when_the_next_needed_lsn_is_below_the_watermark() -> None:
    """B003."""
    with pytest.raises(DataLossError, match="removed by cleanup"):
        check(8, poll())


def test_without_a_watermark_the_instance_start_stands_in() -> None:
    """B004."""
    check(9, poll(watermark=None))
    with pytest.raises(DataLossError):
        check(8, poll(watermark=None))


ZERO = "0x" + "0" * 20


@pytest.mark.parametrize("newest", [None, ZERO, str(Lsn.of_int(50))])
@pytest.mark.parametrize("watermark", [None, ZERO, str(Lsn.of_int(10))])
def test_null_and_zero_are_none_yet(newest: str | None, watermark: str | None) -> None:
    """B004, B013: in every combination; neither is "everything", and neither is lost."""
    found = Lsn.parse_optional(newest)
    seen = replace(
        poll(),
        max=None if found is None else Offset(found, NOON),
        watermarks={"dbo_t": Lsn.parse_optional(watermark)},
    )
    check(9, seen)
    with pytest.raises(DataLossError, match="removed by cleanup"):
        check(8, seen)
    assert snapshot_lsn(seen, instance()) == (found or Lsn.of_int(9))
    assert readable_end(seen, at(9)).lsn == (found or Lsn.of_int(9))
    if found is None:
        with pytest.raises(HistoryChangedError):
            check(10, seen)


@pytest.mark.parametrize("newest", [None, 50])
def test_an_instance_without_a_start_is_not_ready(newest: int | None) -> None:
    """B011: with neither known there is nothing to stamp a snapshot with: run again."""
    seen = replace(instance(), start=None)
    with pytest.raises(CaptureNotReadyError, match="no start_lsn yet"):
        snapshot_lsn(poll(newest=newest, watermark=None), seen)


def test_a_position_that_the_log_lost() -> None:
    """B017: it maps older commits, and not this one; what is still to come is not asked for."""
    seen = replace(poll(), unmapped=frozenset({Lsn.of_int(20), Lsn.of_int(60)}))
    with pytest.raises(HistoryChangedError, match="is no commit of this database"):
        check_mapped(at(20), seen, TABLE)
    check_mapped(at(21), seen, TABLE)
    check_mapped(at(60), seen, TABLE)


def test_a_position_above_the_newest_lsn_is_another_history() -> None:
    """B017."""
    with pytest.raises(HistoryChangedError, match="restored or failed over"):
        check(51, poll())


def test_a_new_instance_starts_above_max_lsn() -> None:
    """B011, B012: the position is its start less one, although max_lsn is far below."""
    check(59, poll(newest=50, watermark=None, start=60))


def test_a_recreated_instance_is_loss() -> None:
    """B018, B019."""
    other = replace(IDENTITY, change_object_id=3)
    with pytest.raises(DataLossError, match="re-created"):
        check(20, poll(), known=other)


def test_snapshot_is_stamped_above_everything_the_table_may_lack() -> None:
    assert snapshot_lsn(poll(), instance()) == Lsn.of_int(50)
    assert snapshot_lsn(poll(start=60), instance(60)) == Lsn.of_int(59)
    assert snapshot_lsn(poll(newest=None), instance(60)) == Lsn.of_int(59)


def test_the_end_moves_forward_or_stays() -> None:
    """B001, B013: also where nothing is read; NULL means nothing yet."""
    assert readable_end(poll(newest=None), at(20)) == at(20)
    assert readable_end(poll(newest=50), at(59)) == at(59)
    assert readable_end(poll(newest=50), at(20)) == at(50)
    later = Offset(Lsn.of_int(20), NOON + timedelta(seconds=5))
    assert readable_end(poll(newest=50), later) == Offset(Lsn.of_int(50), later.commit_ts)


def test_the_furthest_wins() -> None:
    assert furthest([None, at(3), at(7), at(5)]) == at(7)
    assert furthest([None, None]) is None
