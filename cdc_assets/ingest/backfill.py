"""The backfill of a chunked snapshot: its chunks are read in waves, while syncs read the changes.

The first call plans every chunk, and no later one changes the plan. Each wave is one commit in
bronze and then its facts; the snapshot is complete once the last wave is told of. A call may die
anywhere: the next one finds what is there and goes on.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.errors import (
    CaptureNotReadyError,
    CommitConflictError,
    SettingsError,
)
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.chunked import mode_conflict
from cdc_assets.ingest.chunking import (
    extent_of,
    plan_chunks,
    store_extent,
    store_plan,
    stored_extent,
    stored_plan,
)
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.outcome import BackfillOutcome, BackfillState
from cdc_assets.ingest.sizing import size_chunks
from cdc_assets.ingest.snapshot_events import completion
from cdc_assets.ingest.sync import known_tables
from cdc_assets.ingest.waves import (
    Look,
    WaveMeasure,
    append_wave,
    look_before,
    read_reached,
    tell_wave,
)
from cdc_assets.lake import STREAMS_MAY_WAIT
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.told import lost_rows
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.chunks import ChunkPlan
from cdc_assets.planning.snapshots import Snapshot
from cdc_assets.planning.verdict import later
from cdc_assets.planning.waves import WaveCommit, Waves, low_headroom, plan_row, waves_of
from cdc_assets.sqlserver.connection import with_retries

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackfillLimits:
    """How far one call goes; None is no limit. See the settings of these names."""

    max_waves: int | None
    max_seconds: float | None
    min_headroom_hours: float


def backfill(
    database: Database,
    key: str,
    *,
    snapshot: Lsn | None = None,
    max_waves: int | None = None,
    max_seconds: float | None = None,
    min_headroom_hours: float | None = None,
) -> BackfillOutcome:
    """Read a table's newest open chunked snapshot on, in waves of `num_partitions` chunks.

    Called again it goes on, until `done`. The limits are the settings' where they are not given; a
    wave that has begun is finished. `snapshot` names the one that is meant: `SettingsError` where
    another is the newest open one, and for a limit that is none. Raises `SnapshotModeError` for an
    open whole one, `SourceBehindError` for a server that has not reached S, and `DataLossError`
    where the changes beside it are lost, which abandons it: the next sync does as `on_data_loss`
    says (seed 0016, Amendment 3).
    """
    settings = database.settings
    _check_limits(database.table(key), max_waves, max_seconds, min_headroom_hours)
    hours = min_headroom_hours
    limits = BackfillLimits(
        max_waves or settings.max_waves_of(key),
        max_seconds or settings.max_seconds_of(key),
        settings.min_headroom_hours_of(key) if hours is None else hours,
    )
    try:
        return _run(database, key, snapshot, limits)
    finally:
        database.connections.close()


def _check_limits(
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
class _Call:
    """One call: the snapshot it began with, its limits, and what it has read."""

    database: Database
    key: str
    limits: BackfillLimits
    opened: Snapshot
    told: Waves
    """What the facts tell; only what they have told since is read anew."""
    waves: Waves
    teller: ThreadPoolExecutor
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


def _run(
    database: Database, key: str, wanted: Lsn | None, limits: BackfillLimits
) -> BackfillOutcome:
    known = _known(database, key)
    waves = _told(database, known)
    opened = _opened(known, wanted)
    if opened is None:
        return _nothing_open(known, waves)
    with ThreadPoolExecutor(1, f"tell-{known.name}") as teller:
        call = _Call(database, key, limits, opened, waves, waves, teller)
        while (outcome := _step(call)) is None:
            pass
        call.settle()
    return outcome


def _step(call: _Call) -> BackfillOutcome | None:
    """One wave from a fresh look at everything; gives how far it is where none is to follow."""
    database = call.database
    known = _known(database, call.key)
    if known.snapshots.open != call.opened:
        return _overtaken(call, known)
    call.told = _told(database, known, call.told)
    call.waves = waves = call.told.after(call.newest)
    limit = call.limit()
    try:
        look = with_retries(lambda: look_before(database, known, call.opened, waves))
    except CaptureNotReadyError as waits:
        return call.outcome(BackfillState.WAITING_CAPTURE, f"{waits.what}. {waits.hint}")
    if look.next_wave <= waves.newest:
        raise lost_rows(look.table, look.opened, look.next_wave - 1, waves.newest)
    if look.next_wave > waves.newest + 1 and _tell(database, look):
        return None  # Another run has appended it, and may have died before it told.
    plan = with_retries(lambda: _planned(database, look))
    if plan is None:
        return None  # It may have taken long: what was seen before it is old.
    call.waves = replace(waves, chunks_total=len(plan.chunks))
    if not waves.next_chunks(plan, 1):
        if call.telling is not None:
            call.settle()
            return None  # The facts are asked once more: they tell how many rows it was.
        _complete(database, look)
        return call.outcome(BackfillState.DONE, "every chunk is in bronze")
    if limit:
        return call.outcome(BackfillState.RUNNING, f"{limit}: call it again")
    if (low := _low_headroom(call, look)) is not None:
        return _paused(call, low)
    _wave(call, look, plan)
    return None


def _known(database: Database, key: str) -> Known:
    """What the lake says of the table."""
    (known,) = known_tables(database, [key], database.lake.facts.newest_rows)
    if known.error is not None:
        raise known.error
    return known


def _told(database: Database, known: Known, before: Waves | None = None) -> Waves:
    """What the facts tell of its newest snapshot's waves, and have told before."""
    newest, before = known.snapshots.newest, before or Waves()
    if newest is None:
        return before
    rows = database.lake.facts.waves(known.name, newest.at.lsn, before.told_at)
    return waves_of(rows, known.name.bronze, newest.at.lsn, before)


def _opened(known: Known, wanted: Lsn | None) -> Snapshot | None:
    """The chunked snapshot to read; None where none is open."""
    opened = known.snapshots.open
    if opened is not None and not opened.is_chunked:
        raise mode_conflict(known.name, opened)
    if wanted is not None and (opened is None or opened.at.lsn != wanted):
        newest = f"; its newest open one is at {opened.at.lsn}" if opened else ""
        raise SettingsError(
            f"no chunked snapshot at {wanted} is open{newest}",
            where=str(known.name),
            hint="A backfill reads the newest one alone: leave the LSN out.",
        )
    return opened


def _nothing_open(known: Known, waves: Waves) -> BackfillOutcome:
    complete = known.snapshots.complete
    done = complete is not None and complete.is_chunked
    name = str(known.name).replace(".", " ", 1)
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
        else f"no chunked snapshot is open: set `snapshot: chunked` and run cdc-assets sync {name}",
    )


def _overtaken(call: _Call, known: Known) -> BackfillOutcome:
    """Another run has completed the snapshot meanwhile, or given it up."""
    complete, opened = known.snapshots.complete, known.snapshots.open
    at = call.opened.at.lsn
    if complete is not None and complete.at.lsn == at and opened is None:
        return call.outcome(BackfillState.DONE, "another run has read the last of it")
    now = f"; {opened.at.lsn} is open now" if opened else ""
    return call.outcome(BackfillState.ABANDONED, f"the snapshot at {at} was given up{now}")


def _low_headroom(call: _Call, look: Look) -> float | None:
    created = look.poll.clock.to_utc(look.instance.identity.created_at, look.instance.start_lsn)
    hours_min = call.limits.min_headroom_hours
    return low_headroom(look.position.commit_ts, look.watermark, created, hours_min)


def _paused(call: _Call, hours: float) -> BackfillOutcome:
    return call.outcome(
        BackfillState.WAITING_HEADROOM,
        f"cleanup is {hours:.1f} h behind the table's changes, and `min_headroom_hours` is"
        f" {call.limits.min_headroom_hours:g}: let syncs catch up, or lower it",
    )


def _planned(database: Database, look: Look) -> ChunkPlan | None:
    """The snapshot's plan: made and told of by the first call, and the same ever after.

    None where it was made only now.
    """
    table, at = look.table, look.opened.at
    plan = stored_plan(database, table, at.lsn, look.waves.plan_id)
    is_new = plan is None
    if plan is None:
        with database.connections.lend() as connection:
            extent = stored_extent(database, table, at.lsn)
            if extent is None:
                # The run that opened it died; a largest key of now leaves nothing out either.
                chosen = database.settings.tables[table.key].chunk_column
                extent = extent_of(connection, look.instance, look.columns, chosen)
                extent = store_extent(database, table, at.lsn, extent)
            sizing = size_chunks(database, table, connection, look.instance)
            plan = plan_chunks(connection, look.instance, look.columns, extent, at.lsn, sizing)
        plan = store_plan(database, table, plan)
        faults.reach(FaultPoint.PLAN_STORED)
    if look.waves.plan_id is None:
        row = replace(plan_row(table.bronze, at, plan), written_at=utc_now())
        database.lake.facts.append([FactsEntry((row,), table.plan_app(at.lsn))])
        faults.reach(FaultPoint.PLAN_TOLD)
        _log.info(
            "%s: %d chunks of its snapshot at %s are planned, of about %s rows: %s",
            table,
            len(plan.chunks),
            at.lsn,
            f"{plan.sizing.rows:,}" if plan.sizing else "?",
            plan.sizing.why if plan.sizing else "",
        )
    return None if is_new else plan


def _wave(call: _Call, look: Look, plan: ChunkPlan) -> None:
    """Read and append the next wave, and tell of the one that bronze has then."""
    database = call.database
    began, started_at = time.monotonic(), utc_now()
    count = database.settings.num_partitions
    if not STREAMS_MAY_WAIT:
        call.settle()
    commit, result = with_retries(lambda: append_wave(database, look, plan, count, call.settle))
    call.settle()
    seconds = time.monotonic() - began
    faults.reach(FaultPoint.WAVE_APPENDED)
    call.read_waves += 1
    if result.committed:
        call.rows += result.rows
        call.chunks += len(commit.chunks)
        call.newest = commit
    measure = WaveMeasure(commit, result, started_at, seconds) if result.committed else None
    # The next wave is read meanwhile, as if bronze had this one: it is not appended before.
    call.telling = call.teller.submit(_tell_appended, database, look, commit, measure)
    if not result.committed:
        call.settle()
    done = len(look.waves.done) + len(commit.chunks)
    left = (time.monotonic() - call.began) / max(call.chunks, 1) * (len(plan.chunks) - done)
    _log.info(
        "%s: wave %d, %d of %d chunks, %s rows, %s rows/s, about %s left",
        look.table,
        commit.wave,
        done,
        len(plan.chunks),
        f"{result.rows:,}",
        f"{result.rows / max(seconds, 1e-6):,.0f}",
        f"{left:,.0f} s",
    )


def _tell_appended(
    database: Database, look: Look, planned: WaveCommit, measure: WaveMeasure | None
) -> None:
    """Tell of the wave that was appended, whosever it is.

    Another run may have been first, or have told of ours and gone on to the next one.
    """
    told = _tell(database, look, measure)
    is_other = measure is not None and told is not None and told.wave == planned.wave
    if told is None or (is_other and told != planned):
        raise CommitConflictError(
            f"wave {planned.wave} of its snapshot was appended, and bronze has not got it",
            where=str(look.table),
            hint="Another job writes the table, or has put another in its place. Run it again.",
        )


def _tell(database: Database, look: Look, measure: WaveMeasure | None = None) -> WaveCommit | None:
    reached = with_retries(lambda: read_reached(database, look))
    return tell_wave(database, look, reached, measure)


def _complete(database: Database, look: Look) -> None:
    """The event that makes it complete: only now silver is rebuilt from it."""
    # The clock may have been set back since one of its waves.
    now = with_retries(lambda: read_reached(database, look)).high_mark
    done = replace(look.opened, high_mark=later(look.waves.high_mark, now))
    entry = completion(look.table, done, look.waves.rows, look.waves.engine)
    rows = tuple(replace(row, written_at=utc_now()) for row in entry.rows)
    database.lake.facts.append([replace(entry, rows=rows)])
    faults.reach(FaultPoint.BACKFILL_COMPLETED)
