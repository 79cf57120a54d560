"""Functions of numbers, with the result types their pages give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cdc_assets.sandbox.language import errors, types
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.values import Value, once, raising, try_cast
from cdc_assets.sandbox.results import SqlType

Arguments = Sequence[Value]

_LARGEST = {"int": 0, "bigint": 2**63, "money": 922_337_203_685_478}
"""What no value of the type reaches; an int is below what a double can show."""


def _abs(args: Arguments) -> Value:
    value = _widened(args[0])
    kind = _of_38_digits(value.type)
    wide = "HUGEINT" if kind.name in types.INTEGERS else types.physical(kind)
    return value.derived(_fitting(f"abs(CAST({value.sql} AS {wide}))", kind), kind)


def _fitting(sql: str, kind: SqlType) -> str:
    """A computed number in its type; raises Msg 8115 when a row that does not fit is reached."""
    name = "numeric" if kind.name in types.DECIMALS else kind.name
    failure = raising(8115, f"Arithmetic overflow error converting expression to data type {name}.")
    return try_cast(sql, types.physical(kind), failure)


def _widened(value: Value) -> Value:
    """The argument in the type of its kind that the functions' pages say they return."""
    name = value.type.name
    if name in types.DECIMALS or name in ("int", "bigint", "float", "money"):
        return value
    kind = types.INT if name in ("tinyint", "smallint") else types.FLOAT
    return convert(value, types.MONEY if name == "smallmoney" else kind)


def _of_38_digits(kind: SqlType) -> SqlType:
    """ABS and POWER of a decimal(p,s) are decimals of as many digits as there are."""
    return types.decimal(38, kind.scale or 0, kind.name) if kind.name in types.DECIMALS else kind


def _floor_ceiling(function: str) -> Callable[[Arguments], Value]:
    def bound(args: Arguments) -> Value:
        value = _widened(args[0])
        kind = value.type
        if kind.name in types.INTEGERS:
            return value  # DuckDB would take it through a double
        if kind.name in types.DECIMALS:
            kind = types.decimal(kind.precision or 38, 0, kind.name)
        return value.derived(_fitting(f"{function}({value.sql})", kind), kind)

    return bound


def _round(args: Arguments) -> Value:
    value = _widened(args[0])
    digits = args[1]
    if not isinstance(digits.constant, int) or len(args) > 2:
        raise errors.unsupported("ROUND with a length that is no constant, or with truncation")
    places = digits.constant
    if value.type.name in types.DECIMALS | types.MONEYS and places < 0:
        raise errors.unsupported("ROUND of a decimal to the left of its point")
    return value.derived(_fitting(f"round({value.sql}, {places})", value.type))


def _sign(args: Arguments) -> Value:
    value = _widened(args[0])
    return value.derived(f"CAST(sign({value.sql}) AS {types.physical(value.type)})")


def _float_function(function: str, domain: str = "") -> Callable[[Arguments], Value]:
    """A function of a float, which has a value where `domain` holds (DuckDB's would raise)."""

    def bound(args: Arguments) -> Value:
        value = convert(args[0], types.FLOAT)
        return value.derived(once(value.sql, lambda x: _finite(f"{function}({x})", x, domain)))

    return bound


def _finite(sql: str, argument: str = "", domain: str = "") -> str:
    """A float's function: where it has no value, Msg 3623."""
    failure = raising(3623, "An invalid floating point operation occurred.")
    outside = f"WHEN NOT ({argument} {domain}) THEN {failure} " if domain else ""
    return f"CASE {outside}WHEN NOT isfinite({sql}) THEN {failure} ELSE {sql} END"


def _power(args: Arguments) -> Value:
    value, exponent = _widened(args[0]), convert(args[1], types.FLOAT)
    kind = _of_38_digits(value.type)
    base = f"CAST({value.sql} AS DOUBLE)"
    raised = once(f"pow({base}, {exponent.sql})", _finite)
    if kind.name in types.FLOATS:
        return Value(raised, kind)
    return Value(once(raised, lambda power: _exact(power, kind)), kind)


def _exact(power: str, kind: SqlType) -> str:
    """A power, which is computed as a double, in a type that shows every digit."""
    scale = 4 if kind.name in types.MONEYS else kind.scale or 0
    failure = raising(40515, f"POWER with more than 15 digits as {kind.name} is not supported.")
    # Towards zero where there is no fraction, as whole numbers are divided.
    fitted = _fitting(f"trunc({power})" if kind.name in types.INTEGERS else power, kind)
    first, last = f"1e{15 - scale}", float(_LARGEST.get(kind.name, 10 ** (38 - scale)))
    return f"CASE WHEN abs({power}) BETWEEN {first} AND {last!r} THEN {failure} ELSE {fitted} END"


# name: (function, fewest arguments, most arguments)
MATHEMATICS: dict[str, tuple[Callable[[Arguments], Value], int, int]] = {
    "ABS": (_abs, 1, 1),
    "SIGN": (_sign, 1, 1),
    "FLOOR": (_floor_ceiling("floor"), 1, 1),
    "CEILING": (_floor_ceiling("ceil"), 1, 1),
    "ROUND": (_round, 2, 3),
    "SQRT": (_float_function("sqrt", ">= 0"), 1, 1),
    "EXP": (_float_function("exp"), 1, 1),
    "LOG": (_float_function("ln", "> 0"), 1, 1),
    "LOG10": (_float_function("log10", "> 0"), 1, 1),
    "POWER": (_power, 2, 2),
}
