"""Enabling and disabling change data capture for databases and tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdc_assets.sandbox.engine import changes, jobs, lsns
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.cdcfunctions import LSN, change_table_columns
from cdc_assets.sandbox.engine.creation import store_table
from cdc_assets.sandbox.engine.ddl import remove_instance, remove_table
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import types
from cdc_assets.sandbox.language.tokens import TokenStream
from cdc_assets.sandbox.results import SqlError

_MOST_INSTANCES = 2
_LONGEST_NAME = 100
_SYSTEM_DATABASES = 4
_FILEGROUP = "PRIMARY"
_RESERVED = frozenset(
    {"__$start_lsn", "__$end_lsn", "__$seqval", "__$operation", "__$update_mask", "__$command_id"}
)


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of sp_cdc_enable_table."""

    schema: str
    name: str
    role: str | None = None
    instance: str | None = None
    net_changes: int | None = None
    index: str | None = None
    columns: str | None = None
    filegroup: str | None = None


def enable_database(work: Work, database: e.Database) -> None:
    """Make the cdc schema and its mapping table; raises Msg 22906 or 22989."""
    if database.id <= _SYSTEM_DATABASES:
        raise SqlError(
            22989,
            f"Could not enable Change Data Capture for database '{database.name}'. Change data "
            "capture is not supported on system databases, or on a distribution database.",
        )
    taken = work.current.principal(database.id, "cdc") is not None
    if taken or "cdc" in (name.lower() for name in database.schemas):
        raise SqlError(
            22906,
            f"The database '{database.name}' cannot be enabled for Change Data Capture because a "
            "database user named 'cdc' or a schema named 'cdc' already exists in the current "
            "database. These objects are required exclusively by Change Data Capture. Drop or "
            "rename the user or schema and retry the operation.",
        )
    schemas = (*database.schemas, "cdc")
    work.catalog = work.current.put(
        work.connection, replace(database, cdc_enabled=True, schemas=schemas)
    )
    columns = (
        e.Column(1, "start_lsn", LSN, nullable=False),
        e.Column(2, "tran_begin_time", types.DATETIME),
        e.Column(3, "tran_end_time", types.DATETIME),
        e.Column(4, "tran_id", types.varbinary(10)),
        e.Column(5, "tran_begin_lsn", LSN),
    )
    store_table(work, _shipped(work, database.id, "lsn_time_mapping", columns))


def _shipped(work: Work, database: int, name: str, columns: tuple[e.Column, ...]) -> e.Table:
    return e.Table(
        work.store.new_object_id(),
        database,
        "cdc",
        name,
        work.store.clock.datetime(),
        columns,
        shipped=True,
        next_column=len(columns) + 1,
        exact=work.current.tells_case(database),
    )


def disable_database(work: Work, database: e.Database) -> None:
    """Drop every instance, the mapping and the jobs."""
    for instance in work.current.instances(database.id):
        remove_instance(work, instance)
    mapping = work.current.mapping(database.id)
    if mapping is not None:
        remove_table(work, mapping)
    work.connection.execute(f"DELETE FROM catalog.commits WHERE database = {database.id}")
    kept = tuple(name for name in database.schemas if name != "cdc")
    work.catalog = work.current.drop(work.connection, *jobs.settings_of(work.current, database.id))
    # LSNs go on where they were: the log did not begin anew.
    last = work.store.last_lsns.get(database.id, lsns.FIRST)
    work.catalog = work.current.put(
        work.connection,
        replace(database, cdc_enabled=False, schemas=kept),
        e.Setting(f"lsn/{database.id}", last.text),
    )


def enable_table(work: Work, database: e.Database, request: Request) -> e.Instance:
    """Make a capture instance with its change table."""
    catalog = work.current
    _check_request(database, request)
    table = catalog.table(database.id, request.schema, request.name)
    if table is None:
        raise _no_table(request.schema, request.name)
    name = request.instance or f"{table.schema}_{table.name}"
    _check_name(work, database, table, name)
    key = _key(table, request)
    columns = _columns(table, request, key)
    change_table = _shipped(work, database.id, f"{name}_CT", change_table_columns(columns))
    store_table(work, change_table)
    instance = e.Instance(
        change_table.id,
        database.id,
        name,
        table.id,
        work.store.clock.datetime(),
        columns,
        key.columns if key else (),
        key.name if key else None,
        request.role,
        bool(request.net_changes if request.net_changes is not None else key is not None),
        request.filegroup,
    )
    if request.role is not None and catalog.principal(database.id, request.role) is None:
        work.catalog = work.current.put(work.connection, e.Principal(database.id, request.role))
    work.catalog = work.current.put(work.connection, instance)
    work.connection.execute(f"CREATE TABLE {instance.log} ({changes.log_table_columns(instance)})")
    with work.store.commit_lock:
        position = work.store.next_lsn(database.id, 0)
    work.connection.execute(
        "INSERT INTO catalog.watermarks VALUES (?, ?)",
        [instance.table, lsns.to_bytes(position.lsn)],
    )
    work.begins_capture(instance)
    return instance


def _no_table(schema: str, name: str) -> SqlError:
    return SqlError(
        22931,
        f"Source table '{schema}.{name}' does not exist in the current database. Ensure that the "
        "correct database context is set. Specify a valid schema and table name for the database.",
    )


def not_tracked(schema: str, name: str) -> SqlError:
    """Msg 22985."""
    return SqlError(
        22985,
        f"Change data capture has not been enabled for source table '{schema}.{name}'. Specify the "
        "name of a table enabled for Change Data Capture. To report on the tables enabled for "
        "Change Data Capture, query the is_tracked_by_cdc column in the sys.tables catalog view.",
    )


def _check_request(database: e.Database, request: Request) -> None:
    """What needs no table to be wrong; raises Msg 22907, 22973 or 22974."""
    if request.schema.lower() == "cdc":
        raise SqlError(
            22974, "Tables contained in the cdc schema cannot be enabled for Change Data Capture."
        )
    if request.role is not None and not request.role:
        raise SqlError(
            22907,
            "Parameter @role_name cannot be empty. Specify a value for @role_name and retry the "
            "operation. Supply null as the value if no role is to be used to gate access to "
            "captured change data.",
        )
    if request.filegroup is not None and request.filegroup.upper() != _FILEGROUP:
        raise SqlError(
            22973,
            f"The specified filegroup '{request.filegroup}' is not a valid filegroup for database "
            f"'{database.name}'. Specify a valid existing filegroup or create the named filegroup, "
            "and retry the operation.",
        )


def _check_name(work: Work, database: e.Database, table: e.Table, name: str) -> None:
    if len(name) > _LONGEST_NAME:
        raise SqlError(
            22927,
            f"Capture instance name '{name}' exceeds the length limit of 100 characters. Specify a "
            "name that satisfies the length constraint.",
        )
    if any(i.name == name for i in work.current.instances(database.id)):
        raise SqlError(
            22926,
            f"Could not create a capture instance because the capture instance name '{name}' "
            "already exists in the current database. Specify an explicit unique name for the "
            "parameter @capture_instance.",
        )
    if work.current.table(database.id, "cdc", f"{name}_CT") is not None:
        raise SqlError(
            2714, f"There is already an object named '{name}_CT' in the database.", 16, 6
        )
    if len(work.current.instances_of(table.id)) >= _MOST_INSTANCES:
        raise SqlError(
            22962,
            f"Two capture instances already exist for source table '{table.schema}.{table.name}'. "
            "A table can have at most two capture instances. If the current tracking options are "
            "not appropriate, disable change tracking for the obsolete instance by using "
            "sys.sp_cdc_disable_table and retry the operation.",
        )


def _key(table: e.Table, request: Request) -> e.Key | None:
    """The unique index that identifies rows: the named one, else the primary key."""
    if request.index is None:
        if request.net_changes and table.primary is None:
            raise SqlError(
                22939,
                "The parameter @supports_net_changes is set to 1, but the source table does not "
                "have a primary key defined and no alternate unique index has been specified.",
            )
        return table.primary
    found = next((k for k in table.keys if k.name.lower() == request.index.lower()), None)
    shown = f"{table.schema}.{table.name}"
    if found is None:
        raise SqlError(
            22928,
            f"Index name '{request.index}' is not an index for table '{shown}'. Specify a valid "
            "index name for the table.",
        )
    if not found.unique:
        raise SqlError(
            22929,
            f"Index '{request.index}' must be either a primary key or a unique index for table "
            f"'{shown}'. Specify an index that meets at least one of these requirements.",
        )
    return found


def _columns(table: e.Table, request: Request, key: e.Key | None) -> tuple[e.CapturedColumn, ...]:
    chosen = list(table.columns)
    if request.columns is not None:
        names = _names(request.columns)
        chosen = []
        for name in names:
            column = table.column(name)
            if column is None:
                raise SqlError(
                    22930,
                    f"Could not locate '{name}' as a column of source table "
                    f"'{table.schema}.{table.name}'. Specify a valid column name.",
                )
            chosen.append(column)
        # The change table has the source's order, whatever the list's.
        chosen.sort(key=lambda c: c.id)
        missing = [c for c in key.columns if c not in {x.id for x in chosen}] if key else []
        if missing and (request.net_changes or request.index):
            raise SqlError(
                22943,
                "Columns used to uniquely identify a row for net change tracking must be included "
                "in the list of captured columns. Add either the primary key columns of the source "
                "table, or the columns defined for the index specified in the parameter "
                "@index_name to the list of captured columns and retry the operation.",
            )
    if any(c.name.lower() in _RESERVED for c in chosen):
        raise SqlError(
            22975,
            f"Source table '{table.name}' contains one of the following reserved column names: "
            "__$start_lsn, __$end_lsn, __$seqval, __$operation, and __$update_mask. To enable "
            "Change Data Capture for this table, specify a captured column list and ensure that "
            "these columns are excluded from the list.",
        )
    return tuple(e.CapturedColumn(c.id, c.name, c.type, c.computed is not None) for c in chosen)


def _names(text: str) -> list[str]:
    """A list of identifiers, bare or quoted, between commas."""
    stream = TokenStream(text)
    names = [stream.identifier()]
    while stream.accept(","):
        names.append(stream.identifier())
    if stream.token.kind != "end":
        stream.fail()
    return names


def disable_table(work: Work, database: e.Database, source: tuple[str, str], name: str) -> None:
    """Drop an instance of a table, or all of them."""
    table = work.current.table(database.id, *source)
    if table is None:
        raise _no_table(*source)
    found = work.current.instances_of(table.id)
    if not found:
        raise not_tracked(*source)
    if name.lower() != "all":
        found = tuple(i for i in found if i.name.lower() == name.lower())
    if not found:
        raise SqlError(
            22960,
            f"Change data capture instance '{name}' has not been enabled for the source table "
            f"'{source[0]}.{source[1]}'. Use sys.sp_cdc_help_change_data_capture to verify the "
            "capture instance name and retry the operation.",
        )
    for instance in found:
        remove_instance(work, instance)
