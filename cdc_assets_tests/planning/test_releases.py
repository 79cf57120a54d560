"""Which hours are released: after the snapshot, once, and with what is lost of them."""

from __future__ import annotations

from datetime import datetime, timedelta

from cdc_assets.contract import Event
from cdc_assets.planning.finality import Layer, Verdict
from cdc_assets.planning.losses import Gap
from cdc_assets.planning.releases import FinalHour, final_hours

DAY = datetime(2026, 11, 30)
FIRST = datetime(2026, 1, 1)


def at(hour: int, minute: int = 0) -> datetime:
    return DAY + timedelta(hours=hour, minutes=minute)


def verdict(
    layer: Layer,
    until: datetime | None = None,
    begins: datetime | None = None,
    lost: tuple[Gap, ...] = (),
) -> Verdict:
    return Verdict("t", "t", layer, until, None, "", begins=begins, lost=lost)


def released(
    until: datetime | None,
    begins: datetime | None,
    *,
    first: datetime = FIRST,
    told: datetime | None = None,
    lost: tuple[Gap, ...] = (),
) -> list[tuple[datetime, bool]]:
    bronze = verdict(Layer.BRONZE, None, begins, lost)
    hours = list(final_hours(bronze, verdict(Layer.SILVER, until), first, told))
    assert all(isinstance(hour, FinalHour) for hour in hours)
    return [(hour.begin, hour.lost) for hour in hours]


def test_from_the_hour_after_the_snapshot_to_the_verdict() -> None:
    assert released(at(5), at(2, 30)) == [(at(3), False), (at(4), False)]
    assert released(at(5, 59), at(2, 30)) == [(at(3), False), (at(4), False)]


def test_a_snapshot_on_the_hour_is_not_of_that_hour() -> None:
    """Several commits may share S's time, and bronze has not all of them as changes."""
    assert released(at(4), at(2)) == [(at(3), False)]


def test_what_was_told_is_not_told_again() -> None:
    assert released(at(5), at(2, 30), told=at(3)) == [(at(4), False)]
    assert released(at(5), at(2, 30), told=at(4)) == []


def test_from_the_first_day_of_the_settings_on() -> None:
    assert released(at(5), at(-50), first=at(3)) == [(at(3), False), (at(4), False)]


def test_nothing_before_a_verdict_or_a_snapshot() -> None:
    assert released(None, at(2)) == []
    assert released(at(5), None) == []


def test_an_hour_that_meets_a_gap_says_so() -> None:
    gap = Gap(at(3, 10), at(4), Event.DATA_SKIPPED)
    found = released(at(7), at(1, 30), lost=(gap,))
    assert found == [(at(2), False), (at(3), True), (at(4), True), (at(5), False), (at(6), False)]
