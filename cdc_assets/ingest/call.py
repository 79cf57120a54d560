"""One call of a backfill: how far it may go, what it has read, and how it says how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from cdc_assets.engines.database import Database
from cdc_assets.errors import SettingsError
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.outcome import BackfillOutcome, BackfillState
from cdc_assets.names import Command, TableName
from cdc_assets.planning.snapshots import Snapshot
from cdc_assets.planning.waves import WaveCommit, Waves

Progress = Callable[[BackfillOutcome], None]
"""Is told how far a call is after each wave, in the thread of the call."""


@dataclass(frozen=True, slots=True)
class BackfillLimits:
    """How far one call goes; None is no limit. See the settings of these names."""

    max_waves: int | None
    max_seconds: float | None
    min_headroom_hours: float


def check_limits(
    table: TableName, waves: int | None, seconds: float | None, hours: float | None
) -> None:
    """Raise `SettingsError` for what the settings of these names do not take either."""
    wrong = {
        "max_waves": (waves, "1 or more", waves is None or waves >= 1),
        "max_seconds": (seconds, "more than 0", seconds is None or seconds > 0),
        "min_headroom_hours": (hours, "0 or more", hours is None or hours >= 0),
    }
    for name, (value, wanted, is_right) in wrong.items():
        if not is_right:
            raise SettingsError(
                f"{name} is {value:g}", where=str(table), hint=f"It is {wanted}, or left out."
            )


@dataclass(slots=True)
class Call:
    """One call: the snapshot it began with, its limits, and what it has read."""

    database: Database
    key: str
    limits: BackfillLimits
    opened: Snapshot
    told: Waves
    """What the facts tell; only what they have told since is read anew."""
    waves: Waves
    teller: ThreadPoolExecutor
    progress: Progress | None = None
    newest: WaveCommit | None = None
    """The wave it has appended last."""
    telling: Future[None] | None = None
    read_waves: int = 0
    rows: int = 0
    chunks: int = 0
    began: float = field(default_factory=time.monotonic)

    def settle(self) -> None:
        """Wait until the wave appended last is told of; raises what kept it from that."""
        if self.telling is not None:
            self.telling.result()
            self.telling = None

    def tell_progress(self, chunks_done: int) -> None:
        """Say how far it is with the wave that was appended last."""
        if self.progress is not None:
            outcome = self.outcome(BackfillState.RUNNING, "a wave was read")
            self.progress(replace(outcome, chunks_done=chunks_done))

    def outcome(self, state: BackfillState, reason: str) -> BackfillOutcome:
        """How far it is now."""
        seconds = time.monotonic() - self.began
        total, done = self.waves.chunks_total, len(self.waves.done)
        left = None
        if total is not None and self.chunks:
            left = seconds / self.chunks * (total - done)
        return BackfillOutcome(
            table=self.key,
            snapshot=self.opened.at.lsn,
            chunks_done=done,
            chunks_total=total,
            done=state is BackfillState.DONE,
            paused=state not in (BackfillState.DONE, BackfillState.RUNNING),
            state=state,
            reason=reason,
            rows=self.rows,
            rows_per_second=self.rows / seconds if self.chunks and seconds > 0 else None,
            seconds_left=left,
        )

    def limit(self) -> str:
        """Which of its limits it has reached; "" for none."""
        limits = self.limits
        if limits.max_waves is not None and self.read_waves >= limits.max_waves:
            return f"{self.read_waves} waves were read"
        seconds = time.monotonic() - self.began
        if limits.max_seconds is not None and seconds >= limits.max_seconds:
            return f"it has run for {seconds:.0f} s"
        return ""


def nothing_open(known: Known, waves: Waves) -> BackfillOutcome:
    """The outcome where no chunked snapshot is open: it is complete, or there never was one."""
    complete = known.snapshots.complete
    done = complete is not None and complete.is_chunked
    return BackfillOutcome(
        table=known.name.key,
        snapshot=complete.at.lsn if complete is not None and done else None,
        chunks_done=len(waves.done) if done else 0,
        chunks_total=waves.chunks_total if done else None,
        done=done,
        paused=not done,
        state=BackfillState.DONE if done else BackfillState.NO_SNAPSHOT,
        reason="it is complete"
        if done
        else "no chunked snapshot is open: with `snapshot: chunked` the first is opened by"
        f" {known.name.command(Command.SYNC)}",
    )


def overtaken(call: Call, known: Known) -> BackfillOutcome:
    """Another run has completed the snapshot meanwhile, or given it up."""
    complete, opened = known.snapshots.complete, known.snapshots.open
    at = call.opened.at.lsn
    if complete is not None and complete.at.lsn == at and opened is None:
        return call.outcome(BackfillState.DONE, "another run has read the last of it")
    now = f"; {opened.at.lsn} is open now" if opened else ""
    return call.outcome(BackfillState.ABANDONED, f"the snapshot at {at} was given up{now}")


def paused(call: Call, hours: float) -> BackfillOutcome:
    """The outcome where cleanup is so few hours behind the changes."""
    return call.outcome(
        BackfillState.WAITING_HEADROOM,
        f"cleanup is {hours:.1f} h behind the table's changes, and `min_headroom_hours` is"
        f" {call.limits.min_headroom_hours:g}: let syncs catch up, or lower it",
    )
