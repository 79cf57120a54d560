"""A whole snapshot: the LSN is recorded first, then the table is read, as one bronze commit.

Every commit up to that LSN is in the table already; one the read also sees came later and is
read again as a change. The overlap only repeats, and nothing can be missed (seed 0016).
"""

from __future__ import annotations

import json
from dataclasses import replace

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.contract import Column, Event, Operation, bronze_columns
from cdc_assets.engines.database import Database
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.poll import commit_at_or_below, read_clock
from cdc_assets.ingest.ranges import snapshot_ranges
from cdc_assets.lake.bronze import snapshot_rows
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import table_id
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import BronzeProgress
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import AppendPlan, AppendResult, CommitTag, ReadRange
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import snapshot_lsn
from cdc_assets.planning.records import event_row
from cdc_assets.planning.snapshots import Snapshot, Snapshots, snapshots_by_target
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.catalog import captured_columns
from cdc_assets.sqlserver.connection import Connection


def take_snapshot(
    database: Database,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    snapshots: Snapshots,
) -> TableOutcome:
    """Open a snapshot, or go on with the open one, until its completion is recorded.

    A rerun after a crash finds what is there: rows in bronze are never read again, and it never
    gives a newer LSN than the rows it wrote.
    """
    started_at = utc_now()
    choice = database.choose(table.key)
    with database.connections.lend() as connection:
        # A snapshot whose changes may not be read would be hours for nothing.
        connection.rows(queries.probe_changes(instance.name))
        wanted = database.settings.tables[table.key].columns
        columns = captured_columns(connection, instance, wanted)
        declared = bronze_columns(tuple(c.column for c in columns))
        bronze = database.lake.ensure_bronze(table, declared)
        snapshot = _usable_open(bronze, table, instance, poll, snapshots) or _open(
            database, table, connection, instance, poll, snapshots
        )
        faults.reach(FaultPoint.SNAPSHOT_OPENED)
        written = bronze.transaction_version(table.snapshot_app(snapshot.at.lsn)) is not None
        ranges = snapshot_ranges(connection, instance, columns, database.settings.num_partitions)
    result = AppendResult(committed=False)
    if not written:
        constants = _constants(database.settings.instance_of(table.key), snapshot.at)
        read = tuple(ReadRange(text, values, constants) for text, values in ranges)
        plan = _plan(table, declared, read, instance, snapshot)
        result = database.engine(choice).append(plan)
    faults.reach(FaultPoint.SNAPSHOT_APPENDED)
    with database.connections.lend() as connection:
        high_mark = read_clock(connection).utc_now
    bronze.update_incremental()
    rows = result.rows if result.committed else snapshot_rows(bronze, snapshot.at.lsn)
    _complete(database, table, replace(snapshot, high_mark=high_mark), rows, str(choice))
    faults.reach(FaultPoint.SNAPSHOT_COMPLETED)
    return TableOutcome(
        table=table.key,
        work=Work.SNAPSHOT,
        start=snapshot.at,
        end=snapshot.at,
        rows=rows,
        read_seconds=result.read_seconds,
        read_mb=result.read_mb,
        started_at=started_at,
        duration_seconds=(utc_now() - started_at).total_seconds(),
        engine=str(choice),
        progress=BronzeProgress(
            table_name=table.bronze,
            end=snapshot.at,
            identity=instance.identity,
            granularity=database.settings.finality_of(table.key).granularity,
            table_id=table_id(bronze),
        ),
    )


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


def _open(
    database: Database,
    table: TableName,
    connection: Connection,
    instance: CaptureInstance,
    poll: Poll,
    known: Snapshots,
) -> Snapshot:
    """Record a new snapshot's LSN before anything is read; of two openers the first one wins."""
    facts = database.lake.facts
    # The version before the events: an open that these do not show takes the next version first.
    version = (facts.version_of(table.open_app) or 0) + 1
    if (other := _newest(database, table)) != known.newest and other is not None:
        return other
    lsn = snapshot_lsn(poll, instance)
    snapshot = Snapshot(_time_of(connection, lsn, instance, poll), instance.index_columns)
    row = event_row(
        Event.SNAPSHOT_OPEN,
        table.bronze,
        snapshot.at,
        written_at=utc_now(),
        detail=_open_detail(snapshot, instance),
    )
    if facts.append([FactsEntry((row,), table.open_app, version)]):
        return snapshot
    return _newest(database, table) or snapshot


def _newest(database: Database, table: TableName) -> Snapshot | None:
    return snapshots_by_target(database.lake.facts.events())[table.bronze].newest


def _open_detail(snapshot: Snapshot, instance: CaptureInstance) -> dict[str, object]:
    return {
        "mode": "full",
        "kind": Event.BOOTSTRAP,
        "keys": list(snapshot.keys),
        "identity": instance.identity.to_dict(),
        "generation": 0,
        "lost_from_ts": None,
        "lost_to_ts": None,
    }


def _time_of(connection: Connection, lsn: Lsn, instance: CaptureInstance, poll: Poll) -> Offset:
    if poll.max is not None and poll.max.lsn == lsn:
        return poll.max
    mapped = commit_at_or_below(connection, lsn, poll.clock)
    created = poll.clock.to_utc(instance.identity.created_at)
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


def _complete(
    database: Database, table: TableName, snapshot: Snapshot, rows: int, engine: str
) -> None:
    high_mark = snapshot.high_mark.isoformat() if snapshot.high_mark else None
    row = event_row(
        Event.BOOTSTRAP,
        table.bronze,
        snapshot.at,
        rows=rows,
        written_at=utc_now(),
        engine=engine,
        detail={"high_mark": high_mark, "keys": list(snapshot.keys)},
    )
    database.lake.facts.append([FactsEntry((row,), table.done_app(snapshot.at.lsn), 0)])
