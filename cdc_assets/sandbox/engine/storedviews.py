"""Views: made, dropped, and read through their owner's eyes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.context import Context
from cdc_assets.sandbox.engine.creation import place
from cdc_assets.sandbox.engine.resolver import Resolver
from cdc_assets.sandbox.language import nodes
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.selects import QueryBinder
from cdc_assets.sandbox.language.sources import Bound
from cdc_assets.sandbox.results import SqlError

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.session import EngineSession


def create(session: EngineSession, statement: s.CreateView) -> None:
    """CREATE or ALTER VIEW; raises Msg 2714, 4511, 4506, 1033 or what its query raises."""
    context = session.context
    database, schema = place(context, statement.name)
    if database.id != context.current.id:
        raise SqlError(
            166,
            "'CREATE/ALTER VIEW' does not allow specifying the database name as a prefix to the "
            "object name.",
            15,
        )
    context.access.require_owner(database.id, "CREATE VIEW")
    name = statement.name[-1]
    known = context.catalog.view(database.id, schema, name)
    if context.catalog.table(database.id, schema, name) is not None or (
        known is not None and statement.kind == "CREATE"
    ):
        raise SqlError(2714, f"There is already an object named '{name}' in the database.", 16, 3)
    if known is None and statement.kind == "ALTER":
        raise SqlError(208, f"Invalid object name '{'.'.join(statement.name)}'.")
    columns = _columns(name, statement, _bind(context, statement.query))
    view = e.View(
        known.id if known is not None else context.store.new_object_id(),
        database.id,
        schema,
        name,
        context.store.clock.datetime(),
        columns,
        statement.text,
        statement.definition,
    )
    with session.writing() as work:
        work.catalog = work.current.put(work.connection, view)


def _bind(context: Context, query: nodes.Query) -> Bound:
    """Its columns; no variable of the batch is one of its own."""
    if query.order_by and query.offset is None:
        body = query.body
        if not isinstance(body, nodes.Select) or body.top is None:
            raise SqlError(
                1033,
                "The ORDER BY clause is invalid in views, inline functions, derived tables, "
                "subqueries, and common table expressions, unless TOP, OFFSET or FOR XML is also "
                "specified.",
                15,
            )
    inner = replace(context, variables={}, temporary={})
    return QueryBinder(Resolver(inner), inner.collation).query(query)


def _columns(name: str, statement: s.CreateView, bound: Bound) -> tuple[e.Column, ...]:
    names = statement.columns or tuple(output.name for output in bound.outputs)
    if len(names) != len(bound.outputs):
        more = len(names) > len(bound.outputs)
        raise SqlError(
            8159 if more else 8158,
            f"'{name}' has {'fewer' if more else 'more'} columns than were specified in the column "
            "list.",
        )
    for number, column in enumerate(names, start=1):
        if not column:
            raise SqlError(
                4511,
                "Create View or Function failed because no column name was specified for column "
                f"{number}.",
            )
        if column.lower() in (other.lower() for other in names[: number - 1]):
            raise SqlError(
                4506,
                f"Column names in each view or function must be unique. Column name '{column}' in "
                f"view or function '{name}' is specified more than once.",
            )
    return tuple(
        e.Column(number, column, output.value.type, output.value.nullable)
        for number, (column, output) in enumerate(zip(names, bound.outputs, strict=True), start=1)
    )


def drop(session: EngineSession, name: tuple[str, ...], *, if_exists: bool) -> None:
    """DROP VIEW; raises Msg 3701 or 3705."""
    context = session.context
    view = context.find_view(name)
    if view is None:
        if context.find_table(name) is not None:
            raise SqlError(
                3705,
                f"Cannot use DROP VIEW with '{'.'.join(name)}' because '{'.'.join(name)}' is a "
                "table. Use DROP TABLE.",
            )
        if if_exists:
            return
    if view is None or not context.access.owner(view.database):
        raise SqlError(
            3701,
            f"Cannot drop the view '{'.'.join(name)}', because it does not exist or you do not "
            "have permission.",
            11,
            5,
        )
    with session.writing() as work:
        grants = [p for p in work.current.of_kind(e.Permission) if p.object == view.id]
        work.catalog = work.current.drop(work.connection, view, *grants)
