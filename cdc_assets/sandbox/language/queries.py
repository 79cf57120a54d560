"""The parser's queries."""

from __future__ import annotations

from cdc_assets.sandbox.language import errors, nodes
from cdc_assets.sandbox.language import tokens as t
from cdc_assets.sandbox.language.expressions import ExpressionParser

# Hints that change nothing here: readers see committed rows only and never wait.
_HARMLESS_HINTS = frozenset(
    {"NOLOCK", "READUNCOMMITTED", "READCOMMITTED", "READCOMMITTEDLOCK", "ROWLOCK", "PAGLOCK"}
    | {"TABLOCK", "SNAPSHOT", "FORCESEEK", "FORCESCAN", "NOWAIT", "INDEX", "NOEXPAND"}
)
# Hints whose locks last to the transaction's end: what was read stays so, without anyone waiting.
HOLDING_HINTS = frozenset(
    {"HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD", "UPDLOCK", "XLOCK", "TABLOCKX"}
)
_HINTS = _HARMLESS_HINTS | HOLDING_HINTS
_HARMLESS_OPTIONS = frozenset({"RECOMPILE", "MAXDOP", "FAST", "KEEPFIXED", "FORCE"})


class QueryParser(ExpressionParser):
    """Reads query expressions."""

    def query(self) -> nodes.Query:
        """WITH …, a body, ORDER BY, OFFSET and FETCH."""
        tables = self.common_tables()
        body = self.query_body()
        order: tuple[nodes.OrderItem, ...] = ()
        offset = fetch = None
        if self.accept("ORDER"):
            self.expect("BY")
            order = self.order_items()
            if self.accept("OFFSET"):
                offset = self.expression()
                self.expect("ROW", "ROWS")
                if self.accept("FETCH"):
                    self.expect("NEXT", "FIRST")
                    fetch = self.expression()
                    self.expect("ROW", "ROWS")
                    self.expect("ONLY")
        if self.at("FOR"):
            raise errors.unsupported("FOR " + self.ahead().upper)
        if self.accept("OPTION"):
            self._options()
        return nodes.Query(body, order, offset, fetch, tables)

    def common_tables(self) -> tuple[nodes.CommonTable, ...]:
        """The elements of a WITH, if there is one."""
        if not self.accept("WITH"):
            return ()
        tables = []
        while True:
            name = self.identifier()
            columns = self.name_list() if self.at("(") else ()
            self.expect("AS")
            self.expect("(")
            tables.append(nodes.CommonTable(name, columns, self.query()))
            self.expect(")")
            if not self.accept(","):
                return tuple(tables)

    def query_body(self) -> nodes.Node:
        """Selects joined by UNION and EXCEPT; INTERSECT binds tighter."""
        left = self._intersection()
        while self.at("UNION", "EXCEPT"):
            op = self.advance().upper
            if op == "UNION" and self.accept("ALL"):
                op = "UNION ALL"
            right = self._intersection()
            if isinstance(left, nodes.SetOperation) and left.op == op != "EXCEPT":
                left = nodes.SetOperation(op, (*left.arms, right))
            else:
                left = nodes.SetOperation(op, (left, right))
        return left

    def _intersection(self) -> nodes.Node:
        left = self._select_or_parentheses()
        while self.accept("INTERSECT"):
            left = nodes.SetOperation("INTERSECT", (left, self._select_or_parentheses()))
        return left

    def _select_or_parentheses(self) -> nodes.Node:
        if self.accept("("):
            body = self.query_body()
            self.expect(")")
            return body
        return self._select()

    def _select(self) -> nodes.Select:
        self.expect("SELECT")
        distinct = self.accept("DISTINCT", "ALL") == "DISTINCT"
        top = self.top()
        ties = top is not None and self.accept_phrase("WITH", "TIES")
        items = self.select_items()
        into = self.object_name() if self.accept("INTO") else None
        source = self.table_sources() if self.accept("FROM") else None
        where = self.condition() if self.accept("WHERE") else None
        group: tuple[nodes.Node, ...] = ()
        if self.accept("GROUP"):
            self.expect("BY")
            group = self._list()
        having = self.condition() if self.accept("HAVING") else None
        if self.at("WINDOW"):
            raise errors.unsupported("A WINDOW clause")
        return nodes.Select(items, source, where, group, having, distinct, top, into, ties)

    def top(self) -> nodes.Node | None:
        """TOP (n), or None."""
        if not self.accept("TOP"):
            return None
        if self.accept("("):
            count = self.expression()
            self.expect(")")
        elif self.token.kind == t.INTEGER:
            count = nodes.Constant(t.INTEGER, self.advance().value)
        else:
            self.fail()
        if self.at("PERCENT"):
            raise errors.unsupported("TOP … PERCENT")
        return count

    def select_items(self) -> tuple[nodes.SelectItem, ...]:
        """The select list."""
        items = [self._select_item()]
        while self.accept(","):
            items.append(self._select_item())
        return tuple(items)

    def _select_item(self) -> nodes.SelectItem:
        if self.accept("*"):
            return nodes.SelectItem(nodes.Star())
        if self.token.kind == t.VARIABLE and self.ahead().upper in ("=", "+=", "-=", "*=", "/="):
            name = self.variable()
            op = self.advance().upper
            value = self.expression()
            if op != "=":
                value = nodes.Arithmetic(op[0], nodes.Variable(name), value)
            return nodes.SelectItem(value, assign=name)
        following = self.ahead()
        if self.at_identifier() and following.upper == "=" and following.kind == t.OP:
            alias = self.identifier()
            self.advance()
            return nodes.SelectItem(self.expression(), alias)
        expression = self.expression()
        return nodes.SelectItem(expression, self._column_alias())

    def _column_alias(self) -> str | None:
        if self.accept("AS"):
            if self.token.kind in (t.STRING, t.NSTRING):
                return self.advance().value
            return self.identifier()
        if self.token.kind == t.STRING:
            return self.advance().value
        return self.identifier() if self.at_identifier() else None

    # --- FROM ----------------------------------------------------------------------------------

    def table_sources(self) -> nodes.Node:
        """What stands after FROM."""
        left = self._joined()
        while self.accept(","):
            left = nodes.Join("CROSS", left, self._joined())
        return left

    def _joined(self) -> nodes.Node:
        left = self._table()
        while True:
            kind = self._join_kind()
            if kind is None:
                return left
            if kind in ("CROSS", "CROSS APPLY", "OUTER APPLY"):
                left = nodes.Join(kind, left, self._table())
                continue
            right = self._joined_operand()
            self.expect("ON")
            left = nodes.Join(kind, left, right, self.condition())

    def _joined_operand(self) -> nodes.Node:
        """The right side of a join, which may itself be joins whose ONs come first."""
        left = self._table()
        while self.at("INNER", "LEFT", "RIGHT", "FULL", "JOIN"):
            start = self.index
            kind = self._join_kind()
            right = self._joined_operand()
            if not self.accept("ON"):
                self.index = start
                break
            left = nodes.Join(kind or "INNER", left, right, self.condition())
        return left

    def _join_kind(self) -> str | None:
        if self.accept("JOIN"):
            return "INNER"
        for kind in ("INNER", "LEFT", "RIGHT", "FULL"):
            if self.at(kind):
                self.advance()
                self.accept("OUTER")
                if self.at("LOOP", "HASH", "MERGE", "REMOTE"):
                    self.advance()
                self.expect("JOIN")
                return kind
        for phrase in (("CROSS", "JOIN"), ("CROSS", "APPLY"), ("OUTER", "APPLY")):
            if self.accept_phrase(*phrase):
                return "CROSS" if phrase[1] == "JOIN" else " ".join(phrase)
        return None

    def _table(self) -> nodes.Node:
        if self.accept("("):
            return self._parenthesized_table()
        if self.token.kind == t.VARIABLE:
            name = self.variable()
            return nodes.NamedTable((name,), self._table_alias())
        parts = self.object_name()
        if self.at("(") and not self._bare_hints():
            call = self.call(parts)
            alias = self._table_alias()
            return nodes.FunctionTable(call, alias, self._alias_columns())
        alias = self._table_alias()
        return nodes.NamedTable(parts, alias, self._hints())

    def _parenthesized_table(self) -> nodes.Node:
        if self.at("SELECT", "WITH", "VALUES") or self._holds_query():
            query = nodes.Query(self.values_rows()) if self.accept("VALUES") else self.query()
            self.expect(")")
            alias = self._table_alias()
            if alias is None:
                self.fail()
            return nodes.DerivedTable(query, alias, self._alias_columns())
        inner = self.table_sources()
        self.expect(")")
        return inner

    def _holds_query(self) -> bool:
        offset = 0
        while self.ahead(offset).upper == "(":
            offset += 1
        return offset > 0 and self.ahead(offset).upper == "SELECT"

    def values_rows(self) -> nodes.Values:
        """The rows after VALUES."""
        rows = []
        while True:
            self.expect("(")
            row = [self._value_item()]
            while self.accept(","):
                row.append(self._value_item())
            self.expect(")")
            rows.append(tuple(row))
            if not self.accept(","):
                return nodes.Values(tuple(rows))

    def _value_item(self) -> nodes.Node:
        if self.accept("DEFAULT"):
            return nodes.Constant("default", "")
        return self.expression()

    def _table_alias(self) -> str | None:
        if self.accept("AS"):
            return self.identifier()
        if self.at("WINDOW", "OFFSET"):
            return None
        return self.identifier() if self.at_identifier() else None

    def _alias_columns(self) -> tuple[str, ...]:
        return self.name_list() if self.at("(") else ()

    def name_list(self) -> tuple[str, ...]:
        """Names in parentheses."""
        self.expect("(")
        names = [self.identifier()]
        while self.accept(","):
            names.append(self.identifier())
        self.expect(")")
        return tuple(names)

    def _hints(self) -> tuple[str, ...]:
        if self.at("WITH") and self.ahead().upper == "(":
            self.advance()
        elif not self._bare_hints():
            return ()
        self.expect("(")
        hints = []
        while not self.accept(")"):
            hint = self.advance().upper
            if hint not in _HINTS:
                raise errors.unsupported(f"The table hint {hint or self.token.text}")
            if self.accept("="):
                self.advance()
            elif self.at("("):
                self._index_names()
            hints.append(hint)
            self.accept(",")
        return tuple(hints)

    def _bare_hints(self) -> bool:
        """Whether hints stand here without their WITH, as T-SQL once had them."""
        return self.at("(") and self.ahead().upper in _HINTS and self.ahead(2).text in (",", ")")

    def _index_names(self) -> None:
        self.expect("(")
        while not self.accept(")"):
            self.advance()
            self.accept(",")

    def _options(self) -> None:
        self.expect("(")
        while not self.accept(")"):
            option = self.advance()
            if option.upper not in _HARMLESS_OPTIONS:
                raise errors.unsupported(f"OPTION ({option.text})")
            self.accept("ORDER", "PLAN")
            if self.token.kind == t.INTEGER:
                self.advance()
            self.accept(",")
