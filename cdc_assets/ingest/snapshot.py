"""Snapshots: the LSN is recorded first, then the table is read, a whole one as one bronze commit.

Every commit up to that LSN is in the table already; one the read also sees came later and is
read again as a change. The overlap only repeats, and nothing can be missed (seed 0016).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.contract import Column, Event, Operation, bronze_columns
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.chunked import check_mode, start_changes
from cdc_assets.ingest.chunking import extent_of
from cdc_assets.ingest.clock import commit_at_or_below, latest_commit_ts, read_clock
from cdc_assets.ingest.columns import columns_to_load
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.poll import read_max_lsn
from cdc_assets.ingest.prepared import (
    PreparedSnapshot,
    being_seeded,
    changes_start,
    check_changes_readable,
    column_warnings,
    open_snapshots,
    to_open,
)
from cdc_assets.ingest.ranges import Query, snapshot_ranges, table_rows
from cdc_assets.ingest.snapshot_events import completion
from cdc_assets.ingest.waiting import Taken, next_lsn
from cdc_assets.lake.bronze import snapshot_rows
from cdc_assets.lake.tables import beyond_arrow, check_names, columns_of, table_id
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import AppendPlan, AppendResult, CommitTag, EngineChoice, ReadRange
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import snapshot_lsn
from cdc_assets.planning.schemas import fit
from cdc_assets.planning.snapshots import Snapshot, Snapshots
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.catalog import Captured
from cdc_assets.sqlserver.connection import Connection

Constants = tuple[tuple[str, str | None], ...]
"""Columns that all rows of a read share, and their values as text."""


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """What a snapshot is taken for.

    `since` is how far the table was read: no row may come with an earlier time. `lost_from` (UTC)
    is where the gap begins that it closes. `wait` says whether somebody waits for it, should
    there be no LSN for it yet. `reader` is the instance that the changes after it are read from,
    where that is another one than the table was read from last: the rows have its columns. `anew`
    gives up an open chunked one for it.
    """

    since: Offset | None = None
    lost_from: datetime | None = None
    wait: bool = False
    reader: CaptureInstance | None = None
    anew: bool = False


FIRST = SnapshotRequest()
"""A table's first one, in a sync that comes again."""


def take_snapshot(
    database: Database,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    snapshots: Snapshots,
    request: SnapshotRequest = FIRST,
) -> TableOutcome:
    """Open a snapshot, or go on with the open one, and read it, unless it is read in chunks.

    A rerun after a crash finds what is there: rows in bronze are never read again, and it never
    gives a newer LSN than the rows it wrote. Raises `SnapshotWaitsError` where there is no LSN
    for it yet, and `SnapshotModeError` where one of the other mode is open.
    """
    prepared = prepare_snapshot(database, table, instance, poll, snapshots, request)
    opened = open_snapshots(database, [prepared])[table]
    if isinstance(opened, CdcError):
        raise opened
    return load_snapshot(database, opened)


def load_snapshot(database: Database, opened: PreparedSnapshot) -> TableOutcome:
    """Read an open snapshot; of a chunked one only the changes begin now."""
    if opened.snapshot.is_chunked:
        return start_changes(database, opened)
    return read_snapshot(database, opened)


def prepare_snapshot(
    database: Database,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    snapshots: Snapshots,
    request: SnapshotRequest = FIRST,
) -> PreparedSnapshot:
    """All that can fail before a snapshot is opened: grants, types, names, an LSN of its own.

    Raises `SchemaChangedError` for a type that bronze's cannot hold.
    """
    with database.connections.lend() as connection:
        reader = request.reader or instance
        check_changes_readable(connection, (instance, reader))
        existing = database.lake.bronze(table)
        if existing is not None and table_id(existing) in snapshots.discarded:
            existing = None
        columns = columns_to_load(database, table, connection, reader, existing)
        declared = declared_columns(existing, columns, table)
        bronze = database.lake.renew_bronze(table, declared, snapshots.discarded)
        check_names(bronze, declared, where=str(table))
        choice = _choice(database, connection, table, instance, beyond_arrow(bronze, declared))
        snapshot = usable_open(bronze, table, instance, poll, snapshots)
        _check_not_seeding(bronze, table, snapshot)
        if snapshot is not None and _is_given_up(snapshot, request):
            snapshot = None
        mode = database.settings.snapshot_of(table.key)
        check_mode(bronze, table, snapshot, mode)
        is_new, before, extent = snapshot is None, snapshots.newest, None
        if snapshot is None:
            snapshot = _planned(connection, instance, poll, snapshots, request)
            snapshot = replace(snapshot, reader=reader.identity, mode=mode)
            if snapshot.is_chunked:
                # After its S is known: what lies above the largest key now, the changes bring.
                chosen = database.settings.tables[table.key].chunk_column
                extent = extent_of(connection, instance, columns, chosen)
    prepared = PreparedSnapshot(
        table,
        poll,
        instance,
        columns,
        declared,
        bronze,
        choice,
        snapshot,
        before,
        extent=extent,
    )
    return to_open(prepared, snapshots) if is_new else prepared


def declared_columns(
    bronze: DeltaTable | None, columns: Captured, table: TableName
) -> tuple[Column, ...]:
    """All columns of a snapshot's rows; raises `SchemaChangedError`, as `fit` does."""
    if bronze is None:
        return bronze_columns(columns.declared)
    return fit(columns_of(bronze), columns.declared, table)


def _is_given_up(snapshot: Snapshot, request: SnapshotRequest) -> bool:
    """Whether an open snapshot is not what is asked for: it cannot close a gap that is found now.

    One that was opened for it can, before it is read; beside a chunked one the changes had begun.
    """
    if request.anew and snapshot.is_chunked:
        return True
    return request.lost_from is not None and (snapshot.lost_from is None or snapshot.is_chunked)


def read_snapshot(database: Database, prepared: PreparedSnapshot) -> TableOutcome:
    """Read an open snapshot into bronze; the sync then records that it is complete."""

    def read() -> AppendResult:
        columns = prepared.columns
        with database.connections.lend() as connection:
            count = database.settings.num_partitions
            ranges = snapshot_ranges(connection, prepared.instance, columns, count)
        constants = snapshot_constants(database, prepared)
        plan = snapshot_plan(
            database,
            prepared,
            read_ranges(columns, ranges, constants),
        )
        return database.engine(prepared.choice).append(plan)

    return write_snapshot(database, prepared, read)


def read_ranges(
    columns: Captured, ranges: Sequence[Query], constants: Constants
) -> tuple[ReadRange, ...]:
    """The queries of a whole snapshot, as what one connection each reads."""
    return tuple(
        ReadRange(
            text,
            values,
            constants,
            names=columns.names,
            largest=queries.largest_values(text, columns.selected, columns.unbounded),
        )
        for text, values in ranges
    )


def write_snapshot(
    database: Database, prepared: PreparedSnapshot, append: Callable[[], AppendResult]
) -> TableOutcome:
    """Append an open snapshot's rows, unless they are in bronze; gives what is to be recorded.

    Nothing is read where it is complete meanwhile: that of an empty table leaves no commit in
    bronze, and rows that came after its high mark are changes.
    """
    started_at = utc_now()
    table, snapshot = prepared.table, prepared.snapshot
    bronze, choice = prepared.bronze, prepared.choice
    result = AppendResult(committed=False)
    at, facts = snapshot.at, database.lake.facts
    if (
        bronze.transaction_version(table.snapshot_app(at.lsn)) is None
        and facts.version_of(table.done_app(at.lsn)) is None
    ):
        result = append()
    faults.reach(FaultPoint.SNAPSHOT_APPENDED)
    with database.connections.lend() as connection:
        high_mark = read_high_mark(connection, prepared.poll, snapshot.at)
    bronze.update_incremental()
    rows = result.rows if result.committed else snapshot_rows(bronze, snapshot.at.lsn)
    return TableOutcome(
        table=table.key,
        work=Work.SNAPSHOT,
        start=snapshot.at,
        end=snapshot.at,
        rows=rows or 0,
        read_seconds=result.read_seconds,
        read_mb=result.read_mb,
        network_wait_ms=result.network_wait_ms,
        started_at=started_at,
        duration_seconds=(utc_now() - started_at).total_seconds(),
        engine=str(choice),
        warnings=column_warnings(database, prepared),
        columns=columns_of(bronze),
        facts=(completion(table, replace(snapshot, high_mark=high_mark), rows, str(choice)),),
        progress=changes_start(database, prepared),
    )


def _choice(
    database: Database,
    connection: Connection,
    table: TableName,
    instance: CaptureInstance,
    beyond_arrow: str,
) -> EngineChoice:
    """The engine that reads the table; how many rows it has is asked where that may matter."""
    rows = None
    if database.settings.spark.is_cluster:
        rows = table_rows(connection, instance)
    return database.choose(table.key, beyond_arrow, rows)


def _check_not_seeding(bronze: DeltaTable, table: TableName, opened: Snapshot | None) -> None:
    """Leave the table to the copy that it is being given: reading it may be what that avoids."""
    if opened is None or opened.as_of is None:
        return
    if bronze.transaction_version(table.snapshot_app(opened.at.lsn)) is None:
        raise being_seeded(table, opened.as_of)


def usable_open(
    bronze: DeltaTable,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    snapshots: Snapshots,
) -> Snapshot | None:
    """The open snapshot, unless cleanup passed it before any of its rows were written.

    The changes after a chunked one are read beside it: cleanup may pass its S.
    """
    opened = snapshots.open
    if opened is None or opened.is_chunked:
        return opened
    watermark = poll.watermarks.get(instance.name) or instance.start_lsn
    written = bronze.transaction_version(table.snapshot_app(opened.at.lsn)) is not None
    return opened if written or opened.at.lsn.next() >= watermark else None


def read_high_mark(connection: Connection, poll: Poll, at: Offset) -> datetime:
    """The latest commit time that a row of the read can have, in UTC.

    It is the server's time after the read, unless its clock was set back meanwhile: then it had
    gone at least as far as it would have without, and as the commits say that capture has
    processed since.
    """
    newest, first = read_max_lsn(connection), at.lsn.next()
    clock, _ = read_clock(connection, poll.clock.zone, first, newest)
    marks = [clock.utc_now, poll.utc_now_after(time.monotonic()), at.commit_ts]
    if newest is not None and newest >= first:
        marks.append(latest_commit_ts(connection, clock, first, newest) or at.commit_ts)
    return max(marks)


def _planned(
    connection: Connection,
    instance: CaptureInstance,
    poll: Poll,
    known: Snapshots,
    request: SnapshotRequest,
) -> Snapshot:
    """A new snapshot: of the table's first kind, or a further one, at an LSN of its own."""
    newest = known.newest
    at = time_of(connection, snapshot_lsn(poll, instance), instance, poll)
    last = max(at.lsn, newest.at.lsn) if newest is not None else at.lsn
    if at.lsn in known.used or last > at.lsn:
        at = next_lsn(connection, Taken(last, known.used), poll, wait=request.wait)
    for before in (request.since, newest.at if newest else None):
        if before is not None and before.lsn < at.lsn:
            # A clock may have been set back since: times do not go back along the log.
            found = latest_commit_ts(connection, poll.clock, before.lsn.next(), at.lsn)
            at = at.no_earlier_than(max(before.commit_ts, found or before.commit_ts))
    # Where the changes have begun beside a chunked one that is given up, they go on.
    goes_on = known.open_chunked is not None and request.lost_from is None
    is_first = known.complete is None and not goes_on
    kind = Event.BOOTSTRAP if is_first else Event.RESNAPSHOT
    return Snapshot(at, instance.index_columns, kind=kind, lost_from=request.lost_from)


def time_of(connection: Connection, lsn: Lsn, instance: CaptureInstance, poll: Poll) -> Offset:
    """An LSN with the time of the newest commit up to it, or else of the instance's creation."""
    if poll.max is not None and poll.max.lsn == lsn:
        return poll.max
    mapped = commit_at_or_below(connection, lsn, poll.clock)
    created = poll.clock.to_utc(instance.identity.created_at, lsn)
    return Offset(lsn, mapped.commit_ts if mapped else created)


def snapshot_constants(database: Database, prepared: PreparedSnapshot) -> Constants:
    """Our columns of a snapshot's rows, as text; those not among them are NULL."""
    return constants_at(prepared.snapshot.at, database.settings.instance_of(prepared.table.key))


def constants_at(at: Offset, instance: str) -> Constants:
    """The same for a snapshot at an LSN, of an instance as the settings name it."""
    return (
        ("_capture_instance", instance),
        ("_start_lsn", str(at.lsn)),
        ("_operation", str(int(Operation.SNAPSHOT))),
        ("_commit_ts", at.commit_ts.isoformat()),
        ("_snapshot", str(at.lsn)),
    )


def snapshot_plan(
    database: Database, prepared: PreparedSnapshot, ranges: tuple[ReadRange, ...] = ()
) -> AppendPlan:
    """The one commit of a whole snapshot."""
    table, at = prepared.table, prepared.snapshot.at
    metadata = json.dumps({"snapshot": prepared.instance.name, **at.to_dict()})
    return AppendPlan(
        table=str(table),
        uri=table.bronze_uri,
        columns=prepared.declared,
        ranges=ranges,
        tag=CommitTag(table.snapshot_app(at.lsn), 0, metadata),
        max_value_bytes=database.settings.max_value_bytes,
        table_id=table_id(prepared.bronze),
    )
