"""Binding of FROM: tables, derived tables, joins, APPLY."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

from cdc_assets.sandbox.collations import tells_case
from cdc_assets.sandbox.language import errors, nodes
from cdc_assets.sandbox.language.calls import CallBinder
from cdc_assets.sandbox.language.grouping import check_unordered
from cdc_assets.sandbox.language.queries import HOLDING_HINTS
from cdc_assets.sandbox.language.scope import Relation, RelationColumn, Scope, Source
from cdc_assets.sandbox.language.splitting import split
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import ResultColumn, SqlError


@dataclass(frozen=True, slots=True)
class Output:
    """One output column of a query."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound query: DuckDB text whose columns are x1, x2, …"""

    sql: str
    outputs: tuple[Output, ...]

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
        """The columns as a result set names them."""
        return tuple(ResultColumn(o.name, o.value.type, o.value.nullable) for o in self.outputs)


class SourceBinder(CallBinder):
    """Binds what queries read from."""

    _aliases = 0
    holds = False
    """Whether a table hint asks that what was read stays so until the transaction ends."""

    @abstractmethod
    def query(
        self,
        query: nodes.Query,
        outer: Scope | None = None,
        tables: dict[str, Relation] | None = None,
    ) -> Bound:
        """Bind a query."""

    def as_relation(
        self, bound: Bound, columns: tuple[str, ...], names: tuple[str, ...]
    ) -> Relation:
        """A bound query as something to read from; raises Msg 8155, 8158 or 8159."""
        chosen = columns or tuple(output.name for output in bound.outputs)
        if len(chosen) != len(bound.outputs):
            raise SqlError(
                8158 if len(bound.outputs) > len(chosen) else 8159,
                f"'{names[-1]}' has {'more' if len(bound.outputs) > len(chosen) else 'fewer'} "
                "columns than were specified in the column list.",
            )
        folded = str if tells_case(self.default_collation) else str.lower
        for index, name in enumerate(chosen):
            if not name:
                raise SqlError(
                    8155, f"No column name was specified for column {index + 1} of '{names[-1]}'."
                )
            if folded(name) in map(folded, chosen[:index]):
                raise SqlError(
                    8156, f"The column '{name}' was specified multiple times for '{names[-1]}'."
                )
        return Relation(
            f"({bound.sql})",
            tuple(
                RelationColumn(name, f"x{i + 1}", output.value.type, output.value.nullable)
                for i, (name, output) in enumerate(zip(chosen, bound.outputs, strict=True))
            ),
            names,
        )

    def sources(self, node: nodes.Node, scope: Scope) -> str:
        """Bind a FROM clause into the scope; the text after FROM."""
        if isinstance(node, nodes.Join):
            return self._join(node, scope)
        relation, names = self.relation(node, scope)
        return self.add_source(relation, names, scope)

    def add_source(self, relation: Relation, names: tuple[str, ...], scope: Scope) -> str:
        """Put a relation into the scope under a fresh alias; its text in FROM."""
        for source in scope.sources:
            _check_exposed(source.names, names)
        self._aliases += 1
        alias = f"s{self._aliases}"
        scope.sources.append(Source(alias, names, relation))
        if relation.object_id is not None:
            self.objects.add(relation.object_id)
        self.objects |= relation.reads
        return f"{relation.sql} AS {alias}"

    def _join(self, node: nodes.Join, scope: Scope) -> str:
        outside = len(scope.sources)
        left = self.sources(node.left, scope)
        middle = len(scope.sources)
        text = self._joined(node, left, scope)
        if node.kind in ("RIGHT", "FULL"):
            _make_nullable(scope, outside, middle)
        if node.kind in ("LEFT", "FULL", "OUTER APPLY"):
            _make_nullable(scope, middle, len(scope.sources))
        return text

    def _joined(self, node: nodes.Join, left: str, scope: Scope) -> str:
        if node.kind in ("CROSS APPLY", "OUTER APPLY"):
            inner = Scope(scope)
            relation, names = self.relation(node.right, inner)
            right = self.add_source(relation, names, scope)
            if node.kind == "CROSS APPLY":
                return f"{left} CROSS JOIN LATERAL {right}"
            return f"{left} LEFT JOIN LATERAL {right} ON TRUE"
        right = self.sources(node.right, scope)
        if isinstance(node.right, nodes.Join):
            right = f"({right})"
        if node.condition is None:
            return f"{left} CROSS JOIN {right}"
        with scope.within("ON"):
            condition = self.condition(node.condition, scope)
        return f"{left} {node.kind} JOIN {right} ON {condition}"

    def relation(self, node: nodes.Node, scope: Scope) -> tuple[Relation, tuple[str, ...]]:
        """What one table of a FROM reads, and the names it answers to."""
        if isinstance(node, nodes.NamedTable):
            table = self._tables.get(node.parts[0].lower()) if len(node.parts) == 1 else None
            relation = table or self.environment.relation(node.parts)
            self.holds = self.holds or bool(HOLDING_HINTS & set(node.hints))
            return relation, (node.alias,) if node.alias else relation.names
        if isinstance(node, nodes.DerivedTable):
            check_unordered(node.query)
            bound = self.query(node.query, scope.parent if scope.sources else scope)
            return self.as_relation(bound, node.columns, (node.alias,)), (node.alias,)
        if isinstance(node, nodes.FunctionTable):
            arguments = [self.value(a, scope) for a in node.call.arguments]
            if ".".join(node.call.name).upper() == "STRING_SPLIT":
                relation = split(arguments)
                return relation, (node.alias,) if node.alias else relation.names
            relation = self.environment.function_relation(node.call.name, arguments)
            return relation, (node.alias,) if node.alias else relation.names
        raise errors.unsupported(f"A {type(node).__name__} in FROM")


def _make_nullable(scope: Scope, first: int, end: int) -> None:
    """Columns of the side that an outer join may fill with NULL."""
    for index in range(first, end):
        source = scope.sources[index]
        columns = tuple(replace(c, nullable=True) for c in source.relation.columns)
        scope.sources[index] = replace(source, relation=replace(source.relation, columns=columns))


def _check_exposed(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    """Raise Msg 1011, 1012 or 1013 for two sources of the same name."""
    if one[-1].lower() != other[-1].lower():
        return
    alias, table = sorted((one, other), key=len)
    if len(table) == 1:
        raise SqlError(
            1011,
            f"The correlation name '{other[-1]}' is specified multiple times in a FROM clause.",
        )
    if len(alias) == 1:
        raise SqlError(
            1012,
            f"The correlation name '{alias[-1]}' has the same exposed name as table "
            f"'{'.'.join(table[-2:])}'.",
        )
    if [part.lower() for part in one] == [part.lower() for part in other]:
        raise SqlError(
            1013,
            f'The objects "{one[-1]}" and "{other[-1]}" in the FROM clause have the same exposed '
            "names. Use correlation names to distinguish them.",
        )
