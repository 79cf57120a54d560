"""The catalog: capture instances and their columns, from documented procedures only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.contract import BRONZE, Column
from cdc_assets.errors import UnsupportedColumnError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.planning.records import Identity
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.connection import Connection
from cdc_assets.sqlserver.types import SqlType, delta_type, is_known

_BRACKETED = re.compile(r"\[((?:[^\]]|\]\])+)\]")


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A captured column: as declared in Delta, and its type on the server."""

    column: Column
    type: SqlType

    @property
    def name(self) -> str:
        """Its name."""
        return self.column.name


def capture_instances(connection: Connection) -> dict[str, CaptureInstance]:
    """Every capture instance that this login may see, by name."""
    found = {}
    for row in connection.rows(queries.CAPTURE_INSTANCES):
        identity = Identity(
            source_object_id=row["source_object_id"],
            change_object_id=row["object_id"],
            instance_name=row["capture_instance"],
            created_at=row["create_date"],
        )
        found[identity.instance_name] = CaptureInstance(
            identity=identity,
            schema=row["source_schema"],
            table=row["source_table"],
            start=Lsn.parse_optional(row["start_lsn"]),
            index_columns=_names(row["index_column_list"]),
        )
    return found


def captured_columns(
    connection: Connection, instance: CaptureInstance, wanted: tuple[str, ...] | None
) -> tuple[CapturedColumn, ...]:
    """The captured columns to load, in the table's order.

    Computed columns are captured as NULL in every change row and therefore left out, unless
    `wanted` names them. Raises `UnsupportedColumnError` for a type without a counterpart, a name
    that collides with ours, and a wanted column that is not captured.
    """
    source = _source_columns(connection, instance)
    computed = {name for name, row in source.items() if row["is_computed"]}
    rows = connection.rows(queries.CAPTURED_COLUMNS, [instance.name])
    rows.sort(key=lambda row: row["column_ordinal"])
    names = [row["column_name"] for row in rows]
    missing = [name for name in wanted or () if name not in names]
    if missing:
        raise UnsupportedColumnError(
            f"column {missing[0]} is not captured by {instance.name}",
            hint=f"Captured are: {', '.join(names)}.",
        )
    chosen = [
        row
        for row in rows
        if (row["column_name"] in wanted if wanted else row["column_name"] not in computed)
    ]
    return tuple(captured_column(row, source.get(row["column_name"])) for row in chosen)


def captured_column(row: Mapping[str, Any], source: Mapping[str, Any] | None) -> CapturedColumn:
    """A row of `CAPTURED_COLUMNS` as a column; `source` is its row of `SOURCE_COLUMNS`, if any.

    An alias type is what it was made from. Raises `UnsupportedColumnError`.
    """
    name, sql_type = str(row["column_name"]), str(row["data_type"]).lower()
    precision, scale = row["numeric_precision"], row["numeric_scale"]
    length = row["character_maximum_length"]
    if not is_known(sql_type) and source is not None and source["base_type"]:
        sql_type = str(source["base_type"]).lower()
        precision, scale = source["precision"], source["scale"]
    if name.lower() in {c.lower() for c in BRONZE.names}:
        raise UnsupportedColumnError(
            f"column {name} has the name of one of ours",
            hint="Leave it out: list the other columns under `columns`.",
        )
    found = SqlType(
        sql_type,
        length=_int(length),
        precision=_int(precision),
        scale=_int(scale),
        time_scale=_int(row["datetime_precision"]),
        collation=source["collation_name"] if source is not None else None,
    )
    kind = delta_type(sql_type, found.precision, found.scale, column=name)
    return CapturedColumn(Column(name, kind), found)


def _source_columns(connection: Connection, instance: CaptureInstance) -> dict[str, dict[str, Any]]:
    """The source table's columns as they are now, by name."""
    object_id = str(instance.identity.source_object_id)
    return {row["name"]: row for row in connection.rows(queries.SOURCE_COLUMNS, [object_id])}


def _int(value: object) -> int | None:
    return None if value is None else int(str(value))


def _names(listed: str | None) -> tuple[str, ...]:
    """`[order_id], [line ]]number]` as names."""
    return tuple(name.replace("]]", "]") for name in _BRACKETED.findall(listed or ""))
