"""The sync of one database: one poll, tables side by side, one facts commit, one control MERGE.

One table's failure fails that table alone; what the others wrote is recorded all the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.advance import Known, advance
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.poll import poll_database
from cdc_assets.lake.bronze import changes_end
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import advance_bronze, follow_bronze
from cdc_assets.planning.losses import Gap, open_gaps
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll, find_instance
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import Snapshots, snapshots_by_target
from cdc_assets.sqlserver.catalog import capture_instances
from cdc_assets.sqlserver.connection import with_retries
from cdc_assets.sqlserver.grants import missing_grant


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
        if self.poll.clock.zone is None:
            return (
                "the server does not name its time zone (it does since 2022): commit times are"
                " exact only without daylight saving. Set `source_time_zone`."
            )
        return None

    @property
    def failed(self) -> tuple[TableOutcome, ...]:
        """The tables that failed."""
        return tuple(o for o in self.outcomes.values() if o.error is not None)


def sync(
    database: Database, tables: Sequence[str] | None = None, *, resnapshot: bool = False
) -> SyncReport:
    """Bring these tables (all of the settings' by default) up to the source's max_lsn.

    With `resnapshot` they are read anew as a whole; their changes go on where they were. Raises
    the errors of the connection; a table's own error is in its outcome.
    """
    known = _known(database, tables or tuple(database.settings.tables), resnapshot)
    # Asked for by quiet tables alone, and then once for all of them.
    newest_rows = functools.cache(database.lake.facts.newest_rows)
    try:
        poll = with_retries(lambda: _poll(database, known))
        with ThreadPoolExecutor(database.settings.max_parallel_tables) as pool:
            outcomes = list(pool.map(lambda k: advance(database, k, poll, newest_rows), known))
    finally:
        database.connections.close()
    events = None
    if any(outcome.work in (Work.SNAPSHOT, Work.SKIPPED) for outcome in outcomes):
        events = database.lake.facts.events()
    control = _record(database, poll, outcomes, _snapshots(known, events))
    gaps = _gaps(known, events)
    return SyncReport(poll, {o.table: replace(o, gap=gaps.get(o.table)) for o in outcomes}, control)


def _snapshots(
    known: Sequence[Known], events: Sequence[FactsRow] | None
) -> Mapping[str, Snapshots]:
    """Every table's snapshots, of the events as they are now where the sync wrote some."""
    if events is not None:
        return snapshots_by_target(events)
    return {one.name.bronze: one.snapshots for one in known}


def _gaps(known: Sequence[Known], events: Sequence[FactsRow] | None) -> Mapping[str, Gap]:
    """Every table's open gap, by its key."""
    if events is None:
        return {one.name.key: one.gap for one in known if one.gap is not None}
    found = open_gaps(events)
    return {k.name.key: found[k.name.bronze] for k in known if k.name.bronze in found}


def _known(database: Database, tables: Sequence[str], resnapshot: bool) -> list[Known]:
    control = database.lake.control.read()
    events = database.lake.facts.events()
    snapshots, gaps = snapshots_by_target(events), open_gaps(events)
    known = []
    for key in tables:
        name = database.table(key)
        own = control.get(name.bronze)
        taken = snapshots[name.bronze]
        silver = control.get(name.silver)
        one = Known(
            name,
            own,
            taken,
            silver_id=silver.table_id if silver else None,
            gap=gaps.get(name.bronze),
            resnapshot=resnapshot,
        )
        try:
            known.append(replace(one, position=_position(database, name, own, taken)))
        except CdcError as error:
            known.append(replace(one, error=error))
    return known


def _poll(database: Database, known: Sequence[Known]) -> Poll:
    with database.connections.lend() as connection:
        found = _instances(database, known, capture_instances(connection))
        if not found:
            # The poll itself may fail for want of the same grant, and would name another.
            denied = missing_grant(connection, database.settings.instance_of(known[0].name.key))
            if denied is not None:
                raise denied
        positions = _positions(known, found)
        zone = database.settings.source_time_zone
        return poll_database(connection, {i.name: i for i in found.values()}, positions, zone)


def _position(
    database: Database, name: TableName, control: ControlRow | None, snapshots: Snapshots
) -> Offset | None:
    """Where the poll starts from; without a control row, what bronze and S say."""
    if control is not None and control.end is not None:
        return snapshots.position([control.end])
    if snapshots.complete is None:
        return None
    bronze = database.lake.bronze(name)
    return snapshots.position([changes_end(bronze, name.changes_app) if bronze else None])


def _instances(
    database: Database, known: Sequence[Known], listed: Mapping[str, CaptureInstance]
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


def _positions(known: Sequence[Known], found: Mapping[str, CaptureInstance]) -> dict[str, Lsn]:
    """The position to ask each instance from: the smallest of the tables that share it."""
    positions: dict[str, Lsn] = {}
    for table in known:
        if table.position is not None and table.name.key in found:
            name, lsn = found[table.name.key].name, table.position.lsn
            positions[name] = min(lsn, positions.get(name, lsn))
    return positions


def _record(
    database: Database,
    poll: Poll,
    outcomes: Sequence[TableOutcome],
    snapshots: Mapping[str, Snapshots],
) -> dict[str, ControlRow]:
    """Facts first, then the verdicts: one commit each. Gives the control rows written."""
    entries = [
        replace(entry, rows=tuple(_measured(row, poll, outcome) for row in entry.rows))
        for outcome in outcomes
        for entry in outcome.facts
    ]
    database.lake.facts.append(entries)
    faults.reach(FaultPoint.FACTS_WRITTEN)
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
