"""Snapshots that are ready to be read, and how they are opened: their LSN is recorded first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.contract import Column
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError, CommitConflictError, SeedOpenError, TableReplacedError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.columns import computed_left_out, fine_keys
from cdc_assets.ingest.snapshot_events import open_entry
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import table_id
from cdc_assets.names import Command, TableName
from cdc_assets.planning.advancing import BronzeProgress
from cdc_assets.planning.chunks import Extent
from cdc_assets.planning.plans import EngineChoice
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.snapshots import Snapshot, Snapshots, snapshots_by_target
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.catalog import Captured
from cdc_assets.sqlserver.connection import Connection


@dataclass(frozen=True, slots=True)
class PreparedSnapshot:
    """A snapshot that can be read, once it is opened: its `open_entry` written, if it has one."""

    table: TableName
    poll: Poll
    instance: CaptureInstance
    columns: Captured
    declared: tuple[Column, ...]
    """All columns of its rows, bronze's first."""
    bronze: DeltaTable
    choice: EngineChoice
    snapshot: Snapshot
    before: Snapshot | None
    """The table's newest one before it."""
    open_entry: FactsEntry | None = None
    extent: Extent | None = None
    """What a chunked one that is to be opened will be cut on, and how far."""


def column_warnings(database: Database, prepared: PreparedSnapshot) -> tuple[str, ...]:
    """What is to be known of its columns: those left out, and keys that the lake cuts."""
    keys = database.settings.tables[prepared.table.key].keys or prepared.snapshot.keys
    return (*computed_left_out(prepared.columns), *fine_keys(prepared.columns, keys))


def changes_start(database: Database, prepared: PreparedSnapshot) -> BronzeProgress | None:
    """Where the changes go on, if a snapshot says so."""
    if not prepared.snapshot.moves_position:
        return None
    return BronzeProgress(
        table_name=prepared.table.bronze,
        end=prepared.snapshot.at,
        identity=prepared.instance.identity,
        granularity=database.settings.finality_of(prepared.table.key).granularity,
        table_id=table_id(prepared.bronze),
    )


def check_changes_readable(connection: Connection, instances: Iterable[CaptureInstance]) -> None:
    """Raise `PermissionMissingError` where a change table may not be read, of one instance or both.

    A snapshot whose changes may not be read would be hours for nothing.
    """
    for name in sorted({instance.name for instance in instances}):
        connection.rows(queries.probe_changes(name))


def to_open(prepared: PreparedSnapshot, known: Snapshots) -> PreparedSnapshot:
    """A new snapshot with the event that opens it, and its key in the lake's names."""
    snapshot = prepared.snapshot
    keys, bronze_id = prepared.columns.renamed(snapshot.keys), table_id(prepared.bronze)
    snapshot = replace(snapshot, keys=keys, bronze_id=bronze_id)
    entry = open_entry(
        prepared.table, prepared.instance, prepared.poll, known, snapshot, str(prepared.choice)
    )
    return replace(prepared, snapshot=snapshot, open_entry=entry)


def open_snapshots(
    database: Database, prepared: Sequence[PreparedSnapshot]
) -> dict[TableName, PreparedSnapshot | CdcError]:
    """Record their LSNs before anything is read, in one commit; of two openers the first wins.

    Gives them as they were opened, which may be another sync's, or why one was not.
    """
    facts = database.lake.facts
    wanted = [one.open_entry for one in prepared if one.open_entry is not None]
    written = {entry.app_id for entry in facts.append(wanted)}
    now = snapshots_by_target(facts.events()) if wanted else {}
    faults.reach(FaultPoint.SNAPSHOT_OPENED)
    return {
        one.table: _as_opened(database, one, now[one.table.bronze], written)
        if one.open_entry
        else one
        for one in prepared
    }


def _as_opened(
    database: Database, prepared: PreparedSnapshot, now: Snapshots, written: Collection[str | None]
) -> PreparedSnapshot | CdcError:
    """The snapshot as the facts have it now, or why it is not to be read."""
    if table_id(prepared.bronze) in now.discarded:
        # Its event stands after the reset's, so its rows would count, and nobody would see them.
        return CommitConflictError(
            "it was reset while its snapshot was opened, and nothing was read",
            where=str(prepared.table),
            hint="Run it again.",
        )
    if prepared.open_entry and prepared.open_entry.app_id in written:
        return prepared
    return _follow(database, prepared, now)


def _follow(
    database: Database, prepared: PreparedSnapshot, snapshots: Snapshots
) -> PreparedSnapshot | CdcError:
    """The snapshot that another run has opened meanwhile, or why it is not to be read."""
    other = snapshots.newest
    if other is None or other == prepared.before:
        return TableReplacedError(
            "the facts lack the event of a snapshot that was opened",
            where=str(prepared.table),
            hint=f"Were rows removed from {database.name.facts_uri} by hand? Restore it.",
        )
    is_read = prepared.snapshot.as_of is None
    if is_read and other.as_of is not None and other == snapshots.open:
        return being_seeded(prepared.table, other.as_of)
    mine, theirs = prepared.snapshot.reader, other.reader
    if mine is not None and theirs is not None and theirs.may_be_newer_than(mine):
        # Its event says that the rows have columns which this run does not know of.
        return CommitConflictError(
            "another run opened its snapshot for a newer capture instance, and nothing was read",
            where=str(prepared.table),
            hint="Run it again.",
        )
    # Its extent is of the other's look: a key above ours may be below its S.
    return replace(prepared, snapshot=other, extent=None)


def being_seeded(table: TableName, as_of: str) -> SeedOpenError:
    """That a copy is to give the table its rows: reading it may be what that avoids."""
    return SeedOpenError(
        f"it is being seeded as of {as_of}, and the copy's rows are not in bronze yet",
        where=str(table),
        hint=f"Wait for it, or where it died run the same again: {table.command(Command.SEED)}."
        f" To read the table instead: {table.command(Command.RESET)}.",
    )
