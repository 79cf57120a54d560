"""The changes of one table since its position, as one bronze commit."""

from __future__ import annotations

from dataclasses import replace

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.errors import CommitConflictError, TableReplacedError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.batch import Head, append_batch
from cdc_assets.ingest.instances import follow
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.poll import read_max_lsn
from cdc_assets.lake.bronze import change_commits, changes_end
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import table_id
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import BronzeProgress
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import (
    anew,
    check_continues,
    check_history,
    newest_lsn,
    readable_end,
)
from cdc_assets.planning.records import ChangeCommit, ControlRow
from cdc_assets.planning.snapshots import Snapshots

REPLANS_MAX = 3
"""How often another writer may take the planned batch id before we give up."""


def read_changes(
    database: Database, known: Known, instance: CaptureInstance, poll: Poll
) -> TableOutcome:
    """Append the changes in (position, max_lsn of the poll] to bronze, once.

    Position and data are one atomic commit: the commit names its range, and what is recorded
    afterwards is taken from it. That also heals a crash between commit and facts.
    """
    started_at = utc_now()
    table, control = known.name, known.control
    # Asked before bronze: another sync may append and record meanwhile.
    recorded = database.lake.facts.version_of(table.facts_app) or 0
    bronze = existing_bronze(database, table, control)
    _check_recorded(bronze, table, known.snapshots, recorded)
    chain = known.chain(instance, poll)
    for _ in range(REPLANS_MAX):
        written = changes_end(bronze, table.changes_app)
        position = known.position_after(written)
        _check_history(database, table, instance, poll, position)
        check_continues(position, chain, poll, where=str(table))
        commit, result = append_batch(
            database, known, poll, chain, Head(bronze, position, written, recorded)
        )
        faults.reach(FaultPoint.BRONZE_APPENDED)
        bronze.update_incremental()
        if commit is None or _newest(bronze, table) == commit:
            break
    else:
        raise CommitConflictError(
            "another writer appends its changes", where=str(table), hint="Run one sync at a time."
        )
    outcome = _outcome(database, table, instance, poll, bronze, position)
    outcome = replace(
        outcome,
        read_seconds=result.read_seconds,
        read_mb=result.read_mb,
        network_wait_ms=result.network_wait_ms,
        batch_id=commit.batch_id if commit is not None and result.committed else None,
        started_at=started_at,
        duration_seconds=(utc_now() - started_at).total_seconds(),
    )
    return follow(database, known, instance, poll, outcome)


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
            FactsEntry((commit.facts_row(), *commit.event_rows()), table.facts_app, commit.batch_id)
            for commit in missing
        ),
        warnings=tuple(str(change) for commit in missing for change in commit.events),
        progress=BronzeProgress(
            table_name=table.bronze,
            end=max(end, newest.end, key=lambda o: o.lsn) if newest else end,
            identity=instance.identity,
            granularity=database.settings.finality_of(table.key).granularity,
            changed_lsn=newest.counts.max_lsn if newest else None,
            table_id=table_id(bronze),
        ),
    )
