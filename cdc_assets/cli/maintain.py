"""`cdc-assets maintain`: upkeep of the tables, without Dagster."""

from __future__ import annotations

from cdc_assets.cli.output import print_json, print_table, say
from cdc_assets.cli.sync import database_of
from cdc_assets.quality.maintenance import Upkept, maintain_tables

_HEADS = ("table", "files before", "after", "in order", "old files", "old rows", "engine")


def run_maintain(key: str, tables: list[str], *, as_json: bool) -> int:
    """Maintain these tables, all by default, and the bookkeeping; exit status 1 when one failed."""
    database = database_of(key, tables)
    found = maintain_tables(database, tables or list(database.settings.tables))
    if as_json:
        print_json({"tables": found})
    else:
        print_table(_HEADS, [_cells(told) for told in found if told.error is None], _HEADS[1:6])
        for told in found:
            if told.skipped:
                say(f"Not rewritten: {told.skipped}", error=True)
            if told.error is not None:
                say(str(told.error), error=True)
    return int(any(told.error is not None for told in found))


def _cells(told: Upkept) -> tuple[str, ...]:
    result = told.result
    return (
        told.name,
        f"{result.files_removed:,}",
        f"{result.files_added:,}",
        "anew" if result.ordered else "",
        "?" if result.files_vacuumed is None else f"{result.files_vacuumed:,}",
        f"{told.rows_removed:,}",
        told.engine,
    )
