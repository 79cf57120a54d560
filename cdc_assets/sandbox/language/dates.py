"""Date functions: DATEPART, DATEADD, DATEDIFF and their kin."""

from __future__ import annotations

import calendar

from cdc_assets.sandbox.language import errors, nodes, types
from cdc_assets.sandbox.language.convert import MAX_OFFSET, RANGES, convert
from cdc_assets.sandbox.language.values import (
    MAX_TICKS,
    TICKS_PER_DAY,
    Value,
    once,
    raising,
    try_cast,
)
from cdc_assets.sandbox.results import SqlError, SqlType

NAMES = frozenset(
    {
        "DATEPART",
        "DATENAME",
        "DATEADD",
        "DATEDIFF",
        "DATEDIFF_BIG",
        "YEAR",
        "MONTH",
        "DAY",
        "EOMONTH",
        "SWITCHOFFSET",
        "TODATETIMEOFFSET",
        "DATEFROMPARTS",
    }
)

ARGUMENTS = {
    "DATEPART": (2, 2),
    "DATENAME": (2, 2),
    "DATEADD": (3, 3),
    "DATEDIFF": (3, 3),
    "DATEDIFF_BIG": (3, 3),
    "EOMONTH": (1, 2),
    "SWITCHOFFSET": (2, 2),
    "TODATETIMEOFFSET": (2, 2),
    "DATEFROMPARTS": (3, 3),
}
"""How many arguments a function takes, where it is not one."""

_WEEKDAYS = ("Sunday", *calendar.day_name[:6])
_PARTS = {
    "YEAR": "year",
    "YY": "year",
    "YYYY": "year",
    "QUARTER": "quarter",
    "QQ": "quarter",
    "Q": "quarter",
    "MONTH": "month",
    "MM": "month",
    "M": "month",
    "DAYOFYEAR": "dayofyear",
    "DY": "dayofyear",
    "Y": "dayofyear",
    "DAY": "day",
    "DD": "day",
    "D": "day",
    "WEEK": "week",
    "WK": "week",
    "WW": "week",
    "ISO_WEEK": "iso_week",
    "ISOWK": "iso_week",
    "ISOWW": "iso_week",
    "WEEKDAY": "weekday",
    "DW": "weekday",
    "HOUR": "hour",
    "HH": "hour",
    "MINUTE": "minute",
    "MI": "minute",
    "N": "minute",
    "SECOND": "second",
    "SS": "second",
    "S": "second",
    "MILLISECOND": "millisecond",
    "MS": "millisecond",
    "MICROSECOND": "microsecond",
    "MCS": "microsecond",
    "NANOSECOND": "nanosecond",
    "NS": "nanosecond",
    "TZOFFSET": "tzoffset",
    "TZ": "tzoffset",
}
# Ticks (100 ns) of the parts that have a fixed length.
_LENGTHS = {
    "week": 7 * TICKS_PER_DAY,
    "day": TICKS_PER_DAY,
    "dayofyear": TICKS_PER_DAY,
    "weekday": TICKS_PER_DAY,
    "hour": 36_000_000_000,
    "minute": 600_000_000,
    "second": 10_000_000,
    "millisecond": 10_000,
    "microsecond": 10,
}


def part_of(node: nodes.Node, function: str) -> str:
    """The date part that a first argument names; raises Msg 155."""
    name = node.parts[-1] if isinstance(node, nodes.Column) else "?"
    found = _PARTS.get(name.upper())
    if found is None:
        raise SqlError(155, f"'{name}' is not a recognized {function.lower()} option.", 15)
    return found


def date_function(name: str, part: str, arguments: list[Value]) -> Value:
    """A date function; `part` is empty for those without one."""
    if name in ("YEAR", "MONTH", "DAY"):
        return _part(name.lower(), arguments[0])
    if name == "DATEPART":
        return _part(part, arguments[0])
    if name == "DATEADD":
        return _add(part, arguments[0], arguments[1])
    if name in ("DATEDIFF", "DATEDIFF_BIG"):
        return _difference(part, arguments[0], arguments[1], big=name.endswith("BIG"))
    if name in ("SWITCHOFFSET", "TODATETIMEOFFSET"):
        return _offset(name, arguments[0], arguments[1])
    if name == "EOMONTH":
        day = convert(_timed(arguments[0]), types.DATE)
        if len(arguments) > 1:
            day = _add("month", arguments[1], day)
        return day.derived(f"last_day({day.sql})")
    if name == "DATEFROMPARTS":
        return _from_parts(arguments)
    if name == "DATENAME":
        return _name(part, arguments[0])
    raise errors.unsupported(name)


def _from_parts(arguments: list[Value]) -> Value:
    numbers = [convert(argument, types.INT).sql for argument in arguments]
    known = " AND ".join(f"{number} IS NOT NULL" for number in numbers)
    made = f"TRY_CAST(format('{{:04d}}-{{:02d}}-{{:02d}}', {', '.join(numbers)}) AS DATE)"
    failure = raising(
        289,
        "Cannot construct data type date, some of the arguments have values which are not valid.",
    )
    checked = f"CASE WHEN {numbers[0]} BETWEEN 1 AND 9999 THEN {made} END"
    return Value(f"CASE WHEN {known} THEN coalesce({checked}, {failure}) END", types.DATE)


def _name(part: str, argument: Value) -> Value:
    """DATENAME: months and weekdays by their English names, everything else as a number."""
    kind = types.nvarchar(30)
    if part == "tzoffset":
        value = _timed(argument)
        offset = f"({value.sql}).offset_minutes" if value.type.name == "datetimeoffset" else "0"
        return value.derived(f"offset_text({offset})", kind)
    number = _part(part, argument)
    names = {"month": calendar.month_name[1:], "weekday": _WEEKDAYS}.get(part)
    if names is None:
        return number.derived(f"CAST({number.sql} AS VARCHAR)", kind)
    listed = ", ".join(f"'{name}'" for name in names)
    return number.derived(f"([{listed}])[{number.sql}]", kind)


def _timed(value: Value) -> Value:
    """The argument as a date and time type; text counts as datetime2."""
    if value.type.name in types.TIMES:
        return value
    if value.untyped_null:
        return convert(value, types.datetime2(7))
    return convert(
        value, types.datetime2(7) if value.type.name in types.STRINGS else types.DATETIME
    )


def local_ticks(value: Value) -> str:
    """Its local time as ticks since 0001-01-01."""
    if value.type.name == "date":
        return f"date_ticks({value.sql})"
    if value.type.name == "datetimeoffset":
        return once(
            value.sql, lambda at: f"(({at}).ticks + ({at}).offset_minutes::BIGINT * 600000000)"
        )
    return value.sql


_CLOCK_PARTS = frozenset(
    {"hour", "minute", "second", "millisecond", "microsecond", "nanosecond", "tzoffset"}
)


def _check_part(part: str, function: str, kind: SqlType) -> None:
    """Raise Msg 9810 for a part that values of the type do not have."""
    missing = kind.name == "date" and part in _CLOCK_PARTS
    missing |= kind.name == "time" and part not in _CLOCK_PARTS
    if missing or (function == "dateadd" and part in ("tzoffset", "iso_week")):
        raise SqlError(
            9810,
            f"The datepart {part} is not supported by date function {function} for data type "
            f"{kind.name}.",
        )


def _part(part: str, argument: Value) -> Value:
    value = _timed(argument)
    _check_part(part, "datepart", value.type)
    if part == "tzoffset":
        if value.type.name != "datetimeoffset":
            return Value("CAST(0 AS INTEGER)", types.INT, False)
        return value.derived(f"CAST(({value.sql}).offset_minutes AS INTEGER)", types.INT)
    ticks = local_ticks(value)
    day = f"(ticks_date({ticks}))"
    clock = f"({ticks} % {TICKS_PER_DAY})"
    fraction = f"({ticks} % 10000000)"
    sql = {
        "year": f"year({day})",
        "quarter": f"quarter({day})",
        "month": f"month({day})",
        "day": f"day({day})",
        "dayofyear": f"dayofyear({day})",
        # Weeks begin on Sunday and the year's first days are its first week (DATEFIRST is 7).
        "week": f"(dayofyear({day}) + dayofweek(date_trunc('year', {day})) - 1) // 7 + 1",
        "iso_week": f"week({day})",
        "weekday": f"dayofweek({day}) + 1",
        "hour": f"{clock} // 36000000000",
        "minute": f"({clock} // 600000000) % 60",
        "second": f"({clock} // 10000000) % 60",
        "millisecond": f"{fraction} // 10000",
        "microsecond": f"{fraction} // 10",
        "nanosecond": f"{fraction} * 100",
    }.get(part)
    if sql is None:
        raise errors.unsupported(f"DATEPART {part}")
    return value.derived(f"CAST({sql} AS INTEGER)", types.INT)


def _add(part: str, amount: Value, argument: Value) -> Value:
    value = _timed(argument)
    if argument.type.name in types.STRINGS:
        value = convert(argument, types.DATETIME)
    _check_part(part, "dateadd", value.type)
    count = convert(amount, types.INT).sql
    if value.type.name in ("time", "datetimeoffset"):
        raise errors.unsupported(f"DATEADD of {value.type.name}")
    ticks = local_ticks(value)
    if part in ("year", "quarter", "month"):
        months = {"year": 12, "quarter": 3, "month": 1}[part]
        day = (
            f"CAST((ticks_date({ticks})) + to_months(CAST({count} * {months} AS INTEGER)) AS DATE)"
        )
        moved = f"(date_ticks({day}) + {ticks} % {TICKS_PER_DAY})"
    elif part in _LENGTHS:
        moved = f"({ticks} + CAST({count} AS BIGINT) * {_LENGTHS[part]})"
    elif part == "nanosecond":
        moved = f"({ticks} + {count} // 100)"
    else:
        raise errors.unsupported(f"DATEADD {part}")
    failure = raising(517, f"Adding a value to a '{value.type.name}' column caused an overflow.")
    low, high = RANGES.get(value.type.name, (0, MAX_TICKS + 1))
    checked = once(
        moved, lambda at: f"CASE WHEN {at} < {low} OR {at} >= {high} THEN {failure} ELSE {at} END"
    )
    if value.type.name == "date":
        return value.derived(f"CAST(ticks_date({checked}) AS DATE)")
    if value.type.name == "datetime":
        checked = once(checked, lambda at: f"round_datetime({at})")
    return value.derived(f"({checked})")


def _difference(part: str, start: Value, end: Value, *, big: bool) -> Value:
    a, b = local_ticks(_timed(start)), local_ticks(_timed(end))
    kind = types.BIGINT if big else types.INT
    if part in ("year", "quarter", "month"):
        one, two = f"(ticks_date({a}))", f"(ticks_date({b}))"
        months = f"(year({two}) - year({one})) * 12 + month({two}) - month({one})"
        sql = {
            "year": f"year({two}) - year({one})",
            "quarter": f"(year({two}) - year({one})) * 4 + quarter({two}) - quarter({one})",
            "month": months,
        }[part]
    elif part in _LENGTHS and part != "week":
        # Boundaries crossed, not whole parts passed.
        length = _LENGTHS[part]
        sql = f"({b}) // {length} - ({a}) // {length}"
    elif part == "week":
        # Weeks begin on Sunday whatever DATEFIRST says; 0001-01-01 was a Monday.
        sql = f"(({b}) // {TICKS_PER_DAY} + 1) // 7 - (({a}) // {TICKS_PER_DAY} + 1) // 7"
    else:
        sql = f"(({b}) - ({a})) * 100"
    failure = raising(
        535,
        "The datediff function resulted in an overflow. The number of dateparts separating two "
        "date/time instances is too large.",
    )
    target = types.physical(kind)
    return Value(try_cast(f"({sql})", target, failure), kind)


def _offset(name: str, argument: Value, zone: Value) -> Value:
    if zone.type.name in types.STRINGS:
        text = f"rtrim({zone.sql}, ' ')"
        given = (
            f"CASE WHEN regexp_full_match({text}, '[+-]\\d\\d:[0-5]\\d') "
            f"THEN parts_offset(date_parts('2000-01-01 ' || {text})) ELSE {MAX_OFFSET + 1} END"
        )
    else:
        given = convert(zone, types.INT).sql
    invalid = raising(9812, f"The timezone provided to builtin function {name.lower()} is invalid.")
    minutes = (
        f"CASE WHEN {zone.sql} IS NULL THEN NULL WHEN abs({given}) > {MAX_OFFSET} THEN {invalid} "
        f"ELSE {given} END"
    )
    value = _timed(argument)
    scale = types.fractional_digits(value.type)
    target = SqlType("datetimeoffset", scale=scale)
    if name == "SWITCHOFFSET":
        utc = f"({convert(value, target).sql}).ticks"
    else:
        # A datetime counts 1/300 s, its datetimeoffset milliseconds.
        local = convert(value, types.datetime2(scale))
        utc = f"({local.sql} - CAST(({minutes}) AS BIGINT) * 600000000)"
    return value.derived(
        f"CASE WHEN {value.sql} IS NULL OR ({zone.sql}) IS NULL THEN NULL ELSE {{'ticks': "
        f"CAST({utc} AS BIGINT), 'offset_minutes': CAST({minutes} AS SMALLINT)}} END",
        target,
    )
