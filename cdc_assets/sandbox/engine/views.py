"""The catalogue views: sys.* and INFORMATION_SCHEMA.*, out of the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.access import Access
from cdc_assets.sandbox.engine.catalog import Catalog
from cdc_assets.sandbox.engine.rows import Described
from cdc_assets.sandbox.engine.systypes import (
    SYSTEM_TYPES,
    max_length,
    system_type_id,
    user_type_id,
)
from cdc_assets.sandbox.language import types
from cdc_assets.sandbox.results import SqlType

Row = tuple[object, ...]
_BIT, _INT, _NAME = types.BIT, types.INT, types.SYSNAME
_TINY, _SMALL, _DATETIME, _BIG = types.TINYINT, types.SMALLINT, types.DATETIME, types.BIGINT
_CHAR2 = SqlType("char", length=2, collation="Latin1_General_BIN2")
_TEXT60 = types.nvarchar(60)


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

    def schema_ids(self) -> dict[str, int]:
        """Schema ids by lower-case name."""
        names = {"dbo": 1, "guest": 2, "information_schema": 3, "sys": 4}
        for number, name in enumerate(self.database.schemas, start=5):
            names.setdefault(name.lower(), number)
        return names

    def schema_id(self, name: str) -> int:
        """A schema's id."""
        return self.schema_ids()[name.lower()]


def _objects(viewer: Viewer) -> list[Row]:
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


_OBJECT_COLUMNS: Described = (
    ("name", _NAME),
    ("object_id", _INT),
    ("principal_id", _INT),
    ("schema_id", _INT),
    ("parent_object_id", _INT),
    ("type", _CHAR2),
    ("type_desc", _TEXT60),
    ("create_date", _DATETIME),
    ("modify_date", _DATETIME),
    ("is_ms_shipped", _BIT),
    ("is_published", _BIT),
    ("is_schema_published", _BIT),
)


def _tables(viewer: Viewer) -> list[Row]:
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


def _schemas(viewer: Viewer) -> list[Row]:
    shown = {
        "dbo": "dbo",
        "guest": "guest",
        "information_schema": "INFORMATION_SCHEMA",
        "sys": "sys",
    }
    shown |= {name.lower(): name for name in viewer.database.schemas}
    return [(shown[low], number, 1) for low, number in sorted(viewer.schema_ids().items())]


def _columns(viewer: Viewer) -> list[Row]:
    rows: list[Row] = []
    for t in viewer.tables:
        for c in t.columns:
            rows.append(
                (
                    t.id,
                    c.name,
                    c.id,
                    system_type_id(c.type),
                    user_type_id(c.type),
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


def precision_of(kind: SqlType) -> int:
    """sys.columns' precision."""
    fixed = {
        "bit": 1,
        "tinyint": 3,
        "smallint": 5,
        "int": 10,
        "bigint": 19,
        "real": 24,
        "float": 53,
        "money": 19,
        "smallmoney": 10,
        "date": 10,
        "datetime": 23,
        "smalldatetime": 16,
    }
    if kind.precision is not None:
        return kind.precision
    if kind.name in ("time", "datetime2", "datetimeoffset"):
        base = {"time": 8, "datetime2": 19, "datetimeoffset": 26}[kind.name]
        return base + (kind.scale + 1 if kind.scale else 0)
    return fixed.get(kind.name, 0)


def scale_of(kind: SqlType) -> int:
    """sys.columns' scale."""
    return {"money": 4, "smallmoney": 4, "datetime": 3}.get(kind.name, kind.scale or 0)


def _types(viewer: Viewer) -> list[Row]:
    del viewer
    return [
        (
            name,
            system,
            user,
            4,
            None,
            length,
            precision,
            scale,
            "SQL_Latin1_General_CP1_CI_AS" if text else None,
            True,
            user == 256,
            False,
            0,
            0,
            False,
        )
        for name, system, user, length, precision, scale, text in SYSTEM_TYPES
    ]


def _databases(viewer: Viewer) -> list[Row]:
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


def _indexes(viewer: Viewer) -> list[Row]:
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


def _index_columns(viewer: Viewer) -> list[Row]:
    return [
        (t.id, k.id, place, column, place, 0, column in k.descending, False)
        for t in viewer.tables
        for k in t.keys
        for place, column in enumerate(k.columns, start=1)
    ]


def _identity_columns(viewer: Viewer) -> list[Row]:
    return [
        (t.id, c.name, c.id, c.identity[0], c.identity[1])
        for t in viewer.tables
        for c in t.columns
        if c.identity is not None
    ]


def _computed_columns(viewer: Viewer) -> list[Row]:
    return [
        (t.id, c.name, c.id, c.computed, c.persisted)
        for t in viewer.tables
        for c in t.columns
        if c.computed is not None
    ]


def _change_tables(viewer: Viewer) -> list[Row]:
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


def _captured_columns(viewer: Viewer) -> list[Row]:
    return [
        (i.table, c.name, c.id, c.type.name, place, c.computed)
        for i in viewer.catalog.instances(viewer.database.id)
        if viewer.access.owner(viewer.database.id)
        for place, c in enumerate(i.columns, start=1)
    ]


def _information_tables(viewer: Viewer) -> list[Row]:
    return [(viewer.database.name, t.schema, t.name, "BASE TABLE") for t in viewer.tables]


def _information_columns(viewer: Viewer) -> list[Row]:
    rows: list[Row] = []
    for t in viewer.tables:
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
                    None if c.default is None else f"({c.default})",
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


_VIEWS: dict[str, tuple[Described, Callable[[Viewer], list[Row]]]] = {
    "sys.objects": (_OBJECT_COLUMNS, _objects),
    "sys.all_objects": (_OBJECT_COLUMNS, _objects),
    "sys.tables": (
        (
            *_OBJECT_COLUMNS,
            ("max_column_id_used", _INT),
            ("is_tracked_by_cdc", _BIT),
            ("is_memory_optimized", _BIT),
            ("temporal_type", _TINY),
            ("temporal_type_desc", _TEXT60),
            ("is_external", _BIT),
        ),
        _tables,
    ),
    "sys.schemas": ((("name", _NAME), ("schema_id", _INT), ("principal_id", _INT)), _schemas),
    "sys.columns": (
        (
            ("object_id", _INT),
            ("name", _NAME),
            ("column_id", _INT),
            ("system_type_id", _TINY),
            ("user_type_id", _INT),
            ("max_length", _SMALL),
            ("precision", _TINY),
            ("scale", _TINY),
            ("collation_name", _NAME),
            ("is_nullable", _BIT),
            ("is_ansi_padded", _BIT),
            ("is_rowguidcol", _BIT),
            ("is_identity", _BIT),
            ("is_computed", _BIT),
            ("is_filestream", _BIT),
            ("is_sparse", _BIT),
            ("default_object_id", _INT),
            ("rule_object_id", _INT),
            ("generated_always_type", _TINY),
            ("generated_always_type_desc", _TEXT60),
            ("is_hidden", _BIT),
        ),
        _columns,
    ),
    "sys.types": (
        (
            ("name", _NAME),
            ("system_type_id", _TINY),
            ("user_type_id", _INT),
            ("schema_id", _INT),
            ("principal_id", _INT),
            ("max_length", _SMALL),
            ("precision", _TINY),
            ("scale", _TINY),
            ("collation_name", _NAME),
            ("is_nullable", _BIT),
            ("is_user_defined", _BIT),
            ("is_assembly_type", _BIT),
            ("default_object_id", _INT),
            ("rule_object_id", _INT),
            ("is_table_type", _BIT),
        ),
        _types,
    ),
    "sys.databases": (
        (
            ("name", _NAME),
            ("database_id", _INT),
            ("source_database_id", _INT),
            ("owner_sid", types.varbinary(85)),
            ("create_date", _DATETIME),
            ("compatibility_level", _TINY),
            ("collation_name", _NAME),
            ("user_access", _TINY),
            ("user_access_desc", _TEXT60),
            ("is_read_only", _BIT),
            ("is_auto_close_on", _BIT),
            ("is_auto_shrink_on", _BIT),
            ("state", _TINY),
            ("state_desc", _TEXT60),
            ("is_in_standby", _BIT),
            ("snapshot_isolation_state", _TINY),
            ("snapshot_isolation_state_desc", _TEXT60),
            ("is_read_committed_snapshot_on", _BIT),
            ("recovery_model", _TINY),
            ("recovery_model_desc", _TEXT60),
            ("is_cdc_enabled", _BIT),
            ("is_encrypted", _BIT),
        ),
        _databases,
    ),
    "sys.indexes": (
        (
            ("object_id", _INT),
            ("name", _NAME),
            ("index_id", _INT),
            ("type", _TINY),
            ("type_desc", _TEXT60),
            ("is_unique", _BIT),
            ("data_space_id", _INT),
            ("ignore_dup_key", _BIT),
            ("is_primary_key", _BIT),
            ("is_unique_constraint", _BIT),
            ("fill_factor", _TINY),
            ("is_padded", _BIT),
            ("is_disabled", _BIT),
            ("is_hypothetical", _BIT),
            ("has_filter", _BIT),
            ("filter_definition", types.nvarchar(-1)),
        ),
        _indexes,
    ),
    "sys.index_columns": (
        (
            ("object_id", _INT),
            ("index_id", _INT),
            ("index_column_id", _INT),
            ("column_id", _INT),
            ("key_ordinal", _TINY),
            ("partition_ordinal", _TINY),
            ("is_descending_key", _BIT),
            ("is_included_column", _BIT),
        ),
        _index_columns,
    ),
    "sys.identity_columns": (
        (
            ("object_id", _INT),
            ("name", _NAME),
            ("column_id", _INT),
            ("seed_value", _BIG),
            ("increment_value", _BIG),
        ),
        _identity_columns,
    ),
    "sys.computed_columns": (
        (
            ("object_id", _INT),
            ("name", _NAME),
            ("column_id", _INT),
            ("definition", types.nvarchar(-1)),
            ("is_persisted", _BIT),
        ),
        _computed_columns,
    ),
    "cdc.change_tables": (
        (
            ("object_id", _INT),
            ("version", _INT),
            ("source_object_id", _INT),
            ("capture_instance", _NAME),
            ("supports_net_changes", _BIT),
            ("role_name", _NAME),
            ("index_name", _NAME),
            ("filegroup_name", _NAME),
            ("create_date", _DATETIME),
            ("partition_switch", _BIT),
        ),
        _change_tables,
    ),
    "cdc.captured_columns": (
        (
            ("object_id", _INT),
            ("column_name", _NAME),
            ("column_id", _INT),
            ("column_type", _NAME),
            ("column_ordinal", _INT),
            ("is_computed", _BIT),
        ),
        _captured_columns,
    ),
    "information_schema.tables": (
        (
            ("TABLE_CATALOG", _NAME),
            ("TABLE_SCHEMA", _NAME),
            ("TABLE_NAME", _NAME),
            ("TABLE_TYPE", types.varchar(10)),
        ),
        _information_tables,
    ),
    "information_schema.columns": (
        (
            ("TABLE_CATALOG", _NAME),
            ("TABLE_SCHEMA", _NAME),
            ("TABLE_NAME", _NAME),
            ("COLUMN_NAME", _NAME),
            ("ORDINAL_POSITION", _INT),
            ("COLUMN_DEFAULT", types.nvarchar(4000)),
            ("IS_NULLABLE", types.varchar(3)),
            ("DATA_TYPE", _NAME),
            ("CHARACTER_MAXIMUM_LENGTH", _INT),
            ("NUMERIC_PRECISION", _TINY),
            ("NUMERIC_SCALE", _INT),
            ("DATETIME_PRECISION", _SMALL),
            ("COLLATION_NAME", _NAME),
        ),
        _information_columns,
    ),
}


def find(schema: str, name: str) -> tuple[Described, Callable[[Viewer], list[Row]]] | None:
    """A view's columns and the function that gives its rows."""
    return _VIEWS.get(f"{schema.lower()}.{name.lower()}")
