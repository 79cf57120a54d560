"""MERGE, as the updates, deletes and inserts it means.

Every row's action is chosen first, over the tables as they were; then the actions are applied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.dml import Changer
from cdc_assets.sandbox.engine.relations import relation_of
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import nodes
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.scope import Scope
from cdc_assets.sandbox.language.selects import QueryBinder
from cdc_assets.sandbox.results import SqlError

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.statements import StatementRunner

_CHOSEN = "temp.merged"


@dataclass(frozen=True, slots=True)
class _Bound:
    """The MERGE's FROM, its two sides' aliases, and the scope of both."""

    text: str
    target: str
    present: str
    scope: Scope


def merge(runner: StatementRunner, work: Work, statement: s.Merge) -> int:
    """Run a MERGE; how many rows it changed. Raises Msg 8672 for a row matched twice."""
    table = runner.table(statement.target)
    access = runner.context.access
    for action in statement.actions:
        access.require(table, action.action)
    runner.session.victim.before_read(frozenset({table.id}))
    binder = runner.session.binder()
    for common in statement.tables:
        binder.add_common_table(common)
    changer = runner.changer(work, binder, table)
    bound = _bind(runner, binder, table, statement)
    _choose(work, binder, table, statement, bound, changer)
    count = 0
    for number, action in enumerate(statement.actions, start=1):
        count += _apply(changer, work, table, action, number)
    return count


def _bind(
    runner: StatementRunner, binder: QueryBinder, table: e.Table, statement: s.Merge
) -> _Bound:
    scope = Scope()
    names = (
        (statement.alias,)
        if statement.alias
        else (runner.context.database, table.schema, table.name)
    )
    target = binder.add_source(relation_of(table, None, names), names, scope)
    given, source_names = binder.relation(statement.source, Scope())
    # The source's own mark of presence: its columns may all be NULL in a row that is there.
    marked = replace(given, sql=f"(SELECT *, TRUE AS here FROM {given.sql} AS m)")
    source = binder.add_source(marked, source_names, scope)
    condition = binder.condition(statement.condition, scope)
    sides = {action.kind for action in statement.actions}
    kind = "INNER"
    if "not_matched" in sides:
        kind = "FULL" if "not_matched_by_source" in sides else "RIGHT"
    elif "not_matched_by_source" in sides:
        kind = "LEFT"
    text = f"{target} {kind} JOIN {source} ON {condition}"
    return _Bound(text, scope.sources[0].alias, f"{scope.sources[1].alias}.here", scope)


def _choose(
    work: Work,
    binder: QueryBinder,
    table: e.Table,
    statement: s.Merge,
    bound: _Bound,
    changer: Changer,
) -> None:
    """Stage each row with its action's number, its old values, and every action's new ones."""
    rid = f"{bound.target}.rowid"
    tests = {
        "matched": f"{rid} IS NOT NULL AND {bound.present}",
        "not_matched": f"{rid} IS NULL",
        "not_matched_by_source": f"{bound.present} IS NULL",
    }
    branches = []
    cells = []
    for number, action in enumerate(statement.actions, start=1):
        test = tests[action.kind]
        if action.condition is not None:
            test += f" AND {binder.condition(action.condition, bound.scope)}"
        branches.append(f"WHEN {test} THEN {number}")
        for column, node in _assignments(changer, action):
            value = changer.assigned(column, node, bound.scope)
            # An action's values count for its own rows only: others must not raise its errors.
            cells.append(f"CASE WHEN {test} THEN {value} END AS v{number}_{column.id}")
    old = [f"{bound.target}.{c.physical} AS o{c.id}" for c in table.columns]
    items = ", ".join([f"{rid} AS rid", f"CASE {' '.join(branches)} END AS action", *old, *cells])
    work.keep_keys()
    work.connection.stage("merged", f"SELECT {items} FROM {bound.text}")
    twice = work.connection.one(
        f"SELECT 1 FROM {_CHOSEN} WHERE rid IS NOT NULL AND action IS NOT NULL "
        "GROUP BY rid HAVING count(*) > 1 LIMIT 1"
    )
    if twice is not None:
        raise SqlError(
            8672,
            "The MERGE statement attempted to UPDATE or DELETE the same row more than once. This "
            "happens when a target row matches more than one source row.",
        )


def _assignments(changer: Changer, action: s.MergeAction) -> list[tuple[e.Column, nodes.Node]]:
    if action.action == "UPDATE":
        return changer.assignments(action.assignments)
    if action.action == "INSERT":
        columns = changer.insert_columns(action.columns, len(action.values))
        return list(zip(columns, action.values, strict=True))
    return []


def _apply(changer: Changer, work: Work, table: e.Table, action: s.MergeAction, number: int) -> int:
    """Apply one action to the rows that chose it."""
    rows = f"FROM {_CHOSEN} WHERE action = {number}"
    if not work.connection.one(f"SELECT 1 {rows} LIMIT 1"):
        return 0
    assigned = {column.id: f"v{number}_{column.id}" for column, _ in _assignments(changer, action)}
    if action.action == "INSERT":
        columns = [table.by_id(column) for column in assigned]
        items = ", ".join(f"{text} AS c{column}" for column, text in assigned.items())
        return changer.insert_staged(f"SELECT row_number() OVER () AS rn, {items} {rows}", columns)
    if action.action == "DELETE":
        items = ", ".join(f"o{c.id} AS c{c.id}" for c in table.columns)
        return changer.delete_staged(f"SELECT row_number() OVER () AS rn, rid, {items} {rows}")
    old = [f"o{c.id}" for c in table.columns]
    new = [f"{assigned.get(c.id, f'o{c.id}')} AS c{c.id}" for c in table.columns if not c.generated]
    return changer.update_staged(
        f"SELECT row_number() OVER () AS rn, rid, {', '.join(old + new)} {rows}",
        set(assigned),
    )
