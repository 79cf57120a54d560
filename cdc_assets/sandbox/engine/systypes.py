"""The numbers that sys.types gives the built-in types."""

from __future__ import annotations

from cdc_assets.sandbox.language import types
from cdc_assets.sandbox.results import MAX_LENGTH, SqlType

# name, system_type_id, user_type_id, max_length, precision, scale, has a collation
SYSTEM_TYPES: tuple[tuple[str, int, int, int, int, int, bool], ...] = (
    ("image", 34, 34, 16, 0, 0, False),
    ("text", 35, 35, 16, 0, 0, True),
    ("uniqueidentifier", 36, 36, 16, 0, 0, False),
    ("date", 40, 40, 3, 10, 0, False),
    ("time", 41, 41, 5, 16, 7, False),
    ("datetime2", 42, 42, 8, 27, 7, False),
    ("datetimeoffset", 43, 43, 10, 34, 7, False),
    ("tinyint", 48, 48, 1, 3, 0, False),
    ("smallint", 52, 52, 2, 5, 0, False),
    ("int", 56, 56, 4, 10, 0, False),
    ("smalldatetime", 58, 58, 4, 16, 0, False),
    ("real", 59, 59, 4, 24, 0, False),
    ("money", 60, 60, 8, 19, 4, False),
    ("datetime", 61, 61, 8, 23, 3, False),
    ("float", 62, 62, 8, 53, 0, False),
    ("sql_variant", 98, 98, 8016, 0, 0, False),
    ("ntext", 99, 99, 16, 0, 0, True),
    ("bit", 104, 104, 1, 1, 0, False),
    ("decimal", 106, 106, 17, 38, 38, False),
    ("numeric", 108, 108, 17, 38, 38, False),
    ("smallmoney", 122, 122, 4, 10, 4, False),
    ("bigint", 127, 127, 8, 19, 0, False),
    ("varbinary", 165, 165, 8000, 0, 0, False),
    ("varchar", 167, 167, 8000, 0, 0, True),
    ("binary", 173, 173, 8000, 0, 0, False),
    ("char", 175, 175, 8000, 0, 0, True),
    ("timestamp", 189, 189, 8, 0, 0, False),
    ("nvarchar", 231, 231, 8000, 0, 0, True),
    ("sysname", 231, 256, 256, 0, 0, True),
    ("nchar", 239, 239, 8000, 0, 0, True),
    ("hierarchyid", 240, 128, 892, 0, 0, False),
    ("geometry", 240, 129, -1, 0, 0, False),
    ("geography", 240, 130, -1, 0, 0, False),
    ("xml", 241, 241, -1, 0, 0, False),
)
_BY_NAME = {row[0]: row for row in SYSTEM_TYPES} | {
    "rowversion": next(row for row in SYSTEM_TYPES if row[0] == "timestamp")
}


def system_type_id(kind: SqlType) -> int:
    """sys.columns' system_type_id."""
    return _BY_NAME[kind.name][1]


def user_type_id(kind: SqlType) -> int:
    """sys.columns' user_type_id."""
    return _BY_NAME[kind.name][2]


def max_length(kind: SqlType) -> int:
    """sys.columns' max_length: bytes, -1 for (max)."""
    if kind.length == MAX_LENGTH:
        return -1
    if kind.length is not None:
        return kind.length * (2 if kind.name in types.NATIONAL else 1)
    if kind.name in types.DECIMALS:
        return (
            5
            + 4 * ((kind.precision or 1) > 9)
            + 4 * ((kind.precision or 1) > 19)
            + 4 * ((kind.precision or 1) > 28)
        )
    if kind.name in ("time", "datetime2", "datetimeoffset"):
        clock = 3 if (kind.scale or 0) <= 2 else 4 if (kind.scale or 0) <= 4 else 5
        return clock + {"time": 0, "datetime2": 3, "datetimeoffset": 5}[kind.name]
    return _BY_NAME[kind.name][3]


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
