"""Functions that answer from the server's state: names, times, properties, rights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import scanviews, systypes
from cdc_assets.sandbox.engine.clock import as_datetime
from cdc_assets.sandbox.engine.collations import collation_property
from cdc_assets.sandbox.engine.context import SERVER_NAME, Context
from cdc_assets.sandbox.engine.metadata import METADATA, named_object, named_view, number_of
from cdc_assets.sandbox.engine.rows import Described
from cdc_assets.sandbox.language import errors, types, values
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import DEFAULT_COLLATION, SqlType

Arguments = Sequence[Value]

_PROPERTIES: dict[str, str | int] = {
    "PRODUCTVERSION": "16.0.4135.4",
    "PRODUCTMAJORVERSION": "16",
    "PRODUCTMINORVERSION": "0",
    "PRODUCTLEVEL": "RTM",
    "PRODUCTUPDATELEVEL": "CU14",
    "EDITION": "Developer Edition (64-bit)",
    "ENGINEEDITION": 3,
    "COLLATION": DEFAULT_COLLATION,
    "COMPARISONSTYLE": 0x30001,
    "LCID": 0x409,
    "SQLSORTORDER": 52,
    "SQLSORTORDERNAME": "nocase_iso",
    "SQLCHARSET": 1,
    "SQLCHARSETNAME": "iso_1",
    "SERVERNAME": SERVER_NAME,
    "MACHINENAME": SERVER_NAME,
    "ISHADRENABLED": 0,
    "ISCLUSTERED": 0,
    "ISINTEGRATEDSECURITYONLY": 0,
    "ISXTPSUPPORTED": 0,
}

# The others look their arguments up while a statement is bound, so these must be known then.
_OF_ANY_VALUE = frozenset(
    {"DB_ID", "DB_NAME", "OBJECT_NAME", "OBJECT_SCHEMA_NAME", "SCHEMA_ID", "SCHEMA_NAME"}
    | {"TYPE_NAME"}
)


def scalar(context: Context, name: str, arguments: Arguments) -> Value | None:
    """A server function bound, or None when it is none."""
    clock = _CLOCK.get(name)
    if clock is not None:
        if arguments:
            raise errors.argument_count(name.lower(), "0")
        return clock(context)
    found = _PLAIN.get(name) or METADATA.get(name)
    if found is None:
        return None
    if name not in _OF_ANY_VALUE and not all(a.is_constant for a in arguments):
        raise errors.unsupported(f"{name} of a value that is no constant")
    return found(context, arguments)


# --- time --------------------------------------------------------------------------------------


def _local(context: Context) -> int:
    return context.now_utc + context.store.clock.offset_minutes(context.now_utc) * 600_000_000


def _datetimeoffset(context: Context) -> Value:
    offset = context.store.clock.offset_minutes(context.now_utc)
    value = {"ticks": context.now_utc, "offset_minutes": offset}
    return values.of_python(value, SqlType("datetimeoffset", scale=7))


_CLOCK: dict[str, Callable[[Context], Value]] = {
    "GETDATE": lambda c: values.ticks(as_datetime(_local(c)), types.DATETIME),
    "CURRENT_TIMESTAMP": lambda c: values.ticks(as_datetime(_local(c)), types.DATETIME),
    "GETUTCDATE": lambda c: values.ticks(as_datetime(c.now_utc), types.DATETIME),
    "SYSDATETIME": lambda c: values.ticks(_local(c), types.datetime2(7)),
    "SYSUTCDATETIME": lambda c: values.ticks(c.now_utc, types.datetime2(7)),
    "SYSDATETIMEOFFSET": _datetimeoffset,
    "CURRENT_TIMEZONE_ID": lambda c: values.text(c.store.clock.zone, types.varchar(128)),
    "CURRENT_TIMEZONE": lambda c: values.text(_zone_title(c), types.varchar(128)),
}


def _zone_title(context: Context) -> str:
    minutes = context.store.clock.offset_minutes(context.now_utc)
    sign = "-" if minutes < 0 else "+"
    return f"(UTC{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}) {context.store.clock.zone}"


# --- names and properties ----------------------------------------------------------------------


def _db_name(context: Context, arguments: Arguments) -> Value:
    if not arguments or (arguments[0].constant in (0, None) and arguments[0].is_constant):
        return values.sysname(context.current.name)
    names = {d.id: d.name for d in context.catalog.databases.values()}
    if arguments[0].is_constant:
        wanted = arguments[0].constant
        return values.sysname(names.get(wanted) if isinstance(wanted, int) else None)
    branches = " ".join(f"WHEN {i} THEN {values.quote(name)}" for i, name in names.items())
    return Value(f"CASE {arguments[0].sql} {branches} END", types.SYSNAME)


def _db_id(context: Context, arguments: Arguments) -> Value:
    if not arguments:
        return values.integer(context.current.id, types.SMALLINT)
    numbers = {key: d.id for key, d in context.catalog.databases.items()}
    return number_of(arguments[0], numbers, types.SMALLINT)


def _login(context: Context, arguments: Arguments) -> Value:
    if arguments:
        raise errors.unsupported("SUSER_SNAME of a security identifier")
    return values.sysname(context.login.name)


def _user(context: Context, arguments: Arguments) -> Value:
    if arguments:
        raise errors.unsupported("USER_NAME of an id")
    return values.sysname(context.access.user(context.current.id))


def _server_property(context: Context, arguments: Arguments) -> Value:
    """SERVERPROPERTY is a sql_variant; here it has the value's own type."""
    del context
    value = _PROPERTIES.get(str(arguments[0].constant).upper())
    if value is None:
        return values.null(types.SYSNAME)
    return values.integer(value) if isinstance(value, int) else values.sysname(value)


def _database_property(context: Context, arguments: Arguments) -> Value:
    database = context.catalog.databases.get(str(arguments[0].constant).lower())
    name = str(arguments[1].constant).upper()
    if database is None:
        return values.null(types.SYSNAME)
    found: dict[str, str | int] = {
        "COLLATION": database.collation,
        "STATUS": "ONLINE",
        "UPDATEABILITY": "READ_WRITE",
        "RECOVERY": "SIMPLE",
        "USERACCESS": "MULTI_USER",
        "VERSION": 957,
    }
    value = found.get(name)
    if value is None:
        return values.null(types.SYSNAME)
    return values.integer(value) if isinstance(value, int) else values.sysname(value)


def _has_permissions(context: Context, arguments: Arguments) -> Value:
    """HAS_PERMS_BY_NAME(securable, class, permission [, column, class])."""
    if len(arguments) < 3:
        raise errors.argument_count("has_perms_by_name", "3 to 5")
    name, kind, permission = (a.constant for a in arguments[:3])
    wanted = str(permission).upper()
    access = context.access
    if kind is None:
        return values.integer(int(access.administrator))
    if str(kind).upper() == "DATABASE":
        database = context.current
        if name is not None:
            found = context.catalog.databases.get(str(name).strip("[]").lower())
            if found is None:
                return values.integer(None)
            database = found
        return values.integer(int(_on_database(context, database, wanted)))
    if str(kind).upper() != "OBJECT":
        return values.integer(int(access.administrator))
    if name is None:
        return values.integer(None)
    table = named_object(context, str(name))
    view = named_view(context, str(name)) if table is None else None
    if view is not None:
        table = view.as_table()
    if table is None:
        # No permission on what is not there, or not to be seen: NULL is for a wrong question.
        return values.integer(0)
    return values.integer(int(_on_object(context, table, wanted, arguments)))


def _on_database(context: Context, database: e.Database, wanted: str) -> bool:
    access = context.access
    if access.owner(database.id):
        return True
    return wanted in ("CONNECT", "ANY") and access.may_enter(database.id)


def _on_object(context: Context, table: e.Table, wanted: str, arguments: Arguments) -> bool:
    access = context.access
    if wanted not in ("SELECT", "ANY"):
        return access.may(table, wanted)
    readable = access.readable(table)
    if len(arguments) >= 4 and arguments[3].constant is not None:
        return readable is None or str(arguments[3].constant).lower() in readable
    return readable is None or (wanted == "ANY" and bool(readable))


def _role_member(context: Context, arguments: Arguments) -> Value:
    role = str(arguments[0].constant).lower()
    return values.integer(
        int(
            role in context.access.roles(context.current.id)
            or (role == "db_owner" and context.access.owner(context.current.id))
        )
    )


def _server_role(context: Context, arguments: Arguments) -> Value:
    role = str(arguments[0].constant).lower()
    return values.integer(int(role == "public" or context.access.administrator))


def _error(field: Callable[[Context], Value]) -> Callable[[Context, Arguments], Value]:
    def bound(context: Context, arguments: Arguments) -> Value:
        del arguments
        return field(context)

    return bound


def _xact_state(context: Context, arguments: Arguments) -> Value:
    del arguments
    state = -1 if context.doomed else min(context.transactions, 1)
    return values.integer(state, types.SMALLINT)


def _identity(context: Context, arguments: Arguments) -> Value:
    del arguments
    return values.of_python(context.last_identity, types.decimal(38, 0, "numeric"))


def _type_name(context: Context, arguments: Arguments) -> Value:
    argument = arguments[0]
    names = {row[2]: row[0] for row in systypes.SYSTEM_TYPES}
    names |= {
        t.id: t.name
        for t in context.catalog.of_kind(e.AliasType)
        if t.database == context.current.id
    }
    if argument.is_constant:
        number = argument.constant
        return values.sysname(names.get(number) if isinstance(number, int) else None)
    branches = " ".join(f"WHEN {i} THEN {values.quote(name)}" for i, name in names.items())
    return Value(f"CASE {argument.sql} {branches} END", types.SYSNAME)


def _type_id(context: Context, arguments: Arguments) -> Value:
    del context
    wanted = str(arguments[0].constant).strip("[]").lower()
    found = {str(row[0]): row[2] for row in systypes.SYSTEM_TYPES}
    number = found.get(wanted)
    return values.integer(int(str(number)) if number is not None else None)


def _text(value: str) -> Callable[[Context, Arguments], Value]:
    return lambda context, arguments: values.sysname(value)


_PLAIN: dict[str, Callable[[Context, Arguments], Value]] = {
    "DB_NAME": _db_name,
    "DB_ID": _db_id,
    "SUSER_SNAME": _login,
    "SUSER_NAME": _login,
    "ORIGINAL_LOGIN": _login,
    "SYSTEM_USER": _login,
    "USER_NAME": _user,
    "USER": _user,
    "CURRENT_USER": _user,
    "SESSION_USER": _user,
    "HOST_NAME": _text("client"),
    "APP_NAME": lambda c, a: values.sysname(c.application),
    "PROGRAM_NAME": lambda c, a: values.sysname(c.application),
    "SERVERPROPERTY": _server_property,
    "COLLATIONPROPERTY": collation_property,
    "DATABASEPROPERTYEX": _database_property,
    "HAS_PERMS_BY_NAME": _has_permissions,
    "HAS_DBACCESS": lambda c, a: values.integer(
        int(
            (d := c.catalog.databases.get(str(a[0].constant).lower())) is not None
            and c.access.may_enter(d.id)
        )
    ),
    "IS_MEMBER": _role_member,
    "IS_ROLEMEMBER": _role_member,
    "IS_SRVROLEMEMBER": _server_role,
    "XACT_STATE": _xact_state,
    "SCOPE_IDENTITY": _identity,
    "TYPE_NAME": _type_name,
    "TYPE_ID": _type_id,
    "ERROR_NUMBER": _error(lambda c: values.integer(c.caught[-1].number if c.caught else None)),
    "ERROR_SEVERITY": _error(lambda c: values.integer(c.caught[-1].severity if c.caught else None)),
    "ERROR_STATE": _error(lambda c: values.integer(c.caught[-1].state if c.caught else None)),
    "ERROR_LINE": _error(lambda c: values.integer(c.caught[-1].line if c.caught else None)),
    "ERROR_PROCEDURE": _error(lambda c: values.sysname(None)),
    "ERROR_MESSAGE": _error(lambda c: values.nvarchar(c.caught[-1].text if c.caught else None)),
}


def dynamic_view(
    context: Context, schema: str, name: str
) -> tuple[Described, list[tuple[object, ...]]] | None:
    """Views of the session itself."""
    key = f"{schema.lower()}.{name.lower()}"
    if key == "sys.dm_exec_session_wait_stats":
        return (
            (
                ("session_id", types.SMALLINT),
                ("wait_type", types.nvarchar(60)),
                ("waiting_tasks_count", types.BIGINT),
                ("wait_time_ms", types.BIGINT),
                ("max_wait_time_ms", types.BIGINT),
                ("signal_wait_time_ms", types.BIGINT),
            ),
            [(context.process_id, "ASYNC_NETWORK_IO", 0, 0, 0, 0)],
        )
    if key == "sys.dm_exec_sessions":
        return (
            (
                ("session_id", types.SMALLINT),
                ("login_name", types.SYSNAME),
                ("program_name", types.SYSNAME),
                ("database_id", types.SMALLINT),
                ("transaction_isolation_level", types.SMALLINT),
                ("open_transaction_count", types.INT),
            ),
            [
                (
                    context.process_id,
                    context.login.name,
                    context.application,
                    context.current.id,
                    _ISOLATION.get(context.options.isolation, 2),
                    context.transactions,
                )
            ],
        )
    return scanviews.find(context, key)


_ISOLATION = {
    "READ UNCOMMITTED": 1,
    "READ COMMITTED": 2,
    "REPEATABLE READ": 3,
    "SERIALIZABLE": 4,
    "SNAPSHOT": 5,
}
