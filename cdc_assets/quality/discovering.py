"""Reading what a database captures, for `cdc-assets discover`; `planning.discovery` chooses."""

from __future__ import annotations

from cdc_assets.errors import CaptureInstanceUnknownError, PermissionMissingError, SourceQueryError
from cdc_assets.ingest.ranges import table_rows
from cdc_assets.planning.discovery import Discovered
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.planning.table_checkup import SourceColumn
from cdc_assets.sqlserver import doctor_queries, queries
from cdc_assets.sqlserver.catalog import capture_instances, unique_indexes
from cdc_assets.sqlserver.connection import Connection, SourceConnection, connect, with_retries
from cdc_assets.sqlserver.types import is_known


def discover(source: SourceConnection) -> tuple[str, list[Discovered]]:
    """The database's name, and every capture instance that this login may see.

    Raises `CaptureInstanceUnknownError` where there is none, and what a refused login raises.
    """
    return with_retries(lambda: _discover(source))


def _discover(source: SourceConnection) -> tuple[str, list[Discovered]]:
    with connect(source) as connection:
        name = str(connection.rows(doctor_queries.SERVER)[0]["database_name"])
        instances = capture_instances(connection)
        if not instances:
            raise CaptureInstanceUnknownError(
                f"the login {source.user} sees no capture instance in {name}",
                where=source.name,
                hint="`cdc-assets sql` prints what enables one, and the grants of this login.",
            )
        return name, [_read(connection, instance) for instance in instances.values()]


def _read(connection: Connection, instance: CaptureInstance) -> Discovered:
    object_id = instance.identity.source_object_id
    rows = connection.rows(queries.TABLE_COLUMNS, [str(object_id)])
    now = {row["column_id"]: row for row in rows}
    captured = connection.rows(queries.CAPTURED_COLUMNS, [instance.name])
    captured.sort(key=lambda row: row["column_ordinal"])
    columns = []
    for row in captured:
        there = now.get(row["column_id"])
        kind = str((there or {}).get("base_type") or row["data_type"]).lower()
        computed = bool(there and there["is_computed"])
        columns.append(SourceColumn(str(row["column_name"]), kind, is_known(kind), False, computed))
    unique = tuple(unique_indexes(connection, object_id))
    return Discovered(instance, tuple(columns), unique, _rows(connection, instance))


def _rows(connection: Connection, instance: CaptureInstance) -> int | None:
    """The catalog's own count, which costs no scan; None where this login may not ask."""
    try:
        return table_rows(connection, instance)
    except (PermissionMissingError, SourceQueryError):
        return None
