"""Which GRANT a login lacks, as a statement to run."""

from __future__ import annotations

from cdc_assets.errors import PermissionMissingError, SourceQueryError
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.connection import Connection
from cdc_assets.sqlserver.connection_string import odbc_pairs


def missing_grant(connection: Connection, instance: str) -> PermissionMissingError | None:
    """Why the server does not list a capture instance to this login; None where there is none.

    The server lists an instance to those alone who may read all its captured columns and are in
    its gating role (Microsoft's page on `sp_cdc_help_change_data_capture`). So one that is there
    and not listed lacks a grant on its source table, whatever its change table says.
    """
    lacking = [_source_of(instance)]
    try:
        connection.rows(queries.probe_changes(instance))
    except PermissionMissingError:
        lacking.append(queries.change_table(instance))
    except SourceQueryError:
        return None
    source = connection.source
    user = queries.quoted(connection.rows(queries.USER)[0]["name"])
    database = odbc_pairs(source.text).get("database", "the source database")
    grants = "; ".join(f"GRANT SELECT ON {name} TO {user}" for name in lacking)
    return PermissionMissingError(
        f"the login {source.user} may not see the capture instance {instance}",
        where=source.name,
        hint=f"Run in [{database}]: {grants}. If the instance has a gating role, add the login.",
    )


def _source_of(instance: str) -> str:
    """The source table by an instance's default name, `<schema>_<table>`: nobody may look it up.

    With more than one underscore, or none, the name does not tell.
    """
    schema, _, table = instance.partition("_")
    plain = schema and table and "_" not in table
    return queries.source_table(schema, table) if plain else "its source table"
