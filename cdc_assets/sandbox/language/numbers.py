"""Conversions to numbers."""

from __future__ import annotations

from cdc_assets.sandbox.language import errors, types
from cdc_assets.sandbox.language.values import TICKS_PER_DAY, raising, raising_with, try_cast
from cdc_assets.sandbox.results import SqlType

_NUMERIC = r"^\s*[+-]?(\d+\.?\d*|\.\d+)\s*$"
_WHOLE = r"^\s*[+-]?\s*\d*\s*$"
_DAY_1900 = 693595


def to_number(sql: str, source: SqlType, target: SqlType) -> str:
    """DuckDB text of a value as a number."""
    kind = types.physical(target)
    if source.name in types.STRINGS:
        return _text_to_number(sql, source, target)
    if target.name == "bit":
        if source.name in types.NUMBERS:
            return f"({sql} <> 0)" if source.name != "bit" else sql
        raise errors.explicit_conversion(source.name, target.name)
    if source.name in ("datetime", "smalldatetime") and target.name in types.FLOATS:
        return f"CAST(({sql} - {_DAY_1900 * TICKS_PER_DAY}) / {TICKS_PER_DAY}.0 AS {kind})"
    if source.name in types.BINARIES and target.name in types.INTEGERS:
        return _binary_to_integer(sql, target)
    if source.name not in types.NUMBERS:
        raise errors.explicit_conversion(source.name, target.name)
    if target.name in types.INTEGERS and source.name in types.DECIMALS | types.FLOATS:
        return _checked_cast(f"trunc({sql})", source, target)
    if source.name == "bit" and target.name in types.DECIMALS | types.MONEYS:
        return f"CAST(CAST({sql} AS INTEGER) AS {kind})"
    return _checked_cast(sql, source, target)


def _checked_cast(sql: str, source: SqlType, target: SqlType) -> str:
    kind = types.physical(target)
    if not _may_overflow(source, target):
        return f"CAST({sql} AS {kind})"
    if source.name in types.FLOATS and target.name in types.INTEGERS:
        shown = f"format('{{:.6f}}', CAST({sql} AS DOUBLE))"
        before = f"Arithmetic overflow error for type {target.name}, value = "
        failure = raising_with(232, before, shown, ".")
    elif target.name in ("tinyint", "smallint") and source.name in types.INTEGERS:
        failure = raising_with(
            220, f"Arithmetic overflow error for data type {target.name}, value = ", sql, "."
        )
    else:
        failure = raising(
            8115,
            f"Arithmetic overflow error converting {_error_name(source)} to data type "
            f"{_error_name(target)}.",
        )
    return try_cast(sql, kind, failure)


def _error_name(kind: SqlType) -> str:
    return "numeric" if kind.name in types.DECIMALS else kind.name


def _may_overflow(source: SqlType, target: SqlType) -> bool:
    if target.name in types.FLOATS:
        return source.name == "float" and target.name == "real"
    if source.name in types.FLOATS:
        return True
    if source.name in types.INTEGERS and target.name in types.INTEGERS:
        order = ("bit", "tinyint", "smallint", "int", "bigint")
        return order.index(source.name) > order.index(target.name)
    before, after = types.as_decimal(source), types.as_decimal(target)
    if target.name in types.INTEGERS:
        return True
    whole = (before.precision or 0) - (before.scale or 0)
    room = (after.precision or 0) - (after.scale or 0)
    # Rounding may carry into one more digit.
    return whole + ((before.scale or 0) > (after.scale or 0)) > room


def _text_to_number(sql: str, source: SqlType, target: SqlType) -> str:
    kind = types.physical(target)
    name = target.name
    if name in types.INTEGERS - {"bit"}:
        failure = raising_with(
            245,
            f"Conversion failed when converting the {source.name} value '",
            sql,
            f"' to data type {name}.",
        )
        overflow = _text_overflow(sql, source, target)
        if name == "bigint":
            failure = raising(8114, f"Error converting data type {source.name} to bigint.")
        cleaned = f"replace(trim({sql}), ' ', '')"
        return (
            f"CASE WHEN {sql} IS NULL THEN NULL WHEN trim({sql}) = '' THEN CAST(0 AS {kind}) "
            f"WHEN NOT regexp_matches({sql}, '{_WHOLE}') THEN {failure} "
            f"ELSE coalesce(TRY_CAST({cleaned} AS {kind}), {overflow}) END"
        )
    if name == "bit":
        failure = raising_with(
            245,
            f"Conversion failed when converting the {source.name} value '",
            sql,
            "' to data type bit.",
        )
        return (
            f"CASE WHEN {sql} IS NULL THEN NULL WHEN lower(trim({sql})) = 'true' THEN TRUE "
            f"WHEN lower(trim({sql})) = 'false' OR trim({sql}) = '' THEN FALSE "
            f"ELSE coalesce(TRY_CAST(trim({sql}) AS BIGINT) <> 0, {failure}) END"
        )
    failure = raising(8114, f"Error converting data type {source.name} to {_error_name(target)}.")
    if name in types.MONEYS:
        failure = raising(
            235, "Cannot convert a char value to money. The char value has incorrect syntax."
        )
    if name in types.FLOATS:
        test = (
            f"NOT regexp_matches({sql}, '^\\s*[+-]?(\\d+\\.?\\d*|\\.\\d+)([eEdD][+-]?\\d+)?\\s*$')"
        )
    else:
        test = f"NOT regexp_matches({sql}, '{_NUMERIC}')"
    overflow = raising(
        8115,
        f"Arithmetic overflow error converting {source.name} to data type {_error_name(target)}.",
    )
    return (
        f"CASE WHEN {sql} IS NULL THEN NULL WHEN {test} THEN {failure} "
        f"ELSE coalesce(TRY_CAST(trim({sql}) AS {kind}), {overflow}) END"
    )


def _text_overflow(sql: str, source: SqlType, target: SqlType) -> str:
    if target.name == "bigint":
        return raising(8115, "Arithmetic overflow error converting expression to data type bigint.")
    number, column, advice = {
        "tinyint": (244, "INT1", " Use a larger integer column."),
        "smallint": (244, "INT2", " Use a larger integer column."),
        "int": (248, "int", ""),
    }[target.name]
    return raising_with(
        number,
        f"The conversion of the {source.name} value '",
        sql,
        f"' overflowed an {column} column.{advice}",
    )


def _binary_to_integer(sql: str, target: SqlType) -> str:
    digits = {"tinyint": 2, "smallint": 4, "int": 8, "bigint": 16}.get(target.name)
    if digits is None:
        raise errors.explicit_conversion("varbinary", target.name)
    bits = digits * 4
    whole = f"CAST('0x' || right('{'0' * digits}' || hex({sql}), {digits}) AS HUGEINT)"
    kind = types.physical(target)
    if target.name == "tinyint":
        return f"CAST({whole} AS {kind})"
    limit, wrap = 1 << (bits - 1), 1 << bits
    return f"CAST(CASE WHEN {whole} >= {limit} THEN {whole} - {wrap} ELSE {whole} END AS {kind})"
