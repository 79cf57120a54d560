"""The syntax tree of expressions and queries: only what the sandbox understands has a node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from cdc_assets.sandbox.results import SqlType


class Node:
    """Anything in the tree."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """A literal; `kind` is a token kind, or `null`."""

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """`@name`, or `@@name`."""

    name: str


@dataclass(frozen=True, slots=True)
class Column(Node):
    """A column reference with its qualifiers."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Star(Node):
    """`*` or `alias.*`."""

    qualifier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`-x`, `+x` or `~x`."""

    op: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`+ - * / % & | ^` of two values."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """`= <> < <= > >=`."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """AND or OR."""

    op: OneOf["AND", "OR"]
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not(Node):
    """NOT."""

    operand: Node


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    """IS [NOT] NULL."""

    operand: Node
    negated: bool


@dataclass(frozen=True, slots=True)
class Between(Node):
    """[NOT] BETWEEN."""

    operand: Node
    low: Node
    high: Node
    negated: bool


@dataclass(frozen=True, slots=True)
class In(Node):
    """[NOT] IN a list, or a query of one column."""

    operand: Node
    items: tuple[Node, ...]
    query: Query | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Like(Node):
    """[NOT] LIKE."""

    operand: Node
    pattern: Node
    escape: Node | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Exists(Node):
    """EXISTS (query)."""

    query: Query


@dataclass(frozen=True, slots=True)
class Case(Node):
    """CASE, simple when `operand` is there."""

    operand: Node | None
    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """CAST, CONVERT and their TRY_ forms."""

    operand: Node
    type: SqlType
    style: Node | None = None
    attempt: bool = False


@dataclass(frozen=True, slots=True)
class Collate(Node):
    """`x COLLATE name`."""

    operand: Node
    collation: str


@dataclass(frozen=True, slots=True)
class AtTimeZone(Node):
    """`x AT TIME ZONE zone`."""

    operand: Node
    zone: Node


@dataclass(frozen=True, slots=True)
class Subquery(Node):
    """A query used as a value."""

    query: Query


@dataclass(frozen=True, slots=True)
class OrderItem(Node):
    """One key of an ORDER BY."""

    expression: Node
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Window(Node):
    """OVER (…); `frame` is the frame clause in DuckDB's (and the standard's) words."""

    partition: tuple[Node, ...] = ()
    order: tuple[OrderItem, ...] = ()
    frame: str = ""


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function call; `star` for COUNT(*)."""

    name: tuple[str, ...]
    arguments: tuple[Node, ...]
    distinct: bool = False
    star: bool = False
    window: Window | None = None
    order: tuple[OrderItem, ...] = ()
    """WITHIN GROUP (ORDER BY …)."""


# --- queries -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedTable(Node):
    """A table, view, CTE or table variable in FROM."""

    parts: tuple[str, ...]
    alias: str | None = None
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DerivedTable(Node):
    """(query) AS alias (columns)."""

    query: Query
    alias: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionTable(Node):
    """A table-valued function in FROM."""

    call: Call
    alias: str | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Join(Node):
    """A join; `kind` is INNER, LEFT, RIGHT, FULL, CROSS, CROSS APPLY or OUTER APPLY."""

    kind: str
    left: Node
    right: Node
    condition: Node | None = None


@dataclass(frozen=True, slots=True)
class SelectItem(Node):
    """One item of a select list; `assign` for `@x = …`."""

    expression: Node
    alias: str | None = None
    assign: str | None = None


@dataclass(frozen=True, slots=True)
class Select(Node):
    """One SELECT without its ORDER BY."""

    items: tuple[SelectItem, ...]
    source: Node | None = None
    where: Node | None = None
    group_by: tuple[Node, ...] = ()
    having: Node | None = None
    distinct: bool = False
    top: Node | None = None
    into: tuple[str, ...] | None = None
    ties: bool = False
    """TOP … WITH TIES."""


@dataclass(frozen=True, slots=True)
class Values(Node):
    """VALUES (…), (…); an item may be the `default` constant in an INSERT."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class SetOperation(Node):
    """UNION [ALL], EXCEPT, INTERSECT of any number of arms, left to right."""

    op: str
    arms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class CommonTable(Node):
    """One WITH element."""

    name: str
    columns: tuple[str, ...]
    query: Query


@dataclass(frozen=True, slots=True)
class Query(Node):
    """A whole query expression with its ORDER BY."""

    body: Node
    order_by: tuple[OrderItem, ...] = ()
    offset: Node | None = None
    fetch: Node | None = None
    tables: tuple[CommonTable, ...] = field(default=())
