"""Values as text: CONVERT's styles."""

from __future__ import annotations

from cdc_assets.sandbox.language import codepages, errors, types
from cdc_assets.sandbox.language.values import TICKS_PER_DAY
from cdc_assets.sandbox.results import SqlError, SqlType


def to_text(sql: str, source: SqlType, target: SqlType, style: int | None) -> str:
    """DuckDB text of the value as text, before it is fitted into the target's length."""
    name = source.name
    if name in types.STRINGS or name in ("uniqueidentifier", "xml"):
        return sql
    if name == "bit":
        return f"CAST(CAST({sql} AS INTEGER) AS VARCHAR)"
    if name in types.DECIMALS and source.precision == source.scale:
        # DuckDB leaves out the zero before the point where the type has no place for it.
        return f"regexp_replace(CAST({sql} AS VARCHAR), '^(-?)\\.', '\\10.')"
    if name in types.INTEGERS | types.DECIMALS:
        return f"CAST({sql} AS VARCHAR)"
    if name in types.MONEYS:
        return _money(sql, style or 0)
    if name in types.FLOATS:
        return _float(sql, style or 0)
    if name in types.BINARIES:
        return _binary(sql, target, style or 0)
    return _time(sql, source, style)


def _money(sql: str, style: int) -> str:
    if style == 0:
        return f"CAST(CAST({sql} AS DECIMAL(19,2)) AS VARCHAR)"
    if style == 2:
        return f"CAST({sql} AS VARCHAR)"
    raise errors.unsupported(f"CONVERT of money with style {style}")


def _float(sql: str, style: int) -> str:
    if style == 3:
        return (
            f"regexp_replace(format('{{:.16e}}', CAST({sql} AS DOUBLE)), "
            "'e([+-])(\\d\\d)$', 'e\\10\\2')"
        )
    if style == 0:
        return f"regexp_replace(format('{{:.6g}}', {sql}), 'e([+-])(\\d\\d)$', 'e\\10\\2')"
    raise errors.unsupported(f"CONVERT of float with style {style}")


def _binary(sql: str, target: SqlType, style: int) -> str:
    if style == 1:
        return f"'0x' || hex({sql})"
    if style == 2:
        return f"hex({sql})"
    if style == 0 and target.name in types.NARROW:
        return codepages.from_bytes(sql, codepages.page_of(target))
    raise errors.unsupported(f"CONVERT of binary to {target.name} with style {style}")


_DATES = {
    112: "replace({date}, '-', '')",
    12: "substr(replace({date}, '-', ''), 3)",
    102: "replace({date}, '-', '.')",
    111: "replace({date}, '-', '/')",
}
_CLOCKS = {8: 0, 24: 0, 108: 0, 14: 3, 114: 3}
"""Styles of a clock, and how many digits of a second they have."""
_CLOCKS_OF_TIME = {**_CLOCKS, 20: 0, 120: 0, 21: 7, 25: 7, 121: 7, 126: 7, 127: 7}
_OLD_MOMENTS = frozenset({"datetime", "smalldatetime"})


def _time(sql: str, source: SqlType, style: int | None) -> str:
    digits = types.fractional_digits(source)
    if source.name == "time":
        return _clock(sql, digits, style)
    if source.name == "datetimeoffset":
        return _offset(sql, digits, style)
    ticks = f"date_ticks({sql})" if source.name == "date" else f"({sql})"
    date = f"CAST(ticks_date({ticks}) AS VARCHAR)"
    if style is None:
        style = {"date": 23, "datetime": 0, "smalldatetime": 0}.get(source.name, 121)
    short = _DATES.get(style)
    if short is not None:
        return short.format(date=date)
    if style == 23 or (source.name == "date" and style in (20, 21, 25, 120, 121, 126)):
        return date
    if source.name == "datetime":
        # A datetime shows whole milliseconds: round what 1/300 s leaves behind them.
        ticks = f"(({ticks} + 5000) // 10000 * 10000)"
    if style in (20, 120):
        return f"ticks_text({ticks}, 0, ' ')"
    if style in (21, 25, 121):
        return f"ticks_text({ticks}, {digits}, ' ')"
    if style in (126, 127):
        return _iso(ticks, source, digits) + (" || 'Z'" if style == 127 else "")
    if style in (14, 114) and source.name in _OLD_MOMENTS:
        # The old types have a colon before their milliseconds.
        return f"replace(clock_text({ticks} % {TICKS_PER_DAY}, 3), '.', ':')"
    if style in _CLOCKS:
        return _clock(f"{ticks} % {TICKS_PER_DAY}", digits, style)
    if style in (0, 100):
        return _american(ticks)
    raise SqlError(
        281,
        f"{style} is not a valid style number when converting from {source.name} "
        "to a character string.",
    )


def _clock(clock: str, digits: int, style: int | None) -> str:
    """A time of the day; the page says milliseconds of 14 and 114, whatever the type's digits."""
    wanted = 7 if style is None else _CLOCKS_OF_TIME.get(style)
    if wanted is None or (style in (14, 114) and digits > wanted):
        raise errors.unsupported(f"CONVERT of a time of {digits} digits with style {style}")
    return f"clock_text({clock}, {min(wanted, digits)})"


def _iso(ticks: str, source: SqlType, digits: int) -> str:
    """Style 126: a datetime without milliseconds shows none, a datetime2 always all digits."""
    whole = f"ticks_text({ticks}, {digits}, 'T')"
    if source.name != "datetime":
        return whole
    return f"CASE WHEN {ticks} % 10000000 = 0 THEN ticks_text({ticks}, 0, 'T') ELSE {whole} END"


def _american(ticks: str) -> str:
    """Style 0: `Nov 30 2026 10:05AM`."""
    hour = f"(({ticks} % {TICKS_PER_DAY}) // 36000000000)"
    minute = f"(({ticks} % 36000000000) // 600000000)"
    day = f"(ticks_date({ticks}))"
    return (
        f"strftime({day}, '%b ') || lpad(CAST(day({day}) AS VARCHAR), 2, ' ') || ' ' || "
        f"CAST(year({day}) AS VARCHAR) || ' ' || "
        f"lpad(CAST(CASE WHEN {hour} % 12 = 0 THEN 12 ELSE {hour} % 12 END AS VARCHAR), 2, ' ') || "
        f"':' || format('{{:02d}}', {minute}) || CASE WHEN {hour} < 12 THEN 'AM' ELSE 'PM' END"
    )


def _offset(sql: str, digits: int, style: int | None) -> str:
    local = f"(({sql}).ticks + ({sql}).offset_minutes::BIGINT * 600000000)"
    zone = f"offset_text(({sql}).offset_minutes)"
    if style in (None, 0, 121, 21, 25):
        return f"ticks_text({local}, {digits}, ' ') || ' ' || {zone}"
    if style == 126:
        return f"ticks_text({local}, {digits}, 'T') || {zone}"
    if style == 127:
        return f"ticks_text(({sql}).ticks, {digits}, 'T') || 'Z'"
    if style in (20, 120):
        return f"ticks_text({local}, 0, ' ') || ' ' || {zone}"
    if style in (23, 112):
        date = f"CAST(ticks_date({local}) AS VARCHAR)"
        return date if style == 23 else f"replace({date}, '-', '')"
    raise errors.unsupported(f"CONVERT of datetimeoffset with style {style}")
