"""CREATE, ALTER and DROP of databases, schemas, tables and indexes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine import aliases, alter, backups, creation, jobs, storedviews
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.columns import (
    keys_of,
)
from cdc_assets.sandbox.engine.tableconstraints import constrain, refuse_end_of_table
from cdc_assets.sandbox.engine.temporary import drop_temporary
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import collation, errors
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.results import SqlError

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.session import EngineSession

_HANDLED = (
    s.CreateTable,
    s.CreateIndex,
    s.CreateView,
    s.CreateSchema,
    s.CreateDatabase,
    s.CreateType,
    s.AlterTable,
    s.AlterDatabase,
    s.Drop,
)
_SYSTEM_DATABASES = 4
# How the sandbox works anyway, or nothing it has.
_AS_IS = frozenset({"READ_COMMITTED_SNAPSHOT", "RECOVERY", "AUTO_CLOSE"})


def handles(statement: s.Statement) -> bool:
    """Whether this room runs the statement."""
    return isinstance(statement, _HANDLED)


def apply(session: EngineSession, statement: s.Statement) -> None:
    """Run a definition."""
    if isinstance(statement, s.CreateTable):
        creation.create_table(session, statement)
    elif isinstance(statement, s.CreateIndex):
        _create_index(session, statement)
    elif isinstance(statement, s.CreateView):
        storedviews.create(session, statement)
    elif isinstance(statement, s.CreateSchema):
        _create_schema(session, statement)
    elif isinstance(statement, s.CreateType):
        aliases.create(session, statement, creation.place(session.context, statement.name)[1])
    elif isinstance(statement, s.CreateDatabase):
        _create_database(session, statement)
    elif isinstance(statement, s.AlterTable):
        _alter_table(session, statement)
    elif isinstance(statement, s.AlterDatabase):
        _alter_database(session, statement)
    elif isinstance(statement, s.Drop):
        for name in statement.names:
            _drop(session, statement, name)


# --- tables ------------------------------------------------------------------------------------


def own_table(session: EngineSession, name: tuple[str, ...]) -> e.Table:
    """A table that the login may change; raises Msg 4902 or 1088."""
    table = session.context.find_table(name)
    if table is None or not session.context.access.may(table, "ALTER"):
        raise SqlError(
            4902,
            f'Cannot find the object "{".".join(name)}" because it does not exist or you do not '
            "have permissions.",
        )
    return table


def _create_index(session: EngineSession, statement: s.CreateIndex) -> None:
    table = own_table(session, statement.table)
    with session.writing() as work:
        (key,) = keys_of(table.name, table.columns, [statement.key], table.keys)
        key = replace(key, constraint=False)
        if any(k.name.lower() == key.name.lower() for k in table.keys):
            raise SqlError(
                1913,
                f"The operation failed because an index or statistics with name '{key.name}' "
                f"already exists on table '{table.schema}.{table.name}'.",
            )
        alter.check_new_key(work, table, key)
        work.catalog = work.current.put(work.connection, replace(table, keys=(*table.keys, key)))


def _alter_table(session: EngineSession, statement: s.AlterTable) -> None:
    table = own_table(session, statement.name)
    with session.writing() as work:
        binder = session.binder()
        columns = statement.definition.columns if statement.definition is not None else ()
        resolved = aliases.resolved(session.context, columns)
        if statement.action == "ADD" and statement.definition is not None:
            definition = replace(statement.definition, columns=resolved)
            alter.add(work, binder, table, definition, session.context.collation)
            added = work.current.existing_table(table.id)
            constrain(session.context, work, binder, added, definition)
        elif statement.action == "ALTER COLUMN":
            alter.alter_column(work, table, resolved[0], session.context.collation)
        elif statement.action == "DROP COLUMN":
            alter.drop_columns(work, table, statement.names)
        else:
            alter.drop_constraints(work, table, statement.names)
        alter.record_ddl(work, table, statement)


# --- databases and schemas ---------------------------------------------------------------------


def _create_schema(session: EngineSession, statement: s.CreateSchema) -> None:
    context = session.context
    context.access.require_owner(context.current.id, "CREATE SCHEMA")
    with session.writing() as work:
        database = work.current.database(context.current.id)
        taken = {"sys", "information_schema", *(name.lower() for name in database.schemas)}
        if statement.name.lower() in taken:
            raise SqlError(
                2714, f"There is already an object named '{statement.name}' in the database.", 16, 6
            )
        changed = replace(database, schemas=(*database.schemas, statement.name))
        work.catalog = work.current.put(work.connection, changed)


def _create_database(session: EngineSession, statement: s.CreateDatabase) -> None:
    context = session.context
    if not context.access.administrator:
        raise SqlError(262, "CREATE DATABASE permission denied in database 'master'.", 14)
    if context.transactions:
        raise SqlError(
            226, "CREATE DATABASE statement not allowed within multi-statement transaction."
        )
    with session.writing() as work:
        if statement.name.lower() in work.current.databases:
            raise SqlError(
                1801,
                f"Database '{statement.name}' already exists. Choose a different database name.",
                16,
                3,
            )
        number = max(d.id for d in work.current.databases.values()) + 1
        database = e.Database(number, statement.name, context.store.clock.datetime())
        if statement.collation is not None:
            database = replace(database, collation=collation.checked(statement.collation))
        work.catalog = work.current.put(work.connection, database)


def _alter_database(session: EngineSession, statement: s.AlterDatabase) -> None:
    context = session.context
    database = context.find_database(statement.name) if statement.name else context.current
    context.access.require_owner(database.id, "ALTER DATABASE")
    if statement.option == "ALLOW_SNAPSHOT_ISOLATION":
        changed = replace(database, snapshot_allowed=statement.value == "ON")
    elif statement.option == "COLLATE":
        # Columns keep theirs: only what is made from now on gets it.
        changed = replace(database, collation=collation.checked(statement.value))
    elif statement.option == "NAME":
        changed = _renamed(session, database, statement.value)
    elif statement.option in _AS_IS:
        return
    else:
        raise errors.unsupported(f"ALTER DATABASE … SET {statement.option}")
    with session.writing() as work:
        work.catalog = work.current.put(work.connection, changed)


def _renamed(session: EngineSession, database: e.Database, name: str) -> e.Database:
    """MODIFY NAME; raises Msg 1801 or 5030."""
    if name.lower() in session.context.catalog.databases:
        raise SqlError(
            1801, f"Database '{name}' already exists. Choose a different database name.", 16, 3
        )
    if database.id <= _SYSTEM_DATABASES or session.engine.in_use(database.name):
        raise SqlError(
            5030, "The database could not be exclusively locked to perform the operation."
        )
    return replace(database, name=name)


# --- DROP --------------------------------------------------------------------------------------


def _drop(session: EngineSession, statement: s.Drop, name: tuple[str, ...]) -> None:
    if statement.kind == "TABLE":
        _drop_table(session, name, if_exists=statement.if_exists)
    elif statement.kind == "VIEW":
        storedviews.drop(session, name, if_exists=statement.if_exists)
    elif statement.kind == "DATABASE":
        _drop_database(session, name[-1], if_exists=statement.if_exists)
    elif statement.kind == "SCHEMA":
        _drop_schema(session, name[-1], if_exists=statement.if_exists)
    elif statement.kind == "TYPE":
        aliases.drop(session, name, if_exists=statement.if_exists)
    elif statement.kind == "INDEX":
        table = own_table(session, name[:-1])
        with session.writing() as work:
            alter.drop_constraints(work, table, name[-1:], index=True)
    else:
        _drop_principal(session, statement, name[-1])


def _missing(kind: str, name: str) -> SqlError:
    return SqlError(
        3701,
        f"Cannot drop the {kind} '{name}', because it does not exist or you do not have "
        "permission.",
        11,
        5,
    )


def _drop_table(session: EngineSession, name: tuple[str, ...], *, if_exists: bool) -> None:
    if name[-1].startswith("#"):
        if not drop_temporary(session, name[-1]) and not if_exists:
            raise _missing("table", name[-1])
        return
    table = session.context.find_table(name)
    if table is None and session.context.find_view(name) is not None:
        shown = ".".join(name)
        raise SqlError(
            3705,
            f"Cannot use DROP TABLE with '{shown}' because '{shown}' is a view. Use DROP VIEW.",
        )
    if table is None or not session.context.access.owner(table.database):
        if if_exists and table is None:
            return
        raise _missing("table", ".".join(name))
    if table.shipped:
        raise errors.unsupported("DROP of a table that CDC made")
    with session.writing_alone() as work:
        refuse_end_of_table(work, table, 3726)
        for instance in work.current.instances_of(table.id):
            remove_instance(work, instance)
        remove_table(work, table)


def remove_table(work: Work, table: e.Table) -> None:
    """Drop a table with its grants."""
    work.connection.execute(f"DROP TABLE {table.physical}")
    grants = [p for p in work.current.of_kind(e.Permission) if p.object == table.id]
    work.catalog = work.current.drop(work.connection, table, *grants)


def remove_instance(work: Work, instance: e.Instance) -> None:
    """Drop a capture instance with its change table and history."""
    history = [h for h in work.current.of_kind(e.DdlChange) if h.instance == instance.table]
    work.connection.execute(f"DROP TABLE {instance.log}")
    work.connection.execute(f"DELETE FROM catalog.watermarks WHERE instance = {instance.table}")
    table = work.current.table_by_id(instance.table)
    if table is not None:
        remove_table(work, table)
    work.catalog = work.current.drop(work.connection, instance, *history)


def _drop_database(session: EngineSession, name: str, *, if_exists: bool) -> None:
    context = session.context
    database = context.catalog.databases.get(name.lower())
    if database is None:
        if if_exists:
            return
        raise _missing("database", name)
    context.access.require_owner(database.id, "DROP DATABASE")
    if database.id <= _SYSTEM_DATABASES:
        raise SqlError(3708, f"Cannot drop the database '{name}' because it is a system database.")
    if session.engine.in_use(database.name):
        raise SqlError(3702, f'Cannot drop database "{name}" because it is currently in use.')
    with session.writing_alone() as work:
        for instance in work.current.instances(database.id):
            remove_instance(work, instance)
        for table in work.current.tables_of(database.id):
            remove_table(work, table)
        views = work.current.views_of(database.id)
        work.catalog = work.current.drop(work.connection, *views)
        work.connection.execute(f"DELETE FROM catalog.commits WHERE database = {database.id}")
        backups.forget(work.connection, database.id)
        principals = [p for p in work.current.of_kind(e.Principal) if p.database == database.id]
        grants = [p for p in work.current.of_kind(e.Permission) if p.database == database.id]
        settings = jobs.settings_of(work.current, database.id)
        work.catalog = work.current.drop(work.connection, database, *principals, *grants, *settings)
    # A later database may get the same number: its log begins anew.
    session.context.store.last_lsns.pop(database.id, None)
    session.engine.capture.forget(database.id)


def _drop_schema(session: EngineSession, name: str, *, if_exists: bool) -> None:
    context = session.context
    context.access.require_owner(context.current.id, "DROP SCHEMA")
    database = context.current
    if name.lower() not in (x.lower() for x in database.schemas) or name.lower() == "dbo":
        if if_exists:
            return
        raise _missing("schema", name)
    with session.writing() as work:
        used = {t.schema.lower() for t in work.current.tables_of(database.id)}
        used |= {v.schema.lower() for v in work.current.views_of(database.id)}
        if name.lower() in used:
            raise SqlError(
                3729, f"Cannot drop schema '{name}' because it is being referenced by an object."
            )
        kept = tuple(x for x in database.schemas if x.lower() != name.lower())
        work.catalog = work.current.put(work.connection, replace(database, schemas=kept))


def _drop_principal(session: EngineSession, statement: s.Drop, name: str) -> None:
    context = session.context
    with session.writing() as work:
        if statement.kind == "LOGIN":
            context.access.require_administrator("DROP LOGIN")
            login = work.current.login(name)
            if login is None:
                raise _missing("login", name)
            work.catalog = work.current.drop(work.connection, login)
            return
        context.access.require_owner(context.current.id, f"DROP {statement.kind}")
        principal = work.current.principal(context.current.id, name)
        if principal is None:
            if statement.if_exists:
                return
            raise _missing(statement.kind.lower(), name)
        grants = [
            p
            for p in work.current.of_kind(e.Permission)
            if p.database == context.current.id and p.principal.lower() == name.lower()
        ]
        work.catalog = work.current.drop(work.connection, principal, *grants)
