"""Binding of queries: SELECT, joins, grouping, set operations, ordering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from cdc_assets.sandbox.language import collation, errors, nodes
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.grouping import Grouped, check_unordered, recursion, refers_to
from cdc_assets.sandbox.language.ordering import OrderBinder
from cdc_assets.sandbox.language.scope import Relation, Scope
from cdc_assets.sandbox.language.sources import Bound, Output
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import SqlError, SqlType


class QueryBinder(OrderBinder):
    """Binds whole queries."""

    def query(
        self,
        query: nodes.Query,
        outer: Scope | None = None,
        tables: dict[str, Relation] | None = None,
    ) -> Bound:
        """Bind a query; `outer` is what a correlated one sees, `tables` the CTEs around it."""
        saved = self._tables
        self._tables = {**saved, **(tables or {})}
        try:
            names = [table.name.lower() for table in query.tables]
            for table in query.tables:
                if names.count(table.name.lower()) > 1:
                    raise SqlError(
                        239,
                        f"Duplicate common table expression name '{table.name}' was specified.",
                    )
                self._tables[table.name.lower()] = self._common_table(table, outer)
            return self._body(query, outer)
        finally:
            self._tables = saved

    def subquery(self, query: nodes.Query, scope: Scope) -> tuple[str, tuple[Value, ...]]:
        """A query inside an expression; raises Msg 130 in an aggregate and 144 in GROUP BY."""
        if scope.inside_aggregate:
            raise errors.nested_aggregate()
        if scope.clause == "GROUP BY":
            raise errors.aggregate_in_group()
        check_unordered(query)
        bound = self.query(query, scope)
        return bound.sql, tuple(output.value for output in bound.outputs)

    def add_common_table(self, table: nodes.CommonTable) -> None:
        """Make a CTE known to the rest of the statement."""
        self._tables[table.name.lower()] = self._common_table(table, None)

    def _common_table(self, table: nodes.CommonTable, outer: Scope | None) -> Relation:
        check_unordered(table.query)
        if refers_to(table.query, table.name):
            raise recursion(table)
        bound = self.query(table.query, outer)
        return self.as_relation(bound, table.columns, (table.name,))

    def _body(self, query: nodes.Query, outer: Scope | None) -> Bound:
        body = query.body
        if isinstance(body, nodes.Select):
            return self._select(body, query, outer)
        bound = (
            self._values(body, outer)
            if isinstance(body, nodes.Values)
            else self._set_operation(body, outer)
        )
        tail = self.limits(query, None, outer)
        if not query.order_by and not tail:
            return bound
        keys = [self.output_key(item, bound.outputs) for item in query.order_by]
        order = f" ORDER BY {', '.join(keys)}" if keys else ""
        return Bound(f"SELECT * FROM ({bound.sql}) AS u{order}{tail}", bound.outputs)

    # --- set operations ------------------------------------------------------------------------

    def _set_operation(self, body: nodes.Node, outer: Scope | None) -> Bound:
        if isinstance(body, nodes.Select):
            return self._select(body, nodes.Query(body), outer)
        if not isinstance(body, nodes.SetOperation):
            raise errors.unsupported(f"A {type(body).__name__} in a set operation")
        arms = [self._set_operation(arm, outer) for arm in body.arms]
        width = len(arms[0].outputs)
        if any(len(arm.outputs) != width for arm in arms):
            raise SqlError(
                205,
                "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an "
                "equal number of expressions in their target lists.",
            )
        kinds = [self.common_type([arm.outputs[i].value for arm in arms]) for i in range(width)]
        texts = [self._arm(arm, kinds) for arm in arms]
        outputs = tuple(
            Output(
                arms[0].outputs[i].name,
                Value(f"x{i + 1}", kind, any(arm.outputs[i].value.nullable for arm in arms)),
            )
            for i, kind in enumerate(kinds)
        )
        if body.op == "UNION ALL":
            return Bound(" UNION ALL ".join(f"({text})" for text in texts), outputs)
        if all(collation.equality_key("x", kind) == "x" for kind in kinds):
            return Bound(f" {body.op} ".join(f"({text})" for text in texts), outputs)
        if body.op != "UNION":
            return Bound(reduce(partial(self._compared, body.op, outputs), texts), outputs)
        together = " UNION ALL ".join(f"({text})" for text in texts)
        return Bound(self._distinct(together, outputs), outputs)

    def _compared(self, op: str, outputs: Sequence[Output], left: str, right: str) -> str:
        """EXCEPT or INTERSECT of two arms whose strings are equal by their collation."""
        same = " AND ".join(
            f"{collation.equality_key(f'a.x{i + 1}', output.value.type)} IS NOT DISTINCT FROM "
            f"{collation.equality_key(f'b.x{i + 1}', output.value.type)}"
            for i, output in enumerate(outputs)
        )
        word = "NOT EXISTS" if op == "EXCEPT" else "EXISTS"
        kept = (
            f"SELECT * FROM ({left}) AS a WHERE {word} (SELECT 1 FROM ({right}) AS b WHERE {same})"
        )
        return self._distinct(kept, outputs)

    def _arm(self, arm: Bound, kinds: Sequence[SqlType]) -> str:
        wanted = [
            self.convert(replace(output.value, sql=f"x{i + 1}"), kind).sql
            if not output.value.is_constant
            else convert(replace(output.value, sql=f"x{i + 1}"), kind).sql
            for i, (output, kind) in enumerate(zip(arm.outputs, kinds, strict=True))
        ]
        if all(text == f"x{i + 1}" for i, text in enumerate(wanted)):
            return arm.sql
        items = ", ".join(f"{text} AS x{i + 1}" for i, text in enumerate(wanted))
        return f"SELECT {items} FROM ({arm.sql}) AS u"

    def _distinct(self, text: str, outputs: Sequence[Output]) -> str:
        keys = ", ".join(
            collation.equality_key(f"x{i + 1}", output.value.type)
            for i, output in enumerate(outputs)
        )
        return f"SELECT DISTINCT ON ({keys}) * FROM ({text}) AS u"

    def _values(self, body: nodes.Values, outer: Scope | None) -> Bound:
        scope = Scope(outer)
        rows = [[self.value(item, scope) for item in row] for row in body.rows]
        width = len(rows[0])
        if any(len(row) != width for row in rows):
            raise SqlError(
                10709,
                "The number of columns for each row in a table value constructor must be the same.",
            )
        kinds = [self.common_type([row[i] for row in rows]) for i in range(width)]
        texts = []
        for row in rows:
            items = ", ".join(self.convert(v, kind).sql for v, kind in zip(row, kinds, strict=True))
            texts.append(f"({items})")
        names = ", ".join(f"x{i + 1}" for i in range(width))
        outputs = tuple(
            Output("", Value(f"x{i + 1}", kind, any(row[i].nullable for row in rows)))
            for i, kind in enumerate(kinds)
        )
        return Bound(f"SELECT * FROM (VALUES {', '.join(texts)}) AS v({names})", outputs)

    # --- SELECT --------------------------------------------------------------------------------

    def _select(self, select: nodes.Select, query: nodes.Query, outer: Scope | None) -> Bound:
        scope = Scope(outer)
        source = f" FROM {self.sources(select.source, scope)}" if select.source else ""
        where = ""
        if select.where is not None:
            with scope.within("WHERE"):
                where = f" WHERE {self.condition(select.where, scope)}"
        group = self._grouping(select, scope)
        outputs = self._items(select.items, scope)
        grouped = Grouped(scope, bool(select.group_by) or select.having is not None)
        grouped.noted("select list")
        having = ""
        if select.having is not None:
            with scope.within("HAVING"):
                having = f" HAVING {self.condition(select.having, scope)}"
        grouped.noted("HAVING clause")
        items = ", ".join(f"{o.value.sql} AS x{i + 1}" for i, o in enumerate(outputs))
        top = None if select.ties else select.top
        limits = self.limits(query, top, scope)
        if select.distinct:
            grouped.check()
            core = f"SELECT {items}{source}{scope.lifted_text}{where}{group}{having}"
            plain = tuple(
                replace(o, value=o.value.derived(f"x{i + 1}")) for i, o in enumerate(outputs)
            )
            text = self._distinct(core, plain)
            keys = [self.distinct_key(item, outputs, scope) for item in query.order_by]
            if keys or limits:
                order = f" ORDER BY {', '.join(keys)}" if keys else ""
                ties = self.ties(select, keys, scope)
                text = f"SELECT * FROM ({text}) AS d{ties}{order}{limits}"
            return Bound(text, outputs)
        keys = self.order_keys(query.order_by, outputs, scope)
        grouped.noted("ORDER BY clause")
        grouped.check()
        order = f" ORDER BY {', '.join(keys)}" if keys else ""
        ties = self.ties(select, keys, scope)
        core = f"SELECT {items}{source}{scope.lifted_text}{where}{group}{having}"
        return Bound(f"{core}{ties}{order}{limits}", outputs)

    def _grouping(self, select: nodes.Select, scope: Scope) -> str:
        scope.loose.clear()
        if not select.group_by:
            return ""
        keys = []
        groups = {}
        known = set()
        for node in select.group_by:
            scope.loose.clear()
            with scope.within("GROUP BY"):
                value = self.value(node, scope)
            if not scope.loose:
                raise SqlError(
                    164,
                    "Each GROUP BY expression must contain at least one column that is not an "
                    "outer reference.",
                    15,
                )
            known.add(value.sql)
            collation.check_comparable(value.type)
            key = collation.equality_key(value.sql, value.type)
            keys.append(key)
            if key != value.sql:
                groups[value.sql] = f"min({value.sql})"
        scope.loose.clear()
        scope.groups = groups
        scope.keys = frozenset(known)
        return f" GROUP BY {', '.join(keys)}"

    def _items(self, items: Sequence[nodes.SelectItem], scope: Scope) -> tuple[Output, ...]:
        outputs: list[Output] = []
        for item in items:
            if isinstance(item.expression, nodes.Star):
                outputs.extend(self.star(item.expression, scope))
                continue
            value = self.value(item.expression, scope)
            name = item.alias
            if name is None and isinstance(item.expression, nodes.Column):
                found = scope.find(item.expression.parts)
                name = found[1].name if found else item.expression.parts[-1]
            outputs.append(Output(name or "", value))
        return tuple(outputs)

    def star(self, star: nodes.Star, scope: Scope) -> list[Output]:
        """`*` or `alias.*` as its columns."""
        chosen = [s for s in scope.sources if not star.qualifier or s.answers_to(star.qualifier)]
        if not chosen:
            if star.qualifier:
                raise SqlError(
                    107,
                    f"The column prefix '{'.'.join(star.qualifier)}' does not match with a table "
                    "name or alias name used in the query.",
                    15,
                )
            raise SqlError(263, "Must specify table to select from.")
        found = []
        for source in chosen:
            for column in source.relation.columns:
                value = scope.reference(source, column)
                if value.sql in scope.groups:
                    value = value.derived(scope.groups[value.sql])
                found.append(Output(column.name, value))
        return found
