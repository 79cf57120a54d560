"""The source table's schema as it is now: its DDL history, and its columns fitted to bronze's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltalake import DeltaTable

from cdc_assets.contract import Column
from cdc_assets.engines.database import Database
from cdc_assets.ingest.columns import columns_to_load
from cdc_assets.lake.tables import columns_of
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.instances import Reader, segments
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.schemas import DdlChange, check_allowed, each_once, fit
from cdc_assets.settings.tables import SchemaChangePolicy
from cdc_assets.sqlserver import schema_queries as queries
from cdc_assets.sqlserver.catalog import Captured
from cdc_assets.sqlserver.connection import Connection


@dataclass(frozen=True, slots=True)
class FittedColumns:
    """All columns of a commit, bronze's first, and those to select from each instance."""

    declared: tuple[Column, ...]
    selected: dict[str, Captured]


def ddl_changes(
    connection: Connection, chain: Sequence[Reader], poll: Poll, first: Lsn, last: Lsn
) -> tuple[DdlChange, ...]:
    """The DDL of a closed range of the log, asked of the instance that is read there."""
    if first > last:
        return ()
    found = []
    for segment in segments(chain, first, last):
        instance = poll.listed(segment.identity)
        if instance is None:
            continue
        rows = connection.rows(
            queries.DDL_HISTORY, [instance.name, str(segment.first), str(segment.last)]
        )
        for row in rows:
            lsn = Lsn.parse(row["ddl_lsn"])
            found.append(
                DdlChange(
                    instance.name,
                    lsn,
                    poll.clock.to_utc(row["ddl_time"], lsn),
                    str(row["ddl_command"] or "").strip(),
                    bool(row["required_column_update"]),
                )
            )
    return each_once(found)


def check_policy(database: Database, table: TableName, changes: Sequence[DdlChange]) -> None:
    """Raise `SchemaChangedError` for any change, where the settings say so."""
    if database.settings.schema_change_policy_of(table.key) is SchemaChangePolicy.FAIL:
        check_allowed(changes, where=str(table))


def fitted_columns(
    database: Database,
    table: TableName,
    connection: Connection,
    bronze: DeltaTable,
    instances: Sequence[CaptureInstance],
) -> FittedColumns:
    """The union of bronze's columns and the instances'; NULL is read for what one lacks.

    Types are those of the change tables themselves: they follow the source's. Raises
    `SchemaChangedError` for one that bronze's cannot hold.
    """
    declared, selected = columns_of(bronze), {}
    for instance in instances:
        captured = columns_to_load(database, table, connection, instance, bronze, of_changes=True)
        declared = fit(declared, captured.declared, table)
        selected[instance.name] = captured
    return FittedColumns(declared, selected)
