"""A whole snapshot: the LSN is recorded first, then the table is read, as one bronze commit.

Every commit up to that LSN is in the table already; one the read also sees came later and is
read again as a change. The overlap only repeats, and nothing can be missed (seed 0016).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.contract import Column, Event, Operation, bronze_columns
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError, TableReplacedError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.clock import commit_at_or_below, latest_commit_ts, read_clock
from cdc_assets.ingest.columns import columns_to_load, computed_left_out
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.poll import read_max_lsn
from cdc_assets.ingest.ranges import snapshot_ranges, table_rows
from cdc_assets.ingest.waiting import Taken, next_lsn
from cdc_assets.lake.bronze import snapshot_rows
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import beyond_arrow, check_names, table_id
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import BronzeProgress
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import AppendPlan, AppendResult, CommitTag, EngineChoice, ReadRange
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import snapshot_lsn
from cdc_assets.planning.records import event_row
from cdc_assets.planning.snapshots import Snapshot, Snapshots, snapshots_by_target
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.catalog import Captured
from cdc_assets.sqlserver.connection import Connection


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """What a snapshot is taken for.

    `since` is how far the table was read: no row may come with an earlier time. `lost_from` (UTC)
    is where the gap begins that it closes. `wait` says whether somebody waits for it, should
    there be no LSN for it yet.
    """

    since: Offset | None = None
    lost_from: datetime | None = None
    wait: bool = False


FIRST = SnapshotRequest()
"""A table's first one, in a sync that comes again."""


@dataclass(frozen=True, slots=True)
class PreparedSnapshot:
    """A snapshot that can be read, once it is opened: its `open_entry` written, if it has one."""

    table: TableName
    poll: Poll
    instance: CaptureInstance
    columns: Captured
    bronze: DeltaTable
    choice: EngineChoice
    snapshot: Snapshot
    before: Snapshot | None
    """The table's newest one before it."""
    open_entry: FactsEntry | None = None


def take_snapshot(
    database: Database,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    snapshots: Snapshots,
    request: SnapshotRequest = FIRST,
) -> TableOutcome:
    """Open a snapshot, or go on with the open one, and read it.

    A rerun after a crash finds what is there: rows in bronze are never read again, and it never
    gives a newer LSN than the rows it wrote. Raises `SnapshotWaitsError` where there is no LSN
    for it yet.
    """
    prepared = prepare_snapshot(database, table, instance, poll, snapshots, request)
    opened = open_snapshots(database, [prepared])[table]
    if isinstance(opened, CdcError):
        raise opened
    return read_snapshot(database, opened)


def prepare_snapshot(
    database: Database,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    snapshots: Snapshots,
    request: SnapshotRequest = FIRST,
) -> PreparedSnapshot:
    """All that can fail before a snapshot is opened: grants, types, names, an LSN of its own."""
    with database.connections.lend() as connection:
        # A snapshot whose changes may not be read would be hours for nothing.
        connection.rows(queries.probe_changes(instance.name))
        existing = database.lake.bronze(table)
        columns = columns_to_load(database, table, connection, instance, existing)
        declared = bronze_columns(columns.declared)
        bronze = database.lake.renew_bronze(table, declared, snapshots.discarded)
        check_names(bronze, declared, where=str(table))
        choice = _choice(database, connection, table, instance, beyond_arrow(bronze, declared))
        snapshot = _usable_open(bronze, table, instance, poll, snapshots)
        if snapshot is not None and snapshot.lost_from is None and request.lost_from is not None:
            snapshot = None  # It was opened before the gap that has to be closed.
        entry = None
        if snapshot is None:
            snapshot = _planned(connection, instance, poll, snapshots, request)
            snapshot = replace(snapshot, keys=columns.renamed(snapshot.keys))
            entry = _open_entry(table, instance, poll, snapshots, snapshot, str(choice))
    return PreparedSnapshot(
        table,
        poll,
        instance,
        columns,
        bronze,
        choice,
        snapshot,
        snapshots.newest,
        open_entry=entry,
    )


def open_snapshots(
    database: Database, prepared: Sequence[PreparedSnapshot]
) -> dict[TableName, PreparedSnapshot | CdcError]:
    """Record their LSNs before anything is read, in one commit; of two openers the first wins.

    Gives them as they were opened, which may be another sync's, or why one was not.
    """
    facts = database.lake.facts
    wanted = [one.open_entry for one in prepared if one.open_entry is not None]
    written = {entry.app_id for entry in facts.append(wanted)}
    lost = [one for one in prepared if one.open_entry and one.open_entry.app_id not in written]
    newest = snapshots_by_target(facts.events()) if lost else {}
    faults.reach(FaultPoint.SNAPSHOT_OPENED)
    return {
        one.table: _follow(database, one, newest[one.table.bronze]) if one in lost else one
        for one in prepared
    }


def _follow(
    database: Database, prepared: PreparedSnapshot, snapshots: Snapshots
) -> PreparedSnapshot | CdcError:
    """The snapshot that another sync has opened meanwhile, or that there is none to see."""
    other = snapshots.newest
    if other is None or other == prepared.before:
        return TableReplacedError(
            "the facts lack the event of a snapshot that was opened",
            where=str(prepared.table),
            hint=f"Were rows removed from {database.name.facts_uri} by hand? Restore it.",
        )
    return replace(prepared, snapshot=other)


def read_snapshot(database: Database, prepared: PreparedSnapshot) -> TableOutcome:
    """Read an open snapshot into bronze; the sync then records that it is complete."""
    started_at = utc_now()
    table, instance, snapshot = prepared.table, prepared.instance, prepared.snapshot
    bronze, columns = prepared.bronze, prepared.columns
    declared = bronze_columns(columns.declared)
    choice = prepared.choice
    result = AppendResult(committed=False)
    if bronze.transaction_version(table.snapshot_app(snapshot.at.lsn)) is None:
        with database.connections.lend() as connection:
            count = database.settings.num_partitions
            ranges = snapshot_ranges(connection, instance, columns, count)
        constants = _constants(database.settings.instance_of(table.key), snapshot.at)
        read = tuple(
            ReadRange(
                text,
                values,
                constants,
                names=columns.names,
                largest=queries.largest_values(text, columns.selected, columns.unbounded),
            )
            for text, values in ranges
        )
        plan = _plan(table, declared, read, instance, snapshot)
        plan = replace(plan, max_value_bytes=database.settings.max_value_bytes)
        result = database.engine(choice).append(plan)
    faults.reach(FaultPoint.SNAPSHOT_APPENDED)
    with database.connections.lend() as connection:
        high_mark = _high_mark(connection, prepared)
    bronze.update_incremental()
    rows = result.rows if result.committed else snapshot_rows(bronze, snapshot.at.lsn)
    return TableOutcome(
        table=table.key,
        work=Work.SNAPSHOT,
        start=snapshot.at,
        end=snapshot.at,
        rows=rows,
        read_seconds=result.read_seconds,
        read_mb=result.read_mb,
        network_wait_ms=result.network_wait_ms,
        started_at=started_at,
        duration_seconds=(utc_now() - started_at).total_seconds(),
        engine=str(choice),
        warnings=computed_left_out(columns),
        facts=(_completion(table, replace(snapshot, high_mark=high_mark), rows, str(choice)),),
        progress=BronzeProgress(
            table_name=table.bronze,
            end=snapshot.at,
            identity=instance.identity,
            granularity=database.settings.finality_of(table.key).granularity,
            table_id=table_id(bronze),
        )
        if snapshot.moves_position
        else None,
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


def _usable_open(
    bronze: DeltaTable,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    snapshots: Snapshots,
) -> Snapshot | None:
    """The open snapshot, unless cleanup passed it before any of its rows were written."""
    opened = snapshots.open
    if opened is None:
        return None
    watermark = poll.watermarks.get(instance.name) or instance.start_lsn
    written = bronze.transaction_version(table.snapshot_app(opened.at.lsn)) is not None
    return opened if written or opened.at.lsn.next() >= watermark else None


def _high_mark(connection: Connection, prepared: PreparedSnapshot) -> datetime:
    """The latest commit time that a row of the read can have, in UTC.

    It is the server's time after the read, unless its clock was set back meanwhile: then it had
    gone at least as far as it would have without, and as the commits say that capture has
    processed since.
    """
    poll, at = prepared.poll, prepared.snapshot.at
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
    at = _time_of(connection, snapshot_lsn(poll, instance), instance, poll)
    last = max(at.lsn, newest.at.lsn) if newest is not None else at.lsn
    if at.lsn in known.used or last > at.lsn:
        at = next_lsn(connection, Taken(last, known.used), poll, wait=request.wait)
    for before in (request.since, newest.at if newest else None):
        if before is not None and before.lsn < at.lsn:
            # A clock may have been set back since: times do not go back along the log.
            found = latest_commit_ts(connection, poll.clock, before.lsn.next(), at.lsn)
            at = at.no_earlier_than(max(before.commit_ts, found or before.commit_ts))
    if known.complete is None:
        return Snapshot(at, instance.index_columns)
    lost_from = request.lost_from
    return Snapshot(at, instance.index_columns, kind=Event.RESNAPSHOT, lost_from=lost_from)


def _open_entry(
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    known: Snapshots,
    planned: Snapshot,
    engine: str,
) -> FactsEntry:
    """The event of a new snapshot; one that `known` lacks has taken its version."""
    row = event_row(
        Event.SNAPSHOT_OPEN,
        table.bronze,
        planned.at,
        rows=0,
        started_at=utc_now(),
        written_at=utc_now(),
        engine=engine,
        source_rtt_ms=poll.rtt_ms,
        source_max_commit_ts=poll.max.commit_ts if poll.max else None,
        capture_lag_seconds=poll.capture_lag_seconds,
        detail=_open_detail(planned, instance),
        lost_from_ts=planned.lost_from,
        lost_to_ts=planned.at.commit_ts if planned.lost_from else None,
    )
    return FactsEntry((row,), table.open_app, known.opens + 1)


def _open_detail(snapshot: Snapshot, instance: CaptureInstance) -> dict[str, object]:
    return {
        "mode": "full",
        "kind": snapshot.kind,
        "keys": list(snapshot.keys),
        "identity": instance.identity.to_dict(),
        "generation": 0,
        "lost_from_ts": snapshot.lost_from.isoformat() if snapshot.lost_from else None,
        "lost_to_ts": snapshot.at.commit_ts.isoformat() if snapshot.lost_from else None,
    }


def _time_of(connection: Connection, lsn: Lsn, instance: CaptureInstance, poll: Poll) -> Offset:
    if poll.max is not None and poll.max.lsn == lsn:
        return poll.max
    mapped = commit_at_or_below(connection, lsn, poll.clock)
    created = poll.clock.to_utc(instance.identity.created_at, lsn)
    return Offset(lsn, mapped.commit_ts if mapped else created)


def _constants(instance: str, at: Offset) -> tuple[tuple[str, str | None], ...]:
    return (
        ("_capture_instance", instance),
        ("_start_lsn", str(at.lsn)),
        ("_operation", str(int(Operation.SNAPSHOT))),
        ("_commit_ts", at.commit_ts.isoformat()),
        ("_snapshot", str(at.lsn)),
    )


def _plan(
    table: TableName,
    columns: tuple[Column, ...],
    ranges: tuple[ReadRange, ...],
    instance: CaptureInstance,
    snapshot: Snapshot,
) -> AppendPlan:
    metadata = json.dumps({"snapshot": instance.name, **snapshot.at.to_dict()})
    return AppendPlan(
        table=str(table),
        uri=table.bronze_uri,
        columns=columns,
        ranges=ranges,
        tag=CommitTag(table.snapshot_app(snapshot.at.lsn), 0, metadata),
    )


def _completion(table: TableName, snapshot: Snapshot, rows: int, engine: str) -> FactsEntry:
    """The event that the sync records with its facts: only then the snapshot is complete."""
    high_mark = snapshot.high_mark.isoformat() if snapshot.high_mark else None
    row = event_row(
        snapshot.kind,
        table.bronze,
        snapshot.at,
        app_id=table.snapshot_app(snapshot.at.lsn),
        rows=rows,
        deletes=0,
        inserts=0,
        updates=0,
        end_lsn=str(snapshot.at.lsn),
        end_commit_ts=snapshot.at.commit_ts,
        lost_from_ts=snapshot.lost_from,
        lost_to_ts=snapshot.at.commit_ts if snapshot.lost_from else None,
        engine=engine,
        detail={"high_mark": high_mark, "keys": list(snapshot.keys)},
    )
    return FactsEntry((row,), table.done_app(snapshot.at.lsn))
