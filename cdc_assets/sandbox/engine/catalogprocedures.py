"""sp_tables, sp_columns and their kin: the catalogue as ODBC and JDBC drivers ask for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import odbctypes, views
from cdc_assets.sandbox.engine import rows as made
from cdc_assets.sandbox.engine.procedures import Call, Run
from cdc_assets.sandbox.engine.viewrows import Viewer, default_definition
from cdc_assets.sandbox.language import collation
from cdc_assets.sandbox.language.patterns import regular_expression
from cdc_assets.sandbox.results import Result, SqlError, SqlType

_QUALIFIED = "TABLE_QUALIFIER sysname, TABLE_OWNER sysname, TABLE_NAME sysname"
_TABLES = made.described(f"{_QUALIFIED}, TABLE_TYPE varchar(32), REMARKS varchar(254)")
_COLUMNS = (
    f"{_QUALIFIED}, COLUMN_NAME sysname, DATA_TYPE smallint, TYPE_NAME sysname, PRECISION int, "
    "LENGTH int, SCALE smallint, RADIX smallint, NULLABLE smallint, REMARKS varchar(254), "
    "COLUMN_DEF nvarchar(4000), SQL_DATA_TYPE smallint, SQL_DATETIME_SUB smallint, "
    "CHAR_OCTET_LENGTH int, ORDINAL_POSITION int, IS_NULLABLE varchar(254)"
)
_COLUMNS_OLD = made.described(f"{_COLUMNS}, SS_DATA_TYPE tinyint")
_COLUMNS_100 = made.described(
    f"{_COLUMNS}, SS_IS_SPARSE smallint, SS_IS_COLUMN_SET smallint, SS_IS_COMPUTED smallint, "
    "SS_IS_IDENTITY smallint, SS_UDT_CATALOG_NAME nvarchar(128), "
    "SS_UDT_SCHEMA_NAME nvarchar(128), SS_UDT_ASSEMBLY_TYPE_NAME nvarchar(4000), "
    "SS_XML_SCHEMACOLLECTION_CATALOG_NAME nvarchar(128), "
    "SS_XML_SCHEMACOLLECTION_SCHEMA_NAME nvarchar(128), "
    "SS_XML_SCHEMACOLLECTION_NAME nvarchar(128), SS_DATA_TYPE tinyint"
)
_KEYS = made.described(
    f"{_QUALIFIED}, COLUMN_NAME sysname, KEY_SEQ smallint, PK_NAME nvarchar(128)"
)
_STATISTICS = made.described(
    f"{_QUALIFIED}, NON_UNIQUE smallint, INDEX_QUALIFIER nvarchar(128), INDEX_NAME nvarchar(128), "
    "TYPE smallint, SEQ_IN_INDEX smallint, COLUMN_NAME nvarchar(128), COLLATION varchar(1), "
    "CARDINALITY int, PAGES int, FILTER_CONDITION nvarchar(128)"
)
_SPECIAL = made.described(
    "SCOPE smallint, COLUMN_NAME sysname, DATA_TYPE smallint, TYPE_NAME sysname, PRECISION int, "
    "LENGTH int, SCALE smallint, PSEUDO_COLUMN smallint"
)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A table or view with its columns."""

    schema: str
    name: str
    kind: str
    columns: tuple[e.Column, ...]


def _listed(call: Call) -> list[_Listed]:
    """What the login may see in the current database: tables, then the catalogue's views."""
    viewer = Viewer(call.context.catalog, call.context.access, call.context.current)
    found = [_Listed(t.schema, t.name, "TABLE", t.columns) for t in viewer.tables]
    found += [_Listed(v.schema, v.name, "VIEW", v.columns) for v in viewer.views]
    for schema, name, described in views.listed():
        if schema == "cdc" and not call.context.current.cdc_enabled:
            continue
        columns = tuple(e.Column(i, n, kind) for i, (n, kind) in enumerate(described, start=1))
        found.append(_Listed(schema, name, "TABLE" if schema == "cdc" else "VIEW", columns))
    return found


def _check_qualifier(call: Call) -> str:
    """The current database, which is the only one these procedures may be asked about."""
    database = call.context.current.name
    asked = call.text("@table_qualifier")
    if asked is not None and asked.lower() != database.lower():
        raise SqlError(
            15250,
            "The database name component of the object qualifier must be the name of the current "
            "database.",
        )
    return database


@dataclass(frozen=True, slots=True)
class _Filter:
    """Whether names fit an argument; none fits all."""

    pattern: re.Pattern[str] | None

    @classmethod
    def of(cls, call: Call, argument: str) -> _Filter:
        text = call.text(argument)
        if text is None:
            return cls(None)
        kind = SqlType("nvarchar", length=128, collation=call.context.collation)
        flags = re.DOTALL | (re.IGNORECASE if collation.ignores_case(kind) else 0)
        patterned = call.number("@fUsePattern", 1) != 0
        expression = regular_expression(text, "") if patterned else re.escape(text)
        return cls(re.compile(expression, flags))

    def fits(self, name: str) -> bool:
        return self.pattern is None or self.pattern.fullmatch(name) is not None


def _tables(call: Call) -> Iterator[Result]:
    """sp_tables: the database's tables and views by patterns of name and owner, and by type."""
    call.declare("@table_name", "@table_owner", "@table_qualifier", "@table_type", "@fUsePattern")
    database = _check_qualifier(call)
    name, owner = (_Filter.of(call, argument) for argument in ("@table_name", "@table_owner"))
    asked = call.text("@table_type")
    kinds = None if asked is None else {k.strip().strip("'").upper() for k in asked.split(",")}
    rows = [
        (database, listed.schema, listed.name, listed.kind, None)
        for listed in _listed(call)
        if name.fits(listed.name)
        and owner.fits(listed.schema)
        and (kinds is None or listed.kind in kinds)
    ]
    rows.sort(key=lambda row: (row[3], row[1].lower(), row[2].lower()))
    yield made.result(_TABLES, rows)


def _column_rows(call: Call) -> list[tuple[object, ...]]:
    database = _check_qualifier(call)
    arguments = ("@table_name", "@table_owner", "@column_name")
    name, owner, column = (_Filter.of(call, argument) for argument in arguments)
    version = call.number("@ODBCVer", 2) or 2
    found = sorted(_listed(call), key=lambda listed: (listed.schema.lower(), listed.name.lower()))
    rows: list[tuple[object, ...]] = []
    for listed in found:
        if not name.fits(listed.name) or not owner.fits(listed.schema):
            continue
        for place, c in enumerate(listed.columns, start=1):
            if not column.fits(c.name):
                continue
            o = odbctypes.described(c, version)
            nullable = "YES" if c.nullable else "NO"
            rows.append(
                (
                    *(database, listed.schema, listed.name, c.name, o.code, o.name),
                    *(o.precision, o.length, o.scale, o.radix, int(c.nullable), None),
                    default_definition(c),
                    *(o.sql_code, o.subtype, o.octets, place, nullable),
                    *(0, 0, int(c.computed is not None), int(c.identity is not None)),
                    *([None] * 6),
                    o.tds,
                )
            )
    return rows


_COLUMN_ARGUMENTS = ("@table_name", "@table_owner", "@table_qualifier", "@column_name")


def _columns(call: Call) -> Iterator[Result]:
    """sp_columns: without what SQL Server 2008 added."""
    call.declare(*_COLUMN_ARGUMENTS, "@ODBCVer")
    yield made.result(_COLUMNS_OLD, [(*row[:18], row[-1]) for row in _column_rows(call)])


def _columns_100(call: Call) -> Iterator[Result]:
    """sp_columns_100: columns by patterns of table, owner and column."""
    call.declare(*_COLUMN_ARGUMENTS, "@NameScope", "@ODBCVer", "@fUsePattern")
    yield made.result(_COLUMNS_100, _column_rows(call))


def _table(call: Call) -> e.Table | None:
    """The one table that @table_name and @table_owner name, if the login may know of it."""
    _check_qualifier(call)
    table = call.context.find_table((call.text("@table_owner") or "", call.required("@table_name")))
    return table if table is not None and call.context.access.sees(table) else None


def _primary_key(call: Call) -> Iterator[Result]:
    """sp_pkeys."""
    call.declare("@table_name", "@table_owner", "@table_qualifier")
    table = _table(call)
    key = table.primary if table else None
    rows = [
        (call.context.current.name, table.schema, table.name, table.by_id(column).name, i, key.name)
        for i, column in enumerate(key.columns if key else (), start=1)
        if table and key
    ]
    yield made.result(_KEYS, rows)


def _statistics(call: Call) -> Iterator[Result]:
    """sp_statistics: one row about the table, then one for each column of each index."""
    arguments = ("@table_name", "@table_owner", "@table_qualifier")
    call.declare(*arguments, "@index_name", "@is_unique", "@accuracy")
    table = _table(call)
    rows: list[tuple[object, ...]] = []
    if table is not None:
        call.session.prepare_read()
        counted = call.context.connection.one(f"SELECT count(*) FROM {table.physical}")
        count = int(counted[0]) if counted else 0
        named = (call.context.current.name, table.schema, table.name)
        rows.append((*named, *([None] * 3), 0, *([None] * 3), count, 0, None))
        rows += _index_rows(call, table, named, count)
    yield made.result(_STATISTICS, rows)


def _index_rows(
    call: Call, table: e.Table, named: tuple[str, ...], count: int
) -> list[tuple[object, ...]]:
    index = _Filter.of(call, "@index_name")
    unique_only = (call.text("@is_unique") or "N").upper() == "Y"
    keys = [k for k in table.keys if index.fits(k.name) and (k.unique or not unique_only)]
    keys.sort(key=lambda k: (not k.unique, not k.clustered, k.name.lower()))
    return [
        (
            *named,
            *(int(not key.unique), table.name, key.name, 1 if key.clustered else 3, place),
            *(table.by_id(column).name, "D" if column in key.descending else "A"),
            *(count, 0, None),
        )
        for key in keys
        for place, column in enumerate(key.columns, start=1)
    ]


def _special_columns(call: Call) -> Iterator[Result]:
    """sp_special_columns: the best row identifier (@col_type R), or the rowversion (V)."""
    arguments = ("@table_name", "@table_owner", "@table_qualifier", "@col_type", "@scope")
    call.declare(*arguments, "@nullable", "@ODBCVer")
    table = _table(call)
    columns: list[e.Column] = []
    scope: int | None = None
    if table is not None and (call.text("@col_type") or "R").upper() == "V":
        columns = [c for c in table.columns if c.type.name == "rowversion"]
    elif table is not None:
        scope = 1
        keys = [k for k in table.keys if k.unique]
        keys.sort(key=lambda k: (not k.primary, not k.clustered, k.name.lower()))
        columns = [table.by_id(column) for column in keys[0].columns] if keys else []
    found = [(c, odbctypes.described(c, call.number("@ODBCVer", 2) or 2)) for c in columns]
    rows = [
        (scope, c.name, o.code, o.name, o.precision, o.length, o.scale, 1 if scope else None)
        for c, o in found
    ]
    yield made.result(_SPECIAL, rows)


PROCEDURES: dict[str, Run] = {
    "sp_tables": _tables,
    "sp_columns": _columns,
    "sp_columns_100": _columns_100,
    "sp_pkeys": _primary_key,
    "sp_statistics": _statistics,
    "sp_statistics_100": _statistics,
    "sp_special_columns": _special_columns,
    "sp_special_columns_100": _special_columns,
}
