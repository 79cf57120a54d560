"""Following a table from one capture instance to the next: seen first, then read, then told."""

from __future__ import annotations

import json
from dataclasses import replace

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.contract import Event
from cdc_assets.engines.database import Database
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.outcome import TableOutcome
from cdc_assets.ingest.schema import ddl_changes
from cdc_assets.lake.bronze import changes_end
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lsn import Lsn
from cdc_assets.planning.columns import find_name
from cdc_assets.planning.instances import (
    BRONZE_ID,
    END,
    NEW_COLUMNS,
    SOURCE,
    Reader,
    SourceName,
    reader_at,
    recorded_by_target,
    unseen,
)
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.records import FactsRow, schema_row
from cdc_assets.planning.schemas import DdlChange
from cdc_assets.sqlserver.catalog import captured_ids


def see_instances(database: Database, known: Known, instance: CaptureInstance, poll: Poll) -> Known:
    """Record the table's newer instances with their first LSN, before any row of them is read."""
    new = unseen(poll.instances, instance, known.recorded)
    if not new:
        return known
    entries = []
    with database.connections.lend() as connection:
        before = set(captured_ids(connection, instance))
        for other in new:
            ids = captured_ids(connection, other)
            columns = [name for number, name in ids.items() if number not in before]
            reader = Reader(other.identity, other.start_lsn)
            row = _row(known, Event.CAPTURE_INSTANCE_SEEN, reader, **{NEW_COLUMNS: columns})
            app_id = known.name.instance_app(reader.identity.change_object_id)
            entries.append(FactsEntry((row,), app_id))
    database.lake.facts.append(entries)
    faults.reach(FaultPoint.INSTANCE_SEEN)
    # Another sync may have been first, with an LSN that cleanup had not moved yet.
    recorded = recorded_by_target(database.lake.facts.events())[known.name.bronze]
    return replace(known, recorded=recorded)


def is_renamed(known: Known, instance: CaptureInstance) -> bool:
    """Whether the source table has another name than when it was last seen."""
    before = known.source
    return before is not None and (before.schema, before.table) != (instance.schema, instance.table)


def with_name(known: Known, instance: CaptureInstance, outcome: TableOutcome) -> TableOutcome:
    """The outcome, and that the source table has another name than when it was last seen.

    The server's DDL history tells of columns alone. Nothing else changes: a table is followed by
    its object id, and its name in the lake is the settings'.
    """
    before = known.source
    if before is None or not is_renamed(known, instance):
        return outcome
    now = SourceName(instance.schema, instance.table, before.renames + 1)
    row = FactsRow(
        target=known.name.bronze,
        rows=0,
        written_at=utc_now(),
        event=str(Event.SCHEMA_CHANGE),
        detail=json.dumps({SOURCE: now.to_dict(), "renamed_from": before.to_dict()}),
    )
    told = f"The source table {before} is called {now} now; it is read as before."
    return replace(
        outcome,
        facts=(*outcome.facts, FactsEntry((row,), known.name.renamed_app, now.renames)),
        warnings=(told, *outcome.warnings),
    )


def switches(known: Known, instance: CaptureInstance, poll: Poll, outcome: TableOutcome) -> bool:
    """Whether the next change is read from another instance than the last one was."""
    chain = known.chain(instance, poll)
    end = outcome.end
    return end is not None and reader_at(chain, end.lsn.next()) != chain[0].identity


def fills_columns(database: Database, known: Known) -> bool:
    """Whether the settings want the table read anew, for columns that a second instance brought.

    A snapshot at or above the switch has read them, unless it was prepared before it knew them.
    """
    switch, newest = known.switch, known.snapshots.newest
    if switch is None or newest is None or switch.is_read_by(newest.at.lsn, newest.reader):
        return False
    wanted = database.settings.tables[known.name.key].columns
    brought = any(wanted is None or find_name(c, wanted) is not None for c in switch.columns)
    return brought and database.settings.snapshot_on_switch_of(known.name.key)


def follow(
    database: Database, known: Known, instance: CaptureInstance, poll: Poll, outcome: TableOutcome
) -> TableOutcome:
    """Let control take the instance that the next change is read from, and tell of a switch.

    Without rows the batch's facts cannot tell what was done to the table before: this does.
    """
    progress = outcome.progress
    if progress is None:
        return outcome
    chain = known.chain(instance, poll)
    identity = reader_at(chain, progress.end.lsn.next())
    before = chain[0].identity
    if identity == before:
        return replace(outcome, progress=replace(progress, identity=identity))
    reader = next(reader for reader in chain if reader.identity == identity)
    # Somebody may disable the older one by this before control is written: it then stands for it.
    bronze_id = progress.table_id or (known.control.table_id if known.control else None)
    more = {"before": before.instance_name, END: progress.end.to_dict(), BRONZE_ID: bronze_id}
    rows = [_row(known, Event.CAPTURE_INSTANCE_SWITCHED, reader, **more)]
    warnings = outcome.warnings
    if not outcome.rows:
        told = _untold(database, known, poll, chain[0], reader.start)
        rows.extend(schema_row(known.name.bronze, change) for change in told)
        warnings = (*warnings, *map(str, told))
    switched = (
        f"Capture instance {identity.instance_name} is read from {reader.start} on;"
        f" {before.instance_name} is not needed any more."
    )
    entry = FactsEntry(tuple(rows), known.name.instance_app(identity.change_object_id), 1)
    return replace(
        outcome,
        facts=(*outcome.facts, entry),
        warnings=(*warnings, switched),
        progress=replace(progress, identity=identity),
    )


def _untold(
    database: Database, known: Known, poll: Poll, before: Reader, until: Lsn
) -> tuple[DdlChange, ...]:
    """The DDL that the instance left behind tells of, since the newest change commit."""
    bronze = database.lake.bronze(known.name)
    end = changes_end(bronze, known.name.changes_app) if bronze is not None else None
    since = known.snapshots.position([end])
    if since is None:
        return ()
    with database.connections.lend() as connection:
        return ddl_changes(connection, [before], poll, since.lsn.next(), until.previous())


def _row(known: Known, event: Event, reader: Reader, **more: object) -> FactsRow:
    detail = {
        "name": reader.identity.instance_name,
        "identity": reader.identity.to_dict(),
        "start_lsn": str(reader.start),
        **more,
    }
    return FactsRow(
        target=known.name.bronze,
        rows=0,
        min_lsn=str(reader.start),
        max_lsn=str(reader.start),
        written_at=utc_now(),
        event=str(event),
        detail=json.dumps(detail),
    )
