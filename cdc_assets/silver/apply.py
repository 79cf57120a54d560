"""Apply bronze to silver: one pinned version, one ranking, one MERGE, then position and verdict.

The order is what makes it safe (seed 0019). Silver's transaction version is read first of all, then
the bronze verdict and the facts, and bronze after them, at one version: bronze commits its rows
before its verdict, and a snapshot's rows before its event, so that version holds what both point
to. The position is written after the MERGE; applying again from behind changes nothing, since a
call always reaches bronze's head.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.contract import Column, captured_of_bronze, silver_columns
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError, SilverKeyError, UnexpectedError, expected
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.bronze import head_above, newest_whole_snapshot, rows_above
from cdc_assets.lake.failures import lake_error
from cdc_assets.lake.features import beyond_reading, unreadable
from cdc_assets.lake.tables import beyond_arrow, check_names, columns_of, table_id
from cdc_assets.lake.told import ToldSnapshot, check_told, told_snapshots
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import follow_bronze
from cdc_assets.planning.columns import find_name, listed
from cdc_assets.planning.merging import changes_above, merge_texts, rebuild_from
from cdc_assets.planning.plans import ApplyPlan, ApplyResult, CommitTag
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.schemas import check_silver
from cdc_assets.planning.snapshots import Snapshots, snapshots_by_target
from cdc_assets.planning.verdict import Hold, silver_hold

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ApplyOutcome:
    """What an apply found and did."""

    table: str
    bronze_found: bool
    rebuilt: bool = False
    overtaken: bool = False
    applied_lsn: Lsn | None = None
    finalized_until: datetime | None = None
    hold: Hold | None = None
    upserted: int = 0
    deleted: int = 0
    engine: str = ""
    error: CdcError | None = None


@dataclass(frozen=True, slots=True)
class _Before:
    """Silver as it stood before anything else was read: Delta table and transaction version."""

    table: TableName
    silver: DeltaTable | None
    version: int


@dataclass(frozen=True, slots=True)
class _Taken:
    """A table's snapshots, and what of their rows must be in bronze."""

    snapshots: Snapshots
    told: tuple[ToldSnapshot, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    """What a call works on, read in the order that makes it safe."""

    verdict: ControlRow
    position: ControlRow
    snapshots: Snapshots
    bronze: DeltaTable
    captured: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class _Range:
    """The bronze rows of this call and where silver stands after it."""

    rows: str
    above: Lsn
    rebuild: bool
    applied: Lsn
    snapshot: Lsn
    empty: bool


def apply_tables(database: Database, tables: Sequence[str]) -> dict[str, ApplyOutcome]:
    """Bring these silver tables up to bronze's head and their verdicts to bronze's.

    Silver's transaction versions come first of all: whoever commits after that look makes this
    call's MERGE fail, so an older bronze is never merged over a newer one. Nothing is done until
    bronze exists and its first snapshot is in it. One table's error is its outcome.
    """
    with ThreadPoolExecutor(database.settings.max_parallel_tables) as pool:
        names = [database.table(key) for key in tables]
        before = list(pool.map(lambda t: _guarded(t, lambda: _look(database, t)), names))
        control = database.lake.control.read()
        snapshots = snapshots_by_target(database.lake.facts.events())
        there = {table: snapshots[table.bronze] for table in map(database.table, tables)}
        told = told_snapshots(database.lake.facts, there)

        def apply(found: _Before | ApplyOutcome) -> ApplyOutcome:
            if isinstance(found, ApplyOutcome):
                return found
            table = found.table
            taken = _Taken(snapshots[table.bronze], told[table])
            return _guarded(table, lambda: _apply(database, found, control, taken))

        return {outcome.table: outcome for outcome in pool.map(apply, before)}


def apply_changes(database: Database, key: str) -> ApplyOutcome:
    """Apply one table; raises its error."""
    outcome = apply_tables(database, [key])[key]
    if outcome.error is not None:
        raise outcome.error
    return outcome


def _guarded(table: TableName, call: Callable[[], T]) -> T | ApplyOutcome:
    """One table's failure, foreseen or not, as its outcome: it fails that table alone."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - said above
        ours = lake_error(error, table.silver_uri) or expected(error)
        if isinstance(ours, UnexpectedError):
            _log.exception("%s failed", table)
        ours.where = str(table)
        return ApplyOutcome(table.key, bronze_found=True, error=ours)


def _look(database: Database, table: TableName) -> _Before:
    silver = database.lake.silver(table)
    version = silver.transaction_version(table.apply_app) if silver else None
    return _Before(table, silver, version or 0)


def _apply(
    database: Database,
    before: _Before,
    control: Mapping[str, ControlRow],
    taken: _Taken,
) -> ApplyOutcome:
    table, snapshots = before.table, taken.snapshots
    read = _read(database, table, control, taken)
    if read is None:
        return ApplyOutcome(table.key, bronze_found=False)
    silver_id = table_id(before.silver) if before.silver else None
    given_up = silver_id in snapshots.discarded
    work = _range(table, read, None if given_up else silver_id)
    if work is None:
        return ApplyOutcome(table.key, bronze_found=True, hold=Hold.SNAPSHOT_OPEN)
    keys = _keys(database, table, read, work.snapshot)
    if given_up or read.position.table_id not in (None, silver_id):
        # Before another table takes its place: an empty silver must not carry a verdict.
        lost = ControlRow(table.silver)
        database.lake.control.merge(lambda rows: [rows.get(table.silver, lost).without_position()])
    columns = silver_columns(read.captured)
    if given_up:
        # Its rows may have LSNs above those to come, and a row only takes a newer image.
        renewed = database.lake.renew_silver(table, columns, before.version + 1)
        if table_id(renewed) in snapshots.discarded:
            return ApplyOutcome(table.key, bronze_found=True, overtaken=True)
        before = replace(before, silver=renewed, version=before.version + 1)
    silver = before.silver or database.lake.ensure_silver(table, columns)
    check_silver(columns_of(silver), columns, table)
    faults.reach(FaultPoint.SILVER_CREATED)
    check_names(silver, columns, where=str(table))
    rows = None
    if database.settings.spark.is_cluster:
        rows = rows_above(read.bronze, work.above)
    beyond = beyond_arrow(silver, columns) or beyond_reading(read.bronze)
    choice = database.choose(table.key, beyond, rows)
    if work.empty:
        silver.update_incremental()
        same = (silver.transaction_version(table.apply_app) or 0) == before.version
        result = ApplyResult(overtaken=not same, version=silver.version())
    else:
        plan = _plan(table, read, columns, keys, work, before.version + 1)
        result = database.engine(choice).apply(plan)
        faults.reach(FaultPoint.SILVER_MERGED)
    if result.overtaken:
        return ApplyOutcome(table.key, bronze_found=True, overtaken=True, engine=str(choice))
    row = _record(database, table, table_id(silver), read, work, result)
    return ApplyOutcome(
        table=table.key,
        bronze_found=True,
        rebuilt=work.rebuild,
        applied_lsn=work.applied,
        finalized_until=row.finalized_until,
        hold=silver_hold(read.verdict, row, read.snapshots),
        upserted=result.upserted,
        deleted=result.deleted,
        engine=str(choice),
    )


def _read(
    database: Database,
    table: TableName,
    control: Mapping[str, ControlRow],
    taken: _Taken,
) -> _Read | None:
    bronze, snapshots = database.lake.bronze(table), taken.snapshots
    if bronze is None or table_id(bronze) in snapshots.discarded:
        # What a reset has given up is not there.
        return None
    check_told(bronze, table, taken.told)
    captured = captured_of_bronze(columns_of(bronze))
    verdict = control.get(table.bronze)
    if verdict is None or verdict.table_id in snapshots.discarded:
        verdict = ControlRow(table.bronze)
    return _Read(
        verdict=verdict,
        position=control.get(table.silver) or ControlRow(table.silver),
        snapshots=snapshots,
        bronze=bronze,
        captured=captured,
    )


def _keys(database: Database, table: TableName, read: _Read, snapshot: Lsn) -> tuple[str, ...]:
    """Silver's key: the settings', else the unique index as silver's own snapshot recorded it.

    A further one may be open for another index, and silver is what it was until that is applied.
    """
    named = database.settings.tables[table.key].keys
    complete = read.snapshots.complete
    recorded = read.snapshots.keys.get(snapshot, complete.keys if complete else ())
    keys = named or recorded
    if not keys:
        raise SilverKeyError(
            "its key is unknown: the capture instance has no unique index",
            where=str(table),
            hint="Name the key in tables.yaml under `keys`.",
        )
    names = {column.name for column in read.captured}
    found = {key: find_name(key, names) for key in keys}
    missing = [key for key, name in found.items() if name is None]
    if missing:
        raise SilverKeyError(
            f"key column {missing[0]} is not in bronze",
            where=str(table),
            hint=f"Bronze has: {listed(sorted(names))}.",
        )
    if len(set(found.values())) != len(keys):
        raise SilverKeyError("a key column is named twice", where=str(table))
    return tuple(name for name in found.values() if name is not None)


def _newest_whole(table: TableName, read: _Read, known: Lsn | None) -> Lsn | None:
    """The newest whole snapshot whose rows are in bronze; its event may still lack."""
    if not unreadable(read.bronze):
        return newest_whole_snapshot(read.bronze, known)
    opened = read.snapshots.open_whole
    if opened is None:
        return None
    written = read.bronze.transaction_version(table.snapshot_app(opened.at.lsn))
    return opened.at.lsn if written is not None else None


def _range(table: TableName, read: _Read, silver_id: str | None) -> _Range | None:
    """Which bronze rows this call applies; None while no snapshot is complete.

    One that is read in chunks counts from its completion on: its waves wait in bronze, and a
    first one's changes with them. Beside a further one the changes are applied, and the verdict
    waits (`silver_hold`); at its completion silver is rebuilt from it.
    A silver that is not there, or is another Delta table than the recorded one, has no position.
    """
    position = read.position
    if silver_id is None or position.table_id != silver_id:
        position = position.without_position()
    known = Lsn.parse_optional(position.snapshot_lsn)
    complete = read.snapshots.complete
    candidates = (
        known,
        _newest_whole(table, read, known),
        complete.at.lsn if complete else None,
    )
    newest = max((lsn for lsn in candidates if lsn is not None), default=None)
    if newest is None:
        return None
    applied = Lsn.parse_optional(position.applied_lsn)
    if known is None or applied is None or newest > known:
        head = _head_above(table, read, newest)
        return _Range(
            rows=rebuild_from(newest),
            above=newest.previous(),
            rebuild=True,
            applied=head or newest,
            snapshot=newest,
            empty=False,
        )
    head = _head_above(table, read, applied)
    return _Range(
        rows=changes_above(applied),
        above=applied,
        rebuild=False,
        applied=head or applied,
        snapshot=known,
        empty=head is None,
    )


def _head_above(table: TableName, read: _Read, position: Lsn) -> Lsn | None:
    return head_above(read.bronze, position, table.changes_app, read.verdict.changed_lsn)


def _plan(
    table: TableName,
    read: _Read,
    columns: tuple[Column, ...],
    keys: tuple[str, ...],
    work: _Range,
    version: int,
) -> ApplyPlan:
    metadata = json.dumps(
        {"applied_lsn": str(work.applied), "bronze_version": read.bronze.version()}
    )
    return ApplyPlan(
        table=str(table),
        bronze_uri=table.bronze_uri,
        bronze_version=read.bronze.version(),
        silver_uri=table.silver_uri,
        columns=columns,
        keys=keys,
        texts=merge_texts(columns, keys, work.rows),
        rebuild=work.rebuild,
        tag=CommitTag(table.apply_app, version, metadata),
    )


def _record(
    database: Database,
    table: TableName,
    silver_id: str,
    read: _Read,
    work: _Range,
    result: ApplyResult,
) -> ControlRow:
    """Position and verdict, in one MERGE, from the row as it stands."""

    def update(rows: Mapping[str, ControlRow]) -> Iterator[ControlRow]:
        row = rows.get(table.silver) or ControlRow(table.silver)
        if row.table_id != silver_id:
            row = replace(row.without_position(), table_id=silver_id)
        if (row.applied_lsn or "") <= str(work.applied):
            row = replace(row, applied_lsn=str(work.applied))
        if (row.snapshot_lsn or "") <= str(work.snapshot):
            row = replace(row, snapshot_lsn=str(work.snapshot))
        yield follow_bronze(row, read.verdict, read.snapshots, result.version)

    return database.lake.control.merge(update)[table.silver]
