"""The verdict: up to when a table is complete, and what holds it back. Pure, and never early."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.snapshots import Snapshots

PERIODS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
_EPOCH = datetime(1, 1, 1)


def finalized_until(end_commit_ts: datetime, granularity: str) -> datetime:
    """The end of the last period that lies wholly at or before `end_commit_ts`."""
    return end_commit_ts - (end_commit_ts - _EPOCH) % PERIODS[granularity]


def later(old: datetime | None, new: datetime | None) -> datetime | None:
    """A verdict never moves back."""
    known = [at for at in (old, new) if at is not None]
    return max(known, default=None)


class Hold(StrEnum):
    """Why silver's verdict may not follow bronze's."""

    SNAPSHOT_OPEN = "snapshot_open"
    SNAPSHOT_SETTLING = "snapshot_settling"
    BEHIND_BRONZE = "behind_bronze"


def silver_hold(bronze: ControlRow, silver: ControlRow | None, snapshots: Snapshots) -> Hold | None:
    """What keeps silver's verdict from moving to bronze's, or None.

    A snapshot's read may hold commits up to its high mark, so silver shows some of them early:
    until bronze is complete to there, silver is no single moment of the source. While one is read
    in chunks, silver lacks its rows: the verdict waits for the rebuild that follows the last one.
    Of a stream without any snapshot silver is what its changes have made: it waits for them alone.
    """
    complete = snapshots.complete
    if complete is None and silver is not None and _is_of_changes(silver, snapshots):
        is_behind = (silver.applied_lsn or "") < (bronze.changed_lsn or "")
        return Hold.BEHIND_BRONZE if is_behind else None
    if complete is None or snapshots.open_chunked is not None:
        return Hold.SNAPSHOT_OPEN
    if silver is None or silver.applied_lsn is None or silver.snapshot_lsn is None:
        return Hold.BEHIND_BRONZE
    if silver.snapshot_lsn != str(complete.at.lsn):
        return Hold.BEHIND_BRONZE
    if bronze.changed_lsn is not None and silver.applied_lsn < bronze.changed_lsn:
        return Hold.BEHIND_BRONZE
    high_mark = complete.high_mark
    if high_mark is not None and (
        bronze.finalized_until is None or bronze.finalized_until <= high_mark
    ):
        return Hold.SNAPSHOT_SETTLING
    return None


def _is_of_changes(silver: ControlRow, snapshots: Snapshots) -> bool:
    """Whether a silver is of no snapshot, and none is being taken; not one that was given up."""
    of_snapshot = silver.snapshot_lsn or silver.open_snapshot_lsn or snapshots.open
    is_there = silver.applied_lsn is not None and silver.table_id not in snapshots.discarded
    return is_there and of_snapshot is None


def hold_text(hold: Hold, snapshots: Snapshots, table: str = "Silver") -> str:
    """What holds silver's verdict back and what ends that, as a sentence without its full stop.

    `table` begins it: a history is held by the same.
    """
    if hold is Hold.SNAPSHOT_OPEN:
        in_chunks = (
            " in chunks: `cdc-assets backfill` reads it on" if snapshots.open_chunked else ""
        )
        return f"A snapshot is being taken{in_chunks}"
    if hold is Hold.SNAPSHOT_SETTLING:
        return (
            "The snapshot may show commits that bronze is not yet complete for; the next"
            " period ends that"
        )
    return f"{table} is behind bronze: run the apply job"


class Reason(StrEnum):
    """Why a check of a table passes, or does not: its code."""

    ON_TIME = "on_time"
    NEVER_LOADED = "never_loaded"
    SYNC_STOPPED = "sync_stopped"
    CAPTURE_STOPPED = "capture_stopped"
    SNAPSHOT_OPEN = "snapshot_open"
    SNAPSHOT_SETTLING = "snapshot_settling"
    BEHIND_BRONZE = "behind_bronze"
    HEADROOM_LOW = "headroom_low"
    PAUSED = "paused"
    NO_PERIOD_YET = "no_period_yet"
    KEY_REPEATED = "key_repeated"
    KEYS_UNCOUNTED = "keys_uncounted"


@dataclass(frozen=True, slots=True)
class Finality:
    """A table's verdict against the delay it is allowed."""

    passed: bool
    reason: Reason
    text: str
    late_seconds: float


def judge_finality(
    now: datetime,
    bronze: ControlRow | None,
    silver: ControlRow | None,
    snapshots: Snapshots,
    granularity: str,
    allowed_delay: timedelta,
) -> Finality:
    """Whether silver is as complete as it has to be by `now` (UTC), and if not, what is behind.

    The first open period ends at `finalized_until` plus one period; it may stay open for
    `allowed_delay` after that. Before any is complete the first one is that in which the snapshot
    was taken.
    """
    if bronze is None or bronze.end_commit_ts is None:
        return Finality(False, Reason.NEVER_LOADED, "Nothing is loaded yet: run the sync job.", 0.0)
    allowed = PERIODS[granularity] + allowed_delay
    until = silver.finalized_until if silver is not None else None
    begun = _begun(snapshots) if until is None else None
    if begun is not None:
        first = finalized_until(begun, granularity) + PERIODS[granularity]
        if now <= first + allowed_delay:
            held = _held(bronze, silver, snapshots)
            text = f"No period is complete yet: the first one ends at {first} UTC. {held}."
            lag = max(now - begun, timedelta())
            return Finality(True, Reason.NO_PERIOD_YET, text, lag.total_seconds())
    lag = now - (until or bronze.end_commit_ts)
    if until is not None and lag <= allowed:
        return Finality(True, Reason.ON_TIME, f"Complete up to {until} UTC.", lag.total_seconds())
    reason, text = _why_late(now, bronze, silver, snapshots, allowed)
    known = f"complete up to {until} UTC" if until else "no period is complete yet"
    return Finality(False, reason, f"{text} ({known}).", lag.total_seconds())


def paused_finality(
    now: datetime, bronze: ControlRow | None, silver: ControlRow | None
) -> Finality:
    """What is said of a table that stands still: it is not complete, and that is as it was told."""
    until = silver.finalized_until if silver is not None else None
    end = until or (bronze.end_commit_ts if bronze is not None else None)
    known = f"complete up to {until} UTC" if until else "no period is complete"
    text = f"It stands still: `paused: true` in tables.yaml ({known})."
    return Finality(False, Reason.PAUSED, text, (now - end).total_seconds() if end else 0.0)


def _begun(snapshots: Snapshots) -> datetime | None:
    """When the snapshot that silver is made of was read to its end, or else opened; in UTC."""
    snapshot = snapshots.complete or snapshots.open
    return None if snapshot is None else snapshot.high_mark or snapshot.at.commit_ts


def _held(bronze: ControlRow, silver: ControlRow | None, snapshots: Snapshots) -> str:
    """What silver waits for, as a sentence without its full stop."""
    hold = silver_hold(bronze, silver, snapshots)
    return "The next sync tells of it" if hold is None else hold_text(hold, snapshots)


def _why_late(
    now: datetime,
    bronze: ControlRow,
    silver: ControlRow | None,
    snapshots: Snapshots,
    allowed: timedelta,
) -> tuple[Reason, str]:
    end, looked = bronze.end_commit_ts, bronze.updated_at
    if looked is None or now - looked > allowed:
        return Reason.SYNC_STOPPED, f"No sync has looked at the source since {second(looked)} UTC"
    if end is None or now - end > allowed:
        return Reason.CAPTURE_STOPPED, capture_stopped_text(end)
    hold = silver_hold(bronze, silver, snapshots) or Hold.BEHIND_BRONZE
    return Reason(hold), hold_text(hold, snapshots)


def second(at: datetime | None) -> str:
    """A time in a sentence, to the second: nobody reads more."""
    return f"{at:%Y-%m-%d %H:%M:%S}" if at is not None else "an unknown time"


def capture_stopped_text(end: datetime | None) -> str:
    """What there is to do where capture has processed nothing, without its full stop."""
    return (
        f"SQL Server's capture has processed nothing since {second(end)} UTC: it has stopped, or"
        " the database is quiet and has no heartbeat; look at SQL Server Agent's capture job"
    )
