"""What the facts are told of a wave: always from the commit that is found, never from the attempt.

So a rerun after a crash tells of the wave of the run that died.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.errors import CommitConflictError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.clock import commit_at_or_below
from cdc_assets.ingest.looking import Look
from cdc_assets.ingest.poll import read_max_lsn
from cdc_assets.ingest.snapshot import read_high_mark
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.waves import committed_wave, rows_by_chunk
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import AppendResult
from cdc_assets.planning.records import FactsRow
from cdc_assets.planning.waves import WaveCommit
from cdc_assets.sqlserver.connection import with_retries


@dataclass(frozen=True, slots=True)
class WaveMeasure:
    """How a wave went that this run read itself."""

    commit: WaveCommit
    result: AppendResult
    started_at: datetime
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class Reached:
    """Where the source is after a read: capture's newest LSN, and the high mark (UTC)."""

    newest: Offset | None
    high_mark: datetime


def read_reached(database: Database, look: Look) -> Reached:
    """Where the source is now; of a read that is over, no row can be of a later time."""
    with database.connections.lend() as connection:
        high_mark = read_high_mark(connection, look.poll, look.opened.at)
        lsn = read_max_lsn(connection)
        if lsn is None:
            return Reached(None, high_mark)
        found = commit_at_or_below(connection, lsn, look.poll.clock)
    at = found.commit_ts if found else look.opened.at.commit_ts
    return Reached(Offset(lsn, at), high_mark)


def tell_wave(
    database: Database, look: Look, measure: WaveMeasure | None = None
) -> WaveCommit | None:
    """Write the facts of bronze's newest wave, if it is not known of, and give that.

    Then what is known of the waves is old: the next one must be planned from a new look.
    """
    # After the read. Of a wave that another run has read it is later, which is as true.
    reached = with_retries(lambda: read_reached(database, look))
    table, snapshot = look.table, look.opened.at.lsn
    look.bronze.update_incremental()
    newest = look.next_wave - 1
    if newest <= look.waves.newest:
        return None
    commit = committed_wave(look.bronze, _unknown(look, newest), look.waves.first)
    if commit is None:
        return None
    rows = rows_by_chunk(look.bronze, snapshot, commit.stamp.lsn, commit.chunks)
    own = measure if measure is not None and measure.commit == commit else None
    told = commit.facts_rows(rows, reached.newest, reached.high_mark)
    found = [_measured(row, look, own) for row in told]
    if own is not None and found:
        # Once for all its chunks: what is summed over rows must not count twice.
        found[0] = replace(
            found[0],
            started_at=own.started_at,
            duration_ms=int(own.duration_seconds * 1000),
            read_seconds=own.result.read_seconds,
            read_mb=own.result.read_mb,
            network_wait_ms=own.result.network_wait_ms,
        )
    entry = FactsEntry(tuple(found), table.wave_app(snapshot), newest)
    database.lake.facts.append([entry])
    faults.reach(FaultPoint.WAVE_TOLD)
    return commit


def tell_appended(
    database: Database, look: Look, planned: WaveCommit, measure: WaveMeasure | None
) -> None:
    """Tell of the wave that was appended, whosever it is.

    Another run may have been first, or have told of ours and gone on to the next one.
    """
    told = tell_wave(database, look, measure)
    is_other = measure is not None and told is not None and told.wave == planned.wave
    if told is None or (is_other and told != planned):
        raise CommitConflictError(
            f"wave {planned.wave} of its snapshot was appended, and bronze has not got it",
            where=str(look.table),
            hint="Another job writes the table, or has put another in its place. Run it again.",
        )


def _unknown(look: Look, wave: int) -> WaveCommit:
    """What is known of a wave whose commit the log has dropped, before its rows are asked."""
    at, waves = look.opened.at, look.waves
    return WaveCommit(
        app_id=look.table.snapshot_app(at.lsn),
        wave=wave,
        target=look.table.bronze,
        instance=look.instance.name,
        snapshot=at.lsn,
        stamp=at,
        plan_id=waves.plan_id or "",
        chunks=(),
        chunks_total=waves.chunks_total or 0,
        engine="",
    )


def _measured(row: FactsRow, look: Look, own: WaveMeasure | None) -> FactsRow:
    poll = look.poll
    return replace(
        row,
        written_at=utc_now(),
        source_rtt_ms=poll.rtt_ms if own else None,
        retention_watermark_ts=look.watermark if own else None,
        retention_headroom_hours=look.headroom_hours if own else None,
        source_max_commit_ts=poll.max.commit_ts if own and poll.max else None,
        capture_lag_seconds=poll.capture_lag_seconds if own else None,
    )
