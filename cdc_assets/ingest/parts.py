"""What a batch holds before it is read: where it ends, how many rows, in which pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cdc_assets.engines.database import Database
from cdc_assets.errors import DataLossError
from cdc_assets.ingest.clock import commit_at_or_below
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.instances import Reader, segments
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import Guard
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import readable_end
from cdc_assets.planning.ranges import Seek, Span, Tile, cut, range_count, spans
from cdc_assets.planning.records import Identity
from cdc_assets.sqlserver import change_queries as queries
from cdc_assets.sqlserver.change_queries import ChangeTable
from cdc_assets.sqlserver.connection import Connection
from cdc_assets.sqlserver.read import check_guard


@dataclass(frozen=True, slots=True)
class Part:
    """A closed range of one instance, as the server counted it."""

    instance: CaptureInstance
    table: ChangeTable
    first: Lsn
    last: Lsn
    counted: Sequence[Mapping[str, Any]]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(row["row_count"] for row in self.counted)

    @property
    def guard(self) -> Guard:
        """The test that nothing of it was missing when it was read."""
        return Guard(
            self.instance.name,
            self.first,
            self.instance.start_lsn,
            self.instance.identity.change_object_id,
        )


@dataclass(frozen=True, slots=True)
class Piece:
    """What one connection reads."""

    part: Part
    span: Span


def batch_end(
    connection: Connection,
    database: Database,
    table: TableName,
    poll: Poll,
    chain: Sequence[Reader],
    position: Offset,
) -> Offset:
    """How far the next batch goes: to the poll's max_lsn, or to its last commit that may be in it.

    `max_commits_per_batch` counts commits with rows for this table: what others have committed
    and the log's idle entries are passed in one step, after the last of ours too.
    """
    end = readable_end(poll, position)
    limit = database.settings.max_commits_per_batch_of(table.key)
    if limit is None or position.lsn >= end.lsn:
        return end
    between = segments(chain, position.lsn.next(), end.lsn)
    names = [_listed(poll, segment.identity).name for segment in between]
    found = connection.rows(
        queries.nth_commit(names, limit),
        [lsn for segment in between for lsn in queries.closed_range(segment.first, segment.last)],
    )
    if len(found) < 2:
        return end
    last = Lsn.parse(found[0]["lsn"])
    commit = commit_at_or_below(connection, last, poll.clock)
    if commit is None or commit.lsn != last:
        raise DataLossError(
            f"the commit {last} is being removed by cleanup", hint="Sync more often."
        )
    return commit.no_earlier_than(position.commit_ts)


def counted_parts(
    connection: Connection,
    database: Database,
    table: TableName,
    poll: Poll,
    chain: Sequence[Reader],
    between: tuple[Lsn, Lsn],
) -> list[Part]:
    """What each instance holds of a closed range; all of them were found listed."""
    has_command_id = database.settings.include_command_id_of(table.key)
    parts = []
    for segment in segments(chain, *between):
        instance = _listed(poll, segment.identity)
        rows = connection.rows(
            queries.count_changes(instance.name),
            queries.closed_range(segment.first, segment.last),
        )
        changes = ChangeTable(instance.name, has_command_id)
        part = Part(instance, changes, segment.first, segment.last, rows)
        if not rows:
            # A purged range counts as empty: "nothing there" needs the same proof as a read.
            check_guard(connection, part.guard, where=str(table))
        parts.append(part)
    return parts


def split(connection: Connection, database: Database, part: Part) -> list[Piece]:
    """The part, or several pieces where it is large enough for several connections.

    A commit that is larger than a piece should be is cut too, by command and by row. Raises
    `DataLossError` where the server has other rows by now than it counted.
    """
    settings = database.settings
    whole = Seek((), str(part.first), str(part.last), part.rows)
    count = range_count(part.rows, settings.num_partitions, settings.rows_per_range_min)
    seeks = [whole]
    if count > 1:
        rows_max, tiles = -(-part.rows // count), partial(_tiles, connection, part.table)
        seeks = cut(_narrowed(part, whole), len(part.table.key), rows_max, tiles)
    found = sum(seek.rows for seek in seeks)
    if found != part.rows:
        raise DataLossError(
            f"{part.rows} changes of {part.instance.name} were counted, and then {found}",
            hint="Changes vanished while they were planned; run again to see how far cleanup went.",
        )
    return [Piece(part, span) for span in spans(whole, seeks, count, settings.rows_per_range_min)]


def _narrowed(part: Part, whole: Seek) -> Seek:
    """The part's only commit, if it has no other: then there is nothing to cut between commits."""
    first = min(row["min_lsn"] for row in part.counted)
    last = max(row["max_lsn"] for row in part.counted)
    return Seek((), first, last, whole.rows) if first == last else whole


def _tiles(connection: Connection, table: ChangeTable, seek: Seek, count: int) -> list[Tile]:
    rows = connection.rows(queries.tile_changes(table, seek, count), queries.parameters([seek]))
    return [Tile(row["first_value"], row["last_value"], row["row_count"]) for row in rows]


def _listed(poll: Poll, identity: Identity) -> CaptureInstance:
    """An instance that was found listed; raises what the server refused to say of it."""
    instance = poll.listed(identity)
    assert instance is not None  # noqa: S101 - check_continues said so
    if instance.name in poll.errors:
        raise poll.errors[instance.name]
    return instance
