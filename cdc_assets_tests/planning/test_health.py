"""Headroom and capture, judged from rows alone."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from cdc_assets.planning.health import (
    cleaned_up_to,
    judge_capture,
    judge_headroom,
    measured_event,
    paused_capture,
    paused_headroom,
)
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.verdict import Reason

NOW = datetime(2026, 11, 30, 12)
HOUR = timedelta(hours=1)
BRONZE = ControlRow(
    "bronze/t",
    end_commit_ts=NOW - timedelta(seconds=2),
    updated_at=NOW - timedelta(seconds=1),
    instance_created_at=NOW - 1000 * HOUR,
)


def look(cleaned_hours_ago: float, seen_hours_ago: float = 0.0) -> FactsRow:
    return FactsRow(
        retention_watermark_ts=NOW - cleaned_hours_ago * HOUR,
        written_at=NOW - seen_hours_ago * HOUR,
    )


@pytest.mark.parametrize(
    ("newest", "passed", "reason"),
    [
        (look(72), True, Reason.ON_TIME),
        (look(5.9), False, Reason.HEADROOM_LOW),
        (look(6.1), True, Reason.ON_TIME),
        (look(999.9), True, Reason.ON_TIME),  # Nothing was cleaned up: the instance begins there.
        (look(72, seen_hours_ago=65), True, Reason.ON_TIME),
        (look(72, seen_hours_ago=67), False, Reason.HEADROOM_LOW),
        (None, False, Reason.SYNC_STOPPED),
        (FactsRow(written_at=NOW), False, Reason.SYNC_STOPPED),
    ],
)
def test_headroom(newest: FactsRow | None, passed: bool, reason: Reason) -> None:
    """While nobody looks, cleanup is counted as going on."""
    found = judge_headroom(NOW, BRONZE, newest, hours_min=6)
    assert (found.passed, found.reason) == (passed, reason)


def test_the_load_itself_says_how_far_cleanup_is() -> None:
    assert measured_event([FactsRow(event="bootstrap"), look(72), FactsRow()]) == look(72)
    assert measured_event([FactsRow()]) is None


def test_headroom_tells_hours_and_what_to_do() -> None:
    found = judge_headroom(NOW, BRONZE, look(3), hours_min=6)
    assert found.hours == pytest.approx(3, abs=0.001)
    assert "3.0 h behind" in found.text
    assert "@retention" in found.text


def test_nothing_loaded() -> None:
    empty = ControlRow("bronze/t")
    for bronze in (None, empty):
        assert judge_headroom(NOW, bronze, look(72), 6).reason is Reason.NEVER_LOADED
        assert judge_capture(NOW, bronze, HOUR).reason is Reason.NEVER_LOADED


@pytest.mark.parametrize(
    ("end_hours_ago", "looked_hours_ago", "reason"),
    [
        (0.5, 0, Reason.ON_TIME),
        (1.5, 0, Reason.CAPTURE_STOPPED),
        (1.5, 1.5, Reason.SYNC_STOPPED),  # Nobody knows of capture what nobody looked at.
    ],
)
def test_capture(end_hours_ago: float, looked_hours_ago: float, reason: Reason) -> None:
    bronze = ControlRow(
        "bronze/t",
        end_commit_ts=NOW - end_hours_ago * HOUR,
        updated_at=NOW - looked_hours_ago * HOUR,
    )
    found = judge_capture(NOW, bronze, HOUR)
    assert (found.passed, found.reason) == (reason is Reason.ON_TIME, reason)
    assert found.late_seconds == end_hours_ago * 3600


@pytest.mark.parametrize(
    ("looks", "hours"),
    [
        ([], None),
        ([(None, look(72)), (BRONZE, None)], None),
        ([(BRONZE, look(999.9))], None),  # Nothing was cleaned up.
        ([(BRONZE, look(72, seen_hours_ago=30))], 42),
        # The newest look counts: another table's tells of this one, too.
        ([(BRONZE, look(99, seen_hours_ago=50)), (BRONZE, look(72, seen_hours_ago=1))], 71),
    ],
)
def test_how_far_cleanup_is_in_a_database(
    looks: list[tuple[ControlRow | None, FactsRow | None]], hours: float | None
) -> None:
    assert cleaned_up_to(NOW, looks) == (None if hours is None else NOW - hours * HOUR)


@pytest.mark.parametrize(
    ("cleaned_hours_ago", "passed", "reason", "text"),
    [
        (None, True, Reason.PAUSED, "nothing yet"),
        (72, True, Reason.PAUSED, "in 72.0 h"),
        (5.9, False, Reason.HEADROOM_LOW, "in 5.9 h"),
        (-1, False, Reason.HEADROOM_LOW, "takes by now"),
    ],
)
def test_a_paused_table_runs_into_cleanup(
    cleaned_hours_ago: float | None, passed: bool, reason: Reason, text: str
) -> None:
    cleaned = None if cleaned_hours_ago is None else NOW - cleaned_hours_ago * HOUR
    found = paused_headroom(BRONZE, cleaned, hours_min=5.95)
    assert (found.passed, found.reason) == (passed, reason)
    assert text in found.text
    assert "paused: true" in found.text
    empty = paused_headroom(None, cleaned, hours_min=5.95)
    assert (empty.passed, empty.reason) == (True, Reason.PAUSED)


def test_of_a_paused_table_nothing_is_known_of_capture() -> None:
    found = paused_capture(NOW, BRONZE)
    assert (found.passed, found.reason, found.late_seconds) == (False, Reason.PAUSED, 2)
    assert paused_capture(NOW, None).late_seconds == 0
