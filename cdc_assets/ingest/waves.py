"""One wave of a chunked snapshot: stamped, then read, and appended as one commit."""

from __future__ import annotations

from collections.abc import Callable

from cdc_assets import faults
from cdc_assets.contract import Operation
from cdc_assets.engines.database import Database
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.chunking import chunk_query, last_bound
from cdc_assets.ingest.clock import latest_commit_ts
from cdc_assets.ingest.looking import Look
from cdc_assets.ingest.snapshot import time_of
from cdc_assets.lake.tables import beyond_arrow, table_id
from cdc_assets.planning.chunks import Chunk, ChunkPlan
from cdc_assets.planning.offsets import Offset, furthest
from cdc_assets.planning.plans import AppendPlan, AppendResult, CommitTag, EngineChoice, ReadRange
from cdc_assets.planning.positions import newest_lsn
from cdc_assets.planning.waves import WaveCommit, check_stamp
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.connection import Connection


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
