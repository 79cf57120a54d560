"""The sync of one database: one poll, tables side by side, one facts commit, one control MERGE.

One table's failure fails that table alone; what the others wrote is recorded all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from cdc_assets import faults
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.changes import read_changes
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.poll import poll_database
from cdc_assets.ingest.snapshot import take_snapshot
from cdc_assets.lake.bronze import change_commits
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import BronzeProgress, advance_bronze, follow_bronze
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll, find_instance
from cdc_assets.planning.positions import check_continues, furthest, readable_end
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import Snapshots, snapshots_by_target
from cdc_assets.sqlserver.catalog import capture_instances
from cdc_assets.sqlserver.connection import connect, with_retries

QUIET_ROW_EVERY = timedelta(minutes=5)
"""A quiet table writes a row this often: silence then means that the sync has stopped."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync saw and did, table by table."""

    poll: Poll
    outcomes: Mapping[str, TableOutcome]

    @property
    def warning(self) -> str | None:
        """What an operator should look at although nothing failed."""
        if self.poll.max is None:
            return (
                "capture has never run (max_lsn is NULL): changes wait."
                " Is SQL Server Agent running, and the capture job started?"
            )
        return None

    @property
    def failed(self) -> tuple[TableOutcome, ...]:
        """The tables that failed."""
        return tuple(o for o in self.outcomes.values() if o.error is not None)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the lake says of one table before the poll."""

    name: TableName
    control: ControlRow | None
    snapshots: Snapshots
    position: Offset | None


def sync(database: Database, tables: Sequence[str] | None = None) -> SyncReport:
    """Bring these tables (all of the settings' by default) up to the source's max_lsn.

    Raises the errors of the connection; a table's own error is in its outcome.
    """
    known = _known(database, tables or tuple(database.settings.tables))
    poll = with_retries(lambda: _poll(database, known))
    with ThreadPoolExecutor(database.settings.max_parallel_tables) as pool:
        outcomes = list(pool.map(lambda k: _advance(database, k, poll), known))
    outcomes = _with_quiet_rows(database, outcomes)
    _record(database, poll, outcomes, known)
    return SyncReport(poll, {outcome.table: outcome for outcome in outcomes})


def _known(database: Database, tables: Sequence[str]) -> list[_Known]:
    control = database.lake.control.read()
    snapshots = snapshots_by_target(database.lake.facts.events())
    known = []
    for key in tables:
        name = database.table(key)
        own = control.get(name.bronze)
        taken = snapshots[name.bronze]
        known.append(_Known(name, own, taken, _position(database, name, own, taken)))
    return known


def _poll(database: Database, known: Sequence[_Known]) -> Poll:
    with connect(database.source) as connection:
        found = _instances(database, known, capture_instances(connection))
        positions = _positions(known, found)
        return poll_database(connection, {i.name: i for i in found.values()}, positions)


def _position(
    database: Database, name: TableName, control: ControlRow | None, snapshots: Snapshots
) -> Offset | None:
    """Where the poll starts from; without a control row, what facts, bronze and S say."""
    if control is not None and control.end is not None:
        return control.end
    if snapshots.complete is None:
        return None
    bronze = database.lake.bronze(name)
    commits = change_commits(bronze, name.changes_app, None) if bronze else []
    return furthest([snapshots.complete.at, *(commit.end for commit in commits)])


def _instances(
    database: Database, known: Sequence[_Known], listed: Mapping[str, CaptureInstance]
) -> dict[str, CaptureInstance]:
    """Each table's capture instance, as far as the login sees it; who lacks one fails later."""
    found = {}
    for table in known:
        try:
            wanted = database.settings.instance_of(table.name.key)
            found[table.name.key] = find_instance(listed, wanted, where=str(table.name))
        except CdcError:
            continue
    return found


def _positions(known: Sequence[_Known], found: Mapping[str, CaptureInstance]) -> dict[str, Lsn]:
    return {
        found[k.name.key].name: k.position.lsn
        for k in known
        if k.position is not None and k.name.key in found
    }


def _advance(database: Database, known: _Known, poll: Poll) -> TableOutcome:
    """One table's share; its own error becomes its outcome.

    All of it may be done again: what is committed is found, so a dropped connection costs a retry.
    """
    try:
        return with_retries(lambda: _work(database, known, poll))
    except CdcError as error:
        if not error.where:
            error.where = str(known.name)
        return TableOutcome(known.name.key, Work.FAILED, error=error)


def _work(database: Database, known: _Known, poll: Poll) -> TableOutcome:
    table = known.name
    wanted = database.settings.instance_of(table.key)
    instance = find_instance(poll.instances, wanted, where=str(table))
    if known.position is None or known.snapshots.complete is None:
        return take_snapshot(database, table, instance, poll, known.snapshots)
    if poll.has_rows.get(instance.name) or known.control is None:
        control = known.control or _bare(table, known.position)
        return read_changes(database, table, instance, poll, control)
    return _quiet(database, known, instance, poll, known.position)


def _bare(table: TableName, position: Offset) -> ControlRow:
    """A control row that knows the position alone: the real one is missing."""
    return ControlRow(table.bronze, end_lsn=str(position.lsn), end_commit_ts=position.commit_ts)


def _quiet(
    database: Database, known: _Known, instance: CaptureInstance, poll: Poll, position: Offset
) -> TableOutcome:
    """Nothing to read: the position moves to what the poll saw, after the same loss test."""
    table = known.name
    identity = known.control.identity if known.control else None
    check_continues(position, identity, instance, poll, where=str(table))
    end = readable_end(poll, position)
    return TableOutcome(
        table=table.key,
        work=Work.QUIET,
        start=position,
        end=end,
        progress=BronzeProgress(
            table_name=table.bronze,
            end=end,
            identity=instance.identity,
            granularity=database.settings.finality_of(table.key).granularity,
        ),
    )


def _with_quiet_rows(database: Database, outcomes: Sequence[TableOutcome]) -> list[TableOutcome]:
    """A row without rows for each table that has been silent in the facts for a while."""
    if all(outcome.work is not Work.QUIET for outcome in outcomes):
        return list(outcomes)
    newest = database.lake.facts.newest_rows()
    now = _now()

    def due(outcome: TableOutcome) -> bool:
        row = newest.get(database.table(outcome.table).bronze)
        last = row.written_at if row else None
        return outcome.work is Work.QUIET and (last is None or now - last >= QUIET_ROW_EVERY)

    return [
        replace(o, facts=(*o.facts, _quiet_row(database.table(o.table), o))) if due(o) else o
        for o in outcomes
    ]


def _quiet_row(table: TableName, outcome: TableOutcome) -> FactsEntry:
    end = outcome.end
    row = FactsRow(
        app_id=table.changes_app,
        target=table.bronze,
        rows=0,
        deletes=0,
        inserts=0,
        updates=0,
        end_lsn=str(end.lsn) if end else None,
        end_commit_ts=end.commit_ts if end else None,
    )
    return FactsEntry((row,))


def _record(
    database: Database, poll: Poll, outcomes: Sequence[TableOutcome], known: Sequence[_Known]
) -> None:
    """Facts first, then the verdicts: one commit each."""
    entries = [
        replace(entry, rows=tuple(_measured(row, poll, outcome) for row in entry.rows))
        for outcome in outcomes
        for entry in outcome.facts
    ]
    database.lake.facts.append(entries)
    faults.reach(FaultPoint.FACTS_WRITTEN)
    snapshots: Mapping[str, Snapshots] = {k.name.bronze: k.snapshots for k in known}
    if any(outcome.work is Work.SNAPSHOT for outcome in outcomes):
        snapshots = snapshots_by_target(database.lake.facts.events())
    database.lake.control.merge(
        lambda rows: list(_control_rows(database, rows, outcomes, snapshots))
    )


def _control_rows(
    database: Database,
    rows: Mapping[str, ControlRow],
    outcomes: Sequence[TableOutcome],
    snapshots: Mapping[str, Snapshots],
) -> Iterator[ControlRow]:
    """Bronze's rows, and silver's verdict where a quiet table needs no apply."""
    for outcome in outcomes:
        if outcome.progress is None:
            continue
        table = database.table(outcome.table)
        bronze = advance_bronze(rows.get(table.bronze), outcome.progress)
        yield bronze
        silver = rows.get(table.silver)
        if silver is not None:
            followed = follow_bronze(silver, bronze, snapshots[table.bronze])
            if followed != silver:
                yield followed


def _measured(row: FactsRow, poll: Poll, outcome: TableOutcome) -> FactsRow:
    """A facts row with what this sync measured."""
    now = _now()
    duration = timedelta(seconds=outcome.duration_seconds)
    lag = (now - row.end_commit_ts).total_seconds() if row.end_commit_ts else None
    return replace(
        row,
        started_at=now - duration,
        duration_ms=int(outcome.duration_seconds * 1000),
        written_at=now,
        source_rtt_ms=poll.rtt_ms,
        read_seconds=outcome.read_seconds,
        read_mb=outcome.read_mb,
        source_max_commit_ts=poll.max.commit_ts if poll.max else None,
        capture_lag_seconds=poll.capture_lag_seconds,
        ingestion_lag_seconds=lag,
    )


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
