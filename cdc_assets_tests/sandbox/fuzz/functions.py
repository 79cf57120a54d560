"""Calls of scalar functions, each with its documented result type and value."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from random import Random
from typing import Any

from cdc_assets.sandbox.results import SqlType
from cdc_assets_tests.sandbox.fuzz import model
from cdc_assets_tests.sandbox.fuzz.model import (
    DATE,
    FLOAT,
    INT,
    Expr,
    FailedError,
    Row,
    UnsureError,
)

DAYS = [
    date(2024, 2, 29),
    date(2023, 12, 31),
    date(2024, 1, 1),
    date(1999, 3, 31),
    date(2024, 7, 15),
]
Maker = Callable[[], Expr]


def call(name: str, kind: SqlType, arguments: list[Expr], work: Callable[..., Any]) -> Expr:
    """A function that is NULL when any argument is."""

    def run(row: Row) -> Any:
        values = [argument.run(row) for argument in arguments]
        return None if any(value is None for value in values) else work(*values)

    fixed = kind.name not in model.TEXTS or all(a.fixed_type for a in arguments)
    return Expr(f"{name}({', '.join(a.sql for a in arguments)})", kind, run, fixed_type=fixed)


def number(value: int) -> Expr:
    return Expr(str(value), INT, lambda row: value, False)


def _varying(kind: SqlType, length: int | None = None) -> SqlType:
    name = "nvarchar" if kind.name[0] == "n" else "varchar"
    return model.text_type(name, length or kind.length or 0)


def joined(left: Expr, right: Expr) -> Expr:
    """String `+`; its length is the sum of both."""
    national = "n" in (left.type.name[0], right.type.name[0])
    name = "nvarchar" if national else "varchar"
    if left.type.name == right.type.name:
        name = left.type.name
    total = (left.type.length or 0) + (right.type.length or 0)
    if total > 4000:
        raise UnsureError

    def run(row: Row) -> str | None:
        a, b = left.run(row), right.run(row)
        return None if a is None or b is None else a + b

    fixed = left.fixed_type and right.fixed_type
    return Expr(f"({left.sql} + {right.sql})", model.text_type(name, total), run, fixed_type=fixed)


# --- text --------------------------------------------------------------------------------------


def text_call(random: Random, maker: Maker) -> Expr:
    """A function that gives text."""
    chosen = random.choice(
        [_letters, _letters, _cut, _cut, _substring, _replace, _stuff, _concat, _replicate]
    )
    return chosen(random, maker)


def _letters(random: Random, maker: Maker) -> Expr:
    value = maker()
    name = random.choice(["UPPER", "LOWER", "LTRIM", "RTRIM", "TRIM", "REVERSE"])
    works: dict[str, Callable[[str], str]] = {
        "UPPER": str.upper,
        "LOWER": str.lower,
        "LTRIM": lambda s: s.lstrip(" "),
        "RTRIM": lambda s: s.rstrip(" "),
        "TRIM": lambda s: s.strip(" "),
        "REVERSE": lambda s: s[::-1],
    }
    return call(name, _varying(value.type), [value], works[name])


def _cut(random: Random, maker: Maker) -> Expr:
    value, count = maker(), random.choice([0, 1, 2, 3, 9])
    name = random.choice(["LEFT", "RIGHT"])
    made = call(
        name,
        _varying(value.type),
        [value, number(count)],
        lambda s, n: s[:n] if name == "LEFT" else s[max(0, len(s) - n) :],
    )
    return replace(made, fixed_type=False)


def _substring(random: Random, maker: Maker) -> Expr:
    value = maker()
    start, length = random.choice([-1, 0, 1, 2, 3, 20]), random.choice([0, 1, 2, 5])

    def work(text: str, begin: int, size: int) -> str:
        end = begin + size
        return text[max(begin, 1) - 1 : max(end, 1) - 1]

    made = call("SUBSTRING", _varying(value.type), [value, number(start), number(length)], work)
    return replace(made, fixed_type=False)


def _word(random: Random) -> Expr:
    word = random.choice(["a", "B", "ab", "x", "é", "b "])
    return Expr(f"'{word}'", model.text_type("varchar", len(word)), lambda row: word, False)


def _replace(random: Random, maker: Maker) -> Expr:
    value, old, new = maker(), _word(random), _word(random)
    made = call(
        "REPLACE",
        _varying(value.type),
        [value, old, new],
        lambda s, o, n: re.sub(re.escape(o), lambda m: n, s, flags=re.IGNORECASE),
    )
    return replace(made, fixed_type=False)


def _stuff(random: Random, maker: Maker) -> Expr:
    value, new = maker(), _word(random)
    start, length = random.choice([0, 1, 2, 4]), random.choice([0, 1, 3])

    def run(row: Row) -> str | None:
        text = value.run(row)
        if text is None or start < 1 or start > len(text):
            return None
        inserted = new.run(row)
        return str(text[: start - 1] + inserted + text[start - 1 + length :])

    sql = f"STUFF({value.sql}, {start}, {length}, {new.sql})"
    return Expr(sql, _varying(value.type), run, fixed_type=False)


def _concat(random: Random, maker: Maker) -> Expr:
    items = [maker() for _ in range(random.choice([2, 3]))]
    national = any(item.type.name[0] == "n" for item in items)
    total = sum(item.type.length or 0 for item in items)
    if total > 4000:
        raise UnsureError

    def run(row: Row) -> str:
        return "".join(item.run(row) or "" for item in items)

    kind = model.text_type("nvarchar" if national else "varchar", total)
    fixed = all(item.fixed_type for item in items)
    return Expr(f"CONCAT({', '.join(i.sql for i in items)})", kind, run, fixed_type=fixed)


def _replicate(random: Random, maker: Maker) -> Expr:
    value, count = maker(), random.choice([-1, 0, 1, 2])

    def run(row: Row) -> str | None:
        text = value.run(row)
        return None if text is None or count < 0 else text * count

    return Expr(f"REPLICATE({value.sql}, {count})", _varying(value.type), run, fixed_type=False)


def text_measure(random: Random, maker: Maker) -> Expr:
    """A function of text that gives an int."""
    name = random.choice(["LEN", "DATALENGTH", "CHARINDEX", "ASCII"])
    value = maker()
    if name == "LEN":
        return call(name, INT, [value], lambda s: len(s.rstrip(" ")))
    if name == "DATALENGTH":
        width = 2 if value.type.name[0] == "n" else 1
        return call(name, INT, [value], lambda s: len(s) * width)
    if name == "ASCII":
        if value.type.name[0] == "n":
            return call("UNICODE", INT, [value], lambda s: ord(s[0]) if s else None)
        return call(name, INT, [value], lambda s: s.encode("cp1252")[0] if s else None)
    wanted, start = _word(random), random.choice([None, 0, 2])
    arguments = [wanted, value] + ([number(start)] if start is not None else [])

    def work(old: str, text: str, begin: int = 1) -> int:
        return text.lower().find(old.lower(), max(begin, 1) - 1) + 1

    return call(name, INT, arguments, work)


# --- numbers -----------------------------------------------------------------------------------


def math_call(random: Random, value: Expr) -> Expr:
    """ABS, SIGN, FLOOR, CEILING, ROUND of the types whose result type is documented plainly."""
    kind = value.type
    if kind.name not in ("int", "bigint", "decimal", "numeric", "float"):
        raise UnsureError
    name = random.choice(["ABS", "SIGN", "FLOOR", "CEILING", "ROUND"])
    if name == "ABS":
        wide = kind
        if kind.name in ("decimal", "numeric"):
            wide = model.decimal_type(38, kind.scale or 0, kind.name)
        return call(name, wide, [value], lambda v: _absolute(v, kind))
    if name == "SIGN":
        return call(name, kind, [value], lambda v: _as(kind, (v > 0) - (v < 0)))
    if name in ("FLOOR", "CEILING"):
        if kind.name in ("decimal", "numeric"):
            kind = model.decimal_type(kind.precision or 0, 0, kind.name)
        rule = ROUND_FLOOR if name == "FLOOR" else ROUND_CEILING
        made = call(name, kind, [value], lambda v: _as(kind, _whole(v, rule)))
        return replace(made, fixed_type=kind.name not in ("decimal", "numeric"))
    if kind.name not in ("decimal", "numeric"):
        raise UnsureError
    places = random.choice([0, 1, 2])
    unit = Decimal(1).scaleb(-places)

    def work(amount: Decimal, _: int) -> Decimal:
        shown = amount.quantize(unit, rounding=ROUND_HALF_UP, context=model.WIDE)
        return model.rounded(shown if places < (kind.scale or 0) else amount, kind)

    return call("ROUND", kind, [value, number(places)], work)


def _absolute(value: Any, kind: SqlType) -> Any:
    return model.in_range(abs(value), kind) if kind.name in model.INTS else abs(value)


def _as(kind: SqlType, value: Any) -> Any:
    if kind == FLOAT:
        return float(value)
    if kind.name in model.INTS:
        return int(value)
    return model.rounded(Decimal(value), kind)


def _whole(value: Any, rule: str) -> Decimal:
    return Decimal(value).quantize(Decimal(1), rounding=rule, context=model.WIDE)


# --- dates -------------------------------------------------------------------------------------


def date_call(random: Random, maker: Maker) -> Expr:
    """DATEADD and EOMONTH."""
    value = maker()
    if value.type != DATE:
        raise UnsureError
    if random.random() < 0.3:
        return call("EOMONTH", DATE, [value], _month_end)
    part = random.choice(["day", "month", "year", "week", "quarter"])
    amount = random.choice([-13, -1, 0, 1, 2, 31])

    def work(day: date) -> date:
        try:
            if part in ("day", "week"):
                return day + timedelta(days=amount * (7 if part == "week" else 1))
            return _months(day, amount * {"month": 1, "quarter": 3, "year": 12}[part])
        except (OverflowError, ValueError):
            raise FailedError(517) from None

    return Expr(
        f"DATEADD({part}, {amount}, {value.sql})",
        DATE,
        lambda row: None if (day := value.run(row)) is None else work(day),
    )


def _month_end(day: date) -> date:
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def _months(day: date, count: int) -> date:
    month = day.year * 12 + day.month - 1 + count
    year, index = divmod(month, 12)
    last = calendar.monthrange(year, index + 1)[1]
    return date(year, index + 1, min(day.day, last))


_PARTS: dict[str, Callable[[date], int]] = {
    "year": lambda d: d.year,
    "month": lambda d: d.month,
    "day": lambda d: d.day,
    "quarter": lambda d: (d.month + 2) // 3,
    "dayofyear": lambda d: d.timetuple().tm_yday,
    "weekday": lambda d: d.isoweekday() % 7 + 1,
    "iso_week": lambda d: d.isocalendar().week,
    "week": lambda d: (
        (d.timetuple().tm_yday - 1 + d.replace(month=1, day=1).isoweekday() % 7) // 7 + 1
    ),
}
_BOUNDARIES: dict[str, Callable[[date], int]] = {
    "day": date.toordinal,
    "week": lambda d: (d.toordinal() + 0) // 7,
    "month": lambda d: d.year * 12 + d.month,
    "quarter": lambda d: d.year * 4 + (d.month + 2) // 3,
    "year": lambda d: d.year,
}


def date_measure(random: Random, maker: Maker) -> Expr:
    """DATEPART, YEAR …, DATEDIFF."""
    value = maker()
    if value.type != DATE:
        raise UnsureError
    if random.random() < 0.5:
        part = random.choice(list(_PARTS))
        made = call("DATEPART", INT, [value], _PARTS[part])
        return replace(made, sql=f"DATEPART({part}, {value.sql})")
    other = maker()
    if other.type != DATE:
        raise UnsureError
    part = random.choice(list(_BOUNDARIES))
    count = _BOUNDARIES[part]
    made = call("DATEDIFF", INT, [value, other], lambda a, b: count(b) - count(a))
    return replace(made, sql=f"DATEDIFF({part}, {value.sql}, {other.sql})")
