"""Binding of queries: SELECT, joins, grouping, set operations, ordering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from cdc_assets.sandbox.language import collation, errors, nodes, types
from cdc_assets.sandbox.language import tokens as t
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.folding import attempt
from cdc_assets.sandbox.language.scope import Relation, Scope, reference
from cdc_assets.sandbox.language.sources import Bound, Output, SourceBinder
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import SqlError, SqlType


class QueryBinder(SourceBinder):
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
            for table in query.tables:
                self._tables[table.name.lower()] = self._common_table(table, outer)
            return self._body(query, outer)
        finally:
            self._tables = saved

    def subquery(self, query: nodes.Query, scope: Scope) -> tuple[str, tuple[Value, ...]]:
        """A query inside an expression."""
        bound = self.query(query, scope)
        return bound.sql, tuple(output.value for output in bound.outputs)

    def add_common_table(self, table: nodes.CommonTable) -> None:
        """Make a CTE known to the rest of the statement."""
        self._tables[table.name.lower()] = self._common_table(table, None)

    def _common_table(self, table: nodes.CommonTable, outer: Scope | None) -> Relation:
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
        tail = self._limits(query.offset, query.fetch, None, outer)
        if not query.order_by and not tail:
            return bound
        keys = [self._output_key(item, bound.outputs) for item in query.order_by]
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
        where = f" WHERE {self.condition(select.where, scope)}" if select.where else ""
        group = self._grouping(select, scope)
        outputs = self._items(select.items, scope)
        having = f" HAVING {self.condition(select.having, scope)}" if select.having else ""
        items = ", ".join(f"{o.value.sql} AS x{i + 1}" for i, o in enumerate(outputs))
        core = f"SELECT {items}{source}{where}{group}{having}"
        limits = self._limits(query.offset, query.fetch, select.top, scope)
        if select.distinct:
            plain = tuple(
                replace(o, value=o.value.derived(f"x{i + 1}")) for i, o in enumerate(outputs)
            )
            text = self._distinct(core, plain)
            keys = [self._distinct_key(item, outputs, scope) for item in query.order_by]
            if keys or limits:
                order = f" ORDER BY {', '.join(keys)}" if keys else ""
                text = f"SELECT * FROM ({text}) AS d{order}{limits}"
            return Bound(text, outputs)
        keys = [self._order_key(item, outputs, scope) for item in query.order_by]
        order = f" ORDER BY {', '.join(key for key in keys if key)}" if any(keys) else ""
        return Bound(f"{core}{order}{limits}", outputs)

    def _grouping(self, select: nodes.Select, scope: Scope) -> str:
        if not select.group_by:
            return ""
        keys = []
        groups = {}
        for node in select.group_by:
            if isinstance(node, nodes.Constant):
                raise SqlError(
                    164,
                    "Each GROUP BY expression must contain at least one column that is not an "
                    "outer reference.",
                    15,
                )
            value = self.value(node, scope)
            collation.check_comparable(value.type)
            key = collation.equality_key(value.sql, value.type)
            keys.append(key)
            if key != value.sql:
                groups[value.sql] = f"min({value.sql})"
        scope.groups = groups
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
                value = reference(source, column)
                if value.sql in scope.groups:
                    value = value.derived(scope.groups[value.sql])
                found.append(Output(column.name, value))
        return found

    # --- ORDER BY, TOP, OFFSET -----------------------------------------------------------------

    def _ordinal(self, node: nodes.Node, outputs: Sequence[Output]) -> int | None:
        """The output that a number or a bare name in ORDER BY means."""
        if isinstance(node, nodes.Constant) and node.kind == t.INTEGER:
            index = int(node.value)
            if not 1 <= index <= len(outputs):
                raise SqlError(
                    108,
                    f"The ORDER BY position number {index} is out of range of the number of items "
                    "in the select list.",
                    15,
                )
            return index - 1
        if isinstance(node, nodes.Column) and len(node.parts) == 1:
            wanted = node.parts[0].lower()
            found = [i for i, output in enumerate(outputs) if output.name.lower() == wanted]
            if found:
                return found[0]
        return None

    def _order_key(self, item: nodes.OrderItem, outputs: Sequence[Output], scope: Scope) -> str:
        index = self._ordinal(item.expression, outputs)
        if index is not None:
            return self.order_text(outputs[index].value, descending=item.descending)
        value = self.value(item.expression, scope)
        if value.is_constant:
            return ""
        return self.order_text(value, descending=item.descending)

    def _output_key(self, item: nodes.OrderItem, outputs: Sequence[Output]) -> str:
        index = self._ordinal(item.expression, outputs)
        if index is None:
            raise SqlError(
                104,
                "ORDER BY items must appear in the select list if the statement contains a UNION, "
                "INTERSECT or EXCEPT operator.",
                15,
            )
        value = replace(outputs[index].value, sql=f"x{index + 1}")
        return self.order_text(value, descending=item.descending)

    def _distinct_key(self, item: nodes.OrderItem, outputs: Sequence[Output], scope: Scope) -> str:
        index = self._ordinal(item.expression, outputs)
        if index is None:
            wanted = self.value(item.expression, scope).sql
            found = [i for i, output in enumerate(outputs) if output.value.sql == wanted]
            if not found:
                raise SqlError(
                    145,
                    "ORDER BY items must appear in the select list if SELECT DISTINCT is "
                    "specified.",
                    15,
                )
            index = found[0]
        value = replace(outputs[index].value, sql=f"x{index + 1}")
        return self.order_text(value, descending=item.descending)

    def _limits(
        self,
        offset: nodes.Node | None,
        fetch: nodes.Node | None,
        top: nodes.Node | None,
        scope: Scope | None,
    ) -> str:
        text = ""
        count = fetch if fetch is not None else top
        if count is not None:
            text += f" LIMIT {self._row_count(count, scope)}"
        if offset is not None:
            text += f" OFFSET {self._row_count(offset, scope)}"
        return text

    def _row_count(self, node: nodes.Node, scope: Scope | None) -> int:
        value = self.value(node, scope or Scope())
        if not value.is_constant:
            raise errors.unsupported("TOP, OFFSET or FETCH with an expression that is no constant")
        number = attempt(convert(value, types.BIGINT))
        if not isinstance(number, int) or number < 0:
            raise SqlError(
                1060,
                "The number of rows provided for a TOP or FETCH clauses row count "
                "parameter must be an integer.",
                15,
            )
        return number
