"""The changes of one table since its position, as one bronze commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.contract import Operation, bronze_columns
from cdc_assets.engines.database import Database
from cdc_assets.errors import CommitConflictError, DataLossError, TableReplacedError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.clock import latest_commit_ts
from cdc_assets.ingest.columns import columns_to_load
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.poll import read_max_lsn
from cdc_assets.lake.bronze import change_commits, changes_end
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import beyond_arrow, check_names, table_id
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import BronzeProgress
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import AppendPlan, AppendResult, CommitTag, Guard, ReadRange
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import (
    anew,
    check_continues,
    check_history,
    newest_lsn,
    readable_end,
)
from cdc_assets.planning.ranges import ROWS_PER_RANGE_MIN, change_ranges
from cdc_assets.planning.records import ChangeCommit, ChangeCounts, ControlRow
from cdc_assets.planning.snapshots import Snapshots
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.connection import Connection
from cdc_assets.sqlserver.read import check_guard

REPLANS_MAX = 3
"""How often another writer may take the planned batch id before we give up."""


def read_changes(
    database: Database,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    control: ControlRow | None,
    snapshots: Snapshots,
) -> TableOutcome:
    """Append the changes in (position, max_lsn of the poll] to bronze, once.

    Position and data are one atomic commit: the commit names its range, and what is recorded
    afterwards is taken from it. That also heals a crash between commit and facts.
    """
    started_at = utc_now()
    # Asked before bronze: another sync may append and record meanwhile.
    recorded = database.lake.facts.version_of(table.facts_app) or 0
    bronze = existing_bronze(database, table, control)
    _check_recorded(bronze, table, snapshots, recorded)
    identity = snapshots.identity(control)
    for _ in range(REPLANS_MAX):
        position = snapshots.position(
            [control.end if control else None, changes_end(bronze, table.changes_app)]
        )
        if position is None:
            raise TableReplacedError(
                "its position is unknown", where=str(table), hint=anew(str(table))
            )
        _check_history(database, table, instance, poll, position)
        check_continues(position, identity, instance, poll, where=str(table))
        commit, result = _append(database, table, instance, poll, position, bronze)
        faults.reach(FaultPoint.BRONZE_APPENDED)
        bronze.update_incremental()
        if commit is None or _newest(bronze, table) == commit:
            break
    else:
        raise CommitConflictError(
            "another writer appends its changes", where=str(table), hint="Run one sync at a time."
        )
    outcome = _outcome(database, table, instance, poll, bronze, position)
    return replace(
        outcome,
        read_seconds=result.read_seconds,
        read_mb=result.read_mb,
        network_wait_ms=result.network_wait_ms,
        batch_id=commit.batch_id if commit is not None and result.committed else None,
        started_at=started_at,
        duration_seconds=(utc_now() - started_at).total_seconds(),
    )


def existing_bronze(database: Database, table: TableName, control: ControlRow | None) -> DeltaTable:
    """The bronze table that control speaks of; raises `TableReplacedError` without it."""
    bronze = database.lake.bronze(table)
    known = control.table_id if control else None
    if bronze is None or (known is not None and table_id(bronze) != known):
        raise TableReplacedError(
            "its bronze table is missing, or another one stands in its place",
            where=str(table),
            hint=f"Restore {table.bronze_uri}. {anew(str(table))}",
        )
    return bronze


def _check_recorded(
    bronze: DeltaTable, table: TableName, snapshots: Snapshots, recorded: int
) -> None:
    """Raise `TableReplacedError` where bronze has lost batches that the facts know of."""
    written = bronze.transaction_version(table.changes_app) or 0
    if recorded > written and not snapshots.discarded:
        raise TableReplacedError(
            f"the facts know its batch {recorded}, and bronze ends with batch {written}",
            where=str(table),
            hint=f"Restore {table.bronze_uri}. {anew(str(table))}",
        )


def _check_history(
    database: Database,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    position: Offset,
) -> None:
    """Hold the position against max_lsn; a sync that polled later may have moved it meanwhile."""
    newest = newest_lsn(poll, instance)
    if position.lsn > newest:
        with database.connections.lend() as connection:
            newest = max(newest, read_max_lsn(connection) or newest)
        check_history(position, newest, where=str(table))


def _newest(bronze: DeltaTable, table: TableName) -> ChangeCommit | None:
    commits = change_commits(bronze, table.changes_app, None)
    return commits[0] if commits else None


def _append(
    database: Database,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    position: Offset,
    bronze: DeltaTable,
) -> tuple[ChangeCommit | None, AppendResult]:
    """Plan and append one batch; None where there is nothing after the position."""
    end = readable_end(poll, position)
    nothing = (None, AppendResult(committed=False))
    if position.lsn >= end.lsn:
        return nothing
    first = position.lsn.next()
    with database.connections.lend() as connection:
        rows = connection.rows(
            queries.count_changes(instance.name), queries.closed_range(first, end.lsn)
        )
        guard = Guard(instance.name, first, instance.start_lsn)
        counts = _counted(rows, poll, position)
        if counts is None:
            # A purged range counts as empty: "nothing there" needs the same proof as a read.
            check_guard(connection, guard, where=str(table))
            return nothing
        columns = columns_to_load(database, table, connection, instance, bronze)
        declared = bronze_columns(columns.declared)
        check_names(bronze, declared, where=str(table))
        choice = database.choose(table.key, beyond_arrow(bronze, declared))
        pieces = _split(connection, instance, first, end.lsn, counts, database)
        end, floors = _times(connection, poll, position, end, pieces)
    # After a reset, bronze may be a new table: ids go on after those that the facts know.
    recorded = database.lake.facts.version_of(table.facts_app) or 0
    batch_id = max(bronze.transaction_version(table.changes_app) or 0, recorded) + 1
    commit = ChangeCommit(
        table.changes_app, batch_id, table.bronze, position, end, counts, str(choice)
    )
    result = database.engine(choice).append(
        AppendPlan(
            table=str(table),
            uri=table.bronze_uri,
            columns=declared,
            ranges=tuple(
                ReadRange(
                    text=queries.read_changes(instance.name, columns.selected),
                    names=(*queries.CHANGE_NAMES, *columns.names),
                    parameters=queries.closed_range(low, high),
                    constants=(
                        ("_capture_instance", instance.name),
                        ("_batch_id", str(batch_id)),
                    ),
                    utc_offsets=poll.clock.steps,
                    commit_ts_floor=floor,
                    guard=guard,
                    rows=rows,
                    largest=queries.largest_values(
                        queries.read_changes(instance.name, columns.selected, ordered=False),
                        columns.selected,
                        columns.unbounded,
                        before=len(queries.CHANGE_NAMES),
                    ),
                )
                for (low, high, rows), floor in zip(pieces, floors, strict=True)
            ),
            tag=CommitTag(commit.app_id, batch_id, commit.to_json()),
            max_value_bytes=database.settings.max_value_bytes,
        )
    )
    return commit, result


def _times(
    connection: Connection,
    poll: Poll,
    position: Offset,
    end: Offset,
    pieces: Sequence[tuple[Lsn, Lsn, int]],
) -> tuple[Offset, list[datetime]]:
    """The end with the latest commit time up to it, and each piece's floor: what lies before it.

    A clock may have been set back in between; times never go backwards along the log.
    """
    latest, floors = position.commit_ts, []
    for low, high, _ in pieces:
        floors.append(latest)
        latest = max(latest, latest_commit_ts(connection, poll.clock, low, high) or latest)
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


def _split(
    connection: Connection,
    instance: CaptureInstance,
    first: Lsn,
    last: Lsn,
    counts: ChangeCounts,
    database: Database,
) -> Sequence[tuple[Lsn, Lsn, int]]:
    """The range, or several where it is large enough for several connections."""
    parts = min(database.settings.num_partitions, counts.rows // ROWS_PER_RANGE_MIN)
    if parts <= 1:
        return [(first, last, counts.rows)]
    rows = connection.rows(
        queries.split_changes(instance.name, parts), queries.closed_range(first, last)
    )
    tiles = [(Lsn.parse(row["end_lsn"]), row["row_count"]) for row in rows]
    return change_ranges(first, last, tiles)


def _outcome(
    database: Database,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    bronze: DeltaTable,
    position: Offset,
) -> TableOutcome:
    """What bronze's log says happened, and what of it the facts lack."""
    recorded = database.lake.facts.version_of(table.facts_app) or 0
    missing = change_commits(bronze, table.changes_app, recorded)
    wrote = missing[-1] if missing else None
    newest = wrote or _newest(bronze, table)
    end = readable_end(poll, position)
    return TableOutcome(
        table=table.key,
        work=Work.CHANGES if wrote else Work.QUIET,
        start=wrote.start if wrote else position,
        end=wrote.end if wrote else end,
        rows=wrote.counts.rows if wrote else 0,
        counts=wrote.counts if wrote else None,
        engine=wrote.engine if wrote else "",
        facts=tuple(
            FactsEntry((commit.facts_row(),), table.facts_app, commit.batch_id)
            for commit in missing
        ),
        progress=BronzeProgress(
            table_name=table.bronze,
            end=max(end, newest.end, key=lambda o: o.lsn) if newest else end,
            identity=instance.identity,
            granularity=database.settings.finality_of(table.key).granularity,
            changed_lsn=newest.counts.max_lsn if newest else None,
            table_id=table_id(bronze),
        ),
    )
