"""Every type of the contract with its ends, NULL and awkward values, as one table of data.

A row: the type as CREATE TABLE writes it, what the lake declares for it, and its values: the T-SQL
literal, what arrow-odbc gives, and what the lake holds (the same where there is no third).
Tests put all of them side by side into a table of their own, see `create_table`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One value: its literal, what the driver gives, what the lake holds."""

    literal: str
    driver: Any
    lake: Any


@dataclass(frozen=True)
class TypeRow:
    """One type and its values."""

    sql: str
    delta: str
    cells: tuple[Cell, ...]


NULL = Cell("NULL", None, None)


def _row(sql: str, delta: str, *values: tuple[Any, ...]) -> TypeRow:
    return TypeRow(sql, delta, tuple(Cell(v[0], v[1], v[-1]) for v in values))


def _exact(precision: int, scale: int, name: str = "decimal") -> TypeRow:
    """Both ends, the smallest step and zero of a decimal."""
    texts = [_pointed(number, scale) for number in (10**precision - 1, 1 - 10**precision, 1, -1, 0)]
    delta = f"DECIMAL({precision},{scale})"
    return _row(f"{name}({precision},{scale})", delta, *((t, Decimal(t)) for t in texts))


def _pointed(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    whole, rest = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return ("-" if number < 0 else "") + whole + (f".{rest}" if rest else "")


def _same(sql: str, delta: str, *literals: tuple[str, Any]) -> TypeRow:
    return _row(sql, delta, *literals)


# --- numbers -----------------------------------------------------------------------------------

_QUARTER = 2.2250738585072014e-308 / 4
_QUARTER_REAL = 2.938735877055719e-39
_LARGEST_REAL = 3.4028234663852886e38
_SMALLEST, _SMALLEST_REAL = 5e-324, 1.401298464324817e-45

NUMBERS = (
    _same("bit", "BOOLEAN", ("1", True), ("0", False), ("'TRUE'", True), ("2", True)),
    # B102.
    _same("tinyint", "SMALLINT", ("0", 0), ("255", 255), ("127", 127), ("128", 128)),
    _same("smallint", "SMALLINT", ("-32768", -32768), ("32767", 32767), ("0", 0)),
    _same("int", "INT", ("-2147483648", -(2**31)), ("2147483647", 2**31 - 1), ("-1", -1)),
    _same(
        "bigint",
        "BIGINT",
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775807", 2**63 - 1),
        ("9007199254740993", 2**53 + 1),
    ),
    # B101: no NaN, but the ends, what lies below the smallest normal one, and the zero with a sign.
    _same(
        "real",
        "FLOAT",
        ("3.40282347e38", _LARGEST_REAL),
        ("-3.40282347e38", -_LARGEST_REAL),
        ("1.17549435e-38", 1.1754943508222875e-38),
        ("CAST(1.17549435e-38 AS real) / CAST(4 AS real)", _QUARTER_REAL),
        ("CAST(1.17549435e-38 AS real) / CAST(8388608 AS real)", _SMALLEST_REAL),
        ("-CAST(1.17549435e-38 AS real) / CAST(8388608 AS real)", -_SMALLEST_REAL),
        ("-1e0 * 0e0", -0.0),
        ("0e0", 0.0),
        ("0.1", 0.10000000149011612),
    ),
    _same(
        "float",
        "DOUBLE",
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("-1.7976931348623157e308", -1.7976931348623157e308),
        ("2.2250738585072014e-308", 2.2250738585072014e-308),
        ("2.2250738585072014e-308 / 4e0", _QUARTER),
        ("2.2250738585072014e-308 / 4503599627370496e0", _SMALLEST),
        ("-1e0 * 0e0", -0.0),
        ("0e0", 0.0),
        ("0.1e0", 0.1),
    ),
    _same("float(24)", "FLOAT", ("16777216", 16777216.0), ("1e-3", 0.0010000000474974513)),
    *(_exact(p, s) for p, s in ((1, 0), (1, 1), (9, 4), (10, 0), (18, 18), (19, 4), (20, 10))),
    *(_exact(p, s) for p, s in ((28, 5), (29, 29), (38, 0), (38, 19), (38, 38))),
    *(_exact(p, s, "numeric") for p, s in ((5, 2), (38, 10))),
    _same("decimal", "DECIMAL(18,0)", ("9" * 18, Decimal("9" * 18)), ("0.5", Decimal(1))),
    # B099.
    _same(
        "money",
        "DECIMAL(19,4)",
        ("922337203685477.5807", Decimal("922337203685477.5807")),
        ("-922337203685477.5808", Decimal("-922337203685477.5808")),
        ("0.0001", Decimal("0.0001")),
        ("-0.0001", Decimal("-0.0001")),
        # The high half of its eight bytes changes sign here.
        ("429496.7296", Decimal("429496.7296")),
        ("-429496.7297", Decimal("-429496.7297")),
    ),
    _same(
        "smallmoney",
        "DECIMAL(10,4)",
        ("214748.3647", Decimal("214748.3647")),
        ("-214748.3648", Decimal("-214748.3648")),
        ("-0.0001", Decimal("-0.0001")),
    ),
)

# --- times -------------------------------------------------------------------------------------

_ENDS = ("0001-01-01 00:00:00", "9999-12-31 23:59:59.9999999", "1969-12-31 23:59:59.9999999")
_LEAP = "2000-02-29 12:34:56.1234567"
# B090: what nanoseconds since 1970 cannot hold, and what is just inside of it.
_FAR = ("1677-09-21 00:00:00", "2262-04-12 00:00:00", "8900-12-31 23:59:59.9999999")


def _datetime2(scale: int) -> TypeRow:
    """Both ends, the last step before 1970 and a leap day, written with just `scale` digits."""
    kept = [_fraction(text, scale) for text in (*_ENDS, _LEAP, *_FAR)]
    return _row(
        f"datetime2({scale})", "TIMESTAMP_NTZ", *((f"'{text}'", _micros(text)) for text in kept)
    )


def _fraction(text: str, digits: int) -> str:
    whole, point, rest = text.partition(".")
    return whole + point + rest[:digits] if digits and rest else whole


def _micros(text: str) -> datetime:
    return datetime.fromisoformat(_fraction(text, 6))


def _offset(scale: int) -> TypeRow:
    """The ends of the instant with both largest zones; the driver gives text."""
    local = [
        ("0001-01-01 00:00:00.0000000", "-14:00"),
        ("9999-12-31 23:59:59.9999999", "+14:00"),
        ("0001-01-01 00:00:00.0000000", "+00:00"),
        ("9999-12-31 23:59:59.9999999", "+00:00"),
        ("2026-11-30 00:30:00.1234567", "+05:45"),
        ("2026-11-30 23:30:00.1234567", "-00:30"),
        # B094: a server's own, and midnight at both ends of the zones.
        ("2026-06-23 00:01:05.0900948", "-07:00"),
        ("2026-06-23 00:00:00.0000000", "+14:00"),
        ("2026-06-23 00:00:00.0000000", "-14:00"),
    ]
    cells = []
    for at, zone in local:
        text = f"{_fraction(at, scale)} {zone}"
        instant = datetime.fromisoformat(_fraction(at, min(scale, 6)) + zone).astimezone(UTC)
        cells.append((f"'{text}'", text, instant))
    return _row(f"datetimeoffset({scale})", "TIMESTAMP", *cells)


def _fractions() -> TypeRow:
    """B095: fewer digits than the column has; the server adds the zeros."""
    cells = []
    for fraction, zone in (
        ("", "+00:00"),
        (".2", "-00:30"),
        (".276", "+05:45"),
        (".276489", "+03:00"),
        (".2764891", "-00:30"),
    ):
        at = f"2024-05-11 02:00:00{fraction}"
        shown = f"2024-05-11 02:00:00.{fraction[1:].ljust(7, '0')} {zone}"
        instant = datetime.fromisoformat(_fraction(at, 6) + zone).astimezone(UTC)
        cells.append((f"'{at} {zone}'", shown, instant))
    return _row("datetimeoffset", "TIMESTAMP", *cells)


def _time(scale: int) -> TypeRow:
    """The first and last moment of a day; the driver counts s, ms, µs or ns of it."""
    width = (0, 3, 3, 3, 6, 6, 6, 7)[scale]
    unit = (1, 10**3, 10**3, 10**3, 10**6, 10**6, 10**6, 10**9)[scale]
    cells = []
    for text in ("00:00:00.0000000", "23:59:59.9999999", "12:34:56.1234567"):
        literal = _fraction(text, scale)
        clock, _, rest = literal.partition(".")
        moment = time.fromisoformat(clock)
        seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
        count = seconds * unit + int((rest + "0" * 9)[: len(str(unit)) - 1] or 0)
        shown = clock + (f".{rest.ljust(width, '0')}" if width else "")
        cells.append((f"'{literal}'", count, shown))
    return _row(f"time({scale})", "STRING", *cells)


TIMES = (
    _same(
        "date",
        "DATE",
        ("'0001-01-01'", date(1, 1, 1)),
        ("'9999-12-31'", date(9999, 12, 31)),
        # Where the Julian calendar ends: what rebases dates shows here.
        ("'1582-10-04'", date(1582, 10, 4)),
        ("'1582-10-15'", date(1582, 10, 15)),
        ("'1969-12-31'", date(1969, 12, 31)),
    ),
    _same(
        "datetime",
        "TIMESTAMP_NTZ",
        ("'1753-01-01T00:00:00'", datetime(1753, 1, 1)),
        ("'9999-12-31T23:59:59.997'", datetime(9999, 12, 31, 23, 59, 59, 997000)),
        ("'2026-11-30T10:00:00.003'", datetime(2026, 11, 30, 10, 0, 0, 3000)),
        ("'2026-11-30T10:00:00.007'", datetime(2026, 11, 30, 10, 0, 0, 7000)),
        ("'2026-11-30T23:59:59.999'", datetime(2026, 12, 1)),
        ("'1899-12-31T23:59:59.993'", datetime(1899, 12, 31, 23, 59, 59, 993000)),
        # B097: the server keeps 1/300 s and shows milliseconds.
        ("'2014-09-12T11:15:07.263'", datetime(2014, 9, 12, 11, 15, 7, 263000)),
        ("'2014-09-12T11:15:07.997'", datetime(2014, 9, 12, 11, 15, 7, 997000)),
        ("'2014-09-12T11:15:07.005'", datetime(2014, 9, 12, 11, 15, 7, 7000)),
        # B155: an hour that a clock may skip; no zone, so it stays as it is.
        ("'2026-03-08T02:30:00'", datetime(2026, 3, 8, 2, 30)),
    ),
    _same(
        "smalldatetime",
        "TIMESTAMP_NTZ",
        ("'1900-01-01'", datetime(1900, 1, 1)),
        ("'2079-06-06T23:59:00'", datetime(2079, 6, 6, 23, 59)),
        ("'2026-11-30T10:00:29.998'", datetime(2026, 11, 30, 10, 0)),
        ("'2026-11-30T10:00:30'", datetime(2026, 11, 30, 10, 1)),
        # B098: the server rounds, not we.
        ("'2018-07-13T14:23:45'", datetime(2018, 7, 13, 14, 24)),
        ("'2018-07-13T23:59:30'", datetime(2018, 7, 14)),
    ),
    *(_datetime2(scale) for scale in range(8)),
    *(_offset(scale) for scale in range(8)),
    _fractions(),
    *(_time(scale) for scale in range(8)),
)

# --- text --------------------------------------------------------------------------------------

# What each code page has beyond ASCII; the last two of a text are its awkward ones.
# B104: the first three texts of the case, then every code page.
CODE_PAGES = (
    ("SQL_Latin1_General_CP1_CI_AS", "£ € ž"),
    ("SQL_Latin1_General_CP1251_CI_AS", "Привет"),
    ("Latin1_General_CI_AS", "Käse 5 € ÿ"),
    ("SQL_Latin1_General_CP1_CI_AI", "Œuvre ž“"),
    ("Greek_CI_AS", "Οδυσσεύς ΐ"),
    ("Cyrillic_General_CI_AS", "Ёлка №7 я"),
    ("Turkish_CI_AS", "Iıİi ğş"),
    ("Hebrew_CI_AS", "שלום ₪"),
    ("Arabic_CI_AS", "مرحبا گ"),
    ("Lithuanian_BIN2", "Ąžuolas šį"),
    ("Polish_BIN2", "Zażółć gęślą"),
    ("SQL_Latin1_General_CP437_CI_AS", "é£ß ▒"),
    ("SQL_Latin1_General_CP850_CI_AS", "é£ß Ð"),
    ("Vietnamese_BIN2", "Đ ơ ư ₫"),
    ("Thai_BIN2", "สวัสดี"),
    ("Japanese_CI_AS", "日本 ｱア"),
    ("Chinese_PRC_BIN2", "中文 镕"),
    ("Chinese_Taiwan_Stroke_BIN2", "繁體"),
    ("Korean_Wansung_CI_AS", "한국 똠"),
    ("Latin1_General_100_CI_AS_SC_UTF8", "漢字 😀 é"),
)


def _texts(sql: str, *values: str, pad: int = 0, prefix: str = "N") -> TypeRow:
    return _row(
        sql,
        "STRING",
        *((f"{prefix}'{v.replace(chr(39), chr(39) * 2)}'", v.ljust(pad)) for v in values),
    )


_MANY = "REPLICATE(CAST({0} AS {1}), {2})"

TEXTS = (
    # B106: nothing is trimmed, padded or taken for NULL on the way.
    _row("char(3)", "STRING", ("'c'", "c  "), ("''", "   "), ("'a' + CHAR(0)", "a\0 ")),
    _row(
        "varchar(9)",
        "STRING",
        ("'x  '", "x  "),
        ("''", ""),
        ("'a' + CHAR(0) + 'b'", "a\0b"),
        ("CHAR(0)", "\0"),
        ("CHAR(13) + CHAR(10) + CHAR(9)", "\r\n\t"),
        ("CHAR(27) + CHAR(31) + CHAR(127)", "\x1b\x1f\x7f"),
    ),
    _row(
        "nvarchar(9)",
        "STRING",
        ("N'a' + NCHAR(0) + N'b'", "a\0b"),
        ("NCHAR(0)", "\0"),
        ("N''", ""),
        ("N'x  '", "x  "),
        ("NCHAR(133) + NCHAR(8232)", "\x85\u2028"),
    ),
    _row("nchar(2)", "STRING", ("NCHAR(0)", "\0 "), ("N''", "  ")),
    _texts("char(6)", "", "ab", "a  ", "  a", "abcdef", "é€", pad=6),
    _texts("varchar(20)", "", " ", "trailing  ", "it's", "tab\tline\r\n", "\x01\x7f€"),
    _texts("varchar(8000)", "", "x" * 200),
    _texts("nchar(4)", "", "ab", "日本", "ａ", pad=4),
    # A surrogate pair is two of nchar's characters.
    _row("nchar(3)", "STRING", ("N'😀'", "😀 "), ("N'a😀'", "a😀")),
    _texts("nvarchar(20)", "", " ", "trailing  ", "日本語", "e\u0301 é"),
    _texts("nvarchar(21)", "😀👩\u200d👩\u200d👧", "\ufeff\u200b\uffff", "\ue000"),
    _texts("nvarchar(max)", "", "Ж", "😀 it's"),
    _row(
        "varchar(max)",
        "STRING",
        ("''", ""),
        (_MANY.format("'ab'", "varchar(max)", 4500), "ab" * 4500),
        ("'ü'", "ü"),
    ),
    _texts("sysname", "n", "N" * 60),
    _texts("text", "", "ü€", "trailing  "),
    _texts("ntext", "", "Ελλάδα 😀", "trailing  "),
    _texts("xml", "", '<a b="1">ü 😀</a>', "<a/>"),
    *(_texts(f"varchar(60) COLLATE {name}", text, text[:2]) for name, text in CODE_PAGES),
    _row(
        "uniqueidentifier",
        "STRING",
        ("'00000000-0000-0000-0000-000000000000'", "00000000-0000-0000-0000-000000000000"),
        ("'ffffffff-ffff-ffff-ffff-ffffffffffff'", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"),
        ("'01234567-89ab-cdef-0123-456789abcdef'", "01234567-89AB-CDEF-0123-456789ABCDEF"),
        # B061.
        ("'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
    ),
)

# --- bytes -------------------------------------------------------------------------------------

BYTES = (
    _same("binary(4)", "BINARY", ("0x", bytes(4)), ("0x00", bytes(4)), ("0xFF", b"\xff\0\0\0")),
    _same("binary(10)", "BINARY", ("0x00010203040506070809", bytes(range(10)))),
    _same("varbinary(4)", "BINARY", ("0x", b""), ("0x0000", b"\0\0"), ("0xFFFFFFFF", b"\xff" * 4)),
    _same(
        "varbinary(max)", "BINARY", ("0x", b""), ("0x00", b"\0"), ("0x" + "5A" * 900, b"Z" * 900)
    ),
    _same("image", "BINARY", ("0x", b""), ("0x00FF", b"\0\xff")),
)

TYPES = NUMBERS + TIMES + TEXTS + BYTES

WITHOUT_COUNTERPART = ("sql_variant", "geography", "geometry", "hierarchyid")
"""Types that the lake has no exact counterpart for: an error that names the column."""


def rows_of(types: tuple[TypeRow, ...]) -> list[tuple[Cell, ...]]:
    """The cells side by side: a row for each value, NULL where a type has no more, then NULLs."""
    longest = max(len(row.cells) for row in types)
    return [
        tuple(row.cells[i] if i < len(row.cells) else NULL for row in types)
        for i in range(longest + 1)
    ]


def create_table(name: str, types: tuple[TypeRow, ...]) -> str:
    """A table with a key `id` and a column `c0`, `c1`, … of each type."""
    columns = ", ".join(f"c{i} {row.sql} NULL" for i, row in enumerate(types))
    return f"CREATE TABLE {name} (id int NOT NULL PRIMARY KEY, {columns})"


def insert_row(name: str, number: int, cells: tuple[Cell, ...]) -> str:
    """The INSERT of one row."""
    return f"INSERT INTO {name} VALUES ({number}, {', '.join(c.literal for c in cells)})"
