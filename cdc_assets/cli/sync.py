"""`cdc-assets sync`: one sync and one apply, without Dagster."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from cdc_assets.engines.database import Database
from cdc_assets.errors import SettingsError
from cdc_assets.ingest.sync import sync
from cdc_assets.settings import load_settings
from cdc_assets.silver.apply import apply_changes


def run_sync(key: str, tables: list[str]) -> int:
    """Sync these tables and apply them; exit status 1 when one failed."""
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
    report = sync(database, tables or None)
    shown = Table("table", "work", "rows", "upserted", "deleted", "complete until (UTC)")
    for outcome in report.outcomes.values():
        if outcome.error is None:
            applied = apply_changes(database, outcome.table)
            shown.add_row(
                outcome.table,
                str(outcome.work),
                f"{outcome.rows:,}",
                f"{applied.upserted:,}",
                f"{applied.deleted:,}",
                str(applied.finalized_until or applied.hold or ""),
            )
    Console().print(shown)
    for failed in report.failed:
        Console(stderr=True, soft_wrap=True).print(str(failed.error), markup=False)
    return 1 if report.failed else 0
