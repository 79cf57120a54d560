"""The catalog: capture instances and their columns, from documented procedures only."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_assets.contract import Column
from cdc_assets.lsn import Lsn
from cdc_assets.planning.columns import Chosen, ColumnWish, adopt, choose_columns, left_out
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.planning.records import Identity
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.connection import Connection
from cdc_assets.sqlserver.types import SqlType, delta_type, is_known

_BRACKETED = re.compile(r"\[((?:[^\]]|\]\])+)\]")


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A captured column: as declared in Delta, its type on the server, and its name there.

    The name is the same on both sides unless `source` says otherwise.
    """

    column: Column
    type: SqlType
    source: str = ""
    is_computed: bool = False

    @property
    def name(self) -> str:
        """Its name in the lake."""
        return self.column.name

    @property
    def source_name(self) -> str:
        """Its name at the source."""
        return self.source or self.column.name


@dataclass(frozen=True, slots=True)
class Captured:
    """The columns to load, in the table's order; and the computed ones left out unasked."""

    columns: tuple[CapturedColumn, ...]
    left_out: tuple[str, ...] = ()

    @property
    def declared(self) -> tuple[Column, ...]:
        """The columns as the lake declares them."""
        return tuple(column.column for column in self.columns)

    @property
    def selected(self) -> tuple[tuple[str, str], ...]:
        """What a SELECT takes: names at the source and in the lake.

        Not the computed columns: what is not selected is NULL, as they are in the change table.
        """
        return tuple((c.source_name, c.name) for c in self.columns if not c.is_computed)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the lake of what is selected."""
        return tuple(name for _, name in self.selected)

    @property
    def computed(self) -> tuple[str, ...]:
        """The names in the lake of the computed columns, loaded or left out unasked."""
        return (*(c.name for c in self.columns if c.is_computed), *self.left_out)

    @property
    def unbounded(self) -> dict[str, int]:
        """The columns whose values have no length of their own: bytes of a character of each."""
        return {
            c.name: 2 if c.type.name in ("nvarchar", "ntext", "xml") else 1
            for c in self.columns
            if c.type.name in ("text", "ntext", "image", "xml") or c.type.length == -1
        }

    def renamed(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names at the source as names in the lake; those not loaded stay as they are."""
        known = {column.source_name: column.name for column in self.columns}
        return tuple(known.get(name, name) for name in names)


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
    connection: Connection,
    instance: CaptureInstance,
    wish: ColumnWish,
    existing: Collection[str] = (),
) -> Captured:
    """The captured columns to load, as `choose_columns` chooses and names them.

    `existing` are the columns that bronze has. Raises `UnsupportedColumnError` for a type without
    a counterpart, and as `choose_columns` does.
    """
    source = _source_columns(connection, instance)
    computed = {name for name, row in source.items() if row["is_computed"]}
    rows = connection.rows(queries.CAPTURED_COLUMNS, [instance.name])
    rows.sort(key=lambda row: row["column_ordinal"])
    by_name = {str(row["column_name"]): row for row in rows}
    names = tuple(by_name)
    chosen = choose_columns(names, computed, wish, where=instance.name)
    return Captured(
        tuple(
            captured_column(by_name[c.source], source.get(c.source), c)
            for c in adopt(chosen, existing)
        ),
        left_out(names, computed, chosen, wish),
    )


def change_table_types(connection: Connection, instance: CaptureInstance) -> dict[str, str]:
    """The Spark SQL types of the change table's captured columns, by name, as they are now.

    Capture gives a column of the change table the source's new type when it reads that DDL.
    Types without a counterpart are left out.
    """
    rows = connection.rows(queries.SOURCE_COLUMNS, [str(instance.identity.change_object_id)])
    return {
        str(row["name"]): delta_type(
            str(row["base_type"]), row["precision"], row["scale"], column=str(row["name"])
        )
        for row in rows
        if not str(row["name"]).startswith("__$") and is_known(str(row["base_type"] or ""))
    }


def captured_column(
    row: Mapping[str, Any], source: Mapping[str, Any] | None, chosen: Chosen
) -> CapturedColumn:
    """A row of `CAPTURED_COLUMNS` as a column; `source` is its row of `SOURCE_COLUMNS`, if any.

    An alias type is what it was made from. Raises `UnsupportedColumnError`.
    """
    name, sql_type = chosen.source, str(row["data_type"]).lower()
    precision, scale = row["numeric_precision"], row["numeric_scale"]
    length = row["character_maximum_length"]
    if not is_known(sql_type) and source is not None and source["base_type"]:
        sql_type = str(source["base_type"]).lower()
        precision, scale = source["precision"], source["scale"]
    found = SqlType(
        sql_type,
        length=_int(length),
        precision=_int(precision),
        scale=_int(scale),
        time_scale=_int(row["datetime_precision"]),
        collation=source["collation_name"] if source is not None else None,
    )
    kind = delta_type(sql_type, found.precision, found.scale, column=name)
    return CapturedColumn(Column(chosen.name, kind), found, name, chosen.is_computed)


def _source_columns(connection: Connection, instance: CaptureInstance) -> dict[str, dict[str, Any]]:
    """The source table's columns as they are now, by name."""
    object_id = str(instance.identity.source_object_id)
    return {row["name"]: row for row in connection.rows(queries.SOURCE_COLUMNS, [object_id])}


def _int(value: object) -> int | None:
    return None if value is None else int(str(value))


def _names(listed: str | None) -> tuple[str, ...]:
    """`[order_id], [line ]]number]` as names."""
    return tuple(name.replace("]]", "]") for name in _BRACKETED.findall(listed or ""))
