"""New tables: CREATE TABLE and SELECT … INTO."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine import aliases
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.columns import (
    columns_of,
    columns_of_query,
    keys_of,
    primary_not_null,
)
from cdc_assets.sandbox.engine.context import Context
from cdc_assets.sandbox.engine.tableconstraints import constrain
from cdc_assets.sandbox.engine.temporary import create_temporary
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import errors, types
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.sources import Bound
from cdc_assets.sandbox.results import SqlError

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.session import EngineSession


def place(context: Context, name: tuple[str, ...]) -> tuple[e.Database, str]:
    """The database and schema that a new object goes into; raises Msg 2760."""
    database = context.current
    if len(name) > 2 and name[-3]:
        database = context.find_database(name[-3])
    wanted = (name[-2] if len(name) > 1 else "") or "dbo"
    schema = next((x for x in database.schemas if x.lower() == wanted.lower()), None)
    if schema is None:
        raise SqlError(
            2760,
            f'The specified schema name "{wanted}" either does not exist or you do not have '
            "permission to use it.",
        )
    return database, schema


def create_table(session: EngineSession, statement: s.CreateTable) -> None:
    """CREATE TABLE, of a temporary one too."""
    name = statement.name[-1]
    if name.startswith("#"):
        create_temporary(session, name, statement.definition)
        return
    definitions = aliases.resolved(session.context, statement.definition.columns)
    with session.writing() as work:
        database, schema = new_object(session, work, statement.name, "CREATE TABLE")
        columns = columns_of(session.binder(), definitions, database.collation)
        keys = keys_of(name, columns, statement.definition.keys)
        columns = primary_not_null(columns, keys, definitions)
        if not columns:
            raise errors.syntax(")")
        table = _store(session, work, (database, schema, name), columns, keys)
        constrain(session.context, work, session.binder(), table, statement.definition)


def create_from(
    session: EngineSession, name: tuple[str, ...], bound: Bound, objects: Collection[int]
) -> int:
    """SELECT … INTO a table that it makes; how many rows it has."""
    columns = columns_of_query(bound)
    _refuse_identity(session.context, columns, objects)
    with session.writing() as work:
        database, schema = new_object(session, work, name, "CREATE TABLE")
        count = work.connection.stage("stage", bound.sql)
        table = _store(session, work, (database, schema, name[-1]), columns, ())
        items = ", ".join(f"x{c.id}" for c in columns)
        work.connection.execute(f"INSERT INTO {table.physical} SELECT {items} FROM temp.stage")
        work.wrote(table)
    return count


def _refuse_identity(
    context: Context, columns: Sequence[e.Column], objects: Collection[int]
) -> None:
    """SQL Server would hand an identity property on to the new table; which, is not known here."""
    names = {c.name.lower() for c in columns}
    for number in objects:
        table = context.catalog.table_by_id(number)
        for column in table.columns if table is not None else ():
            if column.identity is not None and column.name.lower() in names:
                raise errors.unsupported(f"SELECT … INTO of the identity column {column.name}")


def new_object(
    session: EngineSession, work: Work, name: tuple[str, ...], what: str
) -> tuple[e.Database, str]:
    """Where a new object goes; raises Msg 262, 2714 or 2760."""
    database, schema = place(session.context, name)
    session.context.access.require_owner(database.id, what)
    if (
        work.current.table(database.id, schema, name[-1]) is not None
        or work.current.view(database.id, schema, name[-1]) is not None
    ):
        raise SqlError(
            2714, f"There is already an object named '{name[-1]}' in the database.", 16, 6
        )
    return database, schema


def _store(
    session: EngineSession,
    work: Work,
    where: tuple[e.Database, str, str],
    columns: tuple[e.Column, ...],
    keys: tuple[e.Key, ...],
) -> e.Table:
    database, schema, name = where
    table = e.Table(
        session.context.store.new_object_id(),
        database.id,
        schema,
        name,
        session.context.store.clock.datetime(),
        columns,
        keys,
        next_column=len(columns) + 1,
        exact=work.current.tells_case(database.id),
    )
    store_table(work, table)
    return table


def store_table(work: Work, table: e.Table) -> None:
    """Make a table in DuckDB and in the catalogue."""
    text = ", ".join(f"{c.physical} {types.physical(c.type)}" for c in table.columns)
    work.connection.execute(f"CREATE TABLE {table.physical} ({text})")
    work.catalog = work.current.put(work.connection, table)
