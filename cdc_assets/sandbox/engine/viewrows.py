"""The rows of the catalogue views, out of the catalogue."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.access import Access
from cdc_assets.sandbox.engine.catalog import Catalog
from cdc_assets.sandbox.engine.systypes import (
    max_length,
    precision_of,
    scale_of,
    system_type_id,
    user_type_id,
)
from cdc_assets.sandbox.language import types

Row = tuple[object, ...]
_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?")
_PARENTHESISED = re.compile(r"\([^()]*\)")


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at which database."""

    catalog: Catalog
    access: Access
    database: e.Database

    @property
    def tables(self) -> list[e.Table]:
        """The tables the login may see."""
        return [t for t in self.catalog.tables_of(self.database.id) if self.access.sees(t)]

    @property
    def views(self) -> list[e.View]:
        """The views the login may see."""
        found = self.catalog.views_of(self.database.id)
        return [view for view in found if self.access.sees(view.as_table())]

    @property
    def relations(self) -> list[e.Table]:
        """Both, as what has columns."""
        return [*self.tables, *(view.as_table() for view in self.views)]

    def schema_ids(self) -> dict[str, int]:
        """Schema ids by lower-case name."""
        names = {"dbo": 1, "guest": 2, "information_schema": 3, "sys": 4}
        for number, name in enumerate(self.database.schemas, start=5):
            names.setdefault(name.lower(), number)
        return names

    def schema_id(self, name: str) -> int:
        """A schema's id."""
        return self.schema_ids()[name.lower()]


def objects_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view objects."""
    rows: list[Row] = []
    for t in viewer.tables:
        schema = viewer.schema_id(t.schema)
        rows.append(
            (
                t.name,
                t.id,
                None,
                schema,
                0,
                "U ",
                "USER_TABLE",
                t.created,
                t.created,
                t.shipped,
                False,
                False,
            )
        )
        for key in t.keys:
            if key.constraint:
                kind = (
                    ("PK", "PRIMARY_KEY_CONSTRAINT") if key.primary else ("UQ", "UNIQUE_CONSTRAINT")
                )
                rows.append(
                    (
                        key.name,
                        t.id + key.id,
                        None,
                        schema,
                        t.id,
                        *kind,
                        t.created,
                        t.created,
                        False,
                        False,
                        False,
                    )
                )
    return rows


def tables_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view tables."""
    tracked = {i.source for i in viewer.catalog.instances(viewer.database.id)}
    return [
        (
            t.name,
            t.id,
            None,
            viewer.schema_id(t.schema),
            0,
            "U ",
            "USER_TABLE",
            t.created,
            t.created,
            t.shipped,
            False,
            False,
            max(c.id for c in t.columns),
            t.id in tracked,
            False,
            0,
            "NON_TEMPORAL_TABLE",
            False,
        )
        for t in viewer.tables
    ]


def schemas_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view schemas."""
    shown = {
        "dbo": "dbo",
        "guest": "guest",
        "information_schema": "INFORMATION_SCHEMA",
        "sys": "sys",
    }
    shown |= {name.lower(): name for name in viewer.database.schemas}
    return [(shown[low], number, 1) for low, number in sorted(viewer.schema_ids().items())]


def columns_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view columns."""
    rows: list[Row] = []
    for t in viewer.relations:
        for c in t.columns:
            rows.append(
                (
                    t.id,
                    c.name,
                    c.id,
                    system_type_id(c.type),
                    c.alias_id or user_type_id(c.type),
                    max_length(c.type),
                    precision_of(c.type),
                    scale_of(c.type),
                    c.type.collation,
                    c.nullable,
                    False,
                    False,
                    c.identity is not None,
                    c.computed is not None,
                    False,
                    False,
                    (c.default and t.id + 1000 + c.id) or 0,
                    0,
                    0,
                    "NOT_APPLICABLE",
                    False,
                )
            )
    return rows


def default_definition(column: e.Column) -> str | None:
    """A column's default as the server keeps it: numbers in two pairs of parentheses."""
    if column.default is None:
        return None
    text = column.default.strip()
    while _PARENTHESISED.fullmatch(text):
        text = text[1:-1].strip()
    return f"(({text}))" if _NUMBER.fullmatch(text) else f"({text})"


def databases_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view databases."""
    return [
        (
            d.name,
            d.id,
            None,
            b"\x01",
            d.created,
            160,
            d.collation,
            0,
            "MULTI_USER",
            False,
            False,
            False,
            0,
            "ONLINE",
            False,
            int(d.snapshot_allowed),
            "ON" if d.snapshot_allowed else "OFF",
            False,
            3,
            "SIMPLE",
            d.cdc_enabled,
            False,
        )
        for d in sorted(viewer.catalog.databases.values(), key=lambda d: d.id)
        if viewer.access.administrator or viewer.access.may_enter(d.id) or d.id <= 2
    ]


def indexes_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view indexes."""
    rows: list[Row] = []
    for t in viewer.tables:
        if not any(k.clustered for k in t.keys):
            rows.append(
                (
                    t.id,
                    None,
                    0,
                    0,
                    "HEAP",
                    False,
                    1,
                    False,
                    False,
                    False,
                    0,
                    False,
                    False,
                    False,
                    False,
                    None,
                )
            )
        for k in t.keys:
            rows.append(
                (
                    t.id,
                    k.name,
                    k.id,
                    1 if k.clustered else 2,
                    "CLUSTERED" if k.clustered else "NONCLUSTERED",
                    k.unique,
                    1,
                    False,
                    k.primary,
                    k.constraint and not k.primary,
                    0,
                    False,
                    False,
                    False,
                    False,
                    None,
                )
            )
    return rows


def index_columns_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view index_columns."""
    return [
        (t.id, k.id, place, column, place, 0, column in k.descending, False)
        for t in viewer.tables
        for k in t.keys
        for place, column in enumerate(k.columns, start=1)
    ]


def identity_columns_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view identity_columns."""
    return [
        (t.id, c.name, c.id, c.identity[0], c.identity[1])
        for t in viewer.tables
        for c in t.columns
        if c.identity is not None
    ]


def computed_columns_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view computed_columns."""
    return [
        (t.id, c.name, c.id, c.computed, c.persisted)
        for t in viewer.tables
        for c in t.columns
        if c.computed is not None
    ]


def change_tables_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view change_tables."""
    return [
        (
            i.table,
            0,
            i.source,
            i.name,
            i.supports_net_changes,
            i.role,
            i.index_name,
            i.filegroup,
            i.created,
            False,
        )
        for i in viewer.catalog.instances(viewer.database.id)
        if viewer.access.owner(viewer.database.id)
    ]


def captured_columns_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view captured_columns."""
    return [
        (i.table, c.name, c.id, c.type.name, place, c.computed)
        for i in viewer.catalog.instances(viewer.database.id)
        if viewer.access.owner(viewer.database.id)
        for place, c in enumerate(i.columns, start=1)
    ]


def information_tables_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view information_tables."""
    found = [(viewer.database.name, t.schema, t.name, "BASE TABLE") for t in viewer.tables]
    return [*found, *((viewer.database.name, v.schema, v.name, "VIEW") for v in viewer.views)]


def information_columns_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view information_columns."""
    rows: list[Row] = []
    for t in viewer.relations:
        for place, c in enumerate(t.columns, start=1):
            text = c.type.name in types.STRINGS
            exact = c.type.name in types.NUMBERS - {"bit"}
            timed = c.type.name in types.TIMES
            rows.append(
                (
                    viewer.database.name,
                    t.schema,
                    t.name,
                    c.name,
                    place,
                    default_definition(c),
                    "YES" if c.nullable else "NO",
                    c.type.name,
                    c.type.length if text or c.type.name in types.BINARIES else None,
                    precision_of(c.type) if exact else None,
                    scale_of(c.type) if exact else None,
                    scale_of(c.type) if timed else None,
                    c.type.collation,
                )
            )
    return rows
