"""One batch: the changes after a position, from each instance that holds them, as one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deltalake import DeltaTable

from cdc_assets.contract import Operation
from cdc_assets.engines.database import Database
from cdc_assets.errors import DataLossError
from cdc_assets.ingest.clock import latest_commit_ts
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.schema import FittedColumns, check_policy, ddl_changes, fitted_columns
from cdc_assets.lake.tables import beyond_arrow, check_names
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.instances import Reader, segments
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import AppendPlan, AppendResult, CommitTag, Guard, ReadRange
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import readable_end
from cdc_assets.planning.ranges import ROWS_PER_RANGE_MIN, change_ranges
from cdc_assets.planning.records import ChangeCommit, ChangeCounts
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.connection import Connection
from cdc_assets.sqlserver.read import check_guard


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
class _Part:
    """A closed range of one instance, as the server counted it."""

    instance: CaptureInstance
    first: Lsn
    last: Lsn
    counted: Sequence[Mapping[str, Any]]

    @property
    def rows(self) -> int:
        return sum(row["row_count"] for row in self.counted)

    @property
    def guard(self) -> Guard:
        return Guard(
            self.instance.name,
            self.first,
            self.instance.start_lsn,
            self.instance.identity.change_object_id,
        )


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one connection reads."""

    part: _Part
    first: Lsn
    last: Lsn
    rows: int


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
    bronze, position = head.bronze, head.position
    end = readable_end(poll, position)
    nothing = (None, AppendResult(committed=False))
    if position.lsn >= end.lsn:
        return nothing
    table = known.name
    with database.connections.lend() as connection:
        parts = _parts(connection, poll, chain, (position.lsn.next(), end.lsn), table)
        counts = _counted([row for part in parts for row in part.counted], poll, position)
        if counts is None:
            return nothing
        since = known.snapshots.position([head.written]) or position
        told = ddl_changes(connection, chain, poll, since.lsn.next(), end.lsn)
        check_policy(database, table, told)
        read = [part.instance for part in parts if part.rows]
        columns = fitted_columns(database, table, connection, bronze, read)
        check_names(bronze, columns.declared, where=str(table))
        beyond = beyond_arrow(bronze, columns.declared)
        choice = database.choose(table.key, beyond, counts.rows)
        pieces = [p for part in parts if part.rows for p in _split(connection, part, database)]
        end, floors = _times(connection, poll, position, end, pieces)
    # After a reset, bronze may be a new table: ids go on after those that the facts know.
    batch_id = max(bronze.transaction_version(table.changes_app) or 0, head.recorded) + 1
    commit = ChangeCommit(
        table.changes_app, batch_id, table.bronze, position, end, counts, str(choice), told
    )
    ranges = tuple(
        _range(piece, floor, batch_id, columns, poll)
        for piece, floor in zip(pieces, floors, strict=True)
    )
    tag = CommitTag(commit.app_id, batch_id, commit.to_json())
    plan = AppendPlan(
        str(table),
        table.bronze_uri,
        columns.declared,
        ranges,
        tag,
        max_value_bytes=database.settings.max_value_bytes,
    )
    return commit, database.engine(choice).append(plan)


def _parts(
    connection: Connection,
    poll: Poll,
    chain: Sequence[Reader],
    between: tuple[Lsn, Lsn],
    table: TableName,
) -> list[_Part]:
    """What each instance holds of a closed range; all of them were found listed."""
    parts = []
    for segment in segments(chain, *between):
        instance = poll.listed(segment.identity)
        assert instance is not None  # noqa: S101 - check_continues said so
        if instance.name in poll.errors:
            raise poll.errors[instance.name]
        rows = connection.rows(
            queries.count_changes(instance.name),
            queries.closed_range(segment.first, segment.last),
        )
        part = _Part(instance, segment.first, segment.last, rows)
        if not rows:
            # A purged range counts as empty: "nothing there" needs the same proof as a read.
            check_guard(connection, part.guard, where=str(table))
        parts.append(part)
    return parts


def _range(
    piece: _Piece, floor: datetime, batch_id: int, columns: FittedColumns, poll: Poll
) -> ReadRange:
    name = piece.part.instance.name
    captured = columns.selected[name]
    return ReadRange(
        text=queries.read_changes(name, captured.selected),
        names=(*queries.CHANGE_NAMES, *captured.names),
        parameters=queries.closed_range(piece.first, piece.last),
        constants=(("_capture_instance", name), ("_batch_id", str(batch_id))),
        utc_offsets=poll.clock.steps,
        commit_ts_floor=floor,
        guard=piece.part.guard,
        rows=piece.rows,
        largest=queries.largest_values(
            queries.read_changes(name, captured.selected, ordered=False),
            captured.selected,
            captured.unbounded,
            before=len(queries.CHANGE_NAMES),
        ),
    )


def _times(
    connection: Connection,
    poll: Poll,
    position: Offset,
    end: Offset,
    pieces: Sequence[_Piece],
) -> tuple[Offset, list[datetime]]:
    """The end with the latest commit time up to it, and each piece's floor: what lies before it.

    A clock may have been set back in between; times never go backwards along the log.
    """
    latest, floors = position.commit_ts, []
    for piece in pieces:
        floors.append(latest)
        found = latest_commit_ts(connection, poll.clock, piece.first, piece.last)
        latest = max(latest, found or latest)
    return end.no_earlier_than(latest), floors


def _counted(
    rows: Sequence[Mapping[str, Any]], poll: Poll, position: Offset
) -> ChangeCounts | None:
    """What the range holds, as the server counted it; a closed range only changes by cleanup."""
    if not rows:
        return None

    def count(operation: Operation) -> int:
        return sum(row["row_count"] for row in rows if row["operation"] == operation)

    def utc(row: Mapping[str, Any], end: str) -> datetime:
        local, lsn = row[f"{end}_commit_ts"], Lsn.parse(row[f"{end}_lsn"])
        if local is None:
            # Cleanup took the commit's time between the two tables of the count.
            raise DataLossError(
                f"the commit {lsn} is being removed by cleanup", hint="Sync more often."
            )
        return max(poll.clock.to_utc(local, lsn), position.commit_ts)

    return ChangeCounts(
        rows=sum(row["row_count"] for row in rows),
        deletes=count(Operation.DELETE),
        inserts=count(Operation.INSERT),
        updates=count(Operation.AFTER),
        min_lsn=Lsn.parse(min(row["min_lsn"] for row in rows)),
        max_lsn=Lsn.parse(max(row["max_lsn"] for row in rows)),
        min_commit_ts=min(utc(row, "min") for row in rows),
        max_commit_ts=max(utc(row, "max") for row in rows),
    )


def _split(connection: Connection, part: _Part, database: Database) -> list[_Piece]:
    """The part, or several pieces where it is large enough for several connections."""
    parts = min(database.settings.num_partitions, part.rows // ROWS_PER_RANGE_MIN)
    if parts <= 1:
        return [_Piece(part, part.first, part.last, part.rows)]
    rows = connection.rows(
        queries.split_changes(part.instance.name, parts),
        queries.closed_range(part.first, part.last),
    )
    tiles = [(Lsn.parse(row["end_lsn"]), row["row_count"]) for row in rows]
    return [_Piece(part, *piece) for piece in change_ranges(part.first, part.last, tiles)]
