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
from cdc_assets.errors import CaptureNotReadyError, CommitConflictError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.clock import commit_at_or_below, read_utc_now
from cdc_assets.ingest.columns import columns_to_load, computed_left_out
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.poll import read_max_lsn
from cdc_assets.ingest.ranges import snapshot_ranges, table_rows
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

NEXT_LSN_SECONDS_MAX = 360.0
"""How long a snapshot waits for an LSN above the last one's; idle entries come every 305 s."""

NEXT_LSN_POLL_SECONDS = 2.0
"""How often it looks meanwhile."""


@dataclass(frozen=True, slots=True)
class PreparedSnapshot:
    """A snapshot that can be read, once it is opened: its `open_entry` written, if it has one."""

    table: TableName
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
    lost_from: datetime | None = None,
) -> TableOutcome:
    """Open a snapshot, or go on with the open one, and read it.

    `lost_from` is where the gap begins that it closes. A rerun after a crash finds what is there:
    rows in bronze are never read again, and it never gives a newer LSN than the rows it wrote.
    """
    prepared = prepare_snapshot(database, table, instance, poll, snapshots, lost_from)
    return read_snapshot(database, open_snapshots(database, [prepared])[0])


def prepare_snapshot(
    database: Database,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    snapshots: Snapshots,
    lost_from: datetime | None = None,
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
        if snapshot is not None and snapshot.lost_from is None and lost_from is not None:
            snapshot = None  # It was opened before the gap that has to be closed.
        entry = None
        if snapshot is None:
            snapshot = _planned(connection, table, instance, poll, snapshots, lost_from)
            snapshot = replace(snapshot, keys=columns.renamed(snapshot.keys))
            entry = _open_entry(table, instance, poll, snapshots, snapshot, str(choice))
    return PreparedSnapshot(
        table, instance, columns, bronze, choice, snapshot, snapshots.newest, open_entry=entry
    )


def open_snapshots(
    database: Database, prepared: Sequence[PreparedSnapshot]
) -> list[PreparedSnapshot]:
    """Record their LSNs before anything is read, in one commit; of two openers the first wins.

    Gives them as they were opened, which may be another sync's.
    """
    facts = database.lake.facts
    wanted = [one.open_entry for one in prepared if one.open_entry is not None]
    written = {entry.app_id for entry in facts.append(wanted)}
    lost = [one for one in prepared if one.open_entry and one.open_entry.app_id not in written]
    newest = snapshots_by_target(facts.events()) if lost else {}
    faults.reach(FaultPoint.SNAPSHOT_OPENED)
    return [_follow(one, newest[one.table.bronze]) if one in lost else one for one in prepared]


def _follow(prepared: PreparedSnapshot, snapshots: Snapshots) -> PreparedSnapshot:
    """The snapshot that another sync has opened meanwhile."""
    other = snapshots.newest
    if other is None or other == prepared.before:
        raise CommitConflictError(
            "its opened snapshots are not those that its facts tell of",
            where=str(prepared.table),
            hint="Were events removed from the facts by hand? Restore them.",
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
        # A clock that was set back must not put the mark below what is known to be complete.
        high_mark = max(read_utc_now(connection), snapshot.at.commit_ts)
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


def _planned(
    connection: Connection,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    known: Snapshots,
    lost_from: datetime | None,
) -> Snapshot:
    """A new snapshot: of the table's first kind, or a further one, at an LSN of its own."""
    newest = known.newest
    at = _time_of(connection, snapshot_lsn(poll, instance), instance, poll)
    if newest is not None and at.lsn <= newest.at.lsn:
        at = _await_above(connection, newest.at.lsn, poll, table, known.used)
    elif at.lsn in known.used:
        at = _await_above(connection, at.lsn, poll, table, known.used)
    if known.complete is None:
        return Snapshot(at, instance.index_columns)
    return Snapshot(at, instance.index_columns, kind=Event.RESNAPSHOT, lost_from=lost_from)


def _await_above(
    connection: Connection, earlier: Lsn, poll: Poll, table: TableName, used: frozenset[Lsn]
) -> Offset:
    """The next LSN that capture gives: with an earlier one the rows would pass for those.

    Raises `CaptureNotReadyError` where none comes: an idle database maps one every five minutes.
    """
    deadline = time.monotonic() + NEXT_LSN_SECONDS_MAX
    while True:
        newest = read_max_lsn(connection)
        if newest is not None and newest > earlier and newest not in used:
            found = commit_at_or_below(connection, newest, poll.clock)
            if found is not None:
                return Offset(newest, found.commit_ts)
        if time.monotonic() >= deadline:
            raise CaptureNotReadyError(
                f"no commit since the snapshot at {earlier} was captured",
                where=str(table),
                hint="Is the capture job running? Write to any captured table, or run again.",
            )
        time.sleep(NEXT_LSN_POLL_SECONDS)


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
