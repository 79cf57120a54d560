"""Binding of expressions: names resolved, types deduced, DuckDB text made."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from cdc_assets.sandbox.language import codepages, collation, errors, nodes, patterns, types, values
from cdc_assets.sandbox.language import tokens as t
from cdc_assets.sandbox.language.arithmetic import calculate, negate
from cdc_assets.sandbox.language.convert import checked_style, convert
from cdc_assets.sandbox.language.folding import fold
from cdc_assets.sandbox.language.scope import Environment, Scope
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import DEFAULT_COLLATION, MAX_LENGTH, SqlError, SqlType


class ExpressionBinder:
    """Binds expressions in a scope; the query binder adds subqueries."""

    def __init__(self, environment: Environment, default_collation: str = DEFAULT_COLLATION):
        self.environment = environment
        self.default_collation = default_collation
        self.objects: set[int] = set()
        """Object ids of the tables read, for the counters."""

    @abstractmethod
    def subquery(self, query: nodes.Query, scope: Scope) -> tuple[str, tuple[Value, ...]]:
        """A query's text and its columns."""

    @abstractmethod
    def call(self, node: nodes.Call, scope: Scope) -> Value:
        """A function call."""

    # --- values --------------------------------------------------------------------------------

    def value(self, node: nodes.Node, scope: Scope) -> Value:
        """Bind a scalar expression."""
        if scope.keys and not scope.inside_aggregate and not scope.as_written:
            key = self._group_key(node, scope)
            if key is not None:
                return key
        return self._value(node, scope)

    def _group_key(self, node: nodes.Node, scope: Scope) -> Value | None:
        """What stands for an expression that the query groups by."""
        mark = len(scope.loose)
        scope.as_written = True
        try:
            bound = self._value(node, scope)
        finally:
            scope.as_written = False
            scope.covered(mark)
        if bound.sql not in scope.keys:
            return None
        group = scope.groups.get(bound.sql)
        return bound if group is None else bound.derived(group)

    def _value(self, node: nodes.Node, scope: Scope) -> Value:
        if isinstance(node, nodes.Column):
            return scope.column(node.parts)
        if isinstance(node, nodes.Constant):
            return constant(node, self.default_collation)
        if isinstance(node, nodes.Variable):
            return self.environment.variable(node.name)
        if isinstance(node, nodes.Arithmetic):
            return self._arithmetic(node, scope)
        if isinstance(node, nodes.Unary):
            return self._unary(node, scope)
        if isinstance(node, nodes.Cast):
            return self._cast(node, scope)
        if isinstance(node, nodes.Call):
            return self.call(node, scope)
        if isinstance(node, nodes.Case):
            return self._case(node, scope)
        if isinstance(node, nodes.Subquery):
            return self._scalar(node, scope)
        if isinstance(node, nodes.Collate):
            return self._collate(node, scope)
        if isinstance(node, nodes.AtTimeZone):
            return self._at_time_zone(node, scope)
        if isinstance(node, nodes.Star):
            raise errors.syntax("*")
        raise errors.unsupported(f"A {type(node).__name__} used as a value")

    def _arithmetic(self, node: nodes.Arithmetic, scope: Scope) -> Value:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        result = calculate(node.op, left, right)
        if left.is_constant and right.is_constant:
            return fold(result, left)
        return result

    def _unary(self, node: nodes.Unary, scope: Scope) -> Value:
        operand = self.value(node.operand, scope)
        if node.op == "+":
            return operand
        if node.op == "~":
            if operand.type.name not in types.INTEGERS:
                raise SqlError(8117, f"Operand data type {operand.type.name} is invalid for '~'.")
            return operand.derived(f"(~{operand.sql})")
        return fold(negate(operand), operand)

    def _cast(self, node: nodes.Cast, scope: Scope) -> Value:
        operand = self.value(node.operand, scope)
        style = None
        if node.style is not None:
            chosen = self.value(node.style, scope)
            if not chosen.is_constant:
                raise errors.unsupported("A CONVERT style that is no constant")
            style = checked_style(chosen.constant)
        target = node.type
        if target.name in types.STRINGS:
            own = operand.type.collation if operand.type.name in types.STRINGS else None
            target = replace(target, collation=own or self.default_collation)
        if node.attempt:
            with values.quietly():
                quiet = convert(operand, target, style)
            result = Value(quiet.sql, target, True)
        else:
            result = convert(operand, target, style)
        return fold(result, operand)

    def _case(self, node: nodes.Case, scope: Scope) -> Value:
        tests = []
        for test, _ in node.branches:
            if node.operand is None:
                tests.append(self.condition(test, scope))
            else:
                tests.append(self.condition(nodes.Comparison("=", node.operand, test), scope))
        results = [self.value(result, scope) for _, result in node.branches]
        if node.otherwise is not None:
            results.append(self.value(node.otherwise, scope))
        if all(result.untyped_null for result in results):
            raise SqlError(
                8133,
                "At least one of the result expressions in a CASE specification must be an "
                "expression other than the NULL constant.",
            )
        kind = self.common_type(results)
        converted = [self.convert(result, kind) for result in results]
        text = " ".join(
            f"WHEN {test} THEN {result.sql}" for test, result in zip(tests, converted, strict=False)
        )
        if node.otherwise is not None:
            text += f" ELSE {converted[-1].sql}"
        nullable = node.otherwise is None or any(result.nullable for result in converted)
        return Value(f"CASE {text} END", kind, nullable)

    def _scalar(self, node: nodes.Subquery, scope: Scope) -> Value:
        text, columns = self.subquery(node.query, scope)
        if len(columns) != 1:
            raise SqlError(
                116,
                "Only one expression can be specified in the select list when the subquery is not "
                "introduced with EXISTS.",
            )
        return Value(f"({text})", columns[0].type, True)

    def _collate(self, node: nodes.Collate, scope: Scope) -> Value:
        operand = self.value(node.operand, scope)
        name = node.collation
        wanted = self.default_collation if name.lower() == "database_default" else name
        if operand.type.name not in types.STRINGS:
            raise SqlError(
                447, f"Expression type {operand.type.name} is invalid for COLLATE clause."
            )
        kind = replace(operand.type, collation=collation.checked(wanted))
        moved = self.convert(operand, kind) if kind.name in types.NARROW else operand
        return replace(moved, type=kind, collated=True)

    def _at_time_zone(self, node: nodes.AtTimeZone, scope: Scope) -> Value:
        operand, zone = self.value(node.operand, scope), self.value(node.zone, scope)
        if not isinstance(zone.constant, str):
            raise errors.unsupported("AT TIME ZONE with a zone that is no constant")
        name = values.quote(self.environment.zone(zone.constant))
        if operand.type.name == "datetimeoffset":
            sql = f"rezoned({operand.sql}, {name})"
        elif operand.type.name in types.TICKED:
            # A datetime counts 1/300 s, its datetimeoffset milliseconds.
            local = convert(operand, types.datetime2(types.fractional_digits(operand.type)))
            sql = f"zoned({local.sql}, {name})"
        else:
            raise SqlError(8116, "Argument data type is invalid for argument 1 of AT TIME ZONE.")
        scale = types.fractional_digits(operand.type)
        return operand.derived(sql, SqlType("datetimeoffset", scale=scale))

    # --- conditions ----------------------------------------------------------------------------

    def condition(self, node: nodes.Node, scope: Scope) -> str:
        """Bind a search condition."""
        if isinstance(node, nodes.Comparison):
            return self._comparison(node, scope)
        if isinstance(node, nodes.Logic):
            return "(" + f" {node.op} ".join(self.condition(i, scope) for i in node.items) + ")"
        if isinstance(node, nodes.Not):
            return f"(NOT {self.condition(node.operand, scope)})"
        if isinstance(node, nodes.IsNull):
            operand = self.value(node.operand, scope)
            return f"({operand.sql} IS {'NOT ' if node.negated else ''}NULL)"
        if isinstance(node, nodes.Between):
            both = nodes.Logic(
                "AND",
                (
                    nodes.Comparison(">=", node.operand, node.low),
                    nodes.Comparison("<=", node.operand, node.high),
                ),
            )
            return (
                f"(NOT {self.condition(both, scope)})"
                if node.negated
                else self.condition(both, scope)
            )
        if isinstance(node, nodes.In):
            return self._in(node, scope)
        if isinstance(node, nodes.Like):
            return self._like(node, scope)
        if isinstance(node, nodes.Exists):
            text, _ = self.subquery(node.query, scope)
            return f"EXISTS ({text})"
        raise errors.not_a_condition(type(node).__name__)

    def _comparison(self, node: nodes.Comparison, scope: Scope) -> str:
        return self.compare(node.op, self.value(node.left, scope), self.value(node.right, scope))

    def compare(self, op: str, left: Value, right: Value) -> str:
        """`left op right` with T-SQL's conversions and collation."""
        first, second = self._sides(op, left, right)
        return f"({first} {op} {second})"

    def _sides(self, op: str, left: Value, right: Value) -> tuple[str, str]:
        """What DuckDB compares for two values."""
        left, right, kind = self._aligned(left, right)
        if kind is None:
            return left.sql, right.sql
        key = collation.equality_key if op in ("=", "<>") else collation.order_key
        return _key(key, left, kind), _key(key, right, kind)

    def _aligned(self, left: Value, right: Value) -> tuple[Value, Value, SqlType | None]:
        """Both sides in one type; None where DuckDB compares them rightly as they are."""
        exact = types.INTEGERS - {"bit"} | types.DECIMALS | types.MONEYS
        if left.type.name in exact and right.type.name in exact:
            return left, right, None
        kind = self.common_type([left, right])
        collation.check_comparable(kind)
        if kind.name in types.STRINGS:
            kind = replace(kind, collation=self._one_collation(left, right))
            wide = SqlType("nvarchar", length=MAX_LENGTH, collation=kind.collation)
            both = [v if v.type.name in types.STRINGS else convert(v, wide) for v in (left, right)]
            return both[0], both[1], kind
        return self.convert(left, kind), self.convert(right, kind), kind

    def _one_collation(self, left: Value, right: Value) -> str:
        """COLLATE wins over a column's collation, that over a constant's; two must agree."""
        texts = [v for v in (left, right) if v.type.name in types.STRINGS and v.type.collation]
        for rank in (
            [v for v in texts if v.collated],
            [v for v in texts if not v.is_constant],
            texts,
        ):
            names = {(v.type.collation or "").lower(): v.type.collation or "" for v in rank}
            if len(names) == 1:
                return next(iter(names.values()))
            if names and rank is not texts:
                raise errors.collation_conflict(*names.values())
        others = [
            v.type.collation
            for v in texts
            if (v.type.collation or "").lower() != self.default_collation.lower()
        ]
        return (others[0] if others else None) or self.default_collation

    def _in(self, node: nodes.In, scope: Scope) -> str:
        word = "NOT IN" if node.negated else "IN"
        operand = self.value(node.operand, scope)
        if node.query is None:
            items = [self.value(item, scope) for item in node.items]
            pairs = [self._sides("=", operand, item) for item in items]
            if len({key for key, _ in pairs}) == 1:
                # A key's text may be long, and is bound once for each time that it is written.
                return f"({pairs[0][0]} {word} ({', '.join(item for _, item in pairs)}))"
            tests = " OR ".join(f"({key} = {item})" for key, item in pairs)
            return f"(NOT ({tests}))" if node.negated else f"({tests})"
        text, columns = self.subquery(node.query, scope)
        if len(columns) != 1:
            raise SqlError(
                116,
                "Only one expression can be specified in the select list when the subquery is not "
                "introduced with EXISTS.",
            )
        inner = replace(columns[0], sql="q.x1")
        left, right, kind = self._aligned(operand, inner)
        if kind is not None:
            left_key = _key(collation.equality_key, left, kind)
            right_key = _key(collation.equality_key, right, kind)
        else:
            left_key, right_key = left.sql, right.sql
        return f"({left_key} {word} (SELECT {right_key} FROM ({text}) AS q))"

    def _like(self, node: nodes.Like, scope: Scope) -> str:
        operand, pattern = self.value(node.operand, scope), self.value(node.pattern, scope)
        escape = self.value(node.escape, scope) if node.escape is not None else None
        kind = replace(types.nvarchar(MAX_LENGTH), collation=self._one_collation(operand, pattern))
        text = self.convert(operand, kind) if operand.type.name not in types.STRINGS else operand
        test = patterns.like(text, pattern, escape, kind)
        return f"(NOT {test})" if node.negated else test

    # --- types ---------------------------------------------------------------------------------

    def common_type(self, items: Sequence[Value]) -> SqlType:
        """The type that all of them are converted to; an untyped NULL takes the others'."""
        kinds = [item.type for item in items if not item.untyped_null]
        if not kinds:
            return types.INT
        kind = kinds[0]
        for other in kinds[1:]:
            kind = types.common(kind, other)
        return kind

    def convert(self, value: Value, kind: SqlType) -> Value:
        """An implicit conversion; raises Msg 206 where there is none."""
        if not implicitly_converts(value, kind):
            raise errors.type_clash(value.type.name, kind.name)
        return fold(convert(value, kind), value)


def _key(make: Callable[..., str], value: Value, kind: SqlType) -> str:
    """A comparison key, computed now for a constant."""
    text = make(value.sql, kind, plain=collation.is_plain(value.constant))
    keyed = Value(text, replace(value.type, length=MAX_LENGTH), value.nullable)
    if kind.name in types.STRINGS and value.is_constant:
        return fold(keyed, value).sql
    return keyed.sql


def implicitly_converts(value: Value, target: SqlType) -> bool:
    """Whether T-SQL converts it without a CAST."""
    source = value.type.name
    if value.untyped_null or source == target.name:
        return True
    if target.name in types.BINARIES:
        return source in types.BINARIES | types.INTEGERS or source in types.DECIMALS
    if target.name == "datetimeoffset" or target.name in types.TIMES - {"datetime"}:
        return source in types.TIMES | types.STRINGS
    if source in types.TIMES - {"datetime", "smalldatetime"} and target.name in types.NUMBERS:
        return False
    return not (target.name == "uniqueidentifier" and source not in types.STRINGS | types.BINARIES)


def constant(node: nodes.Constant, default_collation: str = DEFAULT_COLLATION) -> Value:
    """A literal with the type T-SQL gives it."""
    value = node.value
    if node.kind == "null":
        return values.null()
    if node.kind in (t.STRING, t.NSTRING):
        national = node.kind == t.NSTRING
        limit = 4000 if national else 8000
        kind = (types.nvarchar if national else types.varchar)(MAX_LENGTH, default_collation)
        if not national:
            value = codepages.literal(value, kind)
        units = values.utf16_units(value) if national else codepages.literal_bytes(value, kind)
        length = max(1, units) if units <= limit else MAX_LENGTH
        return values.text(value, replace(kind, length=length))
    if node.kind == t.INTEGER:
        number = int(value)
        if number < 1 << 31:
            return replace(values.integer(number), literal=True)
        digits = len(value.lstrip("0"))
        if digits > 38:
            raise SqlError(
                1007, f"The number '{value}' is out of the range for numeric representation.", 15
            )
        return values.of_python(number, types.decimal(digits, 0, "numeric"))
    if node.kind == t.DECIMAL:
        whole, _, fraction = value.partition(".")
        digits = max(1, len(whole.lstrip("0")) + len(fraction))
        if digits > 38:
            raise SqlError(
                1007, f"The number '{value}' is out of the range for numeric representation.", 15
            )
        kind = types.decimal(digits, len(fraction), "numeric")
        return values.of_python(Decimal(value), kind)
    if node.kind == t.FLOAT:
        return values.of_python(float(value), types.FLOAT)
    if node.kind == t.HEX:
        digits_text = value[2:]
        if len(digits_text) % 2:
            digits_text = "0" + digits_text
        return values.blob(bytes.fromhex(digits_text))
    raise errors.syntax("DEFAULT", keyword=True)
