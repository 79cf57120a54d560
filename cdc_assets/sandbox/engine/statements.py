"""Queries and changes of a batch, run for a session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from cdc_assets.sandbox.engine import creation
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.dml import Applied, Changer
from cdc_assets.sandbox.engine.locks import StaleError
from cdc_assets.sandbox.engine.merge import merge
from cdc_assets.sandbox.engine.relations import relation_of
from cdc_assets.sandbox.engine.rows import arrow_type
from cdc_assets.sandbox.engine.tableconstraints import refuse_end_of_table
from cdc_assets.sandbox.engine.temporary import (
    TemporaryTable,
    TemporaryWork,
    create_temporary_from,
)
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import errors, nodes, values
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.scope import Relation, RelationColumn, Scope, Source
from cdc_assets.sandbox.language.selects import QueryBinder
from cdc_assets.sandbox.language.sources import Bound, Output
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import Command, Failed, Result, ResultSet, RowCount, SqlError

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.interpreter import Interpreter
    from cdc_assets.sandbox.engine.session import EngineSession

Change = s.Insert | s.Update | s.Delete | s.Merge
_PERMISSIONS = {s.Insert: "INSERT", s.Update: "UPDATE", s.Delete: "DELETE"}
_COMMANDS: dict[type[s.Statement], Command] = {
    s.Insert: "INSERT",
    s.Update: "UPDATE",
    s.Delete: "DELETE",
    s.Merge: "MERGE",
}


class StatementRunner:
    """Runs SELECT, INSERT, UPDATE, DELETE, MERGE and TRUNCATE."""

    def __init__(self, session: EngineSession, interpreter: Interpreter) -> None:
        self.session = session
        self.interpreter = interpreter
        self.context = session.context

    # --- SELECT --------------------------------------------------------------------------------

    def query(self, statement: s.QueryStatement) -> Iterator[Result]:
        """A SELECT: rows, variables, or a new table."""
        self.session.prepare_read()
        binder = self.session.binder()
        body = statement.query.body
        if isinstance(body, nodes.Select) and any(item.assign for item in body.items):
            yield self._assign(binder, statement.query, body)
            return
        bound = binder.query(statement.query)
        if binder.holds:
            self.session.hold()
        if isinstance(body, nodes.Select) and body.into is not None:
            yield from self._select_into(binder, bound, body.into)
            return
        objects = frozenset(binder.objects)
        scan = self._scans(body, objects)
        yield ResultSet(bound.columns, self.session.stream(bound, objects, scan=scan))
        self.session.end_of_rows()

    def _scans(self, body: nodes.Node, objects: frozenset[int]) -> bool:
        """Whether a query passes a change table's rows on as it finds them."""
        if not isinstance(body, nodes.Select) or body.group_by or body.distinct:
            return False
        tables = (self.context.catalog.table_by_id(number) for number in objects)
        return any(t is not None and t.shipped for t in tables)

    def _assign(self, binder: QueryBinder, query: nodes.Query, body: nodes.Select) -> Result:
        """SELECT @x = …: the last row's values; none leaves the variables alone."""
        if not all(item.assign for item in body.items):
            raise SqlError(
                141,
                "A SELECT statement that assigns a value to a variable must not be combined with "
                "data-retrieval operations.",
                15,
            )
        bound = binder.query(query)
        kinds = [binder.environment.variable(item.assign or "").type for item in body.items]
        cells = [
            convert(Value(f"q.x{i + 1}", output.value.type), kind).sql
            for i, (output, kind) in enumerate(zip(bound.outputs, kinds, strict=True))
        ]
        self.session.victim.before_read(frozenset(binder.objects))
        rows = self.context.connection.rows(f"SELECT {', '.join(cells)} FROM ({bound.sql}) AS q")
        if rows:
            for item, kind, value in zip(body.items, kinds, rows[-1], strict=True):
                self.context.variables[(item.assign or "").lower()] = values.of_python(value, kind)
        self.context.row_count = len(rows)
        return self._counted(len(rows), "SELECT")

    def _select_into(
        self, binder: QueryBinder, bound: Bound, into: tuple[str, ...]
    ) -> Iterator[Result]:
        self.session.victim.before_read(frozenset(binder.objects))
        if into[-1].startswith("#"):
            count = create_temporary_from(self.session, into[-1], bound)
        else:
            count = creation.create_from(self.session, into, bound, binder.objects)
        yield self._counted(count, "SELECT INTO")

    # --- changes -------------------------------------------------------------------------------

    def _counted(self, count: int, command: Command) -> RowCount:
        self.context.row_count = count
        return RowCount(None if self.context.options.nocount else count, command)

    def change(self, statement: Change) -> Iterator[Result]:
        """INSERT, UPDATE, DELETE or MERGE."""
        command = _COMMANDS[type(statement)]
        if isinstance(statement, s.Insert) and isinstance(statement.source, s.Execute):
            yield self._insert_execute(statement, statement.source)
            return
        if statement.target[-1].startswith(("@", "#")):
            self.session.begin_temporary(statement.target[-1])
            yield self._counted(self._change_temporary(statement), command)
            return
        while (done := self._changed(statement)) is None:
            self.session.check_cancelled()
        count, output = done
        counted = self._counted(count, command)
        # The rows of OUTPUT are the statement's one result, and count as what it changed.
        yield counted if output is None else replace(output, command=command)

    def _changed(self, statement: Change) -> tuple[int, ResultSet | None] | None:
        """How many rows, and those of OUTPUT; None where another's commit came first: once more."""
        try:
            with self.session.writing() as work:
                if isinstance(statement, s.Merge):
                    return merge(self, work, statement), None
                applied, changer = self._change_table(work, statement)
                return applied.rows, self._output(statement, changer, applied)
        except StaleError:
            return None

    def _change_table(
        self, work: Work, statement: s.Insert | s.Update | s.Delete
    ) -> tuple[Applied, Changer]:
        binder = self.session.binder()
        table = self._target(statement, binder)
        self.context.access.require(table, _PERMISSIONS[type(statement)])
        self.session.victim.before_read(frozenset({table.id}))
        changer = self.changer(work, binder, table)
        if isinstance(statement, s.Insert):
            applied = self._insert(changer, statement)
            return applied, changer
        return self._update_or_delete(changer, binder, table, statement), changer

    def changer(self, work: Work, binder: QueryBinder, table: e.Table) -> Changer:
        """What applies changes to a table."""
        return Changer(
            work,
            binder,
            table,
            database=self.context.catalog.database(table.database).name,
            identity_insert=self.context.options.identity_insert == table.id,
        )

    def table(self, parts: tuple[str, ...]) -> e.Table:
        """A stored table; raises Msg 208 or 229."""
        table = self.context.find_table(parts)
        if table is None and self.context.find_view(parts) is not None:
            raise errors.unsupported("A change of rows through a view")
        if table is None:
            raise errors.invalid_object(".".join(parts))
        if table.shipped:
            raise errors.unsupported("A change of a table that CDC made")
        self.context.check_isolation(table.database)
        return table

    def _target(self, statement: s.Insert | s.Update | s.Delete, binder: QueryBinder) -> e.Table:
        """The table to change: UPDATE and DELETE may name it by an alias in their FROM."""
        del binder
        if isinstance(statement, s.Insert) or statement.source is None:
            return self.table(statement.target)
        if len(statement.target) == 1:
            named = _by_alias(statement.source, statement.target[0])
            if named is not None:
                return self.table(named.parts)
        return self.table(statement.target)

    def _insert(self, changer: Changer, statement: s.Insert) -> Applied:
        applied = self._insert_rows(changer, statement)
        if applied.last_identity is not None:
            self.context.last_identity = applied.last_identity
        return applied

    def _insert_rows(self, changer: Changer, statement: s.Insert) -> Applied:
        if statement.source is None or isinstance(statement.source, s.Execute):
            return changer.insert_defaults()
        if isinstance(statement.source, nodes.Values):
            width = len(statement.source.rows[0])
            columns = changer.insert_columns(statement.columns, width)
            return changer.insert_values(columns, statement.source)
        return changer.insert_query(statement.columns, statement.source)

    def _update_or_delete(
        self,
        changer: Changer,
        binder: QueryBinder,
        table: e.Table,
        statement: s.Update | s.Delete,
    ) -> Applied:
        scope, source, alias = self.bind_target(binder, table, statement)
        where = ""
        if statement.where is not None:
            with scope.within("WHERE"):
                where = f" WHERE {binder.condition(statement.where, scope)}"
        limit = ""
        if statement.top is not None:
            limit = f" LIMIT {self.interpreter.constant(statement.top, values.integer(0).type)}"
        if isinstance(statement, s.Update):
            return changer.update(source, alias, scope, statement, where, limit)
        return changer.delete(source, alias, where, limit, joined=statement.source is not None)

    def bind_target(
        self, binder: QueryBinder, table: e.Table, statement: s.Update | s.Delete
    ) -> tuple[Scope, str, str]:
        """The FROM of an UPDATE or DELETE; the target's alias in it."""
        scope = Scope()
        for common in statement.tables:
            binder.add_common_table(common)
        if statement.source is None:
            names = (self.context.database, table.schema, table.name)
            source = binder.add_source(relation_of(table, None, names), names, scope)
            return scope, source, scope.sources[0].alias
        source = binder.sources(statement.source, scope)
        wanted = statement.target
        found = [
            x for x in scope.sources if x.answers_to(wanted) and x.relation.object_id == table.id
        ]
        if not found:
            raise errors.unsupported("A target that its FROM does not name")
        if len(found) > 1:
            raise SqlError(8154, f"The table '{wanted[-1]}' is ambiguous.")
        return scope, source, found[0].alias

    def truncate(self, statement: s.Truncate) -> Iterator[Result]:
        """TRUNCATE TABLE; raises Msg 4711 for a captured one."""
        table = self.table(statement.target)
        self.context.access.require(table, "ALTER")
        if self.context.catalog.instances_of(table.id):
            raise SqlError(
                4711,
                f"Cannot truncate table '{table.name}' because it is published for replication or "
                "enabled for Change Data Capture.",
            )
        with self.session.writing() as work:
            refuse_end_of_table(work, table, 4712)
            work.connection.execute(f"DELETE FROM {table.physical}")
            work.wrote(table)
            work.restart_identities(table)
        self.context.row_count = 0
        yield RowCount(None)

    # --- OUTPUT --------------------------------------------------------------------------------

    def _output(
        self, statement: s.Insert | s.Update | s.Delete, changer: Changer, applied: Applied
    ) -> ResultSet | None:
        """The rows of an OUTPUT clause, read before the stage is gone."""
        if not statement.output:
            return None
        binder = changer.binder
        scope = Scope()
        table = changer.table
        after = tuple(RelationColumn(c.name, f"c{c.id}", c.type, c.nullable) for c in table.columns)
        before = tuple(
            RelationColumn(
                c.name,
                f"{'o' if isinstance(statement, s.Update) else 'c'}{c.id}",
                c.type,
                c.nullable,
            )
            for c in table.columns
        )
        if not isinstance(statement, s.Delete):
            scope.sources.append(Source("o", ("inserted",), Relation("", after)))
        if not isinstance(statement, s.Insert):
            scope.sources.append(Source("o", ("deleted",), Relation("", before)))
        outputs: list[Output] = []
        for item in statement.output:
            if isinstance(item.expression, nodes.Star):
                outputs.extend(binder.star(item.expression, scope))
                continue
            value = binder.value(item.expression, scope)
            name = item.alias or (
                item.expression.parts[-1] if isinstance(item.expression, nodes.Column) else ""
            )
            outputs.append(Output(name, value))
        items = ", ".join(f"{o.value.sql} AS x{i + 1}" for i, o in enumerate(outputs))
        rows = self.context.connection.arrow(
            f"SELECT {items} FROM {applied.stage} AS o ORDER BY o.rn"
        )
        bound = Bound("", tuple(outputs))
        return ResultSet(bound.columns, iter(rows.to_batches()))

    # --- table variables and temporary tables --------------------------------------------------

    def _temporary(self, name: str) -> e.TableVariable:
        found = self.context.temporary.get(name.lower())
        if found is None:
            if name.startswith("@"):
                raise SqlError(1087, f'Must declare the table variable "{name}".', 15)
            raise errors.invalid_object(name)
        return found

    def _temporary_changer(self, target: str, binder: QueryBinder) -> Changer:
        found = self._temporary(target)
        table = TemporaryTable(found)
        return Changer(
            TemporaryWork(self.context.store, self.context.connection, self.context.catalog, found),
            binder,
            table,
            database="tempdb",
            identity_insert=False,
        )

    def _change_temporary(self, statement: Change) -> int:
        """Changes of a table variable: nobody else sees it and nothing is captured."""
        if isinstance(statement, s.Merge):
            raise errors.unsupported("MERGE into a temporary table")
        if statement.output:
            raise errors.unsupported("OUTPUT of a temporary table's change")
        self.session.prepare_read()
        binder = self.session.binder()
        changer = self._temporary_changer(statement.target[-1], binder)
        if isinstance(statement, s.Insert):
            return self._insert(changer, statement).rows
        if statement.source is not None:
            raise errors.unsupported("FROM in a change of a temporary table")
        scope = Scope()
        names = (statement.target[-1],)
        source = binder.add_source(relation_of(changer.table, None, names), names, scope)
        alias = scope.sources[0].alias
        where = f" WHERE {binder.condition(statement.where, scope)}" if statement.where else ""
        if isinstance(statement, s.Update):
            return changer.update(source, alias, scope, statement, where, "").rows
        return changer.delete(source, alias, where, "", joined=False).rows

    def _insert_execute(self, statement: s.Insert, execute: s.Execute) -> Result:
        """INSERT … EXEC: every result set of the procedure, row by row."""
        collected: list[tuple[ResultSet, pa.Table]] = []
        for result in self.interpreter.caller.execute(execute):
            if isinstance(result, Failed):
                raise result.error
            if isinstance(result, ResultSet):
                collected.append((result, _collect(result)))
        total = 0
        for result, rows in collected:
            kinds = [column.type for column in result.columns]
            name = statement.target[-1]
            if name.startswith(("@", "#")):
                self.session.begin_temporary(name)
                binder = self.session.binder()
                changer = self._temporary_changer(name, binder)
                columns = changer.insert_columns(statement.columns, None)
                total += changer.insert_rows(columns, rows, kinds).rows
                continue
            with self.session.writing() as work:
                table = self.table(statement.target)
                self.context.access.require(table, "INSERT")
                changer = self.changer(work, self.session.binder(), table)
                columns = changer.insert_columns(statement.columns, None)
                total += changer.insert_rows(columns, rows, kinds).rows
        return self._counted(total, "INSERT")


def _collect(result: ResultSet) -> pa.Table:
    fields = [pa.field(f"x{i + 1}", arrow_type(c.type)) for i, c in enumerate(result.columns)]
    batches = list(result.batches)
    schema = batches[0].schema if batches else pa.schema(fields)
    return pa.Table.from_batches(batches, schema)


def _by_alias(source: nodes.Node, name: str) -> nodes.NamedTable | None:
    """The table that an alias in a FROM stands for."""
    if isinstance(source, nodes.Join):
        return _by_alias(source.left, name) or _by_alias(source.right, name)
    if isinstance(source, nodes.NamedTable) and (source.alias or "").lower() == name.lower():
        return source
    return None
