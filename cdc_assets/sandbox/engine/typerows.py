"""The rows of sys.types: the built-in types and the aliases."""

from __future__ import annotations

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.systypes import (
    SYSTEM_TYPES,
    max_length,
    precision_of,
    scale_of,
    system_type_id,
)
from cdc_assets.sandbox.engine.viewrows import Row, Viewer
from cdc_assets.sandbox.language import types

_SYS = 4
_SYSNAME = 256
_CLR = 240


def types_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view types."""
    rows: list[Row] = [
        (
            name,
            system,
            user,
            _SYS,
            None,
            length,
            precision,
            scale,
            viewer.database.collation if text else None,
            user != _SYSNAME,
            False,
            system == _CLR,
            0,
            0,
            False,
        )
        for name, system, user, length, precision, scale, text in SYSTEM_TYPES
    ]
    schemas = viewer.schema_ids()
    aliases = [t for t in viewer.catalog.of_kind(e.AliasType) if t.database == viewer.database.id]
    rows += [
        (
            t.name,
            system_type_id(t.type),
            t.id,
            schemas[t.schema.lower()],
            None,
            max_length(t.type),
            precision_of(t.type),
            scale_of(t.type),
            viewer.database.collation if t.type.name in types.STRINGS else None,
            t.nullable,
            True,
            False,
            0,
            0,
            False,
        )
        for t in sorted(aliases, key=lambda t: t.id)
    ]
    return rows
