"""What a stream reads next: the sync's own planning, for Spark to ask."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc_assets.contract import Column, change_columns
from cdc_assets.engines.database import Database
from cdc_assets.ingest.batch import commit_times, piece_range
from cdc_assets.ingest.clock import read_clock
from cdc_assets.ingest.columns import columns_to_load
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.parts import Part, batch_end, counted_parts, split
from cdc_assets.ingest.poll import poll_database, read_max_lsn
from cdc_assets.ingest.ranges import snapshot_ranges
from cdc_assets.ingest.schema import FittedColumns, check_policy, ddl_changes
from cdc_assets.ingest.snapshot import constants_at, read_ranges, time_of
from cdc_assets.ingest.stream.places import query_database, settings_of
from cdc_assets.ingest.sync import known_tables
from cdc_assets.lake.lake import Lake
from cdc_assets.lsn import Lsn
from cdc_assets.names import DatabaseName
from cdc_assets.planning.generations import Generation
from cdc_assets.planning.instances import siblings
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import ReadRange
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import (
    check_continues,
    check_history,
    newest_lsn,
    readable_end,
)
from cdc_assets.planning.schemas import fit
from cdc_assets.planning.snapshots import Snapshots
from cdc_assets.settings import DatabaseSettings
from cdc_assets.settings.options import EARLIEST, LATEST, Options, read_options
from cdc_assets.sqlserver.catalog import Captured, capture_instances
from cdc_assets.sqlserver.connection import Connection, SourceConnection, with_retries

_log = logging.getLogger(__name__)


def planner_of(given: Mapping[str, str]) -> SourcePlanner:
    """A planner for `spark.readStream.format("mssql_cdc")`, in any process; `SettingsError`."""
    options = read_options(given)
    database, table, settings = settings_of(options)
    return SourcePlanner(query_database(settings, database), table, options)


@dataclass
class SourcePlanner:
    """Plans a stream into any sink: it knows the source and Spark's offsets, and no lake."""

    database: Database
    key: str
    options: Options = field(default_factory=Options)

    @property
    def commits_max(self) -> int | None:
        """Commits with rows that one micro-batch may hold."""
        return self.database.settings.max_commits_per_batch_of(self.key)

    @property
    def source(self) -> SourceConnection:
        """How tasks reach the server."""
        return self.database.source

    @property
    def value_bytes_max(self) -> int:
        """Largest value that is read."""
        return self.database.settings.max_value_bytes

    def columns(self) -> tuple[Column, ...]:
        """The captured columns with those that every change has.

        Raises `UnsupportedColumnError`, `CaptureInstanceUnknownError`.
        """

        def found() -> tuple[Column, ...]:
            with self.database.connections.lend() as connection:
                instance = self._current(capture_instances(connection), self._known(None))
                return change_columns(self._captured(connection, instance).declared)

        return with_retries(found)

    def initial(self) -> Offset:
        """Where `startingLsn` says; a new instance starts above max_lsn, and so does this."""

        def found() -> Offset:
            known = self._known(None)
            with self.database.connections.lend() as connection:
                instance, poll = self._look(connection, known, None)
                return time_of(connection, self._starting(instance, poll), instance, poll)

        return with_retries(found)

    def newest(self) -> Offset | None:
        """How far capture is."""

        def found() -> Offset | None:
            with self.database.connections.lend() as connection:
                lsn = read_max_lsn(connection)
                if lsn is None:
                    return None
                zone = self.database.settings.source_time_zone
                _, commit = read_clock(connection, zone, lsn, lsn)
                return None if commit is None else Offset(lsn, commit.commit_ts)

        return with_retries(found)

    def latest(self, start: Offset, *, limited: bool, until: Offset | None) -> Offset:
        """max_lsn, or the last commit that the limit lets in.

        Raises `HistoryChangedError` for a start above all that the server has given, and
        `DataLossError` where the changes after it are not all there any more.
        """

        def found() -> Offset:
            known = self._known(start)
            with self.database.connections.lend() as connection:
                instance, poll = self._look(connection, known, start.lsn)
                check_history(start, newest_lsn(poll, instance), known.name)
                self._check(known, start, instance, poll)
                poll = up_to(poll, until)
                end = readable_end(poll, start)
                if not limited or end.lsn <= start.lsn:
                    return end
                chain = known.chain(instance, poll)
                return batch_end(connection, self.database, known.name, poll, chain, start)

        return with_retries(found)

    def ranges(
        self, start: Offset, end: Offset, columns: tuple[Column, ...]
    ) -> tuple[ReadRange, ...]:
        """The rows of (start, end] as the sync would read them, counted and guarded.

        Raises `DataLossError`, and `SchemaChangedError` for a type that the query's does not hold.
        """
        if end.lsn <= start.lsn:
            return ()
        return with_retries(lambda: self._ranges(start, end, columns))

    def snapshot(self) -> tuple[ReadRange, ...]:
        """The table as it is now, stamped with an LSN recorded before it is read (seed 0016).

        A stream that starts after that LSN reads again what was committed meanwhile. Raises
        `HistoryChangedError` for a `snapshotLsn` that is still to come.
        """

        def found() -> tuple[ReadRange, ...]:
            known = self._known(None)
            with self.database.connections.lend() as connection:
                instance, poll = self._look(connection, known, None)
                newest = newest_lsn(poll, instance)
                at = time_of(connection, self.options.get("snapshotLsn", newest), instance, poll)
                check_history(at, newest, known.name, name="snapshotLsn")
                columns = columns_to_load(self.database, known.name, connection, instance, None)
                count = self.database.settings.num_partitions
                ranges = snapshot_ranges(connection, instance, columns, count)
            wanted = self.database.settings.instance_of(self.key)
            return read_ranges(columns, ranges, constants_at(at, wanted))

        return with_retries(found)

    def _ranges(
        self, start: Offset, end: Offset, columns: tuple[Column, ...]
    ) -> tuple[ReadRange, ...]:
        known = self._known(start)
        table, between = known.name, (start.lsn.next(), end.lsn)
        with self.database.connections.lend() as connection:
            instance, poll = self._look(connection, known, start.lsn)
            check_history(end, newest_lsn(poll, instance), table)
            poll, chain = replace(poll, max=end), known.chain(instance, poll)
            check_continues(start, chain, poll, where=str(table))
            told = ddl_changes(connection, chain, poll, *between)
            check_policy(self.database, table, told)
            for change in told:
                _log.warning("%s: %s", table, change)
            parts = counted_parts(connection, self.database, table, poll, chain, between)
            parts = [part for part in parts if part.rows]
            selected = self._fitted(connection, parts, columns)
            pieces = [piece for part in parts for piece in split(connection, self.database, part)]
            _, floors = commit_times(connection, poll, start, end, pieces)
        return tuple(
            piece_range(piece, floor, 0, selected, poll)
            for piece, floor in zip(pieces, floors, strict=True)
        )

    def _fitted(
        self, connection: Connection, parts: list[Part], columns: tuple[Column, ...]
    ) -> FittedColumns:
        selected = {}
        for part in parts:
            captured = self._captured(connection, part.instance)
            fit(columns, captured.declared, self.database.table(self.key))
            selected[part.instance.name] = captured
        return FittedColumns(columns, selected)

    def _captured(self, connection: Connection, instance: CaptureInstance) -> Captured:
        table = self.database.table(self.key)
        return columns_to_load(self.database, table, connection, instance, None, of_changes=True)

    def _check(self, known: Known, start: Offset, instance: CaptureInstance, poll: Poll) -> None:
        check_continues(start, known.chain(instance, poll), poll, where=str(known.name))

    def _starting(self, instance: CaptureInstance, poll: Poll) -> Lsn:
        wanted = self.options.get("startingLsn", EARLIEST)
        if wanted == LATEST:
            return newest_lsn(poll, instance)
        if wanted == EARLIEST:
            return (poll.watermarks.get(instance.name) or instance.start_lsn).previous()
        assert isinstance(wanted, Lsn)  # noqa: S101 - nothing else is read as one
        return wanted

    def _known(self, start: Offset | None) -> Known:
        """What the offsets say of the table; there is no lake to ask."""
        name = self.database.table(self.key)
        return Known(name, None, Snapshots(), None, position=start, recorded_end=start)

    def _current(self, listed: Mapping[str, CaptureInstance], known: Known) -> CaptureInstance:
        return known.current(listed, self.database.settings.instance_of(self.key))

    def _look(
        self, connection: Connection, known: Known, first: Lsn | None
    ) -> tuple[CaptureInstance, Poll]:
        """The table's instance and a poll of it; its clock knows what lies after `first`."""
        listed = capture_instances(connection)
        instance = self._current(listed, known)
        first = first or instance.start_lsn.previous()
        found = {one.name: one for one in siblings(listed, instance)}
        zone = self.database.settings.source_time_zone
        poll = poll_database(connection, found, {instance.name: first}, zone)
        return self._current(poll.instances, known), poll


@dataclass
class OffsetPlanner(SourcePlanner):
    """Plans a stream into bronze: offsets alone, since the sink reads as a sync does.

    Which instance is read for which LSNs is what the lake has recorded.
    """

    generation: Generation | None = None

    def columns(self) -> tuple[Column, ...]:
        """A frame without rows needs one all the same."""
        return (Column("lsn", "STRING"),)

    def initial(self) -> Offset:
        """Where the generation began; before there is one, where `startingLsn` says."""
        return self.generation.start if self.generation else super().initial()

    def ranges(
        self, start: Offset, end: Offset, columns: tuple[Column, ...]
    ) -> tuple[ReadRange, ...]:
        """Nothing: the sink reads them."""
        return ()

    def snapshot(self) -> tuple[ReadRange, ...]:
        """Nothing either: a stream's snapshot is taken as a sync takes it."""
        return ()

    def _check(self, known: Known, start: Offset, instance: CaptureInstance, poll: Poll) -> None:
        """Left to the sink, which knows the table's position: it may be further than Spark's."""

    def _known(self, start: Offset | None) -> Known:
        if self.generation is None:
            return super()._known(start)
        newest_rows = functools.cache(self.database.lake.facts.newest_rows)
        (known,) = known_tables(self.database, [self.key], newest_rows)
        return replace(known, position=start, recorded_end=start)


@dataclass(frozen=True)
class OffsetPlanning:
    """Makes the planner of a stream into bronze, in Spark's own process for it."""

    name: DatabaseName
    settings: DatabaseSettings
    key: str
    generation: Generation

    def __call__(self, _: Mapping[str, str]) -> OffsetPlanner:
        """The planner; no option says anything."""
        lake = Lake(self.name, self.settings.storage_options)
        database = Database(self.name, self.settings, lake)
        return OffsetPlanner(database, self.key, generation=self.generation)


def up_to(poll: Poll, until: Offset | None) -> Poll:
    """The poll as if capture had come no further."""
    is_past = until is not None and poll.max is not None and poll.max.lsn > until.lsn
    return replace(poll, max=until) if is_past else poll
