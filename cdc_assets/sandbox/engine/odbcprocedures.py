"""The procedures that ODBC drivers call for themselves at connect."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets.sandbox.engine import rows as made
from cdc_assets.sandbox.engine.procedures import Call, Run
from cdc_assets.sandbox.results import Result

_COLUMNS = made.described(
    "TYPE_NAME sysname, DATA_TYPE smallint, PRECISION int, LITERAL_PREFIX varchar(32), "
    "LITERAL_SUFFIX varchar(32), CREATE_PARAMS varchar(32), NULLABLE smallint, "
    "CASE_SENSITIVE smallint, SEARCHABLE smallint, UNSIGNED_ATTRIBUTE smallint, MONEY smallint, "
    "AUTO_INCREMENT smallint, LOCAL_TYPE_NAME sysname, MINIMUM_SCALE smallint, "
    "MAXIMUM_SCALE smallint, SQL_DATA_TYPE smallint, SQL_DATETIME_SUB smallint, "
    "NUM_PREC_RADIX int, INTERVAL_PRECISION smallint, USERTYPE smallint"
)
_Q, _NQ = "'", "N'"

# name, ODBC type, precision, prefix, suffix, parameters, case sensitive, searchable, unsigned,
# money, smallest and largest scale, SQL type, its subtype, radix
_TYPES: tuple[tuple[object, ...], ...] = (
    ("sql_variant", -150, 8000, None, None, None, 0, 2, None, 0, 0, 0, -150, None, 10),
    ("uniqueidentifier", -11, 36, _Q, _Q, None, 0, 2, None, 0, None, None, -11, None, None),
    ("ntext", -10, 1073741823, _NQ, _Q, None, 0, 1, None, 0, None, None, -10, None, None),
    ("xml", -152, 0, _NQ, _Q, None, 0, 0, None, 0, None, None, -152, None, None),
    ("nvarchar", -9, 4000, _NQ, _Q, "max length", 0, 3, None, 0, None, None, -9, None, None),
    ("sysname", -9, 128, _NQ, _Q, None, 0, 3, None, 0, None, None, -9, None, None),
    ("nchar", -8, 4000, _NQ, _Q, "length", 0, 3, None, 0, None, None, -8, None, None),
    ("bit", -7, 1, None, None, None, 0, 2, None, 0, 0, 0, -7, None, None),
    ("tinyint", -6, 3, None, None, None, 0, 2, 1, 0, 0, 0, -6, None, 10),
    ("bigint", -5, 19, None, None, None, 0, 2, 0, 0, 0, 0, -5, None, 10),
    ("image", -4, 2147483647, "0x", None, None, 0, 0, None, 0, None, None, -4, None, None),
    ("varbinary", -3, 8000, "0x", None, "max length", 0, 2, None, 0, None, None, -3, None, None),
    ("binary", -2, 8000, "0x", None, "length", 0, 2, None, 0, None, None, -2, None, None),
    ("timestamp", -2, 8, "0x", None, None, 0, 2, None, 0, None, None, -2, None, None),
    ("text", -1, 2147483647, _Q, _Q, None, 0, 1, None, 0, None, None, -1, None, None),
    ("char", 1, 8000, _Q, _Q, "length", 0, 3, None, 0, None, None, 1, None, None),
    ("numeric", 2, 38, None, None, "precision,scale", 0, 2, 0, 0, 0, 38, 2, None, 10),
    ("decimal", 3, 38, None, None, "precision,scale", 0, 2, 0, 0, 0, 38, 3, None, 10),
    ("money", 3, 19, "$", None, None, 0, 2, 0, 1, 4, 4, 3, None, 10),
    ("smallmoney", 3, 10, "$", None, None, 0, 2, 0, 1, 4, 4, 3, None, 10),
    ("int", 4, 10, None, None, None, 0, 2, 0, 0, 0, 0, 4, None, 10),
    ("smallint", 5, 5, None, None, None, 0, 2, 0, 0, 0, 0, 5, None, 10),
    ("float", 6, 53, None, None, None, 0, 2, 0, 0, None, None, 6, None, 2),
    ("real", 7, 24, None, None, None, 0, 2, 0, 0, None, None, 7, None, 2),
    ("varchar", 12, 8000, _Q, _Q, "max length", 0, 3, None, 0, None, None, 12, None, None),
    ("date", 91, 10, _Q, _Q, None, 0, 3, None, 0, None, 0, 9, 1, None),
    ("time", -154, 16, _Q, _Q, "scale", 0, 3, None, 0, 0, 7, -154, 0, None),
    ("datetime2", 93, 27, _Q, _Q, "scale", 0, 3, None, 0, 0, 7, 9, 3, None),
    ("datetimeoffset", -155, 34, _Q, _Q, "scale", 0, 3, None, 0, 0, 7, -155, 0, None),
    ("datetime", 93, 23, _Q, _Q, None, 0, 3, None, 0, 3, 3, 9, 3, None),
    ("smalldatetime", 93, 16, _Q, _Q, None, 0, 3, None, 0, 0, 0, 9, 3, None),
)


def _datatype_info(call: Call) -> Iterator[Result]:
    """sp_datatype_info_100: every type, or those of one ODBC type code."""
    call.declare("@data_type", "@ODBCVer")
    wanted = call.number("@data_type", 0)
    rows = []
    for name, code, size, prefix, suffix, parameters, cased, search, unsigned, *rest in _TYPES:
        money, low, high, sql, sub, radix = rest
        if wanted not in (0, None, code):
            continue
        rows.append(
            (
                name,
                code,
                size,
                prefix,
                suffix,
                parameters,
                1,
                cased,
                search,
                unsigned,
                money,
                0 if unsigned is not None else None,
                name,
                low,
                high,
                sql,
                sub,
                radix,
                None,
                0,
            )
        )
    yield made.result(_COLUMNS, rows)


PROCEDURES: dict[str, Run] = {
    "sp_datatype_info_100": _datatype_info,
    "sp_datatype_info": _datatype_info,
}
