"""Conversions to binary and uniqueidentifier."""

from __future__ import annotations

from cdc_assets.sandbox.language import codepages, errors, types
from cdc_assets.sandbox.language.values import raising
from cdc_assets.sandbox.results import MAX_LENGTH, SqlType

_GUID = r"^\{?[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\}?"


def to_binary(sql: str, source: SqlType, target: SqlType, style: int) -> str:
    """DuckDB text of a value as binary."""
    if source.name in types.BINARIES:
        digits = f"hex({sql})"
    elif source.name in types.STRINGS and style in (1, 2):
        bare = f"substr({sql}, 3)" if style == 1 else sql
        pattern = "^0[xX]([0-9a-fA-F]{2})*$" if style == 1 else "^([0-9a-fA-F]{2})*$"
        failure = raising(8114, f"Error converting data type {source.name} to {target.name}.")
        digits = (
            f"CASE WHEN {sql} IS NULL THEN NULL WHEN regexp_matches({sql}, '{pattern}') "
            f"THEN {bare} ELSE {failure} END"
        )
    elif source.name in types.STRINGS:
        narrow = source.name in types.NARROW
        digits = codepages.to_hex(sql, codepages.page_of(source)) if narrow else f"wide_hex({sql})"
    elif source.name in types.INTEGERS:
        size = {"bit": 2, "tinyint": 2, "smallint": 4, "int": 8, "bigint": 16}[source.name]
        number = f"CAST({sql} AS HUGEINT)"
        wrapped = f"CASE WHEN {number} < 0 THEN {number} + {1 << (size * 4)} ELSE {number} END"
        width = size if target.length == MAX_LENGTH else 2 * (target.length or 0)
        padded = f"lpad(to_hex(CAST({wrapped} AS HUGEINT)), {max(size, width)}, '0')"
        digits = f"right({padded}, {width})" if target.name == "binary" else padded
    elif source.name == "uniqueidentifier":
        s = sql
        digits = (
            f"concat({s}[7:8],{s}[5:6],{s}[3:4],{s}[1:2],{s}[12:13],{s}[10:11],{s}[17:18],"
            f"{s}[15:16],{s}[20:23],{s}[25:36])"
        )
        digits = f"CASE WHEN {s} IS NULL THEN NULL ELSE {digits} END"
    else:
        raise errors.explicit_conversion(source.name, target.name)
    return _fit_binary(digits, sql, source, target)


def _fit_binary(digits: str, sql: str, source: SqlType, target: SqlType) -> str:
    if target.name not in ("binary", "varbinary"):
        if source.name in types.BINARIES:
            return sql
        return f"unhex({digits})"
    length = target.length
    known = source.length if source.name in types.BINARIES else None
    if length == MAX_LENGTH or (
        target.name == "varbinary" and known and 0 < known <= (length or 0)
    ):
        return sql if source.name in types.BINARIES else f"unhex({digits})"
    cut = f"left({digits}, {2 * (length or 0)})"
    if target.name == "binary":
        cut = f"rpad({cut}, {2 * (length or 0)}, '0')"
    return f"unhex({cut})"


def to_guid(sql: str, source: SqlType) -> str:
    """DuckDB text of a value as uniqueidentifier."""
    if source.name in types.STRINGS:
        failure = raising(
            8169, "Conversion failed when converting from a character string to uniqueidentifier."
        )
        return (
            f"CASE WHEN {sql} IS NULL THEN NULL WHEN regexp_matches({sql}, '{_GUID}') "
            f"THEN upper(left(ltrim({sql}, '{{'), 36)) ELSE {failure} END"
        )
    if source.name in types.BINARIES:
        h = f"hex({sql})"
        return (
            f"CASE WHEN {sql} IS NULL THEN NULL ELSE concat({h}[7:8],{h}[5:6],{h}[3:4],{h}[1:2],"
            f"'-',{h}[11:12],{h}[9:10],'-',{h}[15:16],{h}[13:14],'-',{h}[17:20],'-',{h}[21:32]) END"
        )
    if source.name == "uniqueidentifier":
        return sql
    raise errors.explicit_conversion(source.name, "uniqueidentifier")
