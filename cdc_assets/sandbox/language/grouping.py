"""What a grouped query may refer to, and where a query may have an order."""

from __future__ import annotations

from dataclasses import fields

from cdc_assets.sandbox.language import errors, nodes
from cdc_assets.sandbox.language.scope import Scope
from cdc_assets.sandbox.results import SqlError

_NUMBERS = {"select list": 8120, "HAVING clause": 8121, "ORDER BY clause": 8127}


class Grouped:
    """Collects, clause by clause, the columns that stand outside of aggregates and keys."""

    def __init__(self, scope: Scope, grouped: bool) -> None:
        self._scope = scope
        self._grouped = grouped
        self._found: list[tuple[str, str]] = []

    def noted(self, clause: str) -> None:
        """Take over the columns bound since the last clause."""
        self._found += [(clause, name) for name in self._scope.loose]
        self._scope.loose.clear()

    def check(self) -> None:
        """Raise Msg 8120, 8121 or 8127 if the query turned out to be grouped."""
        if not (self._grouped or self._scope.aggregated) or not self._found:
            return
        clause, name = self._found[0]
        raise SqlError(
            _NUMBERS[clause],
            f"Column '{name}' is invalid in the {clause} because it is not contained in either an "
            "aggregate function or the GROUP BY clause.",
        )


def check_unordered(query: nodes.Query) -> None:
    """Raise Msg 1033 for an inner query that orders rows without taking some of them."""
    top = isinstance(query.body, nodes.Select) and query.body.top is not None
    if query.order_by and query.offset is None and not top:
        raise SqlError(
            1033,
            "The ORDER BY clause is invalid in views, inline functions, derived tables, "
            "subqueries, and common table expressions, unless TOP, OFFSET or FOR XML is also "
            "specified.",
            15,
        )


def refers_to(node: object, name: str) -> bool:
    """Whether a query reads from a table of this bare name."""
    if isinstance(node, nodes.NamedTable):
        return len(node.parts) == 1 and node.parts[0].lower() == name.lower()
    if isinstance(node, nodes.Query) and any(t.name.lower() == name.lower() for t in node.tables):
        return False  # a CTE of its own has that name
    if isinstance(node, tuple):
        return any(refers_to(item, name) for item in node)
    if isinstance(node, nodes.Node):
        return any(refers_to(getattr(node, f.name), name) for f in fields(node))  # type: ignore[arg-type]
    return False


def recursion(table: nodes.CommonTable) -> SqlError:
    """What a CTE that reads itself gives: Msg 252 unless it has an anchor."""
    body = table.query.body
    if isinstance(body, nodes.SetOperation) and body.op == "UNION ALL":
        return errors.unsupported("A recursive common table expression")
    return SqlError(
        252,
        f"Recursive common table expression '{table.name}' does not contain a top-level UNION ALL "
        "operator.",
    )
