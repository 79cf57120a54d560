"""A table's columns to load: as captured, as the settings choose, as its bronze calls them."""

from __future__ import annotations

from deltalake import DeltaTable

from cdc_assets.engines.database import Database
from cdc_assets.lake.tables import columns_of
from cdc_assets.names import TableName
from cdc_assets.planning.columns import ColumnWish, check_keys, listed
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.sqlserver.catalog import Captured, captured_columns
from cdc_assets.sqlserver.connection import Connection


def columns_to_load(
    database: Database,
    table: TableName,
    connection: Connection,
    instance: CaptureInstance,
    bronze: DeltaTable | None,
    *,
    of_changes: bool = False,
) -> Captured:
    """The captured columns as the table's settings want them; raises `UnsupportedColumnError`.

    They are read from the source table, or with `of_changes` from the change table.
    """
    settings = database.settings.tables[table.key]
    wish = ColumnWish(settings.columns, settings.rename)
    existing = [column.name for column in columns_of(bronze)] if bronze is not None else []
    found = captured_columns(connection, instance, wish, existing, of_changes=of_changes)
    keys = settings.keys or found.renamed(instance.index_columns)
    check_keys(keys, found.computed, where=instance.name)
    return found


def computed_left_out(columns: Captured) -> tuple[str, ...]:
    """A warning for the computed columns that are not loaded, if there are any."""
    if not columns.left_out:
        return ()
    return (
        f"computed columns are captured as NULL and left out: {listed(columns.left_out)}."
        " To have them as NULL, or this warning gone, list the table's `columns`.",
    )
