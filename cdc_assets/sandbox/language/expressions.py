"""The parser's expressions and predicates."""

from __future__ import annotations

from abc import abstractmethod

from cdc_assets.sandbox.language import nodes, types
from cdc_assets.sandbox.language import tokens as t
from cdc_assets.sandbox.language.tokens import TokenStream
from cdc_assets.sandbox.results import MAX_LENGTH, SqlError, SqlType

_COMPARISONS = {
    "=": "=",
    "<>": "<>",
    "!=": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "!<": ">=",
    "!>": "<=",
}
# Functions that T-SQL writes without parentheses.
_BARE = frozenset(
    {"CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER", "CURRENT_DATE"}
)
_FUNCTION_KEYWORDS = frozenset({"COALESCE", "NULLIF", "LEFT", "RIGHT", "USER"})


_CONDITIONS = (
    nodes.Comparison,
    nodes.Logic,
    nodes.Not,
    nodes.IsNull,
    nodes.Between,
    nodes.In,
    nodes.Like,
    nodes.Exists,
)


class ExpressionParser(TokenStream):
    """Reads expressions; the query parser adds what stands in parentheses after SELECT."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._conditions: dict[int, bool] = {}

    @abstractmethod
    def query(self) -> nodes.Query:
        """A whole query expression."""

    # --- predicates ----------------------------------------------------------------------------

    def condition(self) -> nodes.Node:
        """A search condition."""
        items = [self._conjunction()]
        while self.accept("OR"):
            items.append(self._conjunction())
        return items[0] if len(items) == 1 else nodes.Logic("OR", tuple(items))

    def _conjunction(self) -> nodes.Node:
        items = [self._negation()]
        while self.accept("AND"):
            items.append(self._negation())
        return items[0] if len(items) == 1 else nodes.Logic("AND", tuple(items))

    def _negation(self) -> nodes.Node:
        if self.accept("NOT"):
            return nodes.Not(self._negation())
        return self._predicate()

    def _predicate(self) -> nodes.Node:
        if self.at("EXISTS"):
            self.advance()
            self.expect("(")
            query = self.query()
            self.expect(")")
            return nodes.Exists(query)
        if self.at("(") and self._opens_condition():
            self.advance()
            inner = self.condition()
            self.expect(")")
            return inner
        return self._comparison(self.expression())

    def _opens_condition(self) -> bool:
        """Whether the parenthesis under the cursor holds a condition, not a value."""
        start = self.index
        known = self._conditions.get(start)
        if known is None:
            known = self._conditions[start] = self._looks_like_condition()
            self.index = start
        return known

    def _looks_like_condition(self) -> bool:
        if self.ahead().upper in ("SELECT", "WITH"):
            return False
        self.advance()
        try:
            inner = self.condition()
            self.expect(")")
        except SqlError:
            return False  # the real parse reports it
        return isinstance(inner, _CONDITIONS)

    def _comparison(self, left: nodes.Node) -> nodes.Node:
        if self.token.kind == t.OP and self.token.upper in _COMPARISONS:
            op = _COMPARISONS[self.advance().upper]
            return nodes.Comparison(op, left, self.expression())
        if self.accept("IS"):
            negated = bool(self.accept("NOT"))
            self.expect("NULL")
            return nodes.IsNull(left, negated)
        negated = bool(self.accept("NOT"))
        if self.accept("IN"):
            return self._in(left, negated)
        if self.accept("BETWEEN"):
            low = self.expression()
            self.expect("AND")
            return nodes.Between(left, low, self.expression(), negated)
        if self.accept("LIKE"):
            pattern = self.expression()
            escape = self.expression() if self.accept("ESCAPE") else None
            return nodes.Like(left, pattern, escape, negated)
        if negated:
            self.fail()
        return left

    def _in(self, left: nodes.Node, negated: bool) -> nodes.Node:
        self.expect("(")
        if self.at("SELECT", "WITH"):
            query = self.query()
            self.expect(")")
            return nodes.In(left, (), query, negated)
        items = self._list()
        self.expect(")")
        return nodes.In(left, items, None, negated)

    # --- values --------------------------------------------------------------------------------

    def expression(self) -> nodes.Node:
        """A value: `+ - & | ^` bind equally, below `* / %`."""
        left = self._term()
        while self.at("+", "-", "&", "|", "^"):
            op = self.advance().upper
            left = nodes.Arithmetic(op, left, self._term())
        return left

    def _term(self) -> nodes.Node:
        left = self._unary()
        while self.at("*", "/", "%"):
            op = self.advance().upper
            left = nodes.Arithmetic(op, left, self._unary())
        return left

    def _unary(self) -> nodes.Node:
        if self.at("-", "+", "~"):
            op = self.advance().upper
            return nodes.Unary(op, self._unary())
        return self._postfix(self._primary())

    def _postfix(self, node: nodes.Node) -> nodes.Node:
        while True:
            if self.accept("COLLATE"):
                node = nodes.Collate(node, self.identifier())
            elif self.at_phrase("AT", "TIME", "ZONE"):
                self.index += 3
                node = nodes.AtTimeZone(node, self._primary())
            else:
                return node

    def _primary(self) -> nodes.Node:
        token = self.token
        if token.kind in (t.STRING, t.NSTRING, t.INTEGER, t.DECIMAL, t.FLOAT, t.HEX):
            self.advance()
            return nodes.Constant(token.kind, token.value)
        if token.kind == t.VARIABLE:
            self.advance()
            return nodes.Variable(token.value)
        if self.accept("NULL"):
            return nodes.Constant("null", "")
        if self.accept("("):
            return self._parenthesized()
        if self.at("CASE"):
            return self._case()
        if self.at("CAST", "TRY_CAST") and self.ahead().upper == "(":
            return self._cast()
        if self.at("CONVERT", "TRY_CONVERT") and self.ahead().upper == "(":
            return self._convert()
        if self.at(*_BARE) and self.ahead().upper != "(":
            return nodes.Call((self.advance().upper,), ())
        if self.at(*_FUNCTION_KEYWORDS) and self.ahead().upper == "(":
            return self.call((self.advance().value,))
        return self._name()

    def _parenthesized(self) -> nodes.Node:
        if self.at("SELECT", "WITH"):
            node: nodes.Node = nodes.Subquery(self.query())
        else:
            node = self.expression()
        self.expect(")")
        return node

    def _name(self) -> nodes.Node:
        parts = [self.identifier()]
        while self.accept("."):
            if self.accept("*"):
                return nodes.Star(tuple(parts))
            parts.append("" if self.at(".") else self.identifier())
        if self.at("("):
            if len(parts) == 1 and parts[0].upper() == "IIF":
                return self._iif()
            return self.call(tuple(parts))
        return nodes.Column(tuple(parts))

    def _iif(self) -> nodes.Node:
        self.expect("(")
        test = self.condition()
        self.expect(",")
        then = self.expression()
        self.expect(",")
        otherwise = self.expression()
        self.expect(")")
        return nodes.Case(None, ((test, then),), otherwise)

    def call(self, name: tuple[str, ...]) -> nodes.Call:
        """The arguments of a call, and its OVER."""
        self.expect("(")
        distinct = bool(self.accept("DISTINCT"))
        self.accept("ALL")
        star = False
        arguments: tuple[nodes.Node, ...] = ()
        if self.accept("*"):
            star = True
        elif not self.at(")"):
            arguments = self._list()
        self.expect(")")
        order: tuple[nodes.OrderItem, ...] = ()
        if self.accept_phrase("WITHIN", "GROUP"):
            self.expect("(")
            self.expect_phrase("ORDER", "BY")
            order = self.order_items()
            self.expect(")")
        window = self._window() if self.accept("OVER") else None
        return nodes.Call(name, arguments, distinct, star, window, order)

    def _list(self) -> tuple[nodes.Node, ...]:
        items = [self.expression()]
        while self.accept(","):
            items.append(self.expression())
        return tuple(items)

    def _window(self) -> nodes.Window:
        self.expect("(")
        partition: tuple[nodes.Node, ...] = ()
        if self.accept_phrase("PARTITION", "BY"):
            partition = self._list()
        order = self.order_items() if self.accept_phrase("ORDER", "BY") else ()
        frame = self._frame() if self.at("ROWS", "RANGE") else ""
        self.expect(")")
        return nodes.Window(partition, order, frame)

    def _frame(self) -> str:
        unit = self.advance().upper
        if self.accept("BETWEEN"):
            low = self._frame_bound()
            self.expect("AND")
            return f"{unit} BETWEEN {low} AND {self._frame_bound()}"
        return f"{unit} {self._frame_bound()}"

    def _frame_bound(self) -> str:
        if self.accept_phrase("CURRENT", "ROW"):
            return "CURRENT ROW"
        amount = "UNBOUNDED"
        if not self.accept("UNBOUNDED"):
            amount = str(self.integer())
        return f"{amount} {self.expect('PRECEDING', 'FOLLOWING')}"

    def order_items(self) -> tuple[nodes.OrderItem, ...]:
        """The keys of an ORDER BY."""
        items = []
        while True:
            expression = self.expression()
            descending = self.accept("ASC", "DESC") == "DESC"
            items.append(nodes.OrderItem(expression, descending))
            if not self.accept(","):
                return tuple(items)

    def _case(self) -> nodes.Node:
        self.expect("CASE")
        operand = None if self.at("WHEN") else self.expression()
        branches = []
        while self.accept("WHEN"):
            test = self.condition() if operand is None else self.expression()
            self.expect("THEN")
            branches.append((test, self.expression()))
        if not branches:
            self.fail()
        otherwise = self.expression() if self.accept("ELSE") else None
        self.expect("END")
        return nodes.Case(operand, tuple(branches), otherwise)

    def _cast(self) -> nodes.Node:
        attempt = self.advance().upper.startswith("TRY")
        self.expect("(")
        operand = self.expression()
        self.expect("AS")
        kind = self.type_name(cast=True)
        self.expect(")")
        return nodes.Cast(operand, kind, None, attempt)

    def _convert(self) -> nodes.Node:
        attempt = self.advance().upper.startswith("TRY")
        self.expect("(")
        kind = self.type_name(cast=True)
        self.expect(",")
        operand = self.expression()
        style = self.expression() if self.accept(",") else None
        self.expect(")")
        return nodes.Cast(operand, kind, style, attempt)

    # --- types ---------------------------------------------------------------------------------

    def type_name(self, *, cast: bool = False) -> SqlType:
        """A type with its arguments."""
        if self.accept_phrase("DOUBLE", "PRECISION"):
            return types.FLOAT
        if self.accept("NATIONAL"):
            name = "n" + self.identifier()
        else:
            name = self.identifier()
            if name.lower() == "sys" and self.accept("."):
                name = self.identifier()
        if self.accept("VARYING"):
            name = {"char": "varchar", "character": "varchar", "binary": "varbinary"}.get(
                name.lower(), "nvarchar"
            )
        if self.at("."):
            self.fail()
        return types.make(name, self._type_arguments(), cast=cast)

    def _type_arguments(self) -> tuple[int, ...]:
        if not self.accept("("):
            return ()
        if self.accept("MAX"):
            self.expect(")")
            return (MAX_LENGTH,)
        arguments = [self.integer()]
        while self.accept(","):
            arguments.append(self.integer())
        self.expect(")")
        return tuple(arguments)

    def integer(self) -> int:
        """A whole number, with its sign."""
        sign = -1 if self.accept("-") else 1
        self.accept("+")
        if self.token.kind != t.INTEGER:
            self.fail()
        return sign * int(self.advance().value)

    def string(self) -> str:
        """A string literal's value."""
        if self.token.kind not in (t.STRING, t.NSTRING):
            self.fail()
        return self.advance().value
