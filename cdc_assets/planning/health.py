"""Whether capture and cleanup leave a table readable, as the small tables tell it. Pure.

Nothing is asked of the source: these are judged also while nothing runs, and that is when they
matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.verdict import Reason, capture_stopped_text, second
from cdc_assets.planning.waves import hours_between, was_cleaned

NOTHING_LOADED = "Nothing is loaded yet: run the sync job."
PAUSED = "It stands still (`paused: true` in tables.yaml)"
HEADROOM_UNKNOWN_HOURS = 0.0
"""What is plotted where nothing was cleaned up, or nobody looked."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """How far cleanup is behind what was read of a table."""

    passed: bool
    reason: Reason
    text: str
    hours: float


@dataclass(frozen=True, slots=True)
class CaptureHealth:
    """How far SQL Server's capture is behind now, as the last sync saw it."""

    passed: bool
    reason: Reason
    text: str
    late_seconds: float


def measured_event(events: Sequence[FactsRow]) -> FactsRow | None:
    """A table's last event that tells how far cleanup was: all there is before its first batch."""
    found = (row for row in reversed(events) if row.retention_watermark_ts is not None)
    return next(found, None)


def judge_headroom(
    now: datetime, bronze: ControlRow | None, newest: FactsRow | None, hours_min: float
) -> Headroom:
    """Whether cleanup is far enough behind; `newest` is the newest facts row that was measured."""
    if bronze is None or bronze.end_commit_ts is None or bronze.instance_created_at is None:
        return Headroom(False, Reason.NEVER_LOADED, NOTHING_LOADED, HEADROOM_UNKNOWN_HOURS)
    seen = newest.retention_watermark_ts if newest is not None else None
    if newest is None or seen is None or newest.written_at is None:
        text = "Nobody has looked how far cleanup is: run the sync job."
        return Headroom(False, Reason.SYNC_STOPPED, text, HEADROOM_UNKNOWN_HOURS)
    cleaned = cleaned_up_to(now, [(bronze, newest)])
    if cleaned is None:
        text = "Cleanup has removed nothing yet."
        return Headroom(True, Reason.ON_TIME, text, HEADROOM_UNKNOWN_HOURS)
    hours = round(hours_between(cleaned, bronze.end_commit_ts) or 0.0, 3)
    text = f"Cleanup is {max(hours, 0.0):.1f} h behind what was read"
    if hours >= hours_min:
        return Headroom(True, Reason.ON_TIME, f"{text}.", hours)
    text += (
        f", and `min_headroom_hours` is {hours_min:g}: run the sync job, or lengthen the CDC"
        " retention (sys.sp_cdc_change_job @job_type = 'cleanup', @retention = minutes)."
    )
    return Headroom(False, Reason.HEADROOM_LOW, text, hours)


def cleaned_up_to(
    now: datetime, looks: Iterable[tuple[ControlRow | None, FactsRow | None]]
) -> datetime | None:
    """Up to when cleanup has removed the changes of a database by now, as far as anybody knows.

    `looks` are its tables' control rows and newest batches. The cleanup job goes over all tables
    of a database with one mark; where the newest look saw it, it goes on with time. None where it
    has removed nothing that anybody has seen.
    """
    marks: list[tuple[datetime, datetime]] = []
    for bronze, newest in looks:
        created = bronze.instance_created_at if bronze is not None else None
        seen = newest.retention_watermark_ts if newest is not None else None
        if newest is None or seen is None or created is None or newest.written_at is None:
            continue
        if was_cleaned(seen, created):
            marks.append((newest.written_at, seen + max(now - newest.written_at, timedelta())))
    return max(marks)[1] if marks else None


def paused_headroom(
    bronze: ControlRow | None, cleaned: datetime | None, hours_min: float
) -> Headroom:
    """How far cleanup is behind a table that stands still: it comes nearer by an hour each hour.

    `cleaned` is up to when cleanup has gone in its database, from `cleaned_up_to`.
    """
    if bronze is None or bronze.end_commit_ts is None:
        text = f"{PAUSED}, and nothing of it is loaded."
        return Headroom(True, Reason.PAUSED, text, HEADROOM_UNKNOWN_HOURS)
    if cleaned is None:
        text = f"{PAUSED}; where anybody looked, cleanup had removed nothing yet."
        return Headroom(True, Reason.PAUSED, text, HEADROOM_UNKNOWN_HOURS)
    hours = round(hours_between(cleaned, bronze.end_commit_ts) or 0.0, 3)
    if hours >= hours_min:
        text = f"{PAUSED}: in {hours:.1f} h cleanup begins to take what was not read."
        return Headroom(True, Reason.PAUSED, text, hours)
    comes = f"in {hours:.1f} h cleanup begins to take" if hours > 0 else "cleanup takes by now"
    text = (
        f"{PAUSED}, and {comes} what was not read: let it go on, or lengthen the CDC retention;"
        " after that it has to be read anew."
    )
    return Headroom(False, Reason.HEADROOM_LOW, text, hours)


def paused_capture(now: datetime, bronze: ControlRow | None) -> CaptureHealth:
    """What is known of capture from a table that stands still: nothing since."""
    end = bronze.end_commit_ts if bronze is not None else None
    late = (now - end).total_seconds() if end is not None else 0.0
    return CaptureHealth(False, Reason.PAUSED, f"Not known: {PAUSED[0].lower()}{PAUSED[1:]}.", late)


def judge_capture(now: datetime, bronze: ControlRow | None, allowed: timedelta) -> CaptureHealth:
    """Whether capture had come near enough to the time when it was last looked at."""
    if bronze is None or bronze.end_commit_ts is None or bronze.updated_at is None:
        return CaptureHealth(False, Reason.NEVER_LOADED, NOTHING_LOADED, 0.0)
    end, looked = bronze.end_commit_ts, bronze.updated_at
    late = (now - end).total_seconds()
    if now - looked > allowed:
        text = f"Not known: no sync has looked at the source since {second(looked)} UTC."
        return CaptureHealth(False, Reason.SYNC_STOPPED, text, late)
    if now - end > allowed:
        return CaptureHealth(False, Reason.CAPTURE_STOPPED, capture_stopped_text(end) + ".", late)
    text = f"Changes are captured up to {second(end)} UTC."
    return CaptureHealth(True, Reason.ON_TIME, text, late)
