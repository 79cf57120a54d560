"""`cdc-assets sync`, `acknowledge` and `reset`: one sync and one apply, without Dagster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import typer

from cdc_assets.cli.output import print_json, print_table, say
from cdc_assets.engines.database import Database
from cdc_assets.errors import SettingsError
from cdc_assets.ingest.losses import acknowledge
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.sync import SyncReport, sync
from cdc_assets.settings import load_settings
from cdc_assets.silver.apply import apply_tables
from cdc_assets.silver.outcome import ApplyOutcome


def run_acknowledge(key: str, table: str) -> int:
    """Record that a table's gap is known, and say which."""
    row = acknowledge(database_of(key, [table]), table)
    say(f"{key}.{table}: the gap from {row.lost_from_ts} to {row.lost_to_ts} UTC is acknowledged.")
    return 0


def run_reset(key: str, table: str, *, yes: bool) -> int:
    """Start a table anew once a person has said yes, and say what comes next."""
    database = database_of(key, [table])
    if not yes:
        typer.confirm(
            f"{key}.{table}: give up what is loaded, bronze and silver, and take a first snapshot?",
            abort=True,
        )
    reset(database, table)
    say(f"{key}.{table} starts anew: its next sync takes a first snapshot, and silver follows it.")
    return 0


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """What a sync and the apply after it did with one table; `error` is the first of both."""

    table: str
    work: Work
    rows: int
    upserted: int
    deleted: int
    complete_until: datetime | None
    hold: str | None
    error: str | None


def run_sync(
    key: str, tables: list[str], *, resnapshot: bool = False, as_json: bool = False
) -> int:
    """Sync these tables and apply them; exit status 1 when one failed."""
    database = database_of(key, tables)
    report = sync(database, tables or None, resnapshot=resnapshot)
    loaded = load_silver(database, report)
    if as_json:
        print_json({"tables": loaded, "warnings": report.warnings})
    else:
        show_loaded(loaded, report.warnings)
        for table in database.settings.tables if not tables else ():
            if database.settings.is_paused(table):
                say(f"{key}.{table} stands still: `paused: true` in tables.yaml.")
    return int(any(one.error for one in loaded))


def load_silver(database: Database, report: SyncReport) -> list[LoadedTable]:
    """Apply what a sync has loaded, and give both by table."""
    fine = [outcome.table for outcome in report.outcomes.values() if outcome.error is None]
    applied = apply_tables(database, fine)
    return [_loaded(one, applied.get(one.table)) for one in report.outcomes.values()]


def _loaded(outcome: TableOutcome, silver: ApplyOutcome | None) -> LoadedTable:
    error = outcome.error or (silver.error if silver else None)
    return LoadedTable(
        table=outcome.table,
        work=outcome.work,
        rows=outcome.rows,
        upserted=silver.upserted if silver else 0,
        deleted=silver.deleted if silver else 0,
        complete_until=silver.finalized_until if silver else None,
        hold=str(silver.hold) if silver and silver.hold else None,
        error=str(error) if error else None,
    )


def show_loaded(loaded: Sequence[LoadedTable], warnings: Sequence[str]) -> None:
    """A table of what was loaded; warnings and errors go to standard error."""
    fine = [one for one in loaded if one.error is None]
    if fine:
        print_table(
            ("table", "work", "rows", "upserted", "deleted", "complete until (UTC)"),
            [
                (
                    one.table,
                    str(one.work),
                    f"{one.rows:,}",
                    f"{one.upserted:,}",
                    f"{one.deleted:,}",
                    str(one.complete_until or one.hold or ""),
                )
                for one in fine
            ],
            ("rows", "upserted", "deleted"),
        )
        for warning in warnings:
            say(warning, error=True)
    for one in loaded:
        if one.error is not None:
            say(one.error, error=True)


def every_database() -> list[Database]:
    """The databases of the settings."""
    return [Database.of(key, found) for key, found in load_settings().databases.items()]


def database_of(key: str, tables: list[str]) -> Database:
    """A database of the settings that has these tables."""
    settings = load_settings()
    if key not in settings.databases:
        raise SettingsError(
            f"there is no database {key}", hint=f"tables.yaml has: {', '.join(settings.databases)}."
        )
    database = Database.of(key, settings.databases[key])
    unknown = [table for table in tables if table not in database.settings.tables]
    if unknown:
        raise SettingsError(
            f"{key} has no table {unknown[0]}",
            hint=f"tables.yaml has: {', '.join(database.settings.tables)}.",
        )
    return database
