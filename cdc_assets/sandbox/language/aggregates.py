"""Aggregates and window functions."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.sandbox.language import collation, errors, types
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.values import Value, raising, try_cast
from cdc_assets.sandbox.results import MAX_LENGTH, SqlError, SqlType

AGGREGATES = frozenset(
    {
        "COUNT",
        "COUNT_BIG",
        "SUM",
        "AVG",
        "MIN",
        "MAX",
        "STRING_AGG",
        "STDEV",
        "VAR",
        "STDEVP",
        "VARP",
    }
)
RANKING = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE"})
OFFSETS = frozenset({"LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE"})


def aggregate(name: str, arguments: Sequence[Value], *, distinct: bool, star: bool) -> Value:
    """An aggregate call as DuckDB text with the character 3 where OVER belongs."""
    if name in ("COUNT", "COUNT_BIG"):
        return _count(name, arguments, distinct=distinct, star=star)
    if star or not arguments:
        raise errors.argument_count(name.lower(), "1")
    operand = arguments[0]
    if name in ("MIN", "MAX"):
        return _extreme(name, operand)
    if operand.type.name not in types.NUMBERS - {"bit"}:
        raise SqlError(
            8117, f"Operand data type {operand.type.name} is invalid for {name.lower()} operator."
        )
    mark = "DISTINCT " if distinct else ""
    if name in ("SUM", "AVG"):
        return _sum(operand, mark) if name == "SUM" else _average(operand, mark)
    function = {
        "STDEV": "stddev_samp",
        "VAR": "var_samp",
        "STDEVP": "stddev_pop",
        "VARP": "var_pop",
    }[name]
    return Value(f"{function}({mark}CAST({operand.sql} AS DOUBLE))\x03", types.FLOAT)


def _count(name: str, arguments: Sequence[Value], *, distinct: bool, star: bool) -> Value:
    kind = types.BIGINT if name == "COUNT_BIG" else types.INT
    if star:
        inner = "*"
    elif len(arguments) != 1:
        raise errors.argument_count(name.lower(), "1")
    else:
        key = collation.equality_key(arguments[0].sql, arguments[0].type)
        inner = f"DISTINCT {key}" if distinct else arguments[0].sql
    return Value(f"CAST(count({inner})\x03 AS {types.physical(kind)})", kind, False)


def _extreme(name: str, operand: Value) -> Value:
    collation.check_comparable(operand.type)
    if operand.type.name == "bit":
        raise SqlError(8117, f"Operand data type bit is invalid for {name.lower()} operator.")
    key = collation.order_key(operand.sql, operand.type)
    if key == operand.sql:
        return Value(f"{name.lower()}({operand.sql})\x03", operand.type)
    return Value(f"arg_{name.lower()}({operand.sql}, {key})\x03", operand.type)


def sum_type(kind: SqlType) -> SqlType:
    """The type of SUM."""
    if kind.name in ("tinyint", "smallint"):
        return types.INT
    if kind.name in types.DECIMALS:
        return types.decimal(38, kind.scale or 0, kind.name)
    if kind.name == "smallmoney":
        return types.MONEY
    return types.FLOAT if kind.name == "real" else kind


def _sum(operand: Value, mark: str) -> Value:
    kind = sum_type(operand.type)
    name = types.physical(kind)
    if kind.name in types.FLOATS:
        return Value(f"sum({mark}CAST({operand.sql} AS DOUBLE))\x03", kind)
    failure = raising(
        8115, f"Arithmetic overflow error converting expression to data type {kind.name}."
    )
    text = f"sum({mark}{operand.sql})\x03"
    return Value(try_cast(text, name, failure), kind)


def _average(operand: Value, mark: str) -> Value:
    if operand.type.name in types.FLOATS:
        return Value(f"avg({mark}CAST({operand.sql} AS DOUBLE))\x03", types.FLOAT)
    count = f"count({mark}{operand.sql})\x03"
    if operand.type.name in types.INTEGERS:
        kind = sum_type(operand.type)
        total = f"sum({mark}CAST({operand.sql} AS HUGEINT))\x03"
        return Value(f"CAST({total} // nullif({count}, 0) AS {types.physical(kind)})", kind)
    scale = operand.type.scale or (4 if operand.type.name in types.MONEYS else 0)
    kind = (
        types.MONEY
        if operand.type.name in types.MONEYS
        else types.decimal(38, max(6, scale), "numeric")
    )
    out = 4 if kind == types.MONEY else max(6, scale)
    # Whole units of the result's scale, divided as integers: decimals divide inexactly in DuckDB.
    wide = convert(operand, types.decimal(38, scale)).sql
    quotient = f"(unscaled(sum({mark}{wide})\x03) * {10 ** (out - scale)} // nullif({count}, 0))"
    return Value(f"CAST(pointed({quotient}, {out}) AS {types.physical(kind)})", kind)


def string_agg(arguments: Sequence[Value], order: Sequence[str], *, distinct: bool) -> Value:
    """STRING_AGG with the ORDER BY of its WITHIN GROUP."""
    if distinct:
        raise errors.unsupported("STRING_AGG of DISTINCT values")
    if len(arguments) != 2:
        raise errors.argument_count("string_agg", "2")
    operand = arguments[0]
    kind = (
        types.nvarchar(MAX_LENGTH)
        if operand.type.name not in types.NARROW
        else types.varchar(MAX_LENGTH)
    )
    if operand.type.name in types.STRINGS and operand.type.length != MAX_LENGTH:
        kind = types.nvarchar(4000) if operand.type.name in types.NATIONAL else types.varchar(8000)
    text = convert(operand, kind).sql
    ordered = f" ORDER BY {', '.join(order)}" if order else ""
    return Value(f"string_agg({text}, {arguments[1].sql}{ordered})\x03", kind)


def window_function(name: str, arguments: Sequence[Value]) -> Value:
    """A ranking or offset function as DuckDB text with the character 3 where OVER belongs."""
    if name in RANKING:
        if name == "NTILE":
            if len(arguments) != 1:
                raise errors.argument_count("ntile", "1")
            buckets = convert(arguments[0], types.BIGINT).sql
            return Value(f"ntile({buckets})\x03", types.BIGINT)
        return Value(f"{name.lower()}()\x03", types.BIGINT, False)
    if not arguments:
        raise errors.argument_count(name.lower(), "1")
    operand = arguments[0]
    rest = [operand.sql]
    if len(arguments) > 1:
        rest.append(convert(arguments[1], types.INT).sql)
    if len(arguments) > 2:
        rest.append(convert(arguments[2], operand.type).sql)
    return Value(f"{name.lower()}({', '.join(rest)})\x03", operand.type)
