"""SqlType as TDS and Arrow know it: TYPE_INFO bytes, Arrow type, sizes."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from cdc_assets.sandbox.results import MAX_LENGTH, SqlType
from cdc_assets.sandbox.wire.collations import collation_bytes
from cdc_assets.sandbox.wire.errors import EncodingError

ROWVERSION_USER_TYPE = 0x50
TIME_BYTES = (3, 3, 3, 4, 4, 5, 5, 5)
"""Bytes of a time of day, by scale."""

ROWVERSION_BYTES = 8
UNBOUNDED = 0xFFFF
"""The length TYPE_INFO gives a `(max)` type."""

# name: (token of the nullable form, its length byte, token of the NOT NULL form)
_SIZED = {
    "bit": (0x68, 1, 0x32),
    "tinyint": (0x26, 1, 0x30),
    "smallint": (0x26, 2, 0x34),
    "int": (0x26, 4, 0x38),
    "bigint": (0x26, 8, 0x7F),
    "real": (0x6D, 4, 0x3B),
    "float": (0x6D, 8, 0x3E),
    "smallmoney": (0x6E, 4, 0x7A),
    "money": (0x6E, 8, 0x3C),
    "smalldatetime": (0x6F, 4, 0x3A),
    "datetime": (0x6F, 8, 0x3D),
}
_CHARACTER = {"varchar": (0xA7, 1), "char": (0xAF, 1), "nvarchar": (0xE7, 2), "nchar": (0xEF, 2)}
_BINARY = {"varbinary": 0xA5, "binary": 0xAD}
_SCALED = {"time": 0x29, "datetime2": 0x2A, "datetimeoffset": 0x2B}
_LOB = {"text": 0x23, "ntext": 0x63, "image": 0x22}

_OFFSET_STRUCT = pa.struct([("ticks", pa.int64()), ("offset_minutes", pa.int16())])
_ARROW = {
    "bit": pa.bool_(),
    "tinyint": pa.uint8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "float": pa.float64(),
    "money": pa.decimal128(19, 4),
    "smallmoney": pa.decimal128(10, 4),
    "date": pa.date32(),
    "time": pa.int64(),
    "datetime": pa.int64(),
    "smalldatetime": pa.int64(),
    "datetime2": pa.int64(),
    "datetimeoffset": _OFFSET_STRUCT,
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar", "text", "ntext"), pa.string()),
    **dict.fromkeys(("xml", "uniqueidentifier"), pa.string()),
    **dict.fromkeys(("binary", "varbinary", "image", "rowversion", "timestamp"), pa.binary()),
}


@cache
def arrow_type(sql_type: SqlType) -> pa.DataType:
    """The Arrow type a result column must have (see `SqlType`)."""
    if sql_type.name in ("decimal", "numeric"):
        return pa.decimal128(decimal_precision(sql_type), sql_type.scale or 0)
    try:
        return _ARROW[sql_type.name]
    except KeyError:
        raise EncodingError(f"the wire cannot carry the type {sql_type}") from None


@cache
def type_info(sql_type: SqlType, *, nullable: bool) -> bytes:
    """TYPE_INFO of a column or a return value."""
    name = sql_type.name
    if name in _SIZED:
        token, size, not_null_token = _SIZED[name]
        return bytes([token, size]) if nullable else bytes([not_null_token])
    if name in ("decimal", "numeric"):
        token = 0x6A if name == "decimal" else 0x6C
        precision = decimal_precision(sql_type)
        return bytes([token, decimal_bytes(precision), precision, sql_type.scale or 0])
    if name in _SCALED:
        return bytes([_SCALED[name], time_scale(sql_type)])
    if name in _CHARACTER:
        token, width = _CHARACTER[name]
        collation = collation_bytes(sql_type.collation)
        return bytes([token]) + _declared_bytes(sql_type, width) + collation
    if name in _BINARY:
        return bytes([_BINARY[name]]) + _declared_bytes(sql_type, 1)
    if name in _LOB:
        collation = b"" if name == "image" else collation_bytes(sql_type.collation)
        longest = 0x7FFFFFFE if name == "ntext" else 0x7FFFFFFF
        return bytes([_LOB[name]]) + longest.to_bytes(4, "little") + collation
    fixed = {"date": b"\x28", "uniqueidentifier": b"\x24\x10", "xml": b"\xf1\x00"}
    if name in ("rowversion", "timestamp"):
        return b"\xad" + ROWVERSION_BYTES.to_bytes(2, "little")
    try:
        return fixed[name]
    except KeyError:
        raise EncodingError(f"the wire cannot carry the type {sql_type}") from None


def has_length_byte(sql_type: SqlType, *, nullable: bool) -> bool:
    """Whether a fixed-width value is preceded by its length (0 for NULL)."""
    return nullable or sql_type.name not in _SIZED


def is_lob(sql_type: SqlType) -> bool:
    """Whether values carry a text pointer (text, ntext, image)."""
    return sql_type.name in _LOB


def is_plp(sql_type: SqlType) -> bool:
    """Whether values are partially length-prefixed (`(max)` types and xml)."""
    return sql_type.name == "xml" or sql_type.length == MAX_LENGTH


def decimal_precision(sql_type: SqlType) -> int:
    """Precision of a decimal, 18 where the type names none (as T-SQL does)."""
    return 18 if sql_type.precision is None else sql_type.precision


def decimal_bytes(precision: int) -> int:
    """Bytes of a decimal on the wire: the sign and its magnitude."""
    return 5 if precision <= 9 else 9 if precision <= 19 else 13 if precision <= 28 else 17


def time_scale(sql_type: SqlType) -> int:
    """Scale of a time type, 7 where the type names none (as T-SQL does)."""
    return 7 if sql_type.scale is None else sql_type.scale


def declared_length(sql_type: SqlType) -> int:
    """Length of a character or binary type, 1 where the type names none (as T-SQL does)."""
    if sql_type.name in ("rowversion", "timestamp"):
        return ROWVERSION_BYTES
    return 1 if sql_type.length is None else sql_type.length


def _declared_bytes(sql_type: SqlType, width: int) -> bytes:
    length = declared_length(sql_type)
    size = UNBOUNDED if length == MAX_LENGTH else length * width
    if size != UNBOUNDED and not 0 < size <= 8000:
        raise EncodingError(f"the length of {sql_type} is out of its range")
    return size.to_bytes(2, "little")
