"""SQL Server's types as Delta's, and Arrow batches cast to exactly what was declared.

The table of types is the contract: text in any code page arrives as STRING, datetime2's 100 ns
are truncated to microseconds, tinyint is unsigned and becomes SMALLINT.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from cdc_assets.errors import UnsupportedColumnError

_DIRECT = {
    "bit": "BOOLEAN",
    "tinyint": "SMALLINT",
    "smallint": "SMALLINT",
    "int": "INT",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "float": "DOUBLE",
    "money": "DECIMAL(19,4)",
    "smallmoney": "DECIMAL(10,4)",
    "date": "DATE",
    "datetime": "TIMESTAMP_NTZ",
    "smalldatetime": "TIMESTAMP_NTZ",
    "datetime2": "TIMESTAMP_NTZ",
    "datetimeoffset": "TIMESTAMP",
    **dict.fromkeys(
        ("char", "varchar", "nchar", "nvarchar", "text", "ntext", "xml", "uniqueidentifier"),
        "STRING",
    ),
    "time": "STRING",
    **dict.fromkeys(("binary", "varbinary", "image", "timestamp", "rowversion"), "BINARY"),
}
_ARROW = {
    "BOOLEAN": pa.bool_(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class SqlType:
    """A column's type as the catalog has it; `length` in characters or bytes, -1 for (max)."""

    name: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    time_scale: int | None = None
    collation: str | None = None


def is_known(sql_type: str) -> bool:
    """Whether it is a built-in type with a counterpart; `sql_type` in small letters."""
    return sql_type in _DIRECT or sql_type in ("decimal", "numeric")


def delta_type(sql_type: str, precision: int | None, scale: int | None, *, column: str) -> str:
    """The Spark SQL type a SQL Server type becomes; `sql_type` is the base type's name.

    Raises `UnsupportedColumnError` naming the column for sql_variant, spatial and CLR types.
    """
    name = sql_type.lower()
    if name in ("decimal", "numeric"):
        return f"DECIMAL({precision},{scale or 0})"
    if name not in _DIRECT:
        raise UnsupportedColumnError(
            f"column {column} has the type {sql_type}, which has no exact counterpart",
            hint="Leave it out: list the other columns under `columns`.",
        )
    return _DIRECT[name]


def arrow_type(type_text: str) -> pa.DataType:
    """The Arrow type of a declared column type."""
    if found := _DECIMAL.fullmatch(type_text):
        return pa.decimal128(int(found.group(1)), int(found.group(2)))
    return _ARROW[type_text]


def cast_column(values: pa.Array, type_text: str) -> pa.Array:
    """An array as the driver gave it, in the declared type; never rounds, wraps or guesses."""
    target = arrow_type(type_text)
    if values.type == target:
        return values
    if pa.types.is_time(values.type):
        return _time_text(values)
    if type_text == "TIMESTAMP" and pa.types.is_string(values.type):
        return _instant(values)
    return pc.cast(values, target, safe=True)


_TIME_WIDTH = {"s": 8, "ms": 12, "us": 15, "ns": 16}


def _time_text(values: pa.Array) -> pa.Array:
    # 100 ns are seven digits; Arrow prints nine for nanoseconds.
    text = pc.cast(values, pa.string())
    return pc.utf8_slice_codeunits(text, 0, _TIME_WIDTH[values.type.unit])


def _instant(values: pa.Array) -> pa.Array:
    """`2026-09-28 13:50:01.1234567 -03:00` as the instant, truncated to microseconds."""
    local = pc.extract_regex(
        values, r"^(?P<at>[^ ]+ [0-9:]+(?:\.[0-9]{1,6})?)[0-9]* (?P<sign>[+-])(?P<h>..):(?P<m>..)$"
    )
    at = pc.cast(pc.struct_field(local, "at"), pa.timestamp("us"))
    hours = pc.cast(pc.struct_field(local, "h"), pa.int64())
    minutes = pc.add(pc.multiply(hours, 60), pc.cast(pc.struct_field(local, "m"), pa.int64()))
    signed = pc.if_else(pc.equal(pc.struct_field(local, "sign"), "-"), pc.negate(minutes), minutes)
    offset = pc.cast(pc.multiply(signed, 60_000_000), pa.duration("us"))
    return pc.cast(pc.subtract(at, offset), pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
