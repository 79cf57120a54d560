"""Rows that the engine itself makes: procedures' results and catalogue views, as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from cdc_assets.sandbox.language import types
from cdc_assets.sandbox.language.queries import QueryParser
from cdc_assets.sandbox.results import ResultColumn, ResultSet, SqlType

Described = Sequence[tuple[str, SqlType]]


def arrow_type(kind: SqlType) -> pa.DataType:
    """The Arrow type of a result column, as `SqlType` documents it."""
    name = kind.name
    if name in types.DECIMALS:
        return pa.decimal128(kind.precision or 18, kind.scale or 0)
    if name in types.TICKED or name == "time":
        return pa.int64()
    if name in types.BINARIES:
        return pa.binary()
    return {
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
        "datetimeoffset": pa.struct([("ticks", pa.int64()), ("offset_minutes", pa.int16())]),
    }.get(name, pa.string())


@lru_cache(maxsize=128)
def described(text: str) -> Described:
    """Columns out of text: names and T-SQL types, as in CREATE TABLE."""
    parser = QueryParser(text)
    columns = []
    while True:
        name = parser.identifier()
        columns.append((name, parser.type_name()))
        if not parser.accept(","):
            return tuple(columns)


def table(columns: Described, rows: Sequence[Sequence[object]]) -> pa.Table:
    """Rows as an Arrow table whose columns are x1, x2, …"""
    arrays = [
        pa.array([row[i] for row in rows], arrow_type(kind)) for i, (_, kind) in enumerate(columns)
    ]
    return pa.Table.from_arrays(arrays, names=[f"x{i + 1}" for i in range(len(columns))])


def result(columns: Described, rows: Sequence[Sequence[object]]) -> ResultSet:
    """Rows as a result set."""
    described = tuple(ResultColumn(name, kind) for name, kind in columns)
    return ResultSet(described, iter(table(columns, rows).to_batches()))
