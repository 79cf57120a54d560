"""Metadata functions: OBJECT_ID and its kin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import systypes
from cdc_assets.sandbox.engine.context import Context
from cdc_assets.sandbox.engine.viewrows import Viewer
from cdc_assets.sandbox.language import errors, types, values
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.tokens import END, TokenStream
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import SqlError, SqlType

Arguments = Sequence[Value]


def split_name(text: str) -> tuple[str, ...] | None:
    """`[dbo].[orders]` as its parts, None where it is no name."""
    try:
        stream = TokenStream(text)
        parts = stream.object_name()
    except SqlError:
        return None
    return parts if stream.token.kind == END else None


def named_object(context: Context, text: str) -> e.Table | None:
    """The table that a name in text means, if the login may know of it."""
    parts = split_name(text)
    if parts is None or len(parts) > 3:
        return None
    if len(parts) == 3 and parts[0] and parts[0].lower() not in context.catalog.databases:
        return None
    table = context.find_table(parts)
    return table if table is not None and context.access.sees(table) else None


def named_view(context: Context, text: str) -> e.View | None:
    """The view that a name in text means, if the login may know of it."""
    parts = split_name(text)
    if parts is None or len(parts) > 3:
        return None
    if len(parts) == 3 and parts[0] and parts[0].lower() not in context.catalog.databases:
        return None
    view = context.find_view(parts)
    return view if view is not None and context.access.sees(view.as_table()) else None


def _object_definition(context: Context, arguments: Arguments) -> Value:
    number = arguments[0].constant
    if not isinstance(number, int):
        raise errors.unsupported("OBJECT_DEFINITION of an id that is no constant")
    viewer = Viewer(context.catalog, context.access, context.current)
    found = next((view.definition for view in viewer.views if view.id == number), None)
    return values.nvarchar(found)


def _object_id(context: Context, arguments: Arguments) -> Value:
    name = arguments[0].constant
    if not arguments[0].is_constant:
        raise errors.unsupported("OBJECT_ID of a name that is no constant")
    kind = str(arguments[1].constant).strip().upper() if len(arguments) > 1 else ""
    if kind not in ("", "U", "V", "NONE"):
        return values.integer(None)
    if isinstance(name, str) and name.startswith("tempdb..#"):
        found = context.temporary.get(name.rpartition(".")[2].lower())
        return values.integer(-1 if found else None)
    if name is None:
        return values.integer(None)
    table = named_object(context, str(name)) if kind != "V" else None
    view = named_view(context, str(name)) if kind != "U" else None
    return values.integer(table.id if table else view.id if view else None)


def _by_id(context: Context, arguments: Arguments, name: Callable[[e.Table], str]) -> Value:
    """A function of an object id [and a database's], as a lookup among the visible tables."""
    database: e.Database | None = context.current
    if len(arguments) > 1:
        wanted = arguments[1]
        if not wanted.is_constant:
            raise errors.unsupported("A database id that is no constant")
        known = context.catalog.databases.values()
        database = next((d for d in known if d.id == wanted.constant), None)
    if database is None or not context.access.may_enter(database.id):
        return values.null(types.SYSNAME)
    viewer = Viewer(context.catalog, context.access, database)
    branches = " ".join(f"WHEN {t.id} THEN {values.quote(name(t))}" for t in viewer.relations)
    if not branches:
        return values.null(types.SYSNAME)
    return Value(f"CASE {arguments[0].sql} {branches} END", types.SYSNAME)


def _object_name(context: Context, arguments: Arguments) -> Value:
    return _by_id(context, arguments, lambda t: t.name)


def _object_schema(context: Context, arguments: Arguments) -> Value:
    return _by_id(context, arguments, lambda t: t.schema)


def _schema_name(context: Context, arguments: Arguments) -> Value:
    if not arguments:
        return values.sysname("dbo")
    ids = Viewer(context.catalog, context.access, context.current).schema_ids()
    shown = {name.lower(): name for name in context.current.schemas}
    branches = " ".join(
        f"WHEN {number} THEN {values.quote(shown.get(name, name))}" for name, number in ids.items()
    )
    return Value(f"CASE {arguments[0].sql} {branches} END", types.SYSNAME)


def _schema_id(context: Context, arguments: Arguments) -> Value:
    ids = Viewer(context.catalog, context.access, context.current).schema_ids()
    return number_of(arguments[0], ids) if arguments else values.integer(ids.get("dbo"))


def number_of(name: Value, numbers: Mapping[str, int], kind: SqlType = types.INT) -> Value:
    """The number of a name, whatever its case, among some by their lower-case names."""
    if name.is_constant:
        return values.integer(numbers.get(str(name.constant).rstrip(" ").lower()), kind)
    if not numbers:
        return values.integer(None, kind)
    branches = " ".join(f"WHEN {values.quote(k)} THEN {n}" for k, n in numbers.items())
    text = convert(name, types.SYSNAME).sql
    return Value(
        f"CAST(CASE lower(rtrim({text}, ' ')) {branches} END AS {types.physical(kind)})", kind
    )


def _column_of(context: Context, table: Value, column: Value) -> e.Column | None:
    found = named_object(context, str(table.constant))
    return found.column(str(column.constant)) if found else None


def _col_length(context: Context, arguments: Arguments) -> Value:
    column = _column_of(context, arguments[0], arguments[1])
    return values.integer(systypes.max_length(column.type) if column else None, types.SMALLINT)


def _col_name(context: Context, arguments: Arguments) -> Value:
    number, place = (a.constant for a in arguments)
    if not isinstance(number, int):
        raise errors.unsupported("COL_NAME of an id that is no constant")
    table = context.catalog.table_by_id(number)
    if table is None or not context.access.sees(table):
        return values.sysname(None)
    return values.sysname(next((c.name for c in table.columns if c.id == place), None))


def _column_property(context: Context, arguments: Arguments) -> Value:
    number, name, wanted = (a.constant for a in arguments)
    if not isinstance(number, int):
        raise errors.unsupported("COLUMNPROPERTY of an id that is no constant")
    table = context.catalog.table_by_id(number)
    column = table.column(str(name)) if table and context.access.sees(table) else None
    if column is None:
        return values.integer(None)
    found = {
        "ALLOWSNULL": column.nullable,
        "ISCOMPUTED": column.computed is not None,
        "ISIDENTITY": column.identity is not None,
        "COLUMNID": column.id,
    }.get(str(wanted).upper())
    return values.integer(int(found) if found is not None else None)


def _object_property(context: Context, arguments: Arguments) -> Value:
    number, wanted = (a.constant for a in arguments)
    if not isinstance(number, int):
        raise errors.unsupported("OBJECTPROPERTY of an id that is no constant")
    table = context.catalog.table_by_id(number)
    if table is None or not context.access.sees(table):
        return values.integer(None)
    found = {
        "ISTABLE": True,
        "ISUSERTABLE": not table.shipped,
        "ISMSSHIPPED": table.shipped,
        "TABLEHASPRIMARYKEY": table.primary is not None,
        "TABLEHASIDENTITY": any(c.identity for c in table.columns),
        "ISVIEW": False,
    }.get(str(wanted).upper())
    return values.integer(int(found) if found is not None else None)


def _ident_current(context: Context, arguments: Arguments) -> Value:
    table = named_object(context, str(arguments[0].constant))
    column = next((c for c in table.columns if c.identity), None) if table else None
    kind = types.decimal(38, 0, "numeric")
    if table is None or column is None:
        return values.null(kind)
    last = context.store.identities.last(context.connection, table, column)
    seed, step = column.identity or (1, 1)
    # Before the first value it is the seed, as after it.
    return values.of_python(seed if last == seed - step else last, kind)


METADATA: dict[str, Callable[[Context, Arguments], Value]] = {
    "OBJECT_ID": _object_id,
    "OBJECT_NAME": _object_name,
    "OBJECT_DEFINITION": _object_definition,
    "OBJECT_SCHEMA_NAME": _object_schema,
    "SCHEMA_NAME": _schema_name,
    "SCHEMA_ID": _schema_id,
    "COL_LENGTH": _col_length,
    "COL_NAME": _col_name,
    "COLUMNPROPERTY": _column_property,
    "OBJECTPROPERTY": _object_property,
    "OBJECTPROPERTYEX": _object_property,
    "IDENT_CURRENT": _ident_current,
}
