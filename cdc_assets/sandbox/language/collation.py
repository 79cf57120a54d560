"""Collations: how strings compare, as DuckDB expressions."""

from __future__ import annotations

import re

from cdc_assets.sandbox.language import errors, types
from cdc_assets.sandbox.results import DEFAULT_COLLATION, SqlError, SqlType

_NAME = re.compile(r"[A-Za-z0-9_]+")
_SHAPE = re.compile(r"_(CI|CS|BIN2?)(_|$)", re.IGNORECASE)
_KNOWN = re.compile(
    r"SQL_Latin1_General_CP1_CI_AS|Latin1_General(_100|_140)?_(CI|CS)_AS(_KS)?(_WS)?(_SC)?(_UTF8)?|"
    r"Latin1_General(_100|_140)?_BIN2?(_UTF8)?",
    re.IGNORECASE,
)


def checked(name: str) -> str:
    """The collation's name as SQL Server spells it.

    Raises Msg 448 for what is no collation, and refuses those whose order is not known here.
    """
    if not _NAME.fullmatch(name) or not _SHAPE.search(name):
        raise SqlError(448, f"Invalid collation '{name}'.")
    if name.upper() == DEFAULT_COLLATION.upper():
        return DEFAULT_COLLATION
    if not _KNOWN.fullmatch(name):
        raise errors.unsupported(f"The collation {name}")
    if "UTF8" in name.upper():
        raise errors.unsupported(f"The collation {name}")
    spelled = {"latin1": "Latin1", "general": "General"}
    return "_".join(spelled.get(part.lower(), part.upper()) for part in name.split("_"))


def is_binary(kind: SqlType) -> bool:
    """Whether its strings compare by code point."""
    return bool(re.search(r"_BIN2?$", kind.collation or ""))


def ignores_case(kind: SqlType) -> bool:
    """Whether `a` equals `A` in it."""
    return "_CI_" in (kind.collation or DEFAULT_COLLATION)


def equality_key(sql: str, kind: SqlType) -> str:
    """What two values must share to be equal: DuckDB text."""
    if kind.name in types.STRINGS:
        return f"fold({sql})" if ignores_case(kind) else f"rtrim({sql}, ' ')"
    if kind.name == "datetimeoffset":
        return f"({sql}).ticks"
    return sql


def order_key(sql: str, kind: SqlType) -> str:
    """What orders two values: DuckDB text, consistent with `equality_key`."""
    if kind.name in types.STRINGS:
        if is_binary(kind):
            return f"rtrim({sql}, ' ')"
        return f"sort_key({sql})" if ignores_case(kind) else f"sort_key_case({sql})"
    if kind.name == "datetimeoffset":
        return f"({sql}).ticks"
    if kind.name == "uniqueidentifier":
        return f"guid_key({sql})"
    return sql


def check_comparable(kind: SqlType) -> None:
    """Raise Msg 402 or 305 for types that have no order."""
    if kind.name in ("text", "ntext", "image"):
        raise SqlError(
            402,
            f"The data types {kind.name} and {kind.name} are incompatible in the "
            "equal to operator.",
        )
    if kind.name == "xml":
        raise SqlError(
            305,
            "The XML data type cannot be compared or sorted, except when using the IS NULL "
            "operator.",
        )
