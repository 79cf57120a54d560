"""Valid statements with a token deleted, doubled, swapped or replaced.

Small statements over whole numbers are read by a parser of this test's own: where it understands
the mutated text the server must give that answer, elsewhere an error. Of mutated large statements
only the manner of the answer is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random

from cdc_assets_tests.sandbox.fuzz import model
from cdc_assets_tests.sandbox.fuzz.logic import both, comparison, negated
from cdc_assets_tests.sandbox.fuzz.model import Expr, FailedError, Row, Test, UnsureError
from cdc_assets_tests.sandbox.fuzz.queries import Answer, Statement
from cdc_assets_tests.sandbox.fuzz.tables import COLUMNS, Table

_NAMES = ("id", "i", "s", "y")
_RESERVED = frozenset(
    {"SELECT", "FROM", "WHERE", "ORDER", "BY", "AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN"}
    | {"ASC", "DESC", "AS", "CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT"}
)
_TOKEN = re.compile(r"N?'(?:[^']|'')*'|\[[^\]]*\]|0x[0-9a-f]*|[\w.]+|<>|<=|>=|!=|\S")


class UnreadError(Exception):
    """The text is not of the small grammar."""


def tokens_of(text: str) -> list[str]:
    return _TOKEN.findall(text)


def mutated(random: Random, tokens: list[str]) -> list[str]:
    """One to two tokens changed."""
    found = list(tokens)
    for _ in range(random.choice([1, 1, 2])):
        place = random.randrange(len(found))
        kind = random.choice(["delete", "double", "swap", "replace"])
        if kind == "delete" and len(found) > 1:
            del found[place]
        elif kind == "double":
            found.insert(place, found[place])
        elif kind == "swap":
            other = random.randrange(len(found))
            found[place], found[other] = found[other], found[place]
        else:
            found[place] = random.choice(tokens)
    return found


# --- small statements --------------------------------------------------------------------------


def small(random: Random) -> list[str]:
    """A valid statement of the small grammar."""
    items: list[str] = []
    for _ in range(random.randint(1, 3)):
        items += [*([","] if items else []), *_value(random, 2)]
    text = ["SELECT", *(["DISTINCT"] if random.random() < 0.1 else []), *items, "FROM", "p"]
    if random.random() < 0.7:
        text += ["WHERE", *_condition(random, 2)]
    if random.random() < 0.4 and "DISTINCT" not in text:
        text += ["ORDER", "BY", random.choice(_NAMES), *random.choice([[], ["DESC"]])]
    return text


def _value(random: Random, depth: int) -> list[str]:
    if depth == 0 or random.random() < 0.4:
        return [random.choice([*_NAMES, "1", "2", "7"])]
    if random.random() < 0.2:
        return ["(", *_value(random, depth - 1), ")"]
    if random.random() < 0.2:
        then, other = _value(random, 0), _value(random, 0)
        return ["CASE", "WHEN", *_condition(random, 0), "THEN", *then, "ELSE", *other, "END"]
    op = random.choice(["+", "-", "*", "&", "|"])
    return [*_value(random, depth - 1), op, *_value(random, depth - 1)]


def _condition(random: Random, depth: int) -> list[str]:
    pick = random.random()
    if depth and pick < 0.4:
        return [
            *_condition(random, depth - 1),
            random.choice(["AND", "OR"]),
            *_condition(random, depth - 1),
        ]
    if depth and pick < 0.5:
        return ["NOT", "(", *_condition(random, depth - 1), ")"]
    left = _value(random, min(depth, 1))
    if pick < 0.6:
        return [*left, "IS", *random.choice([[], ["NOT"]]), "NULL"]
    if pick < 0.7:
        return [*left, "BETWEEN", *_value(random, 0), "AND", *_value(random, 0)]
    if pick < 0.8:
        return [*left, "IN", "(", *_value(random, 0), ",", *_value(random, 0), ")"]
    return [*left, random.choice(["=", "<", ">", "<>", "<=", ">="]), *_value(random, 0)]


class Reader:
    """Reads the small grammar; raises `UnreadError` where the text is not of it."""

    def __init__(self, tokens: list[str], table: Table) -> None:
        self.tokens = [*tokens, ""]
        self.table = table
        self.at = 0

    def statement(
        self,
    ) -> tuple[list[tuple[str, Expr]], bool, Test | None, list[tuple[Expr, bool]]]:
        self._need("SELECT")
        distinct = self._take("DISTINCT")
        items = [self._item()]
        while self._take(","):
            items.append(self._item())
        self._need("FROM")
        if self._next() != "p":
            raise UnreadError
        self._take("AS", needs_name=True)
        if self._named():
            self._next()
        where = self._any() if self._take("WHERE") else None
        order: list[tuple[Expr, bool]] = []
        if self._take("ORDER"):
            self._need("BY")
            order.append(self._key(items))
            while self._take(","):
                order.append(self._key(items))
        if self.tokens[self.at] or (distinct and order):
            raise UnreadError
        if len({expr.sql for expr, _ in order}) < len(order):
            raise UnreadError
        return items, distinct, where, order

    # --- tokens --------------------------------------------------------------------------------

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _take(self, word: str, *, needs_name: bool = False) -> bool:
        if self.tokens[self.at] != word:
            return False
        self.at += 1
        if needs_name and not self._named():
            raise UnreadError
        return True

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise UnreadError

    def _named(self) -> bool:
        token = self.tokens[self.at]
        return token.isidentifier() and token not in _RESERVED

    # --- grammar -------------------------------------------------------------------------------

    def _item(self) -> tuple[str, Expr]:
        value = self._sum()
        name = value.sql if value.sql in _NAMES else ""
        self._take("AS", needs_name=True)
        if self._named():
            name = self._next()
        return name, value

    def _key(self, items: list[tuple[str, Expr]]) -> tuple[Expr, bool]:
        value = self._sum()
        if value.literal:
            if not 1 <= int(value.sql) <= len(items):
                raise UnreadError
            value = items[int(value.sql) - 1][1]
        elif value.sql in _NAMES:
            named = [expr for name, expr in items if name == value.sql]
            if len({expr.sql for expr in named}) > 1:
                raise UnsureError
            value = named[0] if named else value
        if not any(name in value.sql for name in _NAMES):
            raise UnsureError
        descending = self._take("DESC")
        if not descending:
            self._take("ASC")
        return value, descending

    def _any(self) -> Test:
        found = self._all()
        while self._take("OR"):
            found = _either(found, self._all())
        return found

    def _all(self) -> Test:
        found = self._not()
        while self._take("AND"):
            found = _each(found, self._not())
        return found

    def _not(self) -> Test:
        if self._take("NOT"):
            inner = self._not()
            return Test("", lambda row: negated(inner.run(row)))
        if self.tokens[self.at] == "(":
            start = self.at
            try:
                self.at += 1
                inner = self._any()
                self._need(")")
                return inner
            except UnreadError:
                self.at = start
        return self._predicate(self._sum())

    def _predicate(self, left: Expr) -> Test:
        if self._take("IS"):
            inverted = self._take("NOT")
            self._need("NULL")
            return Test("", lambda row: (left.run(row) is None) != inverted)
        inverted = self._take("NOT")
        if self._take("IN"):
            found = self._listed(left)
        elif self._take("BETWEEN"):
            low = comparison(">=", left, self._sum())
            self._need("AND")
            found = _each(low, comparison("<=", left, self._sum()))
        elif not inverted and self.tokens[self.at] in ("=", "<", ">", "<>", "<=", ">=", "!="):
            return comparison(self._next(), left, self._sum())
        else:
            raise UnreadError
        return Test("", lambda row: negated(found.run(row))) if inverted else found

    def _listed(self, left: Expr) -> Test:
        self._need("(")
        found = comparison("=", left, self._sum())
        while self._take(","):
            found = _either(found, comparison("=", left, self._sum()))
        self._need(")")
        return found

    def _sum(self) -> Expr:
        return self._binary(self._product, "+-&|")

    def _product(self) -> Expr:
        return self._binary(self._unary, "*/%")

    def _binary(self, part: Callable[[], Expr], ops: str) -> Expr:
        left = part()
        while self.tokens[self.at] and self.tokens[self.at] in ops:
            left = _calculated(self._next(), left, part())
        return left

    def _unary(self) -> Expr:
        if self._take("+"):
            return replace(self._unary(), literal=False)
        if self._take("-"):
            return _negative(self._unary())
        return self._primary()

    def _primary(self) -> Expr:
        token = self._next()
        if token.isdigit():
            number = int(token)
            return Expr(token, model.INT, lambda row: number, literal=True)
        if token == "(":
            inner = self._sum()
            self._need(")")
            return replace(inner, literal=False)
        if token == "NULL":
            raise UnsureError  # a value without a type: valid, and not of this grammar
        if token == "CASE":
            return self._case()
        if token in _NAMES:
            kind = next(c.type for c in COLUMNS if c.name == token)
            return Expr(token, kind, lambda row: row[token])
        raise UnreadError

    def _case(self) -> Expr:
        branches = []
        while self._take("WHEN"):
            test = self._any()
            self._need("THEN")
            branches.append((test, self._sum()))
        otherwise = self._sum() if self._take("ELSE") else None
        self._need("END")
        if not branches:
            raise UnreadError
        items = [value for _, value in branches] + ([otherwise] if otherwise else [])
        kind = model.common([item.type for item in items])

        def run(row: Row) -> object:
            for test, value in branches:
                if test.run(row):
                    return model.convert(value.run(row), value.type, kind)
            return model.convert(otherwise.run(row), otherwise.type, kind) if otherwise else None

        return Expr("CASE " + "".join(i.sql for i in items), kind, run)


def _calculated(op: str, left: Expr, right: Expr) -> Expr:
    kind = model.arithmetic_type(op, left, right)
    return Expr(
        f"{left.sql} {op} {right.sql}",
        kind,
        lambda row: model.calculate(op, left.run(row), right.run(row), kind),
    )


def _negative(value: Expr) -> Expr:
    kind = model.SMALLINT if value.type == model.TINYINT else value.type

    def run(row: Row) -> int | None:
        number = value.run(row)
        return None if number is None else model.in_range(-number, kind)

    return Expr(f"- {value.sql}", kind, run)


def _each(left: Test, right: Test) -> Test:
    return Test("", lambda row: both(left.run(row), right.run(row)))


def _either(left: Test, right: Test) -> Test:
    return Test("", lambda row: negated(both(negated(left.run(row)), negated(right.run(row)))))


def expected(tokens: list[str], table: Table) -> Statement | None:
    """What the small statement must give; None where it must be refused."""
    text = " ".join(tokens)
    if tokens.count("SELECT") > 1 or "FROM" not in tokens:
        raise UnsureError  # statements may follow each other bare, or read from nothing
    try:
        items, distinct, where, order = Reader(tokens, table).statement()
    except UnreadError:
        return None
    names = tuple(name for name, _ in items)
    columns = tuple(expr for _, expr in items)
    try:
        rows = [row for row in table.rows if where is None or where.run(row)]
        values = [tuple(expr.run(row) for expr in columns) for row in rows]
    except FailedError as failed:
        raise UnsureError from failed
    if distinct:
        values = list(dict.fromkeys(values))
    if order:
        keyed = list(zip(rows, values, strict=True))
        for key, descending in reversed(order):
            keyed.sort(key=lambda pair: model.order_key(key.run(pair[0])), reverse=descending)
        keys = [[key.run(row) for key, _ in order] for row, _ in keyed]
        blocks: list[int] = []
        for i, key_values in enumerate(keys):
            if i and key_values == keys[i - 1]:
                blocks[-1] += 1
            else:
                blocks.append(1)
        return Statement(text, Answer(names, columns, [v for _, v in keyed], blocks))
    return Statement(text, Answer(names, columns, values))
