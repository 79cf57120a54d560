"""Alias types: CREATE TYPE … FROM, DROP TYPE, and the columns that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.context import Context
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.results import SqlError

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.session import EngineSession

_FIRST_ID = 257
"""user_type_id of the first alias type."""


def find(context: Context, name: tuple[str, ...]) -> e.AliasType | None:
    """The current database's alias type of that name."""
    schema = (name[-2] if len(name) > 1 else "") or "dbo"
    found = (
        t
        for t in context.catalog.of_kind(e.AliasType)
        if t.database == context.current.id
        and (t.schema.lower(), t.name.lower()) == (schema.lower(), name[-1].lower())
    )
    return next(found, None)


def resolved(
    context: Context, definitions: Sequence[s.ColumnDefinition]
) -> tuple[s.ColumnDefinition, ...]:
    """Columns with their aliases' base types; raises Msg 2715 for a type there is not."""
    return tuple(_resolved(context, d, i) for i, d in enumerate(definitions, start=1))


def _resolved(context: Context, definition: s.ColumnDefinition, number: int) -> s.ColumnDefinition:
    if not definition.alias:
        return definition
    found = find(context, definition.alias)
    if found is None:
        raise unknown(definition.alias, number)
    nullable = found.nullable if definition.nullable is None else definition.nullable
    return replace(definition, type=found.type, nullable=nullable, alias_id=found.id)


def unknown(name: tuple[str, ...], number: int) -> SqlError:
    """Msg 2715."""
    return SqlError(
        2715,
        f"Column, parameter, or variable #{number}: Cannot find data type {'.'.join(name)}.",
        16,
        6,
    )


def create(session: EngineSession, statement: s.CreateType, schema: str) -> None:
    """CREATE TYPE; raises Msg 219 where there is one of that name."""
    context = session.context
    context.access.require_owner(context.current.id, "CREATE TYPE")
    if find(context, (schema, statement.name[-1])) is not None:
        raise SqlError(
            219,
            f"The type '{schema}.{statement.name[-1]}' already exists, or you do not have "
            "permission to create it.",
        )
    with session.writing() as work:
        taken = [t.id for t in work.current.of_kind(e.AliasType)]
        made = e.AliasType(
            max(taken, default=_FIRST_ID - 1) + 1,
            context.current.id,
            schema,
            statement.name[-1],
            statement.type,
            statement.nullable is not False,
        )
        work.catalog = work.current.put(work.connection, made)


def drop(session: EngineSession, name: tuple[str, ...], *, if_exists: bool) -> None:
    """DROP TYPE; raises Msg 218, and 3732 while a column has it."""
    context = session.context
    found = find(context, name)
    if found is None or not context.access.owner(context.current.id):
        if if_exists and found is None:
            return
        raise SqlError(
            218,
            f"Could not find the type '{'.'.join(name)}'. Either it does not exist or you do not "
            "have the necessary permission.",
        )
    with session.writing() as work:
        for table in work.current.tables_of(found.database):
            if any(c.alias_id == found.id for c in table.columns):
                raise SqlError(
                    3732,
                    f"Cannot drop type '{'.'.join(name)}' because it is being referenced by "
                    f"object '{table.name}'. There may be other objects that reference this type.",
                )
        work.catalog = work.current.drop(work.connection, found)
