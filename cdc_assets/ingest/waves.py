"""One wave of a chunked snapshot: stamped, read, appended, and told of as its commit says.

The stamp is recorded before the read, the rows are one commit, and the facts come from the commit
that is found, never from the attempt: a rerun after a crash finds the wave of the run that died.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.contract import Column, Operation
from cdc_assets.engines.database import Database
from cdc_assets.errors import CaptureNotReadyError, DataLossError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.changes import existing_bronze
from cdc_assets.ingest.chunking import chunk_query, last_bound, plan_is_readable
from cdc_assets.ingest.clock import commit_at_or_below, first_commit_times, latest_commit_ts
from cdc_assets.ingest.columns import columns_to_load
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.losses import find_loss, look_again, read_position
from cdc_assets.ingest.poll import read_max_lsn
from cdc_assets.ingest.snapshot import declared_columns, read_high_mark, time_of
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import beyond_arrow, check_names, table_id
from cdc_assets.lake.waves import committed_wave, rows_by_chunk
from cdc_assets.names import TableName
from cdc_assets.planning.chunks import Chunk, ChunkPlan
from cdc_assets.planning.offsets import Offset, furthest
from cdc_assets.planning.plans import AppendPlan, AppendResult, CommitTag, EngineChoice, ReadRange
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import check_history, newest_lsn
from cdc_assets.planning.records import FactsRow
from cdc_assets.planning.snapshots import Snapshot
from cdc_assets.planning.waves import WaveCommit, Waves, check_stamp, hours_between
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.catalog import Captured
from cdc_assets.sqlserver.connection import Connection


@dataclass(frozen=True, slots=True)
class Look:
    """The source and the lake as they were seen before a wave.

    `watermark` (UTC) is the commit time up to which cleanup has deleted.
    """

    known: Known
    opened: Snapshot
    bronze: DeltaTable
    instance: CaptureInstance
    poll: Poll
    position: Offset
    columns: Captured
    declared: tuple[Column, ...]
    waves: Waves
    watermark: datetime | None = None

    @property
    def headroom_hours(self) -> float | None:
        """How far cleanup is behind the changes that were read."""
        return hours_between(self.watermark, self.position.commit_ts)

    @property
    def table(self) -> TableName:
        """The table's names."""
        return self.known.name

    @property
    def next_wave(self) -> int:
        """The number of the next wave, which is its commit's version."""
        written = self.bronze.transaction_version(self.table.snapshot_app(self.opened.at.lsn))
        return 0 if written is None else written + 1


def look_before(database: Database, known: Known, opened: Snapshot, waves: Waves) -> Look:
    """Source and lake before a wave.

    Raises `DataLossError` where the changes after S are lost, `SourceBehindError` for a server that
    has not reached S, `HistoryChangedError` for one that is behind the position or lacks it: a
    restore or a fork, whose rows are not of this history. And `CaptureNotReadyError` where capture
    has given no LSN yet.
    """
    table = known.name
    bronze = existing_bronze(database, known)
    position = read_position(database, known)
    instance, poll = look_again(database, known, position)
    newest = newest_lsn(poll, instance)
    waits = poll.max is None and newest < opened.at.lsn
    if not waits:
        check_stamp(newest, opened.at.lsn, where=str(table))
        check_history(position, newest, where=str(table))
    loss = find_loss(position, known, instance, poll)
    if loss is not None:
        raise DataLossError(
            f"its chunked snapshot cannot be completed: {loss.what}",
            where=str(table),
            hint="The next sync does as `on_data_loss` says. A new snapshot abandons this one:"
            f" cdc-assets sync --resnapshot {str(table).replace('.', ' ', 1)}.",
        )
    if waits:
        raise CaptureNotReadyError(
            "capture has given no LSN yet", where=str(table), hint="The next backfill looks again."
        )
    with database.connections.lend() as connection:
        columns, declared = _columns(database, known, connection, (instance, poll), bronze)
        return Look(
            known=known,
            opened=opened,
            bronze=bronze,
            instance=instance,
            poll=poll,
            position=position,
            columns=columns,
            declared=declared,
            waves=waves,
            watermark=_watermark(connection, instance, poll),
        )


def can_go_on(
    database: Database, known: Known, opened: Snapshot, seen: tuple[CaptureInstance, Poll]
) -> bool:
    """Whether an open chunked snapshot's plan can be read on, as far as source and lake say now."""
    bronze = existing_bronze(database, known)
    with database.connections.lend() as connection:
        columns, _ = _columns(database, known, connection, seen, bronze)
    return plan_is_readable(database, known.name, opened.at.lsn, seen[0], columns)


def _watermark(connection: Connection, instance: CaptureInstance, poll: Poll) -> datetime:
    """The commit time of the instance's low watermark; its creation where none is mapped."""
    mark = poll.watermarks.get(instance.name) or instance.start_lsn
    found = first_commit_times(connection, [mark], poll.clock)
    return found.get(mark, poll.clock.to_utc(instance.identity.created_at, mark))


def _columns(
    database: Database,
    known: Known,
    connection: Connection,
    seen: tuple[CaptureInstance, Poll],
    bronze: DeltaTable,
) -> tuple[Captured, tuple[Column, ...]]:
    """The columns to load now, and all of the rows'; raises `SchemaChangedError`."""
    reader = known.reader(*seen)
    columns = columns_to_load(database, known.name, connection, reader, bronze)
    declared = declared_columns(bronze, columns, known.name)
    check_names(bronze, declared, where=str(known.name))
    return columns, declared


def stamp_of(connection: Connection, look: Look) -> Offset:
    """The stamp of a wave that is read from now on: every commit up to it is in the table.

    Its time never goes back along the log, whatever the clock did. Raises `SourceBehindError` for
    one below S.
    """
    at, poll = look.opened.at, look.poll
    lsn = newest_lsn(poll, look.instance)
    check_stamp(lsn, at.lsn, where=str(look.table))
    stamp = time_of(connection, lsn, look.instance, poll).no_earlier_than(at.commit_ts)
    before = furthest(o for o in (look.position, look.waves.stamp, at) if o and o.lsn <= lsn)
    if before is None:
        return stamp
    stamp = stamp.no_earlier_than(before.commit_ts)
    if before.lsn < lsn:
        found = latest_commit_ts(connection, poll.clock, before.lsn.next(), lsn)
        stamp = stamp.no_earlier_than(found or stamp.commit_ts)
    return stamp


def append_wave(
    database: Database, look: Look, plan: ChunkPlan, count: int, ready: Callable[[], None]
) -> tuple[WaveCommit, AppendResult]:
    """Read the next `count` chunks under one stamp, and append them as one commit.

    That is not made before `ready` returns, which waits until the wave before is told of. Gives
    what was planned; bronze may have another wave of its number, if another run was first.
    """
    table, waves = look.table, look.waves
    with database.connections.lend() as connection:
        stamp = stamp_of(connection, look)
        now = last_bound(connection, look.instance, look.columns, plan)
    if now != plan:
        # Before the read: what was read can then be known from the plan, whoever dies.
        now = database.lake.plans.close(table, now)
        faults.reach(FaultPoint.BOUND_STORED)
    chunks = waves.next_chunks(now, count)
    choice = _choice(database, look, chunks)
    commit = WaveCommit(
        app_id=table.snapshot_app(plan.snapshot),
        wave=look.next_wave,
        target=table.bronze,
        instance=look.instance.name,
        snapshot=plan.snapshot,
        stamp=stamp,
        plan_id=plan.plan_id,
        chunks=tuple(chunk.number for chunk in chunks),
        chunks_total=len(plan.chunks),
        engine=str(choice),
    )
    planned = AppendPlan(
        table=str(table),
        uri=table.bronze_uri,
        columns=look.declared,
        ranges=tuple(_range(database, look, commit, now, chunk) for chunk in chunks),
        tag=CommitTag(commit.app_id, commit.wave, commit.to_json()),
        max_value_bytes=database.settings.max_value_bytes,
        table_id=table_id(look.bronze),
        keeps_empty=True,
    )
    return commit, database.engine(choice).append(planned, ready)


def _choice(database: Database, look: Look, chunks: tuple[Chunk, ...]) -> EngineChoice:
    rows = sum(chunk.rows for chunk in chunks)
    return database.choose(look.table.key, beyond_arrow(look.bronze, look.declared), rows)


def _range(
    database: Database, look: Look, commit: WaveCommit, plan: ChunkPlan, chunk: Chunk
) -> ReadRange:
    columns = look.columns
    text, parameters = chunk_query(look.instance, columns, plan, chunk)
    return ReadRange(
        text,
        parameters,
        constants=(
            ("_capture_instance", database.settings.instance_of(look.table.key)),
            ("_start_lsn", str(commit.stamp.lsn)),
            ("_operation", str(int(Operation.SNAPSHOT))),
            ("_commit_ts", commit.stamp.commit_ts.isoformat()),
            ("_snapshot", str(commit.snapshot)),
            ("_chunk", str(chunk.number)),
        ),
        names=columns.names,
        largest=queries.largest_values(text, columns.selected, columns.unbounded),
    )


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
    database: Database, look: Look, reached: Reached, measure: WaveMeasure | None = None
) -> WaveCommit | None:
    """Write the facts of bronze's newest wave, if it is not known of, and give that.

    Then what is known of the waves is old: the next one must be planned from a new look.

    `reached` is where the source is after the read. Of a wave that another run read it is later,
    which is as true.
    """
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
