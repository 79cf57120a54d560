"""Which instance is read for which LSNs (B019, B048, B142)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import CaptureInstanceUnknownError, DataLossError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.clocks import ServerClock
from cdc_assets.planning.instances import (
    Reader,
    reader_at,
    readers,
    recorded_by_target,
    resolve,
    segments,
    switches_by_target,
    unseen,
)
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import check_continues
from cdc_assets.planning.records import FactsRow, Identity

NOON = datetime(2026, 11, 30, 12)


def identity(number: int, name: str, table: int = 1) -> Identity:
    return Identity(table, number, name, NOON + timedelta(minutes=number))


OLD, NEW, NEWEST = identity(2, "dbo_t"), identity(3, "v2"), identity(4, "v3")


def lsn(number: int) -> Lsn:
    return Lsn.of_int(number)


def listed(*identities: Identity, start: int = 10) -> dict[str, CaptureInstance]:
    return {
        i.instance_name: CaptureInstance(i, "dbo", "t", lsn(start), ("id",)) for i in identities
    }


def cut(chain: tuple[Reader, ...], first: int, last: int) -> list[tuple[str, int, int]]:
    return [
        (s.identity.instance_name, s.first.to_int(), s.last.to_int())
        for s in segments(chain, lsn(first), lsn(last))
    ]


def test_the_older_below_the_newers_start_and_the_newer_from_it() -> None:
    chain = readers(OLD, [Reader(NEW, lsn(30))])
    assert cut(chain, 11, 40) == [("dbo_t", 11, 29), ("v2", 30, 40)]
    assert cut(chain, 11, 29) == [("dbo_t", 11, 29)]
    assert cut(chain, 30, 40) == [("v2", 30, 40)]


def test_of_two_with_one_start_the_newer_is_read() -> None:
    chain = readers(OLD, [Reader(NEWEST, lsn(30)), Reader(NEW, lsn(30))])
    assert cut(chain, 11, 40) == [("dbo_t", 11, 29), ("v3", 30, 40)]


@pytest.mark.parametrize("first", [1, 29, 30, 35, 40, 41])
@pytest.mark.parametrize("last", [29, 30, 39, 40, 50])
def test_every_lsn_is_read_from_one_instance(first: int, last: int) -> None:
    chain = readers(OLD, [Reader(NEW, lsn(30)), Reader(NEWEST, lsn(40))])
    covered = [n for _, low, high in cut(chain, first, last) for n in range(low, high + 1)]
    assert covered == list(range(first, last + 1))


EARLIER_CLOCK = replace(NEW, created_at=OLD.created_at - timedelta(minutes=59))
"""Created after `OLD`, when the server's clock had been set back."""


def test_a_clock_that_was_set_back_hides_no_newer_instance() -> None:
    """Of two that were created near each other the first LSNs tell, and what was seen when."""
    instances = {**listed(OLD), **listed(EARLIER_CLOCK, start=20)}
    assert unseen(instances, instances["dbo_t"], ()) == (instances["v2"],)
    assert unseen(instances, instances["v2"], ()) == ()
    opened, seen = Reader(OLD, lsn(11)), Reader(EARLIER_CLOCK, lsn(20), seen=True)
    assert cut(readers(OLD, [opened, seen]), 12, 40) == [("dbo_t", 12, 19), ("v2", 20, 40)]
    assert readers(EARLIER_CLOCK, [opened, seen]) == (Reader(EARLIER_CLOCK, lsn(0)),)


def test_cleanup_that_has_moved_one_start_makes_nothing_newer() -> None:
    """Days apart their times tell, whatever cleanup has done to one of them meanwhile."""
    later = replace(NEW, created_at=OLD.created_at + timedelta(days=3))
    instances = {**listed(OLD, start=50), **listed(later, start=20)}
    assert unseen(instances, instances["v2"], ()) == ()
    assert unseen(instances, instances["dbo_t"], ()) == (instances["v2"],)


def test_an_older_instance_is_never_gone_back_to() -> None:
    assert readers(NEW, [Reader(OLD, lsn(50))]) == (Reader(NEW, lsn(0)),)
    assert reader_at(readers(NEW, [Reader(NEWEST, lsn(60))]), lsn(60)) == NEWEST


def test_only_newer_ones_that_nobody_recorded_are_unseen() -> None:
    instances = listed(OLD, NEW, identity(9, "other", table=7))
    (found,) = unseen(instances, instances["dbo_t"], [])
    assert found.identity == NEW
    assert unseen(instances, instances["dbo_t"], [Reader(NEW, lsn(30))]) == ()
    assert unseen(instances, instances["v2"], []) == ()


def test_the_instance_last_read_is_bound_to() -> None:
    both = listed(OLD, NEW)
    assert resolve(both, "dbo_t", None, [], where="t").identity == OLD
    assert resolve(both, "dbo_t", NEW, [], where="t").identity == NEW
    assert resolve(both, "v2", OLD, [], where="t").identity == OLD


def test_a_gone_default_name_follows_the_newest() -> None:
    assert resolve(listed(NEW, NEWEST), "dbo_t", OLD, [], where="t").identity == NEWEST
    assert resolve(listed(NEW, NEWEST), "dbo_t", NEW, [], where="t").identity == NEW


def test_another_gone_name_is_followed_only_where_it_was_read() -> None:
    first = identity(2, "mine")
    assert resolve(listed(NEW), "mine", first, [], where="t").identity == NEW
    assert resolve(listed(NEW), "mine", NEW, [Reader(first, lsn(5))], where="t").identity == NEW
    with pytest.raises(CaptureInstanceUnknownError):
        resolve(listed(NEW), "mistyped", NEW, [], where="t")


def test_a_name_of_another_table_is_not_passed_over() -> None:
    other = identity(9, "other", table=7)
    assert resolve(listed(NEW, other), "other", NEW, [], where="t").identity == other


@pytest.mark.parametrize(
    ("there", "position", "lost"),
    [
        ([OLD, NEW], 20, False),
        ([NEW], 20, True),  # Below its start only the older one captured.
        ([NEW], 29, False),
        ([OLD], 35, True),
        ([identity(5, "dbo_t")], 20, True),  # Re-created: nobody recorded it.
    ],
)
def test_what_is_needed_must_be_listed(there: list[Identity], position: int, lost: bool) -> None:
    poll = Poll(ServerClock.fixed(NOON, 0), Offset(lsn(40), NOON), listed(*there))
    chain = readers(OLD, [Reader(NEW, lsn(30))])
    if lost:
        with pytest.raises(DataLossError):
            check_continues(Offset(lsn(position), NOON), chain, poll, where="t")
    else:
        check_continues(Offset(lsn(position), NOON), chain, poll, where="t")


def test_recorded_are_those_seen_and_those_opened_with() -> None:
    def row(event: Event, of: Identity, at: int, **detail: object) -> FactsRow:
        text = json.dumps({"identity": of.to_dict(), **detail})
        return FactsRow(target="bronze/t", event=event, max_lsn=str(lsn(at)), detail=text)

    found = recorded_by_target(
        [
            row(Event.SNAPSHOT_OPEN, OLD, 20, kind="bootstrap"),
            row(Event.SNAPSHOT_OPEN, NEWEST, 90, kind="resnapshot"),  # Moves no position.
            row(Event.CAPTURE_INSTANCE_SEEN, NEW, 30, start_lsn=str(lsn(30))),
            row(Event.CAPTURE_INSTANCE_SEEN, NEW, 33, start_lsn=str(lsn(33))),
        ]
    )
    assert found["bronze/t"] == (Reader(OLD, lsn(21)), Reader(NEW, lsn(30)))
    assert found["bronze/other"] == ()


@pytest.mark.parametrize(
    ("after", "control_end", "bound"),
    [
        (None, 20, NEW),
        (None, 40, NEW),
        (None, 41, OLD),  # Control was written after it.
        (FactsRow(event=Event.RESET), 20, OLD),
        (FactsRow(event=Event.DATA_SKIPPED), 20, OLD),
        (FactsRow(event=Event.SNAPSHOT_OPEN, lost_from_ts=NOON), 20, OLD),
        (FactsRow(event=Event.SNAPSHOT_OPEN, detail='{"kind": "bootstrap"}'), 20, OLD),
        (FactsRow(event=Event.SNAPSHOT_OPEN, detail='{"kind": "resnapshot"}'), 20, NEW),
    ],
)
def test_a_switch_stands_for_control_until_more_is_said(
    after: FactsRow | None, control_end: int, bound: Identity
) -> None:
    """What tells where the changes go on, and whence, comes after it."""
    end = Offset(lsn(40), NOON)
    detail = {"identity": NEW.to_dict(), "start_lsn": str(lsn(30)), "end": end.to_dict()}
    told = FactsRow(
        target="bronze/t", event=Event.CAPTURE_INSTANCE_SWITCHED, detail=json.dumps(detail)
    )
    rows = [told] if after is None else [told, replace(after, target="bronze/t")]
    switch = switches_by_target(rows)["bronze/t"]
    assert switch.proven(OLD, Offset(lsn(control_end), NOON)) == bound
    assert switch.proven(NEWEST, Offset(lsn(20), NOON)) == NEWEST
    assert switch.proven(None, None) is None
