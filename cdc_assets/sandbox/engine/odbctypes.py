"""How a column looks to ODBC: codes and lengths, as sp_columns gives them."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import systypes
from cdc_assets.sandbox.language import types
from cdc_assets.sandbox.results import SqlType

# ODBC type code, transfer length in bytes, TDS type when NOT NULL, when NULL
_CODES: dict[str, tuple[int, int, int, int]] = {
    "sql_variant": (-150, 8000, 39, 39),
    "uniqueidentifier": (-11, 16, 37, 37),
    "ntext": (-10, 2147483646, 35, 35),
    "xml": (-152, 0, 0, 0),
    "nvarchar": (-9, 0, 39, 39),
    "nchar": (-8, 0, 39, 39),
    "bit": (-7, 1, 50, 50),
    "tinyint": (-6, 1, 48, 38),
    "bigint": (-5, 8, 63, 108),
    "image": (-4, 2147483647, 34, 34),
    "varbinary": (-3, 0, 37, 37),
    "binary": (-2, 0, 37, 37),
    "rowversion": (-2, 8, 37, 37),
    "text": (-1, 2147483647, 35, 35),
    "char": (1, 0, 39, 39),
    "numeric": (2, 0, 63, 108),
    "decimal": (3, 0, 55, 106),
    "money": (3, 21, 60, 110),
    "smallmoney": (3, 12, 122, 110),
    "int": (4, 4, 56, 38),
    "smallint": (5, 2, 52, 38),
    "float": (6, 8, 62, 109),
    "real": (7, 4, 59, 109),
    "varchar": (12, 0, 39, 39),
    "date": (91, 6, 0, 0),
    "time": (-154, 12, 0, 0),
    "datetime2": (93, 16, 0, 0),
    "datetimeoffset": (-155, 20, 0, 0),
    "datetime": (93, 16, 61, 111),
    "smalldatetime": (93, 16, 58, 111),
}
_SIZES = {
    "uniqueidentifier": 36,
    "rowversion": 8,
    "float": 15,
    "real": 7,
    "text": 2147483647,
    "image": 2147483647,
    "ntext": 1073741823,
    "sql_variant": 8000,
}
_UNSCALED = {"float", "real", "bit", "date"}


@dataclass(frozen=True, slots=True)
class OdbcColumn:
    """A column's type in ODBC's numbers."""

    code: int
    name: str
    precision: int
    length: int
    scale: int | None
    radix: int | None
    sql_code: int
    subtype: int | None
    octets: int | None
    tds: int


def described(column: e.Column, version: int) -> OdbcColumn:
    """A column as ODBC 2 or 3 sees it: they differ in the codes of dates."""
    kind = column.type
    code, length, tds, tds_nullable = _CODES[kind.name]
    sized = kind.name in types.STRINGS | types.BINARIES
    numeric = kind.name in types.NUMBERS - {"bit"}
    if kind.name in types.DECIMALS:
        length = (kind.precision or 18) + 2
    elif sized and not length:
        length = max(systypes.max_length(kind), 0)
    scaled = (numeric or kind.name in types.TIMES) and kind.name not in _UNSCALED
    sql_code, subtype = {91: (9, 1), 93: (9, 3), -154: (-154, 0), -155: (-155, 0)}.get(
        code, (code, None)
    )
    if version < 3:
        code = {91: 9, 93: 11}.get(code, code)
    return OdbcColumn(
        code,
        _name(column),
        _SIZES.get(kind.name)
        or (max(kind.length or 0, 0) if sized else systypes.precision_of(kind)),
        length,
        systypes.scale_of(kind) if scaled else None,
        10 if numeric else None,
        sql_code,
        subtype,
        length if sized else None,
        tds_nullable if column.nullable else tds,
    )


def _name(column: e.Column) -> str:
    kind: SqlType = column.type
    name = "timestamp" if kind.name == "rowversion" else kind.name
    if column.identity is None:
        return name
    return f"{name}() identity" if name in types.DECIMALS else f"{name} identity"
