"""A table's columns to load: as captured, as the settings choose, as its bronze calls them."""

from __future__ import annotations

from collections.abc import Collection

from deltalake import DeltaTable

from cdc_assets.engines.database import Database
from cdc_assets.lake.tables import columns_of
from cdc_assets.names import TableName, folded
from cdc_assets.planning.columns import ColumnWish, check_keys, check_unique, listed
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.sqlserver.catalog import Captured, captured_columns, unique_indexes
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

    They are read from the source table, or with `of_changes` from the change table. Before the
    former a key that the settings name is held against the table's unique indexes: raises
    `SilverKeyError`.
    """
    settings = database.settings.tables[table.key]
    wish = ColumnWish(settings.columns, settings.rename)
    existing = [column.name for column in columns_of(bronze)] if bronze is not None else []
    found = captured_columns(connection, instance, wish, existing, of_changes=of_changes)
    keys = settings.keys or found.renamed(instance.index_columns)
    check_keys(keys, found.computed, where=instance.name)
    of_instance = {folded(name) for name in found.renamed(instance.index_columns)}
    wanted = {folded(key) for key in keys}
    is_loaded = wanted <= {folded(name) for name in found.names}  # Else silver says what lacks.
    if of_changes or settings.keys_unchecked or wanted == of_instance or not is_loaded:
        return found
    indexes = unique_indexes(connection, instance.identity.source_object_id)
    check_unique(keys, [found.renamed(sorted(index)) for index in indexes], where=instance.name)
    return found


def computed_left_out(columns: Captured) -> tuple[str, ...]:
    """A warning for the computed columns that are not loaded, if there are any."""
    if not columns.left_out:
        return ()
    return (
        f"computed columns are captured as NULL and left out: {listed(columns.left_out)}."
        " To have them as NULL, or this warning gone, list the table's `columns`.",
    )


_FINE_SCALE = 7
"""Digits of a second of which the lake keeps six."""


def fine_keys(columns: Captured, keys: Collection[str]) -> tuple[str, ...]:
    """A warning for key columns, by their names in the lake, that the lake keeps less exactly."""
    wanted = {folded(key) for key in keys}
    fine = [
        f"{c.name} ({c.type.name}({_FINE_SCALE}))"
        for c in columns.columns
        if folded(c.name) in wanted
        and c.type.name in ("datetime2", "datetimeoffset")
        and c.type.time_scale == _FINE_SCALE
    ]
    if not fine:
        return ()
    return (
        f"of the key column {listed(fine)} the lake keeps microseconds: two keys of one"
        " microsecond become one row of silver.",
    )
