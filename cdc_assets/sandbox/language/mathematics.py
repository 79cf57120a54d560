"""Functions of numbers, with the result types their pages give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cdc_assets.sandbox.language import errors, types
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.values import Value, raising, try_cast
from cdc_assets.sandbox.results import SqlType

Arguments = Sequence[Value]


def _abs(args: Arguments) -> Value:
    value = _number(args[0])
    wide = "HUGEINT" if value.type.name in types.INTEGERS else types.physical(value.type)
    return value.derived(_fitting(f"abs(CAST({value.sql} AS {wide}))", value.type))


def _fitting(sql: str, kind: SqlType) -> str:
    """A computed number in its type; raises Msg 8115 when a row that does not fit is reached."""
    failure = raising(
        8115, f"Arithmetic overflow error converting expression to data type {kind.name}."
    )
    return try_cast(sql, types.physical(kind), failure)


def _number(value: Value) -> Value:
    return value if value.type.name in types.NUMBERS - {"bit"} else convert(value, types.FLOAT)


def _floor_ceiling(function: str) -> Callable[[Arguments], Value]:
    def bound(args: Arguments) -> Value:
        value = _number(args[0])
        kind = value.type
        if kind.name in types.INTEGERS:
            return value  # DuckDB would take it through a double
        if kind.name in types.DECIMALS:
            kind = types.decimal(kind.precision or 38, 0, kind.name)
        return value.derived(_fitting(f"{function}({value.sql})", kind), kind)

    return bound


def _round(args: Arguments) -> Value:
    value = _number(args[0])
    digits = args[1]
    if not isinstance(digits.constant, int) or len(args) > 2:
        raise errors.unsupported("ROUND with a length that is no constant, or with truncation")
    places = digits.constant
    if value.type.name in types.DECIMALS | types.MONEYS and places < 0:
        raise errors.unsupported("ROUND of a decimal to the left of its point")
    return value.derived(_fitting(f"round({value.sql}, {places})", value.type))


def _sign(args: Arguments) -> Value:
    value = _number(args[0])
    return value.derived(f"CAST(sign({value.sql}) AS {types.physical(value.type)})")


def _float_function(function: str) -> Callable[[Arguments], Value]:
    def bound(args: Arguments) -> Value:
        value = convert(args[0], types.FLOAT)
        return value.derived(_finite(f"TRY({function}({value.sql}))", value))

    return bound


def _finite(sql: str, *arguments: Value) -> str:
    """A float's function: where it has no value, Msg 3623."""
    given = " AND ".join(f"{argument.sql} IS NOT NULL" for argument in arguments)
    failure = raising(3623, "An invalid floating point operation occurred.")
    return (
        f"CASE WHEN {given} AND NOT coalesce(isfinite({sql}), FALSE) THEN {failure} ELSE {sql} END"
    )


def _power(args: Arguments) -> Value:
    value = _number(args[0])
    sql = f"pow(CAST({value.sql} AS DOUBLE), CAST({_number(args[1]).sql} AS DOUBLE))"
    return Value(f"CAST({sql} AS {types.physical(value.type)})", value.type)


# name: (function, fewest arguments, most arguments)
MATHEMATICS: dict[str, tuple[Callable[[Arguments], Value], int, int]] = {
    "ABS": (_abs, 1, 1),
    "SIGN": (_sign, 1, 1),
    "FLOOR": (_floor_ceiling("floor"), 1, 1),
    "CEILING": (_floor_ceiling("ceil"), 1, 1),
    "ROUND": (_round, 2, 3),
    "SQRT": (_float_function("sqrt"), 1, 1),
    "EXP": (_float_function("exp"), 1, 1),
    "LOG": (_float_function("ln"), 1, 1),
    "LOG10": (_float_function("log10"), 1, 1),
    "POWER": (_power, 2, 2),
}
