"""`cdc-assets sync`, `acknowledge` and `reset`: one sync and one apply, without Dagster."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from cdc_assets.engines.database import Database
from cdc_assets.errors import SettingsError
from cdc_assets.ingest.losses import acknowledge
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.sync import sync
from cdc_assets.settings import load_settings
from cdc_assets.silver.apply import apply_tables


def run_acknowledge(key: str, table: str) -> int:
    """Record that a table's gap is known, and say which."""
    row = acknowledge(database_of(key, [table]), table)
    Console().print(
        f"{key}.{table}: the gap from {row.lost_from_ts} to {row.lost_to_ts} UTC is acknowledged."
    )
    return 0


def run_reset(key: str, table: str) -> int:
    """Start a table anew, and say what comes next."""
    reset(database_of(key, [table]), table)
    Console().print(
        f"{key}.{table} starts anew: its next sync takes a first snapshot, and silver follows it."
    )
    return 0


def run_sync(key: str, tables: list[str], *, resnapshot: bool = False) -> int:
    """Sync these tables and apply them; exit status 1 when one failed."""
    database = database_of(key, tables)
    report = sync(database, tables or None, resnapshot=resnapshot)
    shown = Table("table", "work", "rows", "upserted", "deleted", "complete until (UTC)")
    loaded = [o.table for o in report.outcomes.values() if o.error is None]
    applied = apply_tables(database, loaded)
    for table in loaded:
        outcome, silver = report.outcomes[table], applied[table]
        if silver.error is None or silver.applied_lsn is not None:
            shown.add_row(
                outcome.table,
                str(outcome.work),
                f"{outcome.rows:,}",
                f"{silver.upserted:,}",
                f"{silver.deleted:,}",
                str(silver.finalized_until or silver.hold or ""),
            )
    if loaded:
        Console().print(shown)
    for warning in report.warnings if loaded else ():
        Console(stderr=True, soft_wrap=True).print(warning, markup=False)
    errors = [
        *(outcome.error for outcome in report.failed),
        *(outcome.error for outcome in applied.values() if outcome.error is not None),
    ]
    for error in errors:
        Console(stderr=True, soft_wrap=True).print(str(error), markup=False)
    return 1 if errors else 0


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
