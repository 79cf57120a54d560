"""The catalog: capture instances and their columns, from documented procedures only."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdc_assets.contract import Column
from cdc_assets.lsn import Lsn
from cdc_assets.planning.columns import (
    Chosen,
    ColumnWish,
    adopt,
    choose_columns,
    left_out,
    without_lost,
)
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.planning.records import Identity
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.connection import Connection
from cdc_assets.sqlserver.types import SqlType, delta_type, is_known

_BRACKETED = re.compile(r"\[((?:[^\]]|\]\])+)\]")


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A captured column: as declared in Delta, its type on the server, and its name there.

    The name is the same on both sides unless `source` says otherwise. `is_missing` says that the
    table that is read has not got it: its values are NULL.
    """

    column: Column
    type: SqlType
    source: str = ""
    is_computed: bool = False
    is_missing: bool = False

    @property
    def name(self) -> str:
        """Its name in the lake."""
        return self.column.name

    @property
    def source_name(self) -> str:
        """Its name at the source."""
        return self.source or self.column.name

    @property
    def is_read(self) -> bool:
        """Whether a snapshot has its values; else they are NULL, as they are in the changes."""
        return not self.is_computed and not self.is_missing


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
        return tuple((c.source_name, c.name) for c in self.columns if c.is_read)

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


def unique_indexes(connection: Connection, object_id: int) -> list[frozenset[str]]:
    """The columns of each unique index over all rows of a table, as far as the login sees them."""
    found: dict[int, set[str]] = {}
    for row in connection.rows(queries.UNIQUE_INDEXES, [str(object_id)]):
        found.setdefault(row["index_id"], set()).add(row["name"])
    return [frozenset(names) for names in found.values()]


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
    *,
    of_changes: bool = False,
) -> Captured:
    """The captured columns to load, as `choose_columns` chooses and names them.

    They are to be read from the source table, or with `of_changes` from the change table, and
    have the types that they have there now: a change table's follow the source's when capture
    reads the DDL. In the source a column is the captured one by its `column_id`: another one that
    has its name now was never captured. `existing` are the columns that bronze has: one of them
    that the instance lacks may be wished for. Raises `UnsupportedColumnError` for a type without
    a counterpart, and as `choose_columns` does.
    """
    source, changes = _columns_now(connection, instance, of_changes=of_changes)
    by_id = {row["column_id"]: row for row in source}
    rows = connection.rows(queries.CAPTURED_COLUMNS, [instance.name])
    rows.sort(key=lambda row: row["column_ordinal"])
    by_name = {str(row["column_name"]): row for row in rows}
    now = {name: by_id.get(row["column_id"]) for name, row in by_name.items()}
    computed = {name for name, row in now.items() if row is not None and row["is_computed"]}
    names = tuple(by_name)
    wish = without_lost(wish, names, existing)
    chosen = choose_columns(names, computed, wish, where=instance.name)
    # Where the login sees none of them, nothing is known to be gone.
    missing = {name for name, row in now.items() if source and row is None}
    if of_changes:
        missing = set()
        now = dict.fromkeys(names) | {str(row["name"]): row for row in changes}
    columns = (
        captured_column(by_name[c.source], now[c.source], c) for c in adopt(chosen, existing)
    )
    return Captured(
        tuple(replace(c, is_missing=c.source_name in missing) for c in columns),
        left_out(names, computed, chosen, wish),
    )


def captured_ids(connection: Connection, instance: CaptureInstance) -> dict[int, str]:
    """The source's ids of an instance's captured columns, and their names."""
    rows = connection.rows(queries.CAPTURED_COLUMNS, [instance.name])
    return {int(row["column_id"]): str(row["column_name"]) for row in rows}


def captured_column(
    row: Mapping[str, Any], now: Mapping[str, Any] | None, chosen: Chosen
) -> CapturedColumn:
    """A row of `CAPTURED_COLUMNS` as a column; `now` is its row of `TABLE_COLUMNS`, if any.

    An alias type is what it was made from. Raises `UnsupportedColumnError`.
    """
    name = chosen.source
    if now is not None and is_known(str(now["base_type"] or "").lower()):
        found = _type_of(now)
    else:
        found = SqlType(
            str(row["data_type"]).lower(),
            length=_int(row["character_maximum_length"]),
            precision=_int(row["numeric_precision"]),
            scale=_int(row["numeric_scale"]),
            time_scale=_int(row["datetime_precision"]),
        )
    kind = delta_type(found.name, found.precision, found.scale, column=name)
    return CapturedColumn(Column(chosen.name, kind), found, name, chosen.is_computed)


def _type_of(row: Mapping[str, Any]) -> SqlType:
    """The type of a row of `TABLE_COLUMNS`; its `max_length` is in bytes, -1 for (max)."""
    name, length = str(row["base_type"]).lower(), int(row["max_length"])
    return SqlType(
        name,
        length=length // 2 if name in ("nchar", "nvarchar") and length > 0 else length,
        precision=_int(row["precision"]),
        scale=_int(row["scale"]),
        time_scale=_int(row["scale"]),
        collation=row["collation_name"],
    )


def _columns_now(
    connection: Connection, instance: CaptureInstance, *, of_changes: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The columns of the source table, and with `of_changes` of the change table, as they are now.

    As far as the login sees them; in one statement, since every table of every sync asks.
    """
    source, changes = instance.identity.source_object_id, instance.identity.change_object_id
    if not of_changes:
        return connection.rows(queries.TABLE_COLUMNS, [str(source)]), []
    found = connection.rows(queries.COLUMNS_OF_TWO_TABLES, [str(source), str(changes)])
    return (
        [row for row in found if row["object_id"] == source],
        [row for row in found if row["object_id"] == changes],
    )


def _int(value: object) -> int | None:
    return None if value is None else int(str(value))


def _names(listed: str | None) -> tuple[str, ...]:
    """`[order_id], [line ]]number]` as names."""
    return tuple(name.replace("]]", "]") for name in _BRACKETED.findall(listed or ""))
