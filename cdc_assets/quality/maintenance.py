"""Upkeep of a database's tables: files, old versions, logs, and the facts of long ago.

It may run beside everything else. What a MERGE takes from it, or it from a MERGE, is done again by
the next call; and no version goes that is younger than the retention, so what a running call has
pinned stays. Silver's `verdict_version` is looked after between the rewrite and the clean-up.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.errors import (
    CdcError,
    ExtraMissingError,
    TableFeatureError,
    UnexpectedError,
    expected,
)
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.failures import lake_error
from cdc_assets.lake.tables import columns_of, table_id
from cdc_assets.lake.upkeep import beyond_clean_up, beyond_rewriting, history_of, maintain, order_of
from cdc_assets.names import TableName
from cdc_assets.planning.maintaining import verdict_version_after
from cdc_assets.planning.plans import MaintainPlan, MaintainResult
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.snapshots import Snapshots, snapshots_by_target

_log = logging.getLogger(__name__)

BOOKKEEPING_FILE_BYTES = 32 << 20
"""Size of the files of facts, control and plans, about."""

_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Upkept:
    """What upkeep did to one Delta table, or why nothing.

    `name` is the table's in control, or facts, control, plans; `rows_removed` are old facts, and
    `skipped` says why its files were not written anew.
    """

    name: str
    result: MaintainResult = field(default_factory=MaintainResult)
    rows_removed: int = 0
    engine: str = ""
    skipped: str = ""
    error: CdcError | None = None

    def __str__(self) -> str:
        if self.error is not None:
            return str(self.error)
        found = self.result
        rewritten = f"{found.files_removed} files became {found.files_added}"
        rewritten += ", in order of the key" if found.ordered else ""
        vacuumed = "" if found.files_vacuumed is None else f", {found.files_vacuumed} old ones went"
        rows = f", {self.rows_removed} old rows went" if self.rows_removed else ""
        skipped = f" ({self.skipped})" if self.skipped else ""
        return f"{self.name}: {rewritten}{vacuumed}{rows}{skipped}"


def maintain_tables(database: Database, tables: Sequence[str]) -> list[Upkept]:
    """Maintain the bookkeeping, and bronze, silver and history of these tables, one by one.

    A table's error is its own; tables that do not exist yet are left out.
    """
    found = _bookkeeping(database)
    snapshots = snapshots_by_target(database.lake.facts.events())
    for key in tables:
        name = database.table(key)
        taken = snapshots[name.bronze]
        work: dict[str, Callable[[], Upkept | None]] = {
            name.bronze: functools.partial(_bronze, database, name),
            name.silver: functools.partial(_silver, database, name, taken),
            name.history: functools.partial(_history, database, name, taken),
        }
        found += [_guarded(of, call) for of, call in work.items()]
    return [one for one in found if one is not None]


def _guarded(name: str, call: Callable[[], Upkept | None]) -> Upkept | None:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - one table's failure, foreseen or not, is its own
        ours = lake_error(error, name) or expected(error)
        if isinstance(ours, UnexpectedError):
            _log.exception("%s failed", name)
        ours.where = ours.where or name
        return Upkept(name, error=ours)


def _bookkeeping(database: Database) -> list[Upkept | None]:
    """The small tables, by delta-rs: first the facts' old rows, then the files of all three."""
    days = timedelta(days=database.settings.maintenance.facts_retention_days)
    removed = 0

    def trim() -> None:
        nonlocal removed
        removed = database.lake.facts.trim(utc_now() - days)
        faults.reach(FaultPoint.FACTS_TRIMMED)

    trimmed = _guarded("facts", trim)
    found: list[Upkept | None] = [trimmed] if trimmed is not None else []
    names = database.name
    for kind, uri in (
        ("facts", names.facts_uri),
        ("control", names.control_uri),
        ("plans", names.plans_uri),
    ):
        if DeltaTable.is_deltatable(uri, dict(database.lake.options)):
            plan = MaintainPlan(kind, uri, (), BOOKKEEPING_FILE_BYTES)
            rows = removed if kind == "facts" else 0
            found.append(_guarded(kind, functools.partial(_small, database, plan, rows)))
    return found


def _small(database: Database, plan: MaintainPlan, rows_removed: int) -> Upkept:
    hours = database.settings.maintenance.retention_hours
    rewritten = maintain(plan, database.lake.options)
    faults.reach(FaultPoint.BOOKKEEPING_REWRITTEN)
    cleaned = maintain(_clean_up(plan, hours), database.lake.options)
    return Upkept(plan.table, _both(rewritten, cleaned), rows_removed)


def _bronze(database: Database, name: TableName) -> Upkept | None:
    bronze = database.lake.bronze(name)
    if bronze is None:
        return None
    settings = database.settings.maintenance
    plan = MaintainPlan(name.bronze, name.bronze_uri, (), settings.bronze_file_mb * _MB)
    return _maintained(database, name.key, bronze, plan)


def _silver(database: Database, name: TableName, snapshots: Snapshots) -> Upkept | None:
    silver = database.lake.silver(name)
    if silver is None:
        return None
    plan = _by_key(database, name, snapshots, silver)
    return _maintained(
        database, name.key, silver, plan, lambda: _keep_verdict(database, name, silver)
    )


def _history(database: Database, name: TableName, snapshots: Snapshots) -> Upkept | None:
    history = database.lake.history(name)
    if history is None:
        return None
    plan = _by_key(database, name, snapshots, history)
    plan = replace(plan, table=name.history, uri=name.history_uri)
    return _maintained(database, name.key, history, plan)


def _by_key(
    database: Database, name: TableName, snapshots: Snapshots, table: DeltaTable
) -> MaintainPlan:
    """The rewrite of a silver, whose MERGEs look for keys; of a history likewise."""
    settings, complete = database.settings, snapshots.complete
    keys = settings.tables[name.key].keys or (complete.keys if complete else ())
    size = settings.maintenance.silver_file_mb * _MB
    return MaintainPlan(name.silver, name.silver_uri, order_of(keys, columns_of(table)), size)


def _maintained(
    database: Database,
    key: str,
    table: DeltaTable,
    plan: MaintainPlan,
    between: Callable[[], None] = lambda: None,
) -> Upkept:
    """Rewrite, then what must be known before old files go, then the clean-up."""
    skipped = ""
    try:
        choice = database.choose(key, beyond_rewriting(table))
    except (TableFeatureError, ExtraMissingError) as error:
        # Old files go all the same, where the engine that is there can do that.
        choice, skipped = database.choose(key, beyond_clean_up(table)), str(error)
    engine = database.engine(choice)
    rewritten = MaintainResult() if skipped else engine.maintain(plan)
    faults.reach(FaultPoint.UPKEEP_REWRITTEN)
    between()
    faults.reach(FaultPoint.UPKEEP_RECORDED)
    cleaned = engine.maintain(_clean_up(plan, database.settings.maintenance.retention_hours))
    return Upkept(plan.table, _both(rewritten, cleaned), engine=str(choice), skipped=skipped)


def _clean_up(plan: MaintainPlan, hours: int) -> MaintainPlan:
    return MaintainPlan(plan.table, plan.uri, retention_hours=hours)


def _both(rewritten: MaintainResult, cleaned: MaintainResult) -> MaintainResult:
    return replace(rewritten, files_vacuumed=cleaned.files_vacuumed)


def _keep_verdict(database: Database, name: TableName, silver: DeltaTable) -> None:
    """Let the verdict's version follow upkeep's own commit, or be none before its files go."""
    silver.update_incremental()
    found, commits = table_id(silver), history_of(silver)
    retention = timedelta(hours=database.settings.maintenance.retention_hours)

    def update(rows: Mapping[str, ControlRow]) -> Iterator[ControlRow]:
        row = rows.get(name.silver)
        if row is None or row.table_id != found:
            return
        version = verdict_version_after(row.verdict_version, commits, utc_now(), retention)
        if version != row.verdict_version:
            yield replace(row, verdict_version=version)

    database.lake.control.update(update)
