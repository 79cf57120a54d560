"""sys.sp_cdc_*: enabling and describing change data capture."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets.lsn import Lsn
from cdc_assets.sandbox.engine import enable, lsns
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import rows as made
from cdc_assets.sandbox.engine.cdcfunctions import LSN
from cdc_assets.sandbox.engine.duck import Row
from cdc_assets.sandbox.engine.procedures import Call, Run
from cdc_assets.sandbox.engine.systypes import precision_of, scale_of
from cdc_assets.sandbox.language import types
from cdc_assets.sandbox.results import MAX_LENGTH, Message, Result, SqlError

_LIST = types.nvarchar(MAX_LENGTH)
_HELP: made.Described = (
    ("source_schema", types.SYSNAME),
    ("source_table", types.SYSNAME),
    ("capture_instance", types.SYSNAME),
    ("object_id", types.INT),
    ("source_object_id", types.INT),
    ("start_lsn", LSN),
    ("end_lsn", LSN),
    ("supports_net_changes", types.BIT),
    ("has_drop_pending", types.BIT),
    ("role_name", types.SYSNAME),
    ("index_name", types.SYSNAME),
    ("filegroup_name", types.SYSNAME),
    ("create_date", types.DATETIME),
    ("index_column_list", _LIST),
    ("captured_column_list", _LIST),
)
_COLUMNS: made.Described = (
    ("source_schema", types.SYSNAME),
    ("source_table", types.SYSNAME),
    ("capture_instance", types.SYSNAME),
    ("column_name", types.SYSNAME),
    ("column_id", types.INT),
    ("column_ordinal", types.INT),
    ("data_type", types.SYSNAME),
    ("character_maximum_length", types.INT),
    ("numeric_precision", types.TINYINT),
    ("numeric_precision_radix", types.SMALLINT),
    ("numeric_scale", types.INT),
    ("datetime_precision", types.SMALLINT),
)
_HISTORY: made.Described = (
    ("source_schema", types.SYSNAME),
    ("source_table", types.SYSNAME),
    ("capture_instance", types.SYSNAME),
    ("required_column_update", types.BIT),
    ("ddl_command", _LIST),
    ("ddl_lsn", LSN),
    ("ddl_time", types.DATETIME),
)


def enabled_database(call: Call) -> e.Database:
    """The current database, which must be enabled; raises Msg 22901."""
    database = call.context.current
    if not database.cdc_enabled:
        raise SqlError(
            22901,
            f"The database '{database.name}' is not enabled for Change Data Capture. Ensure that "
            "the correct database context is set and retry the operation. To report on the "
            "databases enabled for Change Data Capture, query the is_cdc_enabled column in the "
            "sys.databases catalog view.",
        )
    return database


def require_owner(call: Call) -> None:
    """Raise Msg 22904 unless the caller is db_owner."""
    if not call.context.access.owner(call.context.current.id):
        raise SqlError(
            22904,
            "Caller is not authorized to initiate the requested action. DBO privileges are "
            "required.",
        )


def _read_query(call: Call, sql: str) -> list[Row]:
    call.session.prepare_read()
    call.session.context.check_isolation(call.session.context.current.id)
    return call.context.connection.rows(sql)


# --- describing --------------------------------------------------------------------------------


def _visible(call: Call) -> list[e.Instance]:
    database = enabled_database(call)
    return [
        i
        for i in call.context.catalog.instances(database.id)
        if call.context.access.reads(database.id, i)
    ]


def _source(call: Call, instance: e.Instance) -> e.Table:
    return call.context.catalog.existing_table(instance.source)


def _help(call: Call) -> Iterator[Result]:
    call.declare("@source_schema", "@source_name")
    database = enabled_database(call)
    schema, name = call.text("@source_schema"), call.text("@source_name")
    if schema is not None or name is not None:
        _check_source(call, database, schema, name)
    starts: dict[int, bytes] = {
        row[0]: row[1]
        for row in _read_query(call, "SELECT instance, start_lsn FROM catalog.watermarks")
    }
    rows = []
    for i in _visible(call):
        source = _source(call, i)
        if schema is not None and schema.lower() != source.schema.lower():
            continue
        if name is not None and name.lower() != source.name.lower():
            continue
        keys = [c.name for key in i.key_columns for c in i.columns if c.id == key]
        rows.append(
            (
                source.schema,
                source.name,
                i.name,
                i.table,
                i.source,
                starts.get(i.table),
                None,
                i.supports_net_changes,
                None,
                i.role,
                i.index_name,
                i.filegroup,
                i.created,
                _quoted_list(keys) if keys else None,
                _quoted_list([c.name for c in i.columns]),
            )
        )
    yield made.result(_HELP, rows)


def _check_source(call: Call, database: e.Database, schema: str | None, name: str | None) -> None:
    """A table to be described; raises Msg 22972, 22981 or 22985."""
    if not schema or not name:
        raise SqlError(
            22972,
            "When calling stored procedure [sys].sp_cdc_help_change_data capture, if either "
            "@source_schema or @source_name is non-null and non-empty, the other parameter must "
            "also be non-null and non-empty.",
        )
    table = call.context.catalog.table(database.id, schema, name)
    if table is None or not call.context.access.sees(table):
        raise _missing()
    if not call.context.catalog.instances_of(table.id):
        raise enable.not_tracked(schema, name)


def _missing() -> SqlError:
    return SqlError(22981, "Object does not exist or access is denied.")


def _quoted_list(names: list[str]) -> str:
    return ", ".join(f"[{name.replace(']', ']]')}]" for name in names)


def _instance(call: Call) -> e.Instance:
    """The instance that @capture_instance names; raises Msg 22981."""
    name = call.required("@capture_instance")
    database = enabled_database(call)
    found = call.context.catalog.instance(database.id, name)
    if found is None or not call.context.access.reads(database.id, found):
        raise _missing()
    return found


def _captured_columns(call: Call) -> Iterator[Result]:
    call.declare("@capture_instance")
    i = _instance(call)
    source = _source(call, i)
    rows = []
    for place, c in enumerate(i.columns, start=1):
        text = c.type.name in types.STRINGS | types.BINARIES
        exact = c.type.name in types.NUMBERS - {"bit"}
        timed = c.type.name in types.TIMES
        approximate = c.type.name in types.FLOATS
        data_type = "timestamp" if c.type.name == "rowversion" else c.type.name
        rows.append(
            (
                source.schema,
                source.name,
                i.name,
                c.name,
                c.id,
                place,
                data_type,
                c.type.length if text else None,
                precision_of(c.type) if exact else None,
                (2 if approximate else 10) if exact else None,
                scale_of(c.type) if exact and not approximate else None,
                (0 if c.type.name == "date" else scale_of(c.type)) if timed else None,
            )
        )
    yield made.result(_COLUMNS, rows)


def _ddl_history(call: Call) -> Iterator[Result]:
    call.declare("@capture_instance")
    i = _instance(call)
    source = _source(call, i)
    history = [h for h in call.context.catalog.of_kind(e.DdlChange) if h.instance == i.table]
    rows = [
        (
            source.schema,
            source.name,
            i.name,
            h.required_column_update,
            h.command,
            lsns.to_bytes(Lsn(h.lsn)),
            h.time,
        )
        for h in sorted(history, key=lambda h: h.number)
    ]
    yield made.result(_HISTORY, rows)


# --- enabling and disabling --------------------------------------------------------------------


def _require_administrator(call: Call) -> None:
    if not call.context.access.administrator:
        raise SqlError(
            22902,
            "Caller is not authorized to initiate the requested action. Sysadmin privileges are "
            "required.",
        )


def _enable_db(call: Call) -> Iterator[Result]:
    call.declare()
    _require_administrator(call)
    database = call.context.current
    if database.cdc_enabled:
        yield Message(
            22905,
            f"Database '{database.name}' is already enabled for Change Data Capture. Ensure that "
            "the correct database context is set, and retry the operation. To report on the "
            "databases enabled for Change Data Capture, query the is_cdc_enabled column in the "
            "sys.databases catalog view.",
            10,
        )
        return
    with call.session.writing_alone() as work:
        enable.enable_database(work, database)


def _disable_db(call: Call) -> Iterator[Result]:
    call.declare()
    _require_administrator(call)
    database = enabled_database(call)
    with call.session.writing_alone() as work:
        enable.disable_database(work, database)
    call.session.engine.capture.forget(database.id)
    yield from ()


def _needed(call: Call, name: str) -> str:
    """A name that must be there and not empty; raises Msg 201 or 22963."""
    if call.given(name) and not call.text(name):
        raise SqlError(
            22963,
            f"Parameter '{name}' cannot be null or empty. Specify a value for the named parameter "
            "and retry the operation.",
        )
    return call.required(name)


def _enable_table(call: Call) -> Iterator[Result]:
    call.declare(
        "@source_schema",
        "@source_name",
        "@role_name",
        "@capture_instance",
        "@supports_net_changes",
        "@index_name",
        "@captured_column_list",
        "@filegroup_name",
        "@allow_partition_switch",
    )
    database = enabled_database(call)
    require_owner(call)
    if not call.given("@role_name"):
        call.required("@role_name")
    request = enable.Request(
        _needed(call, "@source_schema"),
        _needed(call, "@source_name"),
        call.text("@role_name"),
        call.text("@capture_instance"),
        call.number("@supports_net_changes"),
        call.text("@index_name"),
        call.text("@captured_column_list"),
        call.text("@filegroup_name"),
    )
    with call.session.writing_alone() as work:
        enable.enable_table(work, database, request)
    yield from ()


def _disable_table(call: Call) -> Iterator[Result]:
    call.declare("@source_schema", "@source_name", "@capture_instance")
    database = enabled_database(call)
    require_owner(call)
    with call.session.writing_alone() as work:
        enable.disable_table(
            work,
            database,
            (_needed(call, "@source_schema"), _needed(call, "@source_name")),
            _needed(call, "@capture_instance"),
        )
    yield from ()


PROCEDURES: dict[str, Run] = {
    "sp_cdc_help_change_data_capture": _help,
    "sp_cdc_get_captured_columns": _captured_columns,
    "sp_cdc_get_ddl_history": _ddl_history,
    "sp_cdc_enable_db": _enable_db,
    "sp_cdc_disable_db": _disable_db,
    "sp_cdc_enable_table": _enable_table,
    "sp_cdc_disable_table": _disable_table,
}
