"""DuckDB macros that generated SQL calls; created anew whenever a store opens."""

from __future__ import annotations

from cdc_assets.sandbox.language import codepages, weights
from cdc_assets.sandbox.language.values import MAX_TICKS, TICKS_PER_DAY, raising

_EPOCH = 719_162 * TICKS_PER_DAY
_DAY = TICKS_PER_DAY // 10
_DATE = r"(\d{4})-?(\d{1,2})-?(\d{1,2})"
_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.:](\d{1,7})\d*)?)?"
_ZONE = r"(Z|[+-]\d{2}:\d{2})"

# A character beyond the first plane takes two UTF-16 units: with this one behind it, it does here
# too. It stands for no character, so no text has a use for it.
_SECOND_UNIT = "\uffff"
_PAIRS = "([\\x{10000}-\\x{10FFFF}])"
_HALF = raising(40515, "Half of a surrogate pair is not supported by the sandbox.")


def _in_units(call: str) -> str:
    """A function of `x` that counts characters, made to count units."""
    plain, wide = call.format("x"), call.format("wide(x)")
    return (
        "CASE WHEN strlen(x) = length(x) OR utf16_length(x) = length(x) THEN "
        f"{plain} ELSE narrowed({wide}) END"
    )


MACROS: dict[str, str] = {
    "guid_key(x)": "concat(x[25:36], x[20:23], x[17:18], x[15:16], x[12:13], x[10:11], "
    "x[7:8], x[5:6], x[3:4], x[1:2])",
    "utf16_length(x)": "CASE WHEN strlen(x) = length(x) THEN length(x) ELSE length(x) + "
    "length(regexp_replace(x, '[^\\x{10000}-\\x{10FFFF}]', '', 'g')) END",
    # Text as bytes: UTF-16 with the low byte first; `codepages` has the others.
    "byte_hex(n)": "lpad(to_hex(n), 2, '0')",
    "unit_hex(n)": "byte_hex(n % 256) || byte_hex(n // 256)",
    "wide_hex(x)": "CASE WHEN x = '' THEN '' ELSE array_to_string(list_transform("
    "string_split(x, ''), lambda c: CASE WHEN unicode(c) < 65536 THEN unit_hex(unicode(c)) ELSE "
    "unit_hex(55296 + (unicode(c) - 65536) // 1024) || "
    "unit_hex(56320 + (unicode(c) - 65536) % 1024) END), '') END",
    "cut(x, n)": "CASE WHEN x IS NULL THEN NULL "
    "WHEN strlen(x) = length(x) OR utf16_length(x) = length(x) THEN left(x, n) "
    "WHEN utf16_length(x) <= n THEN x ELSE "
    + raising(40515, "Cutting a string with surrogate pairs is not supported by the sandbox.")
    + " END",
    # National lengths count UTF-16 units: DuckDB's rpad counts code points.
    "pad(x, n)": "rpad(x, CAST(n - (utf16_length(x) - length(x)) AS INTEGER), ' ')",
    "wide(x)": f"CASE WHEN strlen(x) = length(x) THEN x WHEN contains(x, '{_SECOND_UNIT}') THEN "
    + raising(40515, "A string with U+FFFF is not supported by the sandbox.")
    + f" ELSE regexp_replace(x, '{_PAIRS}', '\\1{_SECOND_UNIT}', 'g') END",
    "narrowed(y)": f"CASE WHEN y IS NULL THEN NULL WHEN starts_with(y, '{_SECOND_UNIT}') "
    f"OR regexp_matches(y, '{_PAIRS}$') THEN {_HALF} ELSE replace(y, '{_SECOND_UNIT}', '') END",
    "left_units(x, n)": _in_units("left({}, n)"),
    "right_units(x, n)": _in_units("right({}, n)"),
    "substr_units(x, b, n)": _in_units("substr({}, b, n)"),
    "reverse_units(x)": f"CASE WHEN utf16_length(x) > length(x) THEN {_HALF} ELSE reverse(x) END",
    "nchar_of(n)": f"CASE WHEN n BETWEEN 55296 AND 57343 THEN {_HALF} ELSE chr(n) END",
    "unscaled(x)": "CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT)",
    "digits_of(q, n)": "lpad(CAST(abs(q) AS VARCHAR), "
    "CAST(greatest(n + 1, length(CAST(abs(q) AS VARCHAR))) AS INTEGER), '0')",
    "pointed(q, n)": "CASE WHEN n = 0 THEN CAST(q AS VARCHAR) ELSE "
    "CASE WHEN q < 0 THEN '-' ELSE '' END "
    "|| left(digits_of(q, n), CAST(length(digits_of(q, n)) - n AS INTEGER)) || '.' "
    "|| right(digits_of(q, n), n) END",
    "days_of(d)": "CAST(d - DATE '0001-01-01' AS BIGINT)",
    "date_ticks(d)": f"days_of(d) * {TICKS_PER_DAY}",
    "ticks_date(t)": f"DATE '0001-01-01' + CAST(t // {TICKS_PER_DAY} AS INTEGER)",
    # The last value of the calendar (or the day) is cut, not rounded up out of its range.
    "round_ticks(t, unit)": f"CASE WHEN t > {MAX_TICKS} - unit THEN (t // unit) * unit "
    "ELSE ((t + unit // 2) // unit) * unit END",
    "round_clock(t, unit)": f"CASE WHEN t >= {TICKS_PER_DAY} - unit THEN (t // unit) * unit "
    "ELSE ((t + unit // 2) // unit) * unit END",
    # datetime counts 1/300 of a second.
    "round_datetime(t)": f"(t // {TICKS_PER_DAY}) * {TICKS_PER_DAY} + "
    f"((((t % {TICKS_PER_DAY}) * 3 + 50000) // 100000) * 100000 + 1) // 3",
    "round_minutes(t)": "((t + 300000000) // 600000000) * 600000000",
    "date_parts(x)": f"regexp_extract(trim(x), '^{_DATE}(?:[T ]+{_CLOCK})? ?{_ZONE}?$', "
    "['y','mo','d','h','mi','s','f','z'])",
    "clock_parts(x)": f"regexp_extract(trim(x), '^(?:{_DATE}[T ]+)?{_CLOCK} ?{_ZONE}?$', "
    "['y','mo','d','h','mi','s','f','z'])",
    "number_or_zero(x)": "CASE WHEN x = '' THEN 0 ELSE CAST(x AS BIGINT) END",
    "parts_clock(p)": "CASE WHEN number_or_zero(p.h) > 23 OR number_or_zero(p.mi) > 59 "
    "OR number_or_zero(p.s) > 59 THEN NULL ELSE "
    "(number_or_zero(p.h) * 3600 + number_or_zero(p.mi) * 60 + number_or_zero(p.s)) * 10000000 "
    "+ number_or_zero(CASE WHEN p.f = '' THEN '' ELSE rpad(p.f, 7, '0') END) END",
    "parts_date(p)": "TRY(make_date(CAST(p.y AS BIGINT), CAST(p.mo AS BIGINT), "
    "CAST(p.d AS BIGINT)))",
    "parts_ticks(p)": "CASE WHEN p.y = '' THEN NULL ELSE date_ticks(parts_date(p)) "
    "+ parts_clock(p) END",
    "parts_offset(p)": "CASE WHEN p.z IN ('', 'Z') THEN 0 ELSE "
    "(CASE WHEN p.z[1] = '-' THEN -1 ELSE 1 END) * (CAST(p.z[2:3] AS INTEGER) * 60 "
    "+ CAST(p.z[5:6] AS INTEGER)) END",
    # A lambda's parameter is computed once, where a macro's is written out at each use.
    "text_ticks(x)": "CASE WHEN trim(x) = '' THEN 599266080000000000 "
    "ELSE list_transform([date_parts(x)], lambda parts: parts_ticks(parts))[1] END",
    "text_clock(x)": "CASE WHEN trim(x) = '' THEN 0 WHEN clock_parts(x).h <> '' "
    "THEN parts_clock(clock_parts(x)) WHEN date_parts(x).y <> '' THEN 0 END",
    "clock_text(t, digits)": "format('{:02d}:{:02d}:{:02d}', t // 36000000000, "
    "(t // 600000000) % 60, (t // 10000000) % 60) || CASE WHEN digits = 0 THEN '' "
    "ELSE '.' || left(format('{:07d}', t % 10000000), digits) END",
    "ticks_text(t, digits, gap)": "CAST(ticks_date(t) AS VARCHAR) || gap || "
    f"clock_text(t % {TICKS_PER_DAY}, digits)",
    "offset_text(m)": "CASE WHEN m < 0 THEN '-' ELSE '+' END || "
    "format('{:02d}:{:02d}', abs(m) // 60, abs(m) % 60)",
    # AT TIME ZONE. A local time that comes twice is read the first time, with the offset before the
    # clock went back; DuckDB reads it the second time. Instants are microseconds since 1970.
    "local_in(u, zone)": "epoch_us(timezone(zone, make_timestamptz(u)))",
    "first_reading(l, later, zone)": "list_transform("
    f"[l - (local_in(later - {_DAY}, zone) - (later - {_DAY}))], lambda earlier: "
    "CASE WHEN earlier < later AND local_in(earlier, zone) = l THEN earlier ELSE later END)[1]",
    "utc_of(l, zone)": "list_transform([epoch_us(timezone(zone, make_timestamp(l)))], "
    "lambda later: first_reading(l, later, zone))[1]",
    "instant_in(u, rest, zone)": f"{{'ticks': CAST(u * 10 + {_EPOCH} + rest AS BIGINT), "
    "'offset_minutes': CAST((local_in(u, zone) - u) // 60000000 AS SMALLINT)}",
    "zoned(t, zone)": "list_transform([t], lambda here: CASE WHEN here IS NULL THEN NULL ELSE "
    f"list_transform([utc_of((here - {_EPOCH}) // 10, zone)], "
    "lambda utc: instant_in(utc, here % 10, zone))[1] END)[1]",
    "rezoned(o, zone)": "list_transform([o], lambda given: CASE WHEN given IS NULL THEN NULL ELSE "
    f"instant_in((given.ticks - {_EPOCH}) // 10, given.ticks % 10, zone) END)[1]",
    "lsn_plus(x, n)": "CASE WHEN octet_length(x) <> 10 THEN "
    + raising(
        313, "An insufficient number of arguments were supplied for the procedure or function cdc."
    )
    + " ELSE unhex(lpad(to_hex(CAST(CAST('0x' || hex(x) AS HUGEINT) + n AS HUGEINT)), 20, '0')) "
    "END",
}


def definitions() -> list[str]:
    """The statements that create them, in order."""
    every = {**MACROS, **codepages.macros(), **weights.macros()}
    return [f"CREATE OR REPLACE MACRO {head} AS ({body})" for head, body in every.items()]
