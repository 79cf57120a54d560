"""Operators on values, with T-SQL's result types and overflow errors."""

from __future__ import annotations

from cdc_assets.sandbox.language import errors, types
from cdc_assets.sandbox.language.convert import RANGES, convert
from cdc_assets.sandbox.language.values import TICKS_PER_DAY, Value, once, raising, try_cast
from cdc_assets.sandbox.results import MAX_LENGTH, SqlError, SqlType

_NAMES = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "modulo",
    "&": "'&'",
    "|": "'|'",
    "^": "'^'",
}


def calculate(op: str, left: Value, right: Value) -> Value:
    """`left op right`; raises Msg 8117, 402 or 206 for types without that operator."""
    kinds = {left.type.name, right.type.name}
    if op == "+" and kinds & types.STRINGS and kinds <= types.STRINGS | {left.type.name}:
        typed = [v for v in (left, right) if not v.untyped_null]
        if all(v.type.name in types.STRINGS for v in typed):
            return concatenate(left, right)
    if op == "+" and right.untyped_null and left.type.name in types.STRINGS:
        return concatenate(left, right)
    if kinds <= types.BINARIES and op == "+":
        return _join_binaries(left, right)
    if kinds & {"datetime", "smalldatetime"} and op in "+-":
        return _datetime(op, left, right)
    _check_dates(op, left, right)
    left, right = _numeric(op, left, right)
    name = max((left.type.name, right.type.name), key=types.RANK.__getitem__)
    if op in "&|^":
        return _bitwise(op, left, right)
    if kinds == {"bit"}:
        raise SqlError(
            402, f"The data types bit and bit are incompatible in the {_NAMES[op]} operator."
        )
    if name in types.FLOATS:
        return _float(op, left, right, SqlType(name))
    if name in types.DECIMALS or (name in types.MONEYS and kinds & types.DECIMALS):
        return _decimal(op, left, right)
    if name in types.MONEYS:
        return _money(op, left, right, SqlType(name))
    return _integer(op, left, right, SqlType("int" if name == "bit" else name))


def _check_dates(op: str, left: Value, right: Value) -> None:
    """Raise Msg 206 for a number beside a date, which only datetime can take."""
    names = {left.type.name, right.type.name}
    if names & types.NUMBERS and names & types.TIMES:
        raise errors.type_clash(left.type.name, right.type.name)
    if (
        names & types.STRINGS
        and names & types.TIMES
        and not (left.untyped_null or right.untyped_null)
    ):
        raise SqlError(
            402,
            f"The data types {left.type.name} and {right.type.name} are incompatible in the "
            f"{_NAMES[op]} operator.",
        )


def negate(operand: Value) -> Value:
    """`-x`."""
    if operand.type.name not in types.NUMBERS - {"bit"}:
        raise SqlError(
            8117, f"Operand data type {operand.type.name} is invalid for minus operator."
        )
    kind = types.SMALLINT if operand.type.name == "tinyint" else operand.type
    wide = "HUGEINT" if kind.name in types.INTEGERS else types.physical(kind)
    failure = raising(
        8115, f"Arithmetic overflow error converting expression to data type {kind.name}."
    )
    sql = f"(-CAST({operand.sql} AS {wide}))"
    return operand.derived(try_cast(sql, types.physical(kind), failure), kind)


def concatenate(left: Value, right: Value) -> Value:
    """String `+`."""
    kind = types.common(left.type, right.type)
    if left.untyped_null or right.untyped_null:
        kind = right.type if left.untyped_null else left.type
    lengths = [left.type.length or MAX_LENGTH, right.type.length or MAX_LENGTH]
    limit = 4000 if kind.name in types.NATIONAL else 8000
    total = MAX_LENGTH if MAX_LENGTH in lengths else min(limit, sum(lengths))
    result = SqlType(kind.name, length=total, collation=kind.collation)
    sql = f"({left.sql} || {right.sql})"
    if total == limit and sum(lengths) > limit:
        sql = f"left({sql}, {limit})"
    return Value(sql, result, left.nullable or right.nullable)


def _join_binaries(left: Value, right: Value) -> Value:
    lengths = [left.type.length or 8, right.type.length or 8]
    total = MAX_LENGTH if MAX_LENGTH in lengths else min(8000, sum(lengths))
    return Value(f"({left.sql} || {right.sql})", types.varbinary(total))


def _datetime(op: str, left: Value, right: Value) -> Value:
    """datetime ± a number of days."""
    if right.type.name in types.TICKED:
        raise errors.unsupported("The difference of two datetimes (use DATEDIFF)")
    if right.type.name not in types.NUMBERS:
        raise errors.type_clash(right.type.name, left.type.name)
    if right.type.name in types.INTEGERS:
        amount = f"CAST({right.sql} AS BIGINT) * {TICKS_PER_DAY}"
    else:
        amount = f"CAST(round(CAST({right.sql} AS DOUBLE) * {TICKS_PER_DAY}) AS BIGINT)"
    low, high = RANGES[left.type.name]
    failure = raising(
        8115, f"Arithmetic overflow error converting expression to data type {left.type.name}."
    )
    moved = f"round_datetime({left.sql} {op} {amount})"
    return left.derived(
        once(
            moved,
            lambda at: f"CASE WHEN {at} < {low} OR {at} >= {high} THEN {failure} ELSE {at} END",
        )
    )


def _numeric(op: str, left: Value, right: Value) -> tuple[Value, Value]:
    """Both as numbers: a string takes the other side's type."""
    if left.untyped_null and right.untyped_null:
        return convert(left, types.INT), convert(right, types.INT)
    converted = []
    for own, other in ((left, right), (right, left)):
        if own.untyped_null or (
            own.type.name in types.STRINGS | types.BINARIES and other.type.name in types.NUMBERS
        ):
            converted.append(convert(own, other.type))
        elif own.type.name in types.NUMBERS:
            converted.append(own)
        else:
            raise SqlError(
                8117, f"Operand data type {own.type.name} is invalid for {_NAMES[op]} operator."
            )
    return converted[0], converted[1]


def _bitwise(op: str, left: Value, right: Value) -> Value:
    if not {left.type.name, right.type.name} <= types.INTEGERS:
        raise SqlError(
            402,
            f"The data types {left.type.name} and {right.type.name} are incompatible in the "
            f"{_NAMES[op]} operator.",
        )
    kind = types.common(left.type, right.type)
    work = "INTEGER" if kind.name == "bit" else types.physical(kind)
    a, b = f"CAST({left.sql} AS {work})", f"CAST({right.sql} AS {work})"
    sql = f"xor({a}, {b})" if op == "^" else f"({a} {op} {b})"
    if kind.name == "bit":
        sql = f"({sql} <> 0)"
    return Value(sql, kind, left.nullable or right.nullable)


def _integer(op: str, left: Value, right: Value, kind: SqlType) -> Value:
    nullable = left.nullable or right.nullable
    work = "HUGEINT" if kind.name == "bigint" else "BIGINT"
    a, b = f"CAST({left.sql} AS {work})", f"CAST({right.sql} AS {work})"
    sql = f"({a} {'//' if op == '/' else op} {b})"
    if op in "/%":
        sql = _guarded(left, right, sql)
    failure = raising(
        8115, f"Arithmetic overflow error converting expression to data type {kind.name}."
    )
    target = types.physical(kind)
    checked = try_cast(sql, target, failure)
    return Value(checked, kind, nullable)


def _guarded(left: Value, right: Value, sql: str) -> str:
    if right.is_constant and right.constant not in (0, None):
        return sql
    failure = raising(8134, "Divide by zero error encountered.")
    # NULL divided by zero is NULL.
    return f"CASE WHEN {right.sql} = 0 AND {left.sql} IS NOT NULL THEN {failure} ELSE {sql} END"


def _float(op: str, left: Value, right: Value, kind: SqlType) -> Value:
    if op == "%":
        raise SqlError(402, "The data types are incompatible in the modulo operator.")
    target = types.physical(kind)
    a, b = f"CAST({left.sql} AS {target})", f"CAST({right.sql} AS {target})"
    sql = f"({a} {op} {b})"
    if op == "/":
        sql = _guarded(left, right, sql)
    failure = raising(
        8115, f"Arithmetic overflow error converting expression to data type {kind.name}."
    )
    checked = f"CASE WHEN isfinite({sql}) OR ({sql}) IS NULL THEN {sql} ELSE {failure} END"
    return Value(checked, kind, left.nullable or right.nullable)


def _money(op: str, left: Value, right: Value, kind: SqlType) -> Value:
    wide = "DECIMAL(38,4)"
    a, b = f"CAST({left.sql} AS {wide})", f"CAST({right.sql} AS {wide})"
    if op in "+-":
        sql = f"({a} {op} {b})"
    elif op == "*":
        sql = f"(CAST({left.sql} AS DECIMAL(19,4)) * CAST({right.sql} AS DECIMAL(19,4)))"
    elif op == "/":
        # Money divides in ten-thousandths and drops the rest.
        sql = (
            f"CAST((CAST({a} * 10000 AS HUGEINT) * 10000 // CAST({b} * 10000 AS HUGEINT)) "
            f"AS DECIMAL(38,0)) / 10000"
        )
        sql = _guarded(left, right, f"CAST({sql} AS DECIMAL(38,4))")
    else:
        raise errors.unsupported("Modulo of money")
    return Value(f"CAST({sql} AS {types.physical(kind)})", kind, left.nullable or right.nullable)


def decimal_result(op: str, left: SqlType, right: SqlType) -> SqlType:
    """The precision and scale of a decimal operation, as Microsoft documents them."""
    p1, s1 = left.precision or 0, left.scale or 0
    p2, s2 = right.precision or 0, right.scale or 0
    if op in "+-":
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    elif op == "*":
        precision, scale = p1 + p2 + 1, s1 + s2
    elif op == "/":
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    else:
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    if precision > 38:
        whole = precision - scale
        if op in "+-%":
            scale = max(min(scale, 38 - whole), 0)
        elif whole < 32:
            scale = min(scale, 38 - whole)
        else:
            scale = min(scale, 6)
        precision = 38
    return types.decimal(precision, scale, "numeric")


def _as_decimal(value: Value) -> SqlType:
    if value.literal and value.type.name == "int":
        return types.decimal(len(str(value.constant)), 0)
    return types.as_decimal(value.type)


def _decimal(op: str, left: Value, right: Value) -> Value:
    one, two = _as_decimal(left), _as_decimal(right)
    kind = decimal_result(op, one, two)
    a, b = convert(left, one).sql, convert(right, two).sql
    target = types.physical(kind)
    if op in "+-%":
        wide = f"DECIMAL(38,{max(one.scale or 0, two.scale or 0)})"
        sql = f"(CAST({a} AS {wide}) {op} CAST({b} AS {wide}))"
    elif op == "*":
        if (one.precision or 0) + (two.precision or 0) > 38:
            sql = _long_product(a, b, one, two, kind)
        else:
            sql = f"({a} * {b})"
    else:
        sql = _quotient(a, b, one, two, kind)
    if op in "/%":
        sql = _guarded(left, right, sql)
    failure = raising(8115, "Arithmetic overflow error converting numeric to data type numeric.")
    checked = try_cast(sql, target, failure)
    return Value(checked, kind, left.nullable or right.nullable)


def _long_product(a: str, b: str, one: SqlType, two: SqlType, kind: SqlType) -> str:
    """Decimals of many digits multiplied: as whole numbers, rounded to the result's scale."""
    surplus = (one.scale or 0) + (two.scale or 0) - (kind.scale or 0)
    product = f"(unscaled({a}) * unscaled({b}))"
    if surplus:
        unit = f"CAST('{10**surplus}' AS HUGEINT)"
        product = f"(({product} + sign({product}) * ({unit} // 2)) // {unit})"
    return f"CAST(pointed({product}, {kind.scale or 0}) AS DECIMAL(38,{kind.scale or 0}))"


def _quotient(a: str, b: str, one: SqlType, two: SqlType, kind: SqlType) -> str:
    """Decimals divided exactly: as whole numbers, cut at the result's scale."""
    s1, s2, scale = one.scale or 0, two.scale or 0, kind.scale or 0
    shift = scale - s1 + s2
    digits = (one.precision or 0) + max(shift, 0)
    if digits > 38 or shift < 0:
        raise errors.unsupported("A quotient of decimals of more than 38 digits")
    quotient = f"(unscaled({a}) * CAST('{10**shift}' AS HUGEINT) // unscaled({b}))"
    if scale == 0:
        return quotient
    return f"CAST(pointed({quotient}, {scale}) AS DECIMAL(38,{scale}))"
