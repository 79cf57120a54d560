"""CAST and CONVERT: every supported pair of types as DuckDB text with T-SQL's result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cdc_assets.sandbox.language import codepages, errors, types
from cdc_assets.sandbox.language.binaries import to_binary, to_guid
from cdc_assets.sandbox.language.format import to_text
from cdc_assets.sandbox.language.numbers import to_number
from cdc_assets.sandbox.language.values import (
    TICKS_PER_DAY,
    Value,
    once,
    raising,
    raising_with,
    text,
)
from cdc_assets.sandbox.results import MAX_LENGTH, SqlError, SqlType

_DAY_1900 = 693595
# A string of n of the first is n or less of the second, in whatever code page the first is.
_NEVER_LONGER = frozenset(
    (source, target)
    for target in ("nchar", "nvarchar")
    for source in ("char", "varchar", "nchar", "nvarchar")
)
RANGES = {
    "datetime": (639905 * TICKS_PER_DAY, 3652059 * TICKS_PER_DAY),
    "smalldatetime": (_DAY_1900 * TICKS_PER_DAY, (_DAY_1900 + 65536) * TICKS_PER_DAY),
}
"""From 1753 on, and from 1900-01-01 to 2079-06-06: ticks of the first and after the last."""
MAX_OFFSET = 14 * 60
"""Minutes that a time zone may be away from UTC."""
_FROM_NUMBERS = {"datetime": (-53690, 2958463), "smalldatetime": (0, 65535)}
"""Days since 1900 of the first and the last day of the types that whole numbers convert to."""


def convert(value: Value, target: SqlType, style: int | None = None) -> Value:
    """The value as `CAST(value AS target)` gives it.

    Raises Msg 529 (or 206) where T-SQL has no such conversion; errors of single values are raised
    by the generated text while it runs.
    """
    if value.untyped_null:
        return Value(f"CAST(NULL AS {types.physical(target)})", target, True, value.constant, False)
    source = value.type
    if source == target and style is None:
        return value
    if target.name in types.STRINGS and target.collation is None:
        target = SqlType(target.name, target.length, collation=source.collation)
    if target.name in types.OPAQUE:
        raise errors.unsupported(f"A value of type {target.name} other than NULL")
    value = _in_page(value, target)
    sql = _convert(value.sql, value.type, target, style)
    return Value(sql, target, value.nullable)


def _in_page(value: Value, target: SqlType) -> Value:
    """A string constant in the target's code page already: a table of characters less per row."""
    known = value.constant
    if not isinstance(known, str) or not {value.type.name, target.name} <= types.STRINGS:
        return value
    if target.name not in types.NARROW:
        return value
    try:
        moved = codepages.literal(known, target)
    except SqlError:
        return value  # raised where a row reaches it
    length = codepages.literal_bytes(moved, target)
    kind = types.varchar(max(1, length) if length <= 8000 else MAX_LENGTH)
    return text(moved, replace(kind, collation=target.collation))


def assign(value: Value, target: SqlType, column: str) -> Value:
    """The value converted for storing in `column`: text too long is Msg 2628, not cut."""
    value = _in_page(value, target)
    source = value.type
    if value.untyped_null or target.length in (None, MAX_LENGTH) or source == target:
        return convert(value, target)
    if target.name in types.STRINGS:
        written = value if source.name in types.STRINGS else convert(value, _open_ended(target))
        if _certainly_fits(written, target):
            return convert(written, target)
        # First into the target's code page: that says how many bytes it is.
        stored = convert(written, _open_ended(target)).sql
        trimmed = f"rtrim({stored}, ' ')"
        fits = (
            f"strlen({trimmed}) <= {target.length} OR {_size(trimmed, target)} <= {target.length}"
        )
        failure = raising_with(
            2628,
            f"String or binary data would be truncated in table '{column.rpartition('.')[0]}', "
            f"column '{column.rpartition('.')[2]}'. Truncated value: '",
            f"{_shown_macro(target)}({stored}, {target.length})",
            "'.",
        )
        kept = convert(Value(written.sql, written.type, written.nullable), target).sql
        checked = (
            f"CASE WHEN {written.sql} IS NULL THEN NULL WHEN {fits} THEN {kept} ELSE {failure} END"
        )
        return Value(checked, target, value.nullable)
    if target.name in types.BINARIES and source.name in types.BINARIES | types.STRINGS:
        return _assign_binary(value, target, column)
    return convert(value, target)


def _assign_binary(value: Value, target: SqlType, column: str) -> Value:
    whole = convert(value, types.varbinary(MAX_LENGTH))
    failure = raising(
        2628,
        f"String or binary data would be truncated in table '{column.rpartition('.')[0]}', "
        f"column '{column.rpartition('.')[2]}'. Truncated value: ''.",
    )
    kept = convert(Value(whole.sql, whole.type, whole.nullable), target).sql
    return Value(
        f"CASE WHEN octet_length({whole.sql}) > {target.length} THEN {failure} ELSE {kept} END",
        target,
        value.nullable,
    )


def _open_ended(kind: SqlType) -> SqlType:
    name = "nvarchar" if kind.name in types.NATIONAL else "varchar"
    return SqlType(name, length=MAX_LENGTH, collation=kind.collation)


def _certainly_fits(value: Value, target: SqlType) -> bool:
    length = value.type.length
    if (value.type.name, target.name) not in _NEVER_LONGER and not (
        value.type.name in types.NARROW
        and target.name in types.NARROW
        and value.type.collation == target.collation
    ):
        return False
    return length is not None and length != MAX_LENGTH and length <= (target.length or 0)


def _convert(sql: str, source: SqlType, target: SqlType, style: int | None) -> str:
    return once(sql, lambda value: _converted(value, source, target, style))


def _converted(sql: str, source: SqlType, target: SqlType, style: int | None) -> str:
    name = target.name
    if name in types.STRINGS or name == "xml":
        return _fit_text(to_text(sql, source, target, style), source, target)
    if name in types.NUMBERS:
        return to_number(sql, source, target)
    if name in types.BINARIES:
        return to_binary(sql, source, target, style or 0)
    if name == "uniqueidentifier":
        return to_guid(sql, source)
    return _to_time(sql, source, target)


# --- text --------------------------------------------------------------------------------------


def _fit_text(sql: str, source: SqlType, target: SqlType) -> str:
    if target.name in types.NARROW:
        page = codepages.page_of(target)
        if source.name in types.NATIONAL | {"xml"} or (
            source.name in types.NARROW and codepages.page_of(source) != page
        ):
            sql = codepages.narrowed(sql, page)
    length = target.length
    if length in (None, MAX_LENGTH):
        return sql
    shorter = source.length not in (None, MAX_LENGTH) and (source.length or 0) <= (length or 0)
    fixed = target.name in ("char", "nchar")
    # Times are cut as text is: CONVERT(varchar(10), …, 120) is a day.
    if source.name in types.STRINGS | types.BINARIES | types.TIMES:
        never_longer = source.name in types.BINARIES | types.TIMES or (
            (source.name, target.name) in _NEVER_LONGER
        )
        if not (shorter and never_longer):
            sql = f"{_cut_macro(target)}({sql}, {length})"
    elif types.text_length(source) > (length or 0):
        sql = f"CASE WHEN length({sql}) > {length} THEN {_too_short(source, target)} ELSE {sql} END"
    if not fixed:
        return sql
    if target.name == "nchar":
        return f"pad({sql}, {length})"
    return f"{sql} || repeat(' ', {length} - {_size(sql, target)})"


def _size(sql: str, kind: SqlType) -> str:
    """DuckDB text of a string's length as its type counts it: code units, or bytes."""
    if kind.name in types.NATIONAL:
        return f"utf16_length({sql})"
    return codepages.size(sql, codepages.page_of(kind))


def _shown_macro(kind: SqlType) -> str:
    return "shown_units" if kind.name in types.NATIONAL else _cut_macro(kind)


def _cut_macro(kind: SqlType) -> str:
    return "cut" if kind.name in types.NATIONAL else f"cut_{codepages.page_of(kind)}"


def _too_short(source: SqlType, target: SqlType) -> str:
    """What a number gives that has no room as text: "Truncating and rounding results"."""
    if source.name in ("tinyint", "smallint", "int") and target.name in types.NARROW:
        return "'*'"
    if source.name in types.MONEYS:
        return raising(
            234,
            f"There is insufficient result space to convert a money value to {target.name}.",
        )
    if source.name == "uniqueidentifier":
        return raising(8170, "Insufficient result space to convert uniqueidentifier value to char.")
    what = "numeric" if source.name in types.DECIMALS else "expression"
    return raising(8115, f"Arithmetic overflow error converting {what} to data type {target.name}.")


# --- times -------------------------------------------------------------------------------------


def _to_time(sql: str, source: SqlType, target: SqlType) -> str:
    if source.name in types.STRINGS:
        return _text_to_time(sql, source, target)
    if source.name in types.INTEGERS and target.name in _FROM_NUMBERS:
        low, high = _FROM_NUMBERS[target.name]
        failure = raising(
            8115, f"Arithmetic overflow error converting expression to data type {target.name}."
        )
        days = f"CAST({sql} AS BIGINT)"
        moment = f"({days} + {_DAY_1900}) * {TICKS_PER_DAY}"
        return f"CASE WHEN {days} NOT BETWEEN {low} AND {high} THEN {failure} ELSE {moment} END"
    if source.name not in types.TIMES:
        raise errors.explicit_conversion(source.name, target.name)
    if target.name == "datetimeoffset":
        return _to_offset(sql, source, target)
    if source.name == "datetimeoffset":
        sql = once(sql, lambda at: f"(({at}).ticks + ({at}).offset_minutes::BIGINT * 600000000)")
    if target.name == "date":
        if source.name == "time":
            raise errors.explicit_conversion("time", "date")
        return sql if source.name == "date" else f"({_as_date(sql)})"
    if target.name == "time":
        if source.name == "date":
            return f"CASE WHEN {sql} IS NULL THEN NULL ELSE CAST(0 AS BIGINT) END"
        clock = sql if source.name == "time" else f"({sql} % {TICKS_PER_DAY})"
        return _rounded(clock, source, target)
    if source.name == "date":
        sql = f"(date_ticks({sql}))"
        return _in_range(sql, source, target)
    if source.name == "time":
        sql = f"({sql} + {_DAY_1900 * TICKS_PER_DAY})"
    return _in_range(_rounded(sql, source, target), source, target)


def _as_date(sql: str) -> str:
    return f"ticks_date({sql})"


def _rounded(sql: str, source: SqlType, target: SqlType) -> str:
    if target.name == "datetime":
        return f"(round_datetime({sql}))" if source.name not in ("datetime", "date") else sql
    if target.name == "smalldatetime":
        return f"(round_minutes({sql}))" if source.name != "smalldatetime" else sql
    scale = target.scale or 0
    kept = 7 if source.name == "datetime" else types.fractional_digits(source)
    if kept <= scale:
        return sql
    macro = "round_clock" if target.name == "time" else "round_ticks"
    return f"({macro}({sql}, {10 ** (7 - scale)}))"


def _in_range(sql: str, source: SqlType, target: SqlType) -> str:
    safe = ("smalldatetime", "datetime", "time") if target.name == "datetime" else (target.name,)
    if target.name not in RANGES or source.name in safe:
        return sql
    low, high = RANGES[target.name]
    failure = _out_of_range(source, target)
    return once(
        sql, lambda at: f"CASE WHEN {at} < {low} OR {at} >= {high} THEN {failure} ELSE {at} END"
    )


def _of_ticks(sql: str, use: Callable[[str], str]) -> str:
    """What `use` makes of the ticks of a text."""
    return once(f"text_ticks({sql})", use, costly=True)


def _text_to_time(sql: str, source: SqlType, target: SqlType) -> str:
    failure = raising(
        241, "Conversion failed when converting date and/or time from character string."
    )
    full = SqlType("datetime2", scale=7)
    if target.name == "time":
        parsed = _rounded(f"text_clock({sql})", SqlType("time", scale=7), target)
    elif target.name == "date":
        parsed = f"({_of_ticks(sql, _as_date)})"
    elif target.name == "datetimeoffset":
        offset = f"parts_offset(date_parts({sql}))"
        local = _of_ticks(sql, lambda ticks: _rounded(ticks, full, target))
        parsed = (
            f"{{'ticks': CAST({local} - CAST({offset} AS BIGINT) * 600000000 AS BIGINT), "
            f"'offset_minutes': CAST({offset} AS SMALLINT)}}"
        )
        return (
            f"CASE WHEN {sql} IS NULL THEN NULL WHEN text_ticks({sql}) IS NULL "
            f"OR abs({offset}) > {MAX_OFFSET} THEN {failure} ELSE {parsed} END"
        )
    else:
        # A zone in the text is taken into account: the value becomes the UTC time's own.
        local = _of_ticks(sql, lambda ticks: _rounded(ticks, full, target))
        parsed = _in_range(local, full, target)
    if target.name in ("datetime", "smalldatetime"):
        # A date that the calendar does not have is another error than what is no date.
        written = f"date_parts({sql}).y <> ''"
        failure = f"CASE WHEN {written} THEN {_out_of_range(source, target)} ELSE {failure} END"
    return f"CASE WHEN {sql} IS NULL THEN NULL ELSE coalesce({parsed}, {failure}) END"


def _out_of_range(source: SqlType, target: SqlType) -> str:
    return raising(
        242,
        f"The conversion of a {source.name} data type to a {target.name} data type resulted in an "
        "out-of-range value.",
    )


def _to_offset(sql: str, source: SqlType, target: SqlType) -> str:
    if source.name == "datetimeoffset":
        unit = 10 ** (7 - (target.scale or 0))
        if types.fractional_digits(source) <= (target.scale or 0):
            return sql
        return (
            f"CASE WHEN {sql} IS NULL THEN NULL ELSE "
            f"{{'ticks': round_ticks(({sql}).ticks, {unit}), "
            f"'offset_minutes': ({sql}).offset_minutes}} END"
        )
    local = _to_time(sql, source, SqlType("datetime2", scale=target.scale))
    return (
        f"CASE WHEN {sql} IS NULL THEN NULL ELSE "
        f"{{'ticks': CAST({local} AS BIGINT), 'offset_minutes': CAST(0 AS SMALLINT)}} END"
    )


def checked_style(style: object) -> int | None:
    """CONVERT's style as a number; raises Msg 8116 for anything else."""
    if style is None:
        return None
    if isinstance(style, bool) or not isinstance(style, int):
        raise SqlError(8116, "Argument data type is invalid for argument 3 of convert function.")
    return style
