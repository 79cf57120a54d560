"""The sync of one database: one poll, tables side by side, one facts commit, one control MERGE.

One table's failure fails that table alone; what the others wrote is recorded all the same.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.errors import (
    CaptureInstanceUnknownError,
    CdcError,
    DataLossError,
    TableReplacedError,
    expected,
)
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.changes import existing_bronze, read_changes
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.poll import poll_database
from cdc_assets.ingest.snapshot import take_snapshot
from cdc_assets.lake.bronze import changes_end
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import table_id
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import BronzeProgress, advance_bronze, follow_bronze
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll, find_instance
from cdc_assets.planning.positions import (
    check_continues,
    check_history,
    furthest,
    newest_lsn,
    readable_end,
)
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import Snapshots, snapshots_by_target
from cdc_assets.sqlserver.catalog import capture_instances
from cdc_assets.sqlserver.connection import with_retries
from cdc_assets.sqlserver.grants import missing_grant

_log = logging.getLogger(__name__)

NewestRows = Callable[[], Mapping[str, FactsRow]]

QUIET_ROW_EVERY = timedelta(minutes=5)
"""A quiet table writes a row this often: silence then means that the sync has stopped."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync saw and did, table by table."""

    poll: Poll
    outcomes: Mapping[str, TableOutcome]
    control: Mapping[str, ControlRow]
    """The control rows it wrote."""

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
    silver_id: str | None
    position: Offset | None = None
    error: CdcError | None = None


def sync(database: Database, tables: Sequence[str] | None = None) -> SyncReport:
    """Bring these tables (all of the settings' by default) up to the source's max_lsn.

    Raises the errors of the connection; a table's own error is in its outcome.
    """
    known = _known(database, tables or tuple(database.settings.tables))
    # Asked for by quiet tables alone, and then once for all of them.
    newest_rows = functools.cache(database.lake.facts.newest_rows)
    try:
        poll = with_retries(lambda: _poll(database, known))
        with ThreadPoolExecutor(database.settings.max_parallel_tables) as pool:
            outcomes = list(pool.map(lambda k: _advance(database, k, poll, newest_rows), known))
    finally:
        database.connections.close()
    control = _record(database, poll, outcomes, known)
    return SyncReport(poll, {outcome.table: outcome for outcome in outcomes}, control)


def _known(database: Database, tables: Sequence[str]) -> list[_Known]:
    control = database.lake.control.read()
    snapshots = snapshots_by_target(database.lake.facts.events())
    known = []
    for key in tables:
        name = database.table(key)
        own = control.get(name.bronze)
        taken = snapshots[name.bronze]
        silver = control.get(name.silver)
        one = _Known(name, own, taken, silver_id=silver.table_id if silver else None)
        try:
            known.append(replace(one, position=_position(database, name, own, taken)))
        except CdcError as error:
            known.append(replace(one, error=error))
    return known


def _poll(database: Database, known: Sequence[_Known]) -> Poll:
    with database.connections.lend() as connection:
        found = _instances(database, known, capture_instances(connection))
        if not found:
            # The poll itself may fail for want of the same grant, and would name another.
            denied = missing_grant(connection, database.settings.instance_of(known[0].name.key))
            if denied is not None:
                raise denied
        positions = _positions(known, found)
        return poll_database(connection, {i.name: i for i in found.values()}, positions)


def _position(
    database: Database, name: TableName, control: ControlRow | None, snapshots: Snapshots
) -> Offset | None:
    """Where the poll starts from; without a control row, what bronze and S say."""
    if control is not None and control.end is not None:
        return control.end
    if snapshots.complete is None:
        return None
    bronze = database.lake.bronze(name)
    written = changes_end(bronze, name.changes_app) if bronze else None
    return furthest([snapshots.complete.at, written])


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
    """The position to ask each instance from: the smallest of the tables that share it."""
    positions: dict[str, Lsn] = {}
    for table in known:
        if table.position is not None and table.name.key in found:
            name, lsn = found[table.name.key].name, table.position.lsn
            positions[name] = min(lsn, positions.get(name, lsn))
    return positions


def _advance(
    database: Database, known: _Known, poll: Poll, newest_rows: NewestRows
) -> TableOutcome:
    """One table's share; its own error, foreseen or not, becomes its outcome.

    All of it may be done again: what is committed is found, so a dropped connection costs a retry.
    """
    try:
        return with_retries(lambda: _work(database, known, poll, newest_rows))
    except Exception as error:  # noqa: BLE001 - one table's failure fails that table alone
        if not isinstance(error, CdcError):
            _log.exception("%s failed", known.name)
        ours = expected(error)
        ours.where = str(known.name)
        return TableOutcome(known.name.key, Work.FAILED, error=ours)


def _work(database: Database, known: _Known, poll: Poll, newest_rows: NewestRows) -> TableOutcome:
    table, complete = known.name, known.snapshots.complete
    if known.error is not None:
        raise known.error
    instance = _instance(database, table, poll)
    if complete is None and known.position is not None:
        raise TableReplacedError(
            "control knows its position, and the facts know no snapshot of it",
            where=str(table),
            hint=f"Restore {database.name.facts_uri}, or start the table anew.",
        )
    if complete is None or known.position is None:
        return take_snapshot(database, table, instance, poll, known.snapshots)
    # Not asked is not quiet: an instance that the first look did not list is read.
    if known.control is not None and not poll.has_rows.get(instance.name, True):
        try:
            return _quiet(database, known, instance, poll, newest_rows().get(table.bronze))
        except DataLossError:
            # Bronze may be ahead of control, after a crash: it says whether this is a loss.
            pass
    return read_changes(database, table, instance, poll, known.control, complete.at)


def _instance(database: Database, table: TableName, poll: Poll) -> CaptureInstance:
    """The table's instance as the poll saw it, or which grant keeps the login from seeing it."""
    wanted = database.settings.instance_of(table.key)
    try:
        return find_instance(poll.instances, wanted, where=str(table))
    except CaptureInstanceUnknownError as error:
        with database.connections.lend() as connection:
            raise missing_grant(connection, wanted) or error from None


def _quiet(
    database: Database,
    known: _Known,
    instance: CaptureInstance,
    poll: Poll,
    last_row: FactsRow | None,
) -> TableOutcome:
    """Nothing to read: the position moves to what the poll saw, after the same loss test.

    Now and then a row says so in the facts; then both tables are looked at, too.
    """
    table, position, control = known.name, known.position, known.control
    assert position is not None and control is not None  # noqa: S101 - the caller asked
    check_history(position, newest_lsn(poll, instance), where=str(table))
    check_continues(position, control.identity, instance, poll, where=str(table))
    outcome = TableOutcome(
        table=table.key,
        work=Work.QUIET,
        start=position,
        end=readable_end(poll, position),
        started_at=utc_now(),
        progress=BronzeProgress(
            table_name=table.bronze,
            end=readable_end(poll, position),
            identity=instance.identity,
            granularity=database.settings.finality_of(table.key).granularity,
        ),
    )
    last = last_row.written_at if last_row else None
    if last is not None and utc_now() - last < QUIET_ROW_EVERY:
        return outcome
    existing_bronze(database, table, control)
    silver = database.lake.silver(table)
    lost = known.silver_id is not None and (silver is None or table_id(silver) != known.silver_id)
    return replace(outcome, facts=(_quiet_row(table, outcome),), silver_lost=lost)


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
) -> dict[str, ControlRow]:
    """Facts first, then the verdicts: one commit each. Gives the control rows written."""
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
    return database.lake.control.merge(
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
        if silver is not None and outcome.silver_lost:
            yield silver.without_position()
        elif silver is not None:
            followed = follow_bronze(silver, bronze, snapshots[table.bronze])
            if followed != silver:
                yield followed


def _measured(row: FactsRow, poll: Poll, outcome: TableOutcome) -> FactsRow:
    """A facts row with what this sync measured."""
    now = utc_now()
    lag = (now - row.end_commit_ts).total_seconds() if row.end_commit_ts else None
    return replace(
        row,
        started_at=outcome.started_at,
        duration_ms=int(outcome.duration_seconds * 1000),
        written_at=now,
        source_rtt_ms=poll.rtt_ms,
        read_seconds=outcome.read_seconds,
        read_mb=outcome.read_mb,
        source_max_commit_ts=poll.max.commit_ts if poll.max else None,
        capture_lag_seconds=poll.capture_lag_seconds,
        ingestion_lag_seconds=lag,
    )
