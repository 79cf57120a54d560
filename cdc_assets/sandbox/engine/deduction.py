"""The types that a statement's undeclared parameters must have, as the server suggests them.

The rules are those of sp_describe_undeclared_parameters in Microsoft's documentation: simple
deduction beside =, in VALUES, SET and CAST; general deduction elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.sandbox.engine.context import Context
from cdc_assets.sandbox.engine.resolver import Resolver
from cdc_assets.sandbox.engine.targets import TargetColumns
from cdc_assets.sandbox.language import errors, nodes, types
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.scope import Scope
from cdc_assets.sandbox.language.selects import QueryBinder
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import MAX_LENGTH, SqlError, SqlType

_MARK = "$undeclared "


class _Undeclared(Resolver):
    """Knows every parameter, without its type."""

    def variable(self, name: str) -> Value:
        """A declared variable, or the mark of an undeclared one."""
        if name.startswith("@@") or name.lower() in self.context.variables:
            return super().variable(name)
        return Value(_MARK + name.lower(), types.INT, untyped_null=True)


class Deduction(QueryBinder):
    """Binds statements to learn what their undeclared parameters are."""

    def __init__(self, context: Context) -> None:
        super().__init__(_Undeclared(context), context.collation)
        self._context = context
        self.found: dict[str, SqlType] = {}

    def _learn(self, value: Value, kind: SqlType, *, exactly: bool) -> None:
        if value.sql.startswith(_MARK):
            name = value.sql.removeprefix(_MARK)
            self.found.setdefault(name, kind if exactly else _general(kind))

    def _pair(self, left: Value, right: Value, *, exactly: bool) -> None:
        unknown = [v.sql.startswith(_MARK) for v in (left, right)]
        if all(unknown):
            names = [v.sql.removeprefix(_MARK) for v in (left, right)]
            raise SqlError(
                11503,
                "The parameter type cannot be deduced because a single expression contains two "
                f"untyped parameters, '{names[0]}' and '{names[1]}'.",
            )
        self._learn(left, right.type, exactly=exactly)
        self._learn(right, left.type, exactly=exactly)

    # --- where a parameter meets a type --------------------------------------------------------

    def compare(self, op: str, left: Value, right: Value) -> str:
        """A comparison: its other side's type."""
        self._pair(left, right, exactly=op in ("=", "<>"))
        return super().compare(op, left, right)

    def convert(self, value: Value, kind: SqlType) -> Value:
        """An implicit conversion: the type it converts to."""
        self._learn(value, kind, exactly=True)
        return super().convert(value, kind)

    def _arithmetic(self, node: nodes.Arithmetic, scope: Scope) -> Value:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        self._pair(left, right, exactly=False)
        return super()._arithmetic(node, scope)

    def _cast(self, node: nodes.Cast, scope: Scope) -> Value:
        self._learn(self.value(node.operand, scope), node.type, exactly=True)
        return super()._cast(node, scope)

    def _like(self, node: nodes.Like, scope: Scope) -> str:
        operand, pattern = self.value(node.operand, scope), self.value(node.pattern, scope)
        self._pair(operand, pattern, exactly=False)
        if pattern.sql.startswith(_MARK) or operand.sql.startswith(_MARK):
            return "TRUE"
        return super()._like(node, scope)

    def _in(self, node: nodes.In, scope: Scope) -> str:
        if node.query is None:
            operand = self.value(node.operand, scope)
            for item in node.items:
                self._pair(operand, self.value(item, scope), exactly=True)
        return super()._in(node, scope)

    def _row_count(self, node: nodes.Node, scope: Scope | None) -> int:
        value = self.value(node, scope or Scope())
        self._learn(value, types.BIGINT, exactly=True)
        return 1 if value.sql.startswith(_MARK) else super()._row_count(node, scope)

    # --- statements ----------------------------------------------------------------------------

    def statement(self, statement: s.Statement) -> None:
        """Learn from one statement; raises 40515 for a kind of it that is not analysed here."""
        if isinstance(statement, s.QueryStatement):
            self.query(statement.query)
        elif isinstance(statement, s.Insert):
            self._insert(statement)
        elif isinstance(statement, (s.Update, s.Delete)):
            self._update_or_delete(statement)
        elif isinstance(statement, s.SetOption):
            return
        else:
            raise errors.unsupported(f"Analysis of the parameters of {type(statement).__name__}")

    def _columns(self, target: s.Name) -> TargetColumns:
        table = self._context.find_table(target)
        if table is None:
            raise errors.invalid_object(".".join(target))
        return TargetColumns(table, identity_insert=True)

    def _insert(self, statement: s.Insert) -> None:
        if statement.source is None:
            return
        columns = self._columns(statement.target).insert_columns(statement.columns, None)
        if isinstance(statement.source, nodes.Values):
            for row in statement.source.rows:
                for column, item in zip(columns, row, strict=False):
                    self._assign(item, column.type, Scope())
        elif isinstance(statement.source, nodes.Query):
            bound = self.query(statement.source)
            for column, output in zip(columns, bound.outputs, strict=False):
                self._learn(output.value, column.type, exactly=True)
        else:
            raise errors.unsupported("Analysis of the parameters of INSERT … EXEC")

    def _assign(self, item: nodes.Node, kind: SqlType, scope: Scope) -> None:
        if not (isinstance(item, nodes.Constant) and item.kind == "default"):
            self._learn(self.value(item, scope), kind, exactly=True)

    def _update_or_delete(self, statement: s.Update | s.Delete) -> None:
        if statement.tables or (len(statement.target) > 1 and statement.source is not None):
            raise errors.unsupported("Analysis of the parameters of a change with WITH")
        scope = Scope()
        self.sources(statement.source or nodes.NamedTable(statement.target), scope)
        if isinstance(statement, s.Update):
            columns = {c.name.lower(): c.type for s_ in scope.sources for c in s_.relation.columns}
            for name, node in statement.assignments:
                if name.lower() not in columns:
                    raise errors.invalid_column(name)
                self._assign(node, columns[name.lower()], scope)
        if statement.where is not None:
            self.condition(statement.where, scope)


def deduce(
    context: Context, statements: Sequence[s.Statement], names: Sequence[str]
) -> list[tuple[str, SqlType]]:
    """The parameters with their types, in order; raises Msg 11502, 11503 or 11508."""
    for name in names:
        if sum(other.lower() == name.lower() for other in names) > 1:
            raise SqlError(
                11508,
                f"The undeclared parameter '{name}' is used more than once in the batch being "
                "analyzed.",
            )
    binder = Deduction(context)
    for statement in statements:
        binder.statement(statement)
    found = []
    for name in names:
        if name.lower() not in binder.found:
            raise SqlError(
                11502, f"The type for parameter '{name}' cannot be deduced in this context."
            )
        found.append((name, binder.found[name.lower()]))
    return found


def _general(kind: SqlType) -> SqlType:
    """The candidate of general deduction that converts least."""
    if kind.name in types.NATIONAL:
        return types.nvarchar(MAX_LENGTH if types.is_max(kind) else 4000)
    if kind.name in types.NARROW:
        return types.varchar(MAX_LENGTH if types.is_max(kind) else 8000)
    if kind.name in types.DECIMALS:
        return types.decimal(38, 19, "numeric")
    if kind.name in types.BINARIES:
        return types.varbinary(MAX_LENGTH if types.is_max(kind) else 8000)
    if kind.name in ("time", "datetime2", "datetimeoffset"):
        return SqlType(kind.name, scale=7)
    return kind
