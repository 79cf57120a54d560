"""`cdc-assets maintain`: upkeep of the tables, without Dagster."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from cdc_assets.cli.sync import database_of
from cdc_assets.quality.maintenance import maintain_tables


def run_maintain(key: str, tables: list[str]) -> int:
    """Maintain these tables, all by default, and the bookkeeping; exit status 1 when one failed."""
    database = database_of(key, tables)
    found = maintain_tables(database, tables or list(database.settings.tables))
    shown = Table("table", "files before", "after", "in order", "old files", "old rows", "engine")
    errors = Console(stderr=True, soft_wrap=True)
    for told in found:
        result = told.result
        if told.error is None:
            vacuumed = "?" if result.files_vacuumed is None else f"{result.files_vacuumed:,}"
            shown.add_row(
                told.name,
                f"{result.files_removed:,}",
                f"{result.files_added:,}",
                "anew" if result.ordered else "",
                vacuumed,
                f"{told.rows_removed:,}",
                told.engine,
            )
    Console().print(shown)
    for told in found:
        if told.skipped:
            errors.print(f"Not rewritten: {told.skipped}", markup=False)
        if told.error is not None:
            errors.print(str(told.error), markup=False)
    return int(any(told.error is not None for told in found))
