"""Binding of ORDER BY, TOP, OFFSET and FETCH."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from cdc_assets.sandbox.language import errors, nodes, types
from cdc_assets.sandbox.language import tokens as t
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.folding import attempt
from cdc_assets.sandbox.language.scope import Scope
from cdc_assets.sandbox.language.sources import Output, SourceBinder
from cdc_assets.sandbox.results import SqlError

_COLUMN = re.compile(r"s\d+\.\w+")
"""A column as bound text; other equal texts may have been written differently."""

_NEGATIVE_TOP = (127, "A TOP N or FETCH rowcount value may not be negative.")
_NEGATIVE_OFFSET = (10742, "The offset specified in a OFFSET clause may not be negative.")


class OrderBinder(SourceBinder):
    """Binds what stands at the end of a query."""

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

    def order_keys(
        self, items: Sequence[nodes.OrderItem], outputs: Sequence[Output], scope: Scope
    ) -> list[str]:
        """The keys of a plain SELECT; raises Msg 169 for one given twice."""
        found: dict[str, str] = {}
        for place, item in enumerate(items, start=1):
            index = self._ordinal(item.expression, outputs)
            if index is not None:
                value = outputs[index].value
            else:
                value = self.value(item.expression, scope)
                if value.is_constant:
                    raise _constant_key(item.expression, place)
            if value.sql in found and _COLUMN.fullmatch(value.sql):
                raise SqlError(
                    169,
                    "A column has been specified more than once in the order by list. Columns in "
                    "the order by list must be unique.",
                    15,
                )
            found.setdefault(value.sql, self.order_text(value, descending=item.descending))
        return list(found.values())

    def output_key(self, item: nodes.OrderItem, outputs: Sequence[Output]) -> str:
        """A key of a set operation; raises Msg 104 for what is not selected."""
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

    def distinct_key(self, item: nodes.OrderItem, outputs: Sequence[Output], scope: Scope) -> str:
        """A key of SELECT DISTINCT; raises Msg 145 for what is not selected."""
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

    def limits(self, query: nodes.Query, top: nodes.Node | None, scope: Scope | None) -> str:
        """LIMIT and OFFSET of a query; raises Msg 127, 10741, 10742 or 10744."""
        text = ""
        if top is not None:
            if query.offset is not None:
                raise SqlError(
                    10741,
                    "A TOP can not be used in the same query or sub-query as a OFFSET.",
                    15,
                )
            text += f" LIMIT {_checked(self._row_count(top, scope), _NEGATIVE_TOP)}"
        if query.fetch is not None:
            count = _checked(self._row_count(query.fetch, scope), _NEGATIVE_TOP)
            if not count:
                raise SqlError(
                    10744,
                    "The number of rows provided for a FETCH clause must be greater then zero.",
                    15,
                )
            text += f" LIMIT {count}"
        if query.offset is not None:
            skipped = _checked(self._row_count(query.offset, scope), _NEGATIVE_OFFSET)
            text += f" OFFSET {skipped}"
        return text

    def ties(self, select: nodes.Select, keys: Sequence[str], scope: Scope) -> str:
        """TOP … WITH TIES: as many rows as the last one's equals make it."""
        if not select.ties or select.top is None:
            return ""
        if not keys:
            raise SqlError(
                1062,
                "The TOP N WITH TIES clause is not allowed without a corresponding ORDER BY "
                "clause.",
                15,
            )
        count = _checked(self._row_count(select.top, scope), _NEGATIVE_TOP)
        lifted = ", ".join(self.lifted_order(key, scope) for key in keys)
        return f" QUALIFY rank() OVER (ORDER BY {lifted}) <= {count}"

    def _row_count(self, node: nodes.Node, scope: Scope | None) -> int:
        value = self.value(node, scope or Scope())
        if not value.is_constant:
            raise errors.unsupported("TOP, OFFSET or FETCH with an expression that is no constant")
        number = attempt(convert(value, types.BIGINT))
        if not isinstance(number, int):
            raise SqlError(
                1060,
                "The number of rows provided for a TOP or FETCH clauses row count "
                "parameter must be an integer.",
                15,
            )
        return number


def _checked(count: int, negative: tuple[int, str]) -> int:
    if count < 0:
        raise SqlError(*negative, 15)
    return count


def _constant_key(node: nodes.Node, place: int) -> SqlError:
    """Msg 408 for a constant, 1008 for a variable: neither orders anything."""
    if isinstance(node, nodes.Variable):
        return SqlError(
            1008,
            f"The SELECT item identified by the ORDER BY number {place} contains a variable as "
            "part of the expression identifying a column position. Variables are only allowed "
            "when ordering by an expression referencing a column name.",
            15,
        )
    return SqlError(
        408,
        f"A constant expression was encountered in the ORDER BY list, position {place}.",
        15,
    )
