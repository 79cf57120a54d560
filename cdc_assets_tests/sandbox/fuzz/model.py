"""T-SQL's values and types in plain Python, from Microsoft's documentation alone.

Nothing here knows how the sandbox works: the rules are those of "Data type precedence", "Precision,
scale, and length", "CAST and CONVERT" and the pages of the operators.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

from cdc_assets.sandbox.results import SqlType

WIDE = Context(prec=200)
TICKS_PER_DAY = 864_000_000_000
INTS = {
    "tinyint": (0, 255),
    "smallint": (-(1 << 15), (1 << 15) - 1),
    "int": (-(1 << 31), (1 << 31) - 1),
    "bigint": (-(1 << 63), (1 << 63) - 1),
}
INT_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
TEXTS = ("char", "varchar", "nchar", "nvarchar")

TINYINT, SMALLINT, INT, BIGINT = (SqlType(name) for name in INTS)
BIT, FLOAT, MONEY, DATE, DATETIME = (
    SqlType(name) for name in ("bit", "float", "money", "date", "datetime")
)

Row = dict[str, Any]


class FailedError(Exception):
    """The statement ends with one of these error numbers."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(*numbers)
        self.numbers = frozenset(numbers)


class UnsureError(Exception):
    """The documentation does not fix the answer: generate another statement."""


@dataclass(frozen=True)
class Expr:
    """An expression: its text, its type, and what it is worth on a row."""

    sql: str
    type: SqlType
    run: Callable[[Row], Any]
    nullable: bool | None = None
    """As documented; None where the documentation does not say."""

    literal: bool = False
    fixed_type: bool = True
    """Whether the documentation fixes the type, or only its name."""


@dataclass(frozen=True)
class Test:
    """A search condition; True, False, or None for unknown."""

    sql: str
    run: Callable[[Row], bool | None]


def decimal_type(precision: int, scale: int, name: str = "decimal") -> SqlType:
    return SqlType(name, precision=precision, scale=scale)


def text_type(name: str, length: int) -> SqlType:
    return SqlType(name, length=length)


def digits(kind: SqlType) -> tuple[int, int]:
    """The precision and scale a number counts with beside a decimal."""
    if kind.name in INT_DIGITS:
        return INT_DIGITS[kind.name], 0
    if kind.name == "money":
        return 19, 4
    return kind.precision or 0, kind.scale or 0


# --- strings -----------------------------------------------------------------------------------


def folded(text: str) -> str:
    """What two strings share that CI_AS calls equal."""
    return text.rstrip(" ").lower()


def sort_key(text: str) -> tuple[str, str]:
    """Letters first, accents only between otherwise equal strings."""
    shown = folded(text)
    plain = "".join(c for c in unicodedata.normalize("NFD", shown) if not unicodedata.combining(c))
    return plain, shown


def order_key(value: Any) -> tuple[int, Any]:
    """NULL sorts before everything."""
    if value is None:
        return (0, 0)
    return (1, sort_key(value) if isinstance(value, str) else value)


def equality_key(value: Any) -> Any:
    return folded(value) if isinstance(value, str) else value


def pad(text: str | None, kind: SqlType) -> str | None:
    """A value as its character type keeps it."""
    if text is None:
        return None
    length = kind.length or 0
    cut = text if length < 0 else text[:length]
    return cut.ljust(length) if kind.name in ("char", "nchar") else cut


# --- numbers -----------------------------------------------------------------------------------


def rounded(value: Decimal, kind: SqlType, *, cut: bool = False) -> Decimal:
    """To the scale of a decimal type, half away from zero; Msg 8115 beyond its precision."""
    precision, scale = digits(kind)
    rule = ROUND_DOWN if cut else ROUND_HALF_UP
    found = value.quantize(Decimal(1).scaleb(-scale), rounding=rule, context=WIDE)
    limit = Decimal(10) ** (precision - scale)
    if abs(found) >= limit or (kind.name == "money" and abs(found) > Decimal(2**63) / 10000):
        raise FailedError(8115)
    return found


def in_range(value: int, kind: SqlType, number: int = 8115) -> int:
    low, high = INTS[kind.name]
    if not low <= value <= high:
        raise FailedError(number)
    return value


def arithmetic_type(op: str, left: Expr, right: Expr) -> SqlType:
    """The type of `left op right` for numbers."""
    names = {left.type.name, right.type.name}
    if "float" in names:
        return FLOAT
    if names & {"decimal", "numeric"}:
        (p1, s1), (p2, s2) = _decimal_digits(left), _decimal_digits(right)
        return _decimal_result(op, p1, s1, p2, s2)
    if "money" in names:
        return MONEY
    order = list(INTS)
    whole = [name for name in order if name in names]
    return SqlType(whole[-1])


def _decimal_digits(value: Expr) -> tuple[int, int]:
    if value.literal and value.type == INT:
        return len(value.sql), 0
    return digits(value.type)


def _decimal_result(op: str, p1: int, s1: int, p2: int, s2: int) -> SqlType:
    if op in "+-":
        scale = max(s1, s2)
        precision = scale + max(p1 - s1, p2 - s2) + 1
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
            scale = max(0, min(scale, 38 - whole))
        elif whole < 32:
            scale = min(scale, 38 - whole)
        else:
            scale = min(scale, 6)
        precision = 38
    return decimal_type(precision, scale, "numeric")


def calculate(op: str, a: Any, b: Any, kind: SqlType) -> Any:
    """`a op b` in the result's type; whole numbers divide towards zero, % has a's sign."""
    if a is None or b is None:
        return None
    if kind.name == "float":
        if op == "/" and b == 0:
            raise FailedError(8134)
        x, y = float(a), float(b)
        return {"+": x + y, "-": x - y, "*": x * y}[op] if op != "/" else x / y
    if kind.name in INTS:
        a, b = int(a), int(b)
        return in_range(_whole(op, a, b), kind)
    a, b = Decimal(a), Decimal(b)
    if op in "/%" and b == 0:
        raise FailedError(8134)
    if op == "%":
        return rounded(WIDE.remainder(a, b), kind)
    exact = {"+": WIDE.add, "-": WIDE.subtract, "*": WIDE.multiply, "/": WIDE.divide}[op](a, b)
    return rounded(exact, kind, cut=op == "/")


def _whole(op: str, a: int, b: int) -> int:
    if op in "/%" and b == 0:
        raise FailedError(8134)
    if op == "/":
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if op == "%":
        return abs(a) % abs(b) * (-1 if a < 0 else 1)
    return {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[op]


# --- types of CASE, COALESCE, UNION ------------------------------------------------------------

_RANK = (
    *("datetime2", "datetime", "date", "float", "decimal", "numeric", "money", "bigint", "int"),
    *("smallint", "tinyint", "bit", "uniqueidentifier", "nvarchar", "nchar", "varchar", "char"),
    *("varbinary", "binary"),
)


def common(kinds: list[SqlType]) -> SqlType:
    """The type of the highest precedence, wide enough for all."""
    found = kinds[0]
    for kind in kinds[1:]:
        found = _common(found, kind)
    return found


def _common(a: SqlType, b: SqlType) -> SqlType:
    high, low = (a, b) if _RANK.index(a.name) <= _RANK.index(b.name) else (b, a)
    if high.name in ("decimal", "numeric"):
        (p1, s1), (p2, s2) = digits(high), digits(low)
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale
        if precision > 38:
            raise UnsureError
        return decimal_type(precision, scale, high.name)
    if high.name in TEXTS:
        name = high.name
        if low.name != high.name:
            name = "nvarchar" if high.name[0] == "n" else "varchar"
        return text_type(name, max(high.length or 0, low.length or 0))
    if high.name == "datetime2" and low.name == "datetime2":
        return SqlType("datetime2", scale=max(high.scale or 0, low.scale or 0))
    if high.name == "varbinary":
        return SqlType("varbinary", length=max(high.length or 0, low.length or 0))
    return high


# --- conversions -------------------------------------------------------------------------------


def convert(value: Any, source: SqlType, target: SqlType) -> Any:
    """CAST(value AS target)."""
    if value is None or source == target:
        return value
    if target.name in TEXTS:
        return _to_text(value, source, target)
    if target.name in INTS:
        return _to_int(value, source, target)
    if target.name in ("decimal", "numeric", "money"):
        return rounded(_parsed(value, source, target), target)
    if target.name == "float":
        return float(_parsed(value, source, target))
    if target.name == "bit":
        return _to_bit(value, source)
    if target.name == "varbinary":
        raw: bytes = value if isinstance(value, bytes) else _bytes(value, source)
        return raw[: target.length]
    if target.name == "date":
        return _to_date(value, source)
    if target.name == "datetime2":
        ticks = (_to_date(value, source) - date(1, 1, 1)).days * TICKS_PER_DAY
        if source.name == "date" or isinstance(value, str):
            return ticks
        unit = 10 ** (7 - (target.scale or 0))
        return (value + unit // 2) // unit * unit
    raise UnsureError


def _bytes(value: Any, source: SqlType) -> bytes:
    if source.name in ("varchar", "char"):
        return str(value).encode("cp1252")
    if source.name in ("nvarchar", "nchar"):
        return str(value).encode("utf-16-le")
    sizes = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
    return int(value).to_bytes(sizes[source.name], "big", signed=source.name != "tinyint")


def _to_text(value: Any, source: SqlType, target: SqlType) -> str | None:
    length = target.length or 0
    if source.name in TEXTS:
        return pad(value, target)
    shown = plain_text(value, source)
    if len(shown) <= length:
        return pad(shown, target)
    if source.name in ("tinyint", "smallint", "int"):
        if target.name[0] == "n":
            raise FailedError(8115)
        return pad("*", target)
    if source.name in ("date", "datetime", "datetime2"):
        return pad(shown, target)
    if source.name == "uniqueidentifier":
        raise FailedError(8170)
    raise FailedError(234 if source.name == "money" else 8115)


def plain_text(value: Any, source: SqlType) -> str:
    """A value as CAST shows it in enough room."""
    if source.name == "bit":
        return str(int(value))
    if source.name == "money":
        return f"{rounded(value, decimal_type(38, 2)):f}"
    if source.name in ("decimal", "numeric"):
        return f"{value:f}"
    if source.name in INTS:
        return str(value)
    if source.name == "date":
        return f"{value:%Y-%m-%d}".rjust(10, "0")
    if source.name == "datetime2":
        return ticks_text(value, source.scale or 0)
    if source.name == "uniqueidentifier":
        return str(value)
    raise UnsureError


def ticks_text(ticks: int, scale: int, gap: str = " ") -> str:
    day = date(1, 1, 1) + timedelta(days=ticks // TICKS_PER_DAY)
    rest = ticks % TICKS_PER_DAY
    seconds, fraction = divmod(rest, 10_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    tail = f".{fraction:07d}"[: 1 + scale] if scale else ""
    return f"{day.isoformat()}{gap}{clock}{tail}"


def _to_int(value: Any, source: SqlType, target: SqlType) -> int:
    if source.name in TEXTS:
        try:
            number = int(value.strip(" ") or "0")
        except ValueError:
            raise FailedError(8114 if target.name == "bigint" else 245) from None
        overflow = {"tinyint": 244, "smallint": 244, "int": 248, "bigint": 8115}[target.name]
        return in_range(number, target, overflow)
    if source.name in INTS or source.name == "bit":
        return in_range(int(value), target, 220 if target.name in ("tinyint", "smallint") else 8115)
    if source.name == "money":
        raise UnsureError  # rounds, where a decimal is cut; see the directed tests
    if source.name == "float":
        low, high = INTS[target.name]
        if not low <= int(value) <= high:
            raise FailedError(232, 8115)
        return int(value)
    return in_range(int(value), target)


def _parsed(value: Any, source: SqlType, target: SqlType) -> Decimal:
    if source.name not in TEXTS:
        return Decimal(int(value) if isinstance(value, bool) else value)
    text = value.strip(" ")
    try:
        if not text or text.lower().strip("+-.") in ("nan", "inf", "infinity", "snan"):
            raise ValueError
        return Decimal(text)
    except (ValueError, ArithmeticError):
        raise FailedError(235 if target.name == "money" else 8114) from None


def _to_bit(value: Any, source: SqlType) -> bool:
    if source.name not in TEXTS:
        return bool(value)
    text = value.strip(" ").lower()
    if text in ("true", "false"):
        return bool(text == "true")
    try:
        return int(text or "0") != 0
    except ValueError:
        raise FailedError(245) from None


def _to_date(value: Any, source: SqlType) -> date:
    if isinstance(value, date):
        return value
    if source.name in TEXTS:
        try:
            return date.fromisoformat(value.strip(" ")) if value.strip(" ") else date(1900, 1, 1)
        except ValueError:
            raise FailedError(241) from None
    return date(1, 1, 1) + timedelta(days=value // TICKS_PER_DAY)
