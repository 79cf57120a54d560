"""The key of a table as its source has it now: the unique index that capture was given."""

from __future__ import annotations

from cdc_assets.engines.database import Database
from cdc_assets.ingest.stream.places import settings_of
from cdc_assets.planning.polls import CaptureInstance, find_instance
from cdc_assets.settings.options import Options
from cdc_assets.sqlserver.catalog import capture_instances
from cdc_assets.sqlserver.connection import with_retries


def unique_index(options: Options, instance: str | None) -> tuple[str, ...]:
    """The columns of a capture instance's unique index, by their names in the lake.

    Empty where it has none; those that `tables.yaml` names come first. `instance` is that of the
    options where it is None. Raises `CaptureInstanceUnknownError`, and what a source that cannot
    be asked raises.
    """
    key, table, settings = settings_of(options)
    if named := settings.tables[table].keys:
        return named
    database = Database.of(key, settings)
    wanted = instance or settings.instance_of(table)

    def listed() -> dict[str, CaptureInstance]:
        with database.connections.lend() as connection:
            return capture_instances(connection)

    try:
        found = find_instance(with_retries(listed), wanted, where=key)
    finally:
        database.connections.close()
    renamed = settings.tables[table].rename
    return tuple(renamed.get(column, column) for column in found.index_columns)
