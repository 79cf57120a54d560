"""INSERT, UPDATE and DELETE: rows are staged, checked, applied, and logged for capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from cdc_assets.sandbox.engine import changes
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.constraints import check_keys, check_nulls, leave_keys
from cdc_assets.sandbox.engine.references import Checker
from cdc_assets.sandbox.engine.relations import relation_of
from cdc_assets.sandbox.engine.targets import TargetColumns
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import nodes, types, values
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.binder import implicitly_converts
from cdc_assets.sandbox.language.convert import assign
from cdc_assets.sandbox.language.folding import attempt, fold
from cdc_assets.sandbox.language.parser import parse_expression
from cdc_assets.sandbox.language.scope import Scope, Source
from cdc_assets.sandbox.language.selects import QueryBinder
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import SqlError, SqlType

STAGE = "temp.stage"
_FINAL = "temp.final"
_LONGEST_TRIED = 4000


@dataclass(frozen=True, slots=True)
class Applied:
    """What a statement did: its row count, and the staged rows for OUTPUT."""

    rows: int
    stage: str
    last_identity: int | None = None


class Changer(TargetColumns):
    """Applies one statement's changes to one table."""

    def __init__(
        self,
        work: Work,
        binder: QueryBinder,
        table: e.Table,
        *,
        database: str,
        identity_insert: bool,
    ) -> None:
        super().__init__(table, identity_insert=identity_insert)
        self.work = work
        self.binder = binder
        self.database = database
        self.connection = work.connection

    @property
    def _shown(self) -> str:
        return f"{self.database}.{self.table.schema}.{self.table.name}"

    def _checker(self, verb: str) -> Checker:
        return Checker(self.work, self.binder, self.table, self.database, verb)

    def _run(self, sql: str) -> None:
        self.connection.execute(sql)

    def _stage(self, select: str) -> int:
        self.work.keep_keys()
        return self.connection.stage("stage", select)

    def _scope(self, alias: str) -> Scope:
        """The table's own columns, as a default or computed column sees them."""
        return Scope(
            None, [Source(alias, (self.table.schema, self.table.name), relation_of(self.table))]
        )

    # --- INSERT --------------------------------------------------------------------------------

    def insert_values(self, columns: Sequence[e.Column], rows: nodes.Values) -> Applied:
        """INSERT … VALUES."""
        texts = []
        for number, row in enumerate(rows.rows, start=1):
            if len(row) != len(columns):
                self.insert_columns([c.name for c in columns], len(row))
            cells = [self._literal(column, item) for column, item in zip(columns, row, strict=True)]
            texts.append(f"({number}, {', '.join(cells)})")
        names = ", ".join(["rn", *(c.physical for c in columns)])
        return self._insert(
            f"SELECT {self._typed(columns)} FROM (VALUES {', '.join(texts)}) AS v({names})", columns
        )

    def _literal(self, column: e.Column, item: nodes.Node) -> str:
        """A value of a VALUES row; a constant's error is raised before anything has begun."""
        if isinstance(item, nodes.Constant) and item.kind == "default":
            return self._default(column).sql
        value = self.binder.value(item, Scope())
        result = self._assigned(column, value)
        if value.is_constant and not result.is_constant and len(result.sql) < _LONGEST_TRIED:
            attempt(result)
        return result.sql

    def _typed(self, columns: Sequence[e.Column]) -> str:
        typed = [f"CAST({c.physical} AS {types.physical(c.type)}) AS {c.physical}" for c in columns]
        return ", ".join(["CAST(rn AS BIGINT) AS rn", *typed])

    def _assigned(self, column: e.Column, value: Value) -> Value:
        if not implicitly_converts(value, column.type):
            raise SqlError(
                257 if value.type.name in types.STRINGS else 206,
                f"Implicit conversion from data type {value.type.name} to {column.type.name} is "
                "not allowed. Use the CONVERT function to run this query."
                if value.type.name in types.STRINGS
                else f"Operand type clash: {value.type.name} is incompatible with "
                f"{column.type.name}",
            )
        result = assign(value, column.type, f"{self._shown}.{column.name}")
        if value.is_constant:
            return fold(result, value)
        return result

    def _default(self, column: e.Column) -> Value:
        if column.default is None:
            return values.null(column.type)
        return self._assigned(column, self.binder.value(parse_expression(column.default), Scope()))

    def insert_query(self, names: Sequence[str], query: nodes.Query) -> Applied:
        """INSERT … SELECT."""
        columns = self.insert_columns(names, None)
        bound = self.binder.query(query)
        if not names:
            self.insert_columns((), len(bound.outputs))
        if len(bound.outputs) != len(columns):
            more = len(columns) > len(bound.outputs)
            raise SqlError(
                120 if more else 121,
                f"The select list for the INSERT statement contains {'fewer' if more else 'more'} "
                "items than the insert list. The number of SELECT values must match the number of "
                "INSERT columns.",
                15,
            )
        cells = [
            self._assigned(
                column,
                Value(
                    f"q.x{i + 1}",
                    output.value.type,
                    output.value.nullable,
                    untyped_null=output.value.untyped_null,
                ),
            ).sql
            for i, (column, output) in enumerate(zip(columns, bound.outputs, strict=True))
        ]
        items = ", ".join(f"{cell} AS {c.physical}" for cell, c in zip(cells, columns, strict=True))
        return self._insert(
            f"SELECT row_number() OVER () AS rn, {items} FROM ({bound.sql}) AS q", columns
        )

    def insert_rows(
        self, columns: Sequence[e.Column], rows: pa.Table, kinds: Sequence[SqlType]
    ) -> Applied:
        """Rows that a procedure returned, into the table."""
        if rows.num_columns != len(columns):
            raise SqlError(
                213, "Column name or number of supplied values does not match table definition."
            )
        renamed = rows.rename_columns([f"x{i + 1}" for i in range(rows.num_columns)])
        self.connection.register("incoming", renamed)
        cells = [
            self._assigned(column, Value(f"q.x{i + 1}", kind)).sql
            for i, (column, kind) in enumerate(zip(columns, kinds, strict=True))
        ]
        items = ", ".join(f"{cell} AS {c.physical}" for cell, c in zip(cells, columns, strict=True))
        try:
            return self._insert(
                f"SELECT row_number() OVER () AS rn, {items} FROM incoming AS q", columns
            )
        finally:
            self.connection.unregister("incoming")

    def insert_defaults(self) -> Applied:
        """INSERT … DEFAULT VALUES."""
        return self._insert("SELECT CAST(1 AS BIGINT) AS rn", [])

    def _insert(self, select: str, given: Sequence[e.Column]) -> Applied:
        count = self._stage(select)
        stage, identity = self._complete(given, count)
        check_nulls(self.work, self.table, self._shown, stage, self.table.columns, "INSERT")
        check_keys(self.work, self.table, stage, count, replaced=None)
        checker = self._checker("INSERT")
        checker.rows(stage)
        names = ", ".join(c.physical for c in self.table.columns)
        self._run(
            f"INSERT INTO {self.table.physical} ({names}) SELECT {names} FROM {stage} ORDER BY rn"
        )
        checker.children(stage, self.table.foreign_keys)
        changes.log_rows(self.work, self.table, 2, stage, count)
        self.work.wrote(self.table)
        return Applied(count, stage, identity)

    def _complete(self, given: Sequence[e.Column], count: int) -> tuple[str, int | None]:
        """Defaults, identity, rowversion and computed columns added to the staged rows."""
        known = {c.id for c in given}
        rest = [c for c in self.table.columns if c.id not in known]
        identity: int | None = None
        own = next((c for c in self.table.columns if c.identity is not None), None)
        if own is not None and own.id in known and count:
            row = self.connection.one(f"SELECT max({own.physical}) FROM {STAGE}")
            if row and row[0] is not None:
                self.work.note_identity(self.table, own, int(row[0]))
                identity = int(row[0])
        if not rest:
            return STAGE, identity
        items = []
        for column in rest:
            if column.computed is not None:
                continue
            if column.identity is not None:
                first = self.work.take_identities(self.table, column, count)
                step = column.identity[1]
                identity = first + step * (count - 1)
                text = f"CAST({first} + (rn - 1) * {step} AS {types.physical(column.type)})"
            elif column.type.name == "rowversion":
                text = self._rowversion(count)
            else:
                text = self._default(column).sql
            items.append(f"{text} AS {column.physical}")
        inner = f"SELECT *{''.join(', ' + item for item in items)} FROM {STAGE}"
        self.connection.stage("final", f"SELECT t.*{self._computed('t')} FROM ({inner}) AS t")
        return _FINAL, identity

    def _rowversion(self, count: int) -> str:
        first = self.work.store.take_rowversions(count)
        return f"unhex(lpad(to_hex(CAST({first} + rn AS BIGINT)), 16, '0'))"

    def _computed(self, alias: str) -> str:
        """The computed columns over a row's other columns."""
        texts = []
        for column in self.table.columns:
            if column.computed is None:
                continue
            value = self.binder.value(parse_expression(column.computed), self._scope(alias))
            texts.append(f", {value.sql} AS {column.physical}")
        return "".join(texts)

    # --- UPDATE --------------------------------------------------------------------------------

    def update(
        self, source: str, target: str, scope: Scope, statement: s.Update, where: str, limit: str
    ) -> Applied:
        """UPDATE: `source` is the FROM text, `target` the table's alias in it."""
        assigned = {
            column.id: self.assigned(column, node, scope)
            for column, node in self.assignments(statement.assignments)
        }
        old = [f"{target}.{c.physical} AS o{c.id}" for c in self.table.columns]
        new = [
            f"{assigned.get(c.id, f'{target}.{c.physical}')} AS c{c.id}"
            for c in self.table.columns
            if not c.generated
        ]
        inner = f"SELECT {target}.rowid AS rid, {', '.join(old + new)} FROM {source}{where}"
        # A row that joins several times is updated once, with one of them.
        if statement.source is not None:
            inner = f"SELECT DISTINCT ON (rid) * FROM ({inner})"
        count = self._stage(f"SELECT row_number() OVER () AS rn, * FROM ({inner}) AS i{limit}")
        return self._apply_update(set(assigned), count)

    def assigned(self, column: e.Column, node: nodes.Node, scope: Scope) -> str:
        """The text of a column's new value."""
        if isinstance(node, nodes.Constant) and node.kind == "default":
            return self._default(column).sql
        with scope.within("SET"):
            return self._assigned(column, self.binder.value(node, scope)).sql

    def insert_staged(self, select: str, given: Sequence[e.Column]) -> int:
        """Insert rows that a query gives (rn, c1, …), already in their columns' types."""
        return self._insert(select, given).rows

    def update_staged(self, select: str, assigned: set[int]) -> int:
        """Update rows that a query gives (rn, rid, o1, …, c1, …)."""
        return self._apply_update(assigned, self._stage(select)).rows

    def delete_staged(self, select: str) -> int:
        """Delete rows that a query gives (rn, rid, c1, …)."""
        return self._delete(self._stage(select)).rows

    def _apply_update(self, assigned: set[int], count: int) -> Applied:
        stage = STAGE
        generated = [c for c in self.table.columns if c.generated]
        if generated and count:
            versions = [
                f", {self._rowversion(count)} AS {c.physical}"
                for c in generated
                if c.computed is None
            ]
            inner = f"SELECT *{''.join(versions)} FROM {STAGE}"
            self.connection.stage("final", f"SELECT t.*{self._computed('t')} FROM ({inner}) AS t")
            stage = _FINAL
        elif generated:
            return Applied(0, STAGE)
        if not count:
            return Applied(0, STAGE)
        self.work.lock_rows(self.table, STAGE, count)
        written = [c for c in self.table.columns if c.id in assigned or c.generated]
        check_nulls(self.work, self.table, self._shown, stage, written, "UPDATE")
        keys = {c for key in self.table.keys if key.unique for c in key.columns}
        if keys & {c.id for c in written}:
            check_keys(self.work, self.table, stage, count, replaced="rid")
        checker = self._checker("UPDATE")
        checker.rows(stage)
        sets = ", ".join(f"{c.physical} = n.{c.physical}" for c in written)
        self._run(
            f"UPDATE {self.table.physical} AS t SET {sets} FROM {stage} AS n WHERE t.rowid = n.rid"
        )
        numbers = {c.id for c in written}
        checker.children(stage, [k for k in self.table.foreign_keys if numbers & set(k.columns)])
        checker.parents(stage, "o", numbers)
        changes.log_updates(self.work, self.table, stage, count, {c.id for c in written})
        self.work.wrote(self.table)
        return Applied(count, stage)

    # --- DELETE --------------------------------------------------------------------------------

    def delete(self, source: str, target: str, where: str, limit: str, *, joined: bool) -> Applied:
        """DELETE: `source` is the FROM text, `target` the table's alias in it."""
        columns = ", ".join(f"{target}.{c.physical}" for c in self.table.columns)
        inner = f"SELECT {target}.rowid AS rid, {columns} FROM {source}{where}"
        if joined:
            inner = f"SELECT DISTINCT ON (rid) * FROM ({inner})"
        count = self._stage(f"SELECT row_number() OVER () AS rn, * FROM ({inner}) AS i{limit}")
        return self._delete(count)

    def _delete(self, count: int) -> Applied:
        if count:
            self.work.lock_rows(self.table, STAGE, count)
            leave_keys(self.work, self.table, STAGE, count)
            self._run(f"DELETE FROM {self.table.physical} WHERE rowid IN (SELECT rid FROM {STAGE})")
            self._checker("DELETE").parents(STAGE, "c")
            changes.log_rows(self.work, self.table, 1, STAGE, count)
            self.work.wrote(self.table)
        return Applied(count, STAGE)
