"""One batch: the changes after a position, from each instance that holds them, as one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from deltalake import DeltaTable

from cdc_assets.contract import Operation
from cdc_assets.engines.database import Database
from cdc_assets.errors import DataLossError
from cdc_assets.ingest.clock import latest_commit_ts
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.parts import Piece, batch_end, counted_parts, split
from cdc_assets.ingest.schema import FittedColumns, check_policy, ddl_changes, fitted_columns
from cdc_assets.lake.tables import beyond_arrow, check_names, table_id
from cdc_assets.lsn import Lsn
from cdc_assets.planning.instances import Reader
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import AppendPlan, AppendResult, CommitTag, EngineChoice, ReadRange
from cdc_assets.planning.polls import Poll
from cdc_assets.planning.positions import readable_end
from cdc_assets.planning.records import ChangeCommit, ChangeCounts
from cdc_assets.planning.schemas import DdlChange
from cdc_assets.sqlserver import change_queries as queries
from cdc_assets.sqlserver.connection import Connection
from cdc_assets.sqlserver.queries import largest_values


@dataclass(frozen=True, slots=True)
class Head:
    """Where a batch begins: the table's position, and how far its own change commits reach.

    `recorded` is the newest batch that the facts knew *before* bronze was looked at: asked for
    later, another sync's batch would give this one an id of its own, and the rows come twice.
    """

    bronze: DeltaTable
    position: Offset
    written: Offset | None
    recorded: int


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is to be read and committed; `floors` are the pieces' (see `commit_times`)."""

    end: Offset
    counts: ChangeCounts
    told: tuple[DdlChange, ...]
    columns: FittedColumns
    choice: EngineChoice
    pieces: Sequence[Piece]
    floors: Sequence[datetime]


def append_batch(
    database: Database,
    known: Known,
    poll: Poll,
    chain: Sequence[Reader],
    head: Head,
) -> tuple[ChangeCommit | None, AppendResult]:
    """Plan and append one batch; None where there is nothing after the position.

    The schema is looked at before any row is read: `SchemaChangedError`.
    """
    bronze, position, table = head.bronze, head.position, known.name
    batch = None
    if position.lsn < readable_end(poll, position).lsn:
        with database.connections.lend() as connection:
            batch = _planned(connection, database, known, poll, chain, head)
    if batch is None:
        return None, AppendResult(committed=False)
    # After a reset, bronze may be a new table: ids go on after those that the facts know.
    batch_id = max(bronze.transaction_version(table.changes_app) or 0, head.recorded) + 1
    commit = ChangeCommit(
        app_id=table.changes_app,
        batch_id=batch_id,
        target=table.bronze,
        start=position,
        end=batch.end,
        counts=batch.counts,
        engine=str(batch.choice),
        events=batch.told,
        stream=known.stream.mark if known.stream else None,
    )
    plan = AppendPlan(
        str(table),
        table.bronze_uri,
        batch.columns.declared,
        tuple(
            piece_range(piece, floor, batch_id, batch.columns, poll)
            for piece, floor in zip(batch.pieces, batch.floors, strict=True)
        ),
        CommitTag(commit.app_id, batch_id, commit.to_json()),
        max_value_bytes=database.settings.max_value_bytes,
        table_id=table_id(bronze),
    )
    return commit, database.engine(batch.choice).append(plan)


def _planned(
    connection: Connection,
    database: Database,
    known: Known,
    poll: Poll,
    chain: Sequence[Reader],
    head: Head,
) -> _Batch | None:
    """The next batch as server and settings have it; None where there is no row for it."""
    bronze, position, table = head.bronze, head.position, known.name
    end = batch_end(connection, database, table, poll, chain, position)
    between = (position.lsn.next(), end.lsn)
    parts = counted_parts(connection, database, table, poll, chain, between)
    counts = _counted([row for part in parts for row in part.counted], poll, position)
    if counts is None:
        return None
    since = known.snapshots.position([head.written]) or position
    told = ddl_changes(connection, chain, poll, since.lsn.next(), end.lsn)
    check_policy(database, table, told)
    parts = [part for part in parts if part.rows]
    columns = fitted_columns(database, table, connection, bronze, [p.instance for p in parts])
    check_names(bronze, columns.declared, where=str(table))
    choice = database.choose(table.key, beyond_arrow(bronze, columns.declared), counts.rows)
    pieces = [piece for part in parts for piece in split(connection, database, part)]
    end, floors = commit_times(connection, poll, position, end, pieces)
    if end.commit_ts > counts.max_commit_ts:
        counts = _with_latest(connection, poll, counts, pieces[-1], floors[-1])
    return _Batch(end, counts, told, columns, choice, pieces, floors)


def piece_range(
    piece: Piece, floor: datetime, batch_id: int, columns: FittedColumns, poll: Poll
) -> ReadRange:
    """What one connection reads: the piece's rows, `floor` the least time that they may have."""
    part, seeks = piece.part, piece.span.seeks
    captured = columns.selected[part.instance.name]
    return ReadRange(
        text=queries.read_changes(part.table, captured.selected, seeks),
        names=(*queries.CHANGE_NAMES, *captured.names),
        parameters=queries.parameters(seeks),
        constants=(("_capture_instance", part.instance.name), ("_batch_id", str(batch_id))),
        utc_offsets=poll.clock.steps,
        commit_ts_floor=floor,
        guard=part.guard,
        rows=piece.span.rows,
        largest=largest_values(
            queries.read_changes(part.table, captured.selected, seeks, ordered=False),
            captured.selected,
            captured.unbounded,
            before=len(queries.CHANGE_NAMES),
        ),
    )


def commit_times(
    connection: Connection,
    poll: Poll,
    position: Offset,
    end: Offset,
    pieces: Sequence[Piece],
) -> tuple[Offset, list[datetime]]:
    """The end with the latest commit time up to it, and each piece's floor: what lies before it.

    A clock may have been set back in between; times never go backwards along the log.
    """
    latest, floors = position.commit_ts, []
    for piece in pieces:
        floors.append(latest)
        found = latest_commit_ts(connection, poll.clock, piece.span.first, piece.span.last)
        latest = max(latest, found or latest)
    return end.no_earlier_than(latest), floors


def _with_latest(
    connection: Connection, poll: Poll, counts: ChangeCounts, piece: Piece, floor: datetime
) -> ChangeCounts:
    """The counts with the time that the last row carries, where the log has a later one.

    It is another table's, unless the clock went back before the last commit.
    """
    clock, first, last = poll.clock, piece.span.first, counts.max_lsn
    latest = max(counts.max_commit_ts, floor)
    found = latest_commit_ts(connection, clock, first, last)
    if found is not None and found > latest:
        own = latest_commit_ts(connection, clock, first, last, piece.part.instance.name)
        latest = max(latest, own or latest)
    return replace(counts, max_commit_ts=latest)


def _counted(
    rows: Sequence[Mapping[str, Any]], poll: Poll, position: Offset
) -> ChangeCounts | None:
    """What the range holds, as the server counted it; a closed range only changes by cleanup."""
    if not rows:
        return None

    def count(operation: Operation) -> int:
        return sum(row["row_count"] for row in rows if row["operation"] == operation)

    def at(row: Mapping[str, Any], end: str) -> Offset:
        local, lsn = row[f"{end}_commit_ts"], Lsn.parse(row[f"{end}_lsn"])
        if local is None:
            # Cleanup took the commit's time between the two tables of the count.
            raise DataLossError(
                f"the commit {lsn} is being removed by cleanup", hint="Sync more often."
            )
        return Offset(lsn, max(poll.clock.to_utc(local, lsn), position.commit_ts))

    # By LSN, not by time: a clock may have been set back between the two.
    first = min((at(row, "min") for row in rows), key=lambda offset: offset.lsn)
    last = max((at(row, "max") for row in rows), key=lambda offset: offset.lsn)
    return ChangeCounts(
        rows=sum(row["row_count"] for row in rows),
        deletes=count(Operation.DELETE),
        inserts=count(Operation.INSERT),
        updates=count(Operation.AFTER),
        min_lsn=first.lsn,
        max_lsn=last.lsn,
        min_commit_ts=first.commit_ts,
        max_commit_ts=max(first.commit_ts, last.commit_ts),
    )
