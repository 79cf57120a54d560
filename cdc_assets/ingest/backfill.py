"""The backfill of a chunked snapshot: its chunks are read in waves, while syncs read the changes.

The first call plans every chunk, and no later one changes the plan. Each wave is one commit in
bronze and then its facts; the snapshot is complete once the last wave is told of. A call may die
anywhere: the next one finds what is there and goes on.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.errors import CaptureNotReadyError, SettingsError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.call import (
    BackfillLimits,
    Call,
    Progress,
    check_limits,
    nothing_open,
    overtaken,
    paused,
)
from cdc_assets.ingest.chunked import mode_conflict
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.looking import Look, look_before
from cdc_assets.ingest.outcome import BackfillOutcome, BackfillState
from cdc_assets.ingest.planned import planned
from cdc_assets.ingest.snapshot_events import completion
from cdc_assets.ingest.sync import known_table
from cdc_assets.ingest.telling import WaveMeasure, read_reached, tell_appended, tell_wave
from cdc_assets.ingest.waves import append_wave
from cdc_assets.lake import STREAMS_MAY_WAIT
from cdc_assets.lake.told import lost_rows
from cdc_assets.lsn import Lsn
from cdc_assets.planning.chunks import ChunkPlan
from cdc_assets.planning.snapshots import Snapshot
from cdc_assets.planning.verdict import later
from cdc_assets.planning.waves import Waves, low_headroom, waves_of
from cdc_assets.sqlserver.connection import with_retries

_log = logging.getLogger(__name__)


def backfill(
    database: Database,
    key: str,
    *,
    snapshot: Lsn | None = None,
    max_waves: int | None = None,
    max_seconds: float | None = None,
    min_headroom_hours: float | None = None,
    progress: Progress | None = None,
) -> BackfillOutcome:
    """Read a table's newest open chunked snapshot on, in waves of `num_partitions` chunks.

    Called again it goes on, until `done`. The limits are the settings' where they are not given; a
    wave that has begun is finished. `progress` is told how far it is after each. `snapshot` names
    the one that is meant: `SettingsError` where another is the newest open one, and for a limit
    that is none. Raises `SnapshotModeError` for an open whole one, `SourceBehindError` for a server
    that has not reached S, `TablePausedError`, and `DataLossError` where the changes beside it are
    lost, which abandons it: the next sync does as `on_data_loss` says (seed 0016, Amendment 3).
    """
    settings = database.settings
    database.check_active([key])
    check_limits(database.table(key), max_waves, max_seconds, min_headroom_hours)
    hours = min_headroom_hours
    limits = BackfillLimits(
        max_waves or settings.max_waves_of(key),
        max_seconds or settings.max_seconds_of(key),
        settings.min_headroom_hours_of(key) if hours is None else hours,
    )
    try:
        return _run(database, key, snapshot, limits, progress)
    finally:
        database.connections.close()


def _run(
    database: Database,
    key: str,
    wanted: Lsn | None,
    limits: BackfillLimits,
    progress: Progress | None,
) -> BackfillOutcome:
    known = known_table(database, key)
    waves = _told(database, known)
    opened = _opened(known, wanted)
    if opened is None:
        return nothing_open(known, waves)
    with ThreadPoolExecutor(1, f"tell-{known.name}") as teller:
        call = Call(database, key, limits, opened, waves, waves, teller, progress)
        while (outcome := _step(call)) is None:
            pass
        call.settle()
    return outcome


def _step(call: Call) -> BackfillOutcome | None:
    """One wave from a fresh look at everything; gives how far it is where none is to follow."""
    database = call.database
    known = known_table(database, call.key)
    if known.snapshots.open != call.opened:
        return overtaken(call, known)
    call.told = _told(database, known, call.told)
    call.waves = waves = call.told.after(call.newest)
    limit = call.limit()
    try:
        look = with_retries(lambda: look_before(database, known, call.opened, waves))
    except CaptureNotReadyError as waits:
        return call.outcome(BackfillState.WAITING_CAPTURE, f"{waits.what}. {waits.hint}")
    if look.next_wave <= waves.newest:
        raise lost_rows(look.table, look.opened, look.next_wave - 1, waves.newest)
    if look.next_wave > waves.newest + 1 and tell_wave(database, look):
        return None  # Another run has appended it, and may have died before it told.
    plan = with_retries(lambda: planned(database, look))
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
        return paused(call, low)
    _wave(call, look, plan)
    return None


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


def _low_headroom(call: Call, look: Look) -> float | None:
    created = look.poll.clock.to_utc(look.instance.identity.created_at, look.instance.start_lsn)
    hours_min = call.limits.min_headroom_hours
    return low_headroom(look.position.commit_ts, look.watermark, created, hours_min)


def _wave(call: Call, look: Look, plan: ChunkPlan) -> None:
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
    call.telling = call.teller.submit(tell_appended, database, look, commit, measure)
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
    if result.committed:
        call.tell_progress(done)


def _complete(database: Database, look: Look) -> None:
    """The event that makes it complete: only now silver is rebuilt from it."""
    # The clock may have been set back since one of its waves.
    now = with_retries(lambda: read_reached(database, look)).high_mark
    done = replace(look.opened, high_mark=later(look.waves.high_mark, now))
    entry = completion(look.table, done, look.waves.rows, look.waves.engine)
    rows = tuple(replace(row, written_at=utc_now()) for row in entry.rows)
    database.lake.facts.append([replace(entry, rows=rows)])
    faults.reach(FaultPoint.BACKFILL_COMPLETED)
