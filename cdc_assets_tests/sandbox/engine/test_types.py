"""Every type: its exact description, and its values at both ends, through the store."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from cdc_assets_tests.sandbox.harness import Client

pytestmark = pytest.mark.sqlserver

DAY = 864_000_000_000
MAX_TICKS = 3_652_059 * DAY - 1


def at(year: int, month: int, day: int, ticks: int = 0) -> int:
    return (datetime.date(year, month, day).toordinal() - 1) * DAY + ticks


# type as written; what a result says; literals with the value that a result carries
TYPES: list[tuple[str, str, list[tuple[str, Any]]]] = [
    ("bit", "bit", [("1", True), ("0", False), ("'true'", True), ("5", True)]),
    ("tinyint", "tinyint", [("0", 0), ("255", 255)]),
    ("smallint", "smallint", [("-32768", -32768), ("32767", 32767)]),
    ("int", "int", [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1), ("'12'", 12)]),
    ("bigint", "bigint", [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    ("real", "real", [("1.5", 1.5), ("-3.4028234663852886e38", -3.4028234663852886e38)]),
    ("float", "float", [("1.7976931348623157e308", 1.7976931348623157e308), ("0.1e0", 0.1)]),
    ("float(24)", "real", [("0.5", 0.5)]),
    ("decimal(38,0)", "decimal(38,0)", [("9" * 38, Decimal("9" * 38))]),
    (
        "numeric(38,38)",
        "numeric(38,38)",
        [("0." + "9" * 38, Decimal("0." + "9" * 38)), ("-0.5", Decimal("-0.5"))],
    ),
    (
        "decimal(5,2)",
        "decimal(5,2)",
        [("123.455", Decimal("123.46")), ("-0.005", Decimal("-0.01"))],
    ),
    ("decimal", "decimal(18,0)", [("5", Decimal(5))]),
    (
        "money",
        "money",
        [
            ("922337203685477.5807", Decimal("922337203685477.5807")),
            ("-922337203685477.5808", Decimal("-922337203685477.5808")),
        ],
    ),
    ("smallmoney", "smallmoney", [("214748.3647", Decimal("214748.3647"))]),
    (
        "date",
        "date",
        [
            ("'0001-01-01'", datetime.date(1, 1, 1)),
            ("'99991231'", datetime.date(9999, 12, 31)),
        ],
    ),
    ("time(0)", "time(0)", [("'10:00:00.5'", 36_001 * 10**7)]),
    ("time", "time(7)", [("'23:59:59.9999999'", DAY - 1), ("'00:00'", 0)]),
    (
        "datetime",
        "datetime",
        [
            ("'1753-01-01'", at(1753, 1, 1)),
            ("'9999-12-31 23:59:59.997'", at(9999, 12, 31, DAY - 33_333)),
            ("'2026-11-30T10:00:00.002'", at(2026, 11, 30, 360_000_033_333)),
        ],
    ),
    (
        "smalldatetime",
        "smalldatetime",
        [
            ("'1900-01-01'", at(1900, 1, 1)),
            ("'2079-06-06 23:59:00'", at(2079, 6, 6, 23 * 36 * 10**9 + 59 * 6 * 10**8)),
            ("'2026-11-30 10:00:30'", at(2026, 11, 30, 10 * 36 * 10**9 + 6 * 10**8)),
        ],
    ),
    (
        "datetime2",
        "datetime2(7)",
        [
            ("'0001-01-01'", 0),
            ("'9999-12-31 23:59:59.9999999'", MAX_TICKS),
            ("'2026-11-30 10:00:00.1234567'", at(2026, 11, 30, 360_001_234_567)),
        ],
    ),
    (
        "datetime2(3)",
        "datetime2(3)",
        [("'2026-11-30 10:00:00.1235'", at(2026, 11, 30, 360_001_240_000))],
    ),
    (
        "datetimeoffset",
        "datetimeoffset(7)",
        [
            (
                "'2026-11-30 10:00:00.1234567 -03:30'",
                {"ticks": at(2026, 11, 30, 486_001_234_567), "offset_minutes": -210},
            ),
            ("'2026-11-30'", {"ticks": at(2026, 11, 30), "offset_minutes": 0}),
        ],
    ),
    ("char(5)", "char(5)", [("'ab'", "ab   "), ("'abcde'", "abcde")]),
    ("varchar(5)", "varchar(5)", [("'é€'", "é€"), ("N'Ж'", "?"), ("'ab   '", "ab   ")]),
    ("varchar(max)", "varchar(max)", [("REPLICATE(CAST('x' AS varchar(max)), 9000)", "x" * 9000)]),
    ("text", "text", [("'t'", "t")]),
    ("nchar(3)", "nchar(3)", [("N'Ж'", "Ж  "), ("N'😀'", "😀 "), ("N'a😀'", "a😀")]),
    ("nvarchar(4)", "nvarchar(4)", [("N'日本😀'", "日本😀"), ("N''", "")]),
    ("nvarchar(max)", "nvarchar(max)", [("N'it''s'", "it's")]),
    ("ntext", "ntext", [("N'Ж'", "Ж")]),
    ("sysname", "nvarchar(128)", [("N'n'", "n")]),
    ("xml", "xml", [("'<a/>'", "<a/>")]),
    (
        "uniqueidentifier",
        "uniqueidentifier",
        [
            ("'00112233-4455-6677-8899-aabbccddeeff'", "00112233-4455-6677-8899-AABBCCDDEEFF"),
            ("0x33221100554477668899AABBCCDDEEFF", "00112233-4455-6677-8899-AABBCCDDEEFF"),
        ],
    ),
    ("binary(3)", "binary(3)", [("0x01", b"\x01\x00\x00"), ("258", b"\x00\x01\x02")]),
    ("varbinary(3)", "varbinary(3)", [("0x", b""), ("0x010203", b"\x01\x02\x03")]),
    ("varbinary(max)", "varbinary(max)", [("0xFF", b"\xff")]),
    ("image", "image", [("0x0102", b"\x01\x02")]),
]


@pytest.mark.parametrize(("written", "described", "cases"), TYPES, ids=[t[0] for t in TYPES])
def test_values_through_a_column(
    shared: Client, written: str, described: str, cases: list[tuple[str, Any]]
) -> None:
    shared.run(f"CREATE TABLE t (n int, v {written} NULL)")
    try:
        for number, (literal, _) in enumerate(cases):
            shared.run(f"INSERT t VALUES ({number}, {literal})")
        shared.run(f"INSERT t VALUES ({len(cases)}, NULL)")
        text = "SELECT v FROM t ORDER BY n"
        assert [r[0] for r in shared.rows(text)] == [*(value for _, value in cases), None]
        assert shared.types(text) == [described]
        assert shared.types(f"SELECT CAST(NULL AS {written})") == [described]
    finally:
        shared.run("DROP TABLE t")


@pytest.mark.parametrize(
    ("target", "literal", "number"),
    [
        ("tinyint", "256", 220),
        ("tinyint", "-1", 220),
        ("smallint", "40000", 220),
        ("int", "2147483648", 8115),
        ("bigint", "9223372036854775808", 8115),
        ("int", "'x'", 245),
        ("int", "'1.5'", 245),
        ("decimal(3,1)", "100", 8115),
        ("decimal(3,1)", "99.96", 8115),
        ("decimal(3,1)", "'abc'", 8114),
        ("float", "'abc'", 8114),
        ("money", "1e20", 8115),
        ("date", "'2026-02-30'", 241),
        ("date", "'soon'", 241),
        ("datetime", "CAST('1752-12-31' AS date)", 242),
        ("smalldatetime", "CAST('2080-01-01' AS date)", 242),
        ("time", "'25:00'", 241),
        ("varchar(3)", "'abcd'", 2628),
        ("nvarchar(3)", "N'a😀b'", 2628),
        ("char(2)", "'abc'", 2628),
        ("binary(2)", "0x010203", 2628),
        ("uniqueidentifier", "'xyz'", 8169),
        ("int", "CAST('2026-01-01' AS date)", 206),
        ("date", "5", 206),
    ],
)
def test_values_that_do_not_fit(shared: Client, target: str, literal: str, number: int) -> None:
    shared.run(f"CREATE TABLE f (v {target} NULL)")
    try:
        assert shared.error(f"INSERT f VALUES ({literal})").number == number
        assert shared.rows("SELECT v FROM f") == []
    finally:
        shared.run("DROP TABLE f")


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("1 + 2", "int", 3),
        ("7 / 2", "int", 3),
        ("-7 / 2", "int", -3),
        ("-7 % 3", "int", -1),
        ("7.0 / 2", "numeric(7,6)", Decimal("3.5")),
        ("1.0 / 3", "numeric(7,6)", Decimal("0.333333")),
        ("CAST(1 AS decimal(10,2)) * CAST(2 AS decimal(5,3))", "numeric(16,5)", Decimal(2)),
        ("CAST(2147483647 AS bigint) + 1", "bigint", 2**31),
        ("2147483648", "numeric(10,0)", Decimal(2**31)),
        ("1e0", "float", 1.0),
        ("'a' + 'bc'", "varchar(3)", "abc"),
        ("'a' + N'bc'", "nvarchar(3)", "abc"),
        ("'5' + 1", "int", 6),
        ("NULL", "int", None),
        ("CASE WHEN 1 = 2 THEN 1 ELSE 2.5 END", "numeric(11,1)", Decimal("2.5")),
        ("CASE WHEN 1 = 1 THEN NULL ELSE 'abc' END", "varchar(3)", None),
        ("COALESCE(NULL, CAST(1 AS bigint), 2)", "bigint", 1),
        ("ISNULL(CAST(NULL AS tinyint), 7)", "tinyint", 7),
        ("CONVERT(varchar(22), 0x0102, 1)", "varchar(22)", "0x0102"),
        ("CONVERT(binary(2), N'0x0102', 1)", "binary(2)", b"\x01\x02"),
        ("CONVERT(varchar(10), CAST('2026-11-30' AS date), 112)", "varchar(10)", "20261130"),
        ("CONVERT(varchar(9), CAST(-0.5 AS numeric(2,2)))", "varchar(9)", "-0.50"),
        ("CONVERT(varchar(9), CAST(0 AS decimal(3,3)))", "varchar(9)", "0.000"),
        ("CAST('2026-11-30' AS date)", "date", datetime.date(2026, 11, 30)),
        (
            "CONVERT(varchar(30), CAST('2026-11-30T10:05' AS datetime))",
            "varchar(30)",
            "Nov 30 2026 10:05AM",
        ),
        (
            "CAST(CAST('9999-12-31 23:59:59.9999999' AS datetime2) AS datetime2(6))",
            "datetime2(6)",
            MAX_TICKS - 9,
        ),
        ("CAST(CAST(NULL AS datetime2(7)) AS datetime2(6))", "datetime2(6)", None),
        ("CAST(1.9 AS int)", "int", 1),
        ("CAST(CAST(1.5 AS money) AS int)", "int", 2),
        ("LEN(N'a😀 ')", "int", 3),
        ("POWER(2.1, 3)", "numeric(38,1)", Decimal("9.3")),
        ("POWER(CAST(2 AS smallint), 10)", "int", 1024),
        ("POWER(CAST(2 AS smallmoney), 2)", "money", Decimal(4)),
        ("POWER('2', -1)", "float", 0.5),
        ("ROUND(CAST(2 AS tinyint), 0)", "int", 2),
        ("ROUND(CAST(9.94 AS decimal(3,2)), 1)", "decimal(3,2)", Decimal("9.9")),
        ("ABS(CAST(-1.5 AS decimal(3,1)))", "decimal(38,1)", Decimal("1.5")),
        ("FLOOR(CAST(2.5 AS real))", "float", 2.0),
        ("CEILING(2.55)", "numeric(3,0)", Decimal(3)),
        ("SQRT('4')", "float", 2.0),
        ("QUOTENAME(REPLICATE('a', 129))", "nvarchar(258)", None),
        ("SUBSTRING('abcdef', 3, 2147483647)", "varchar(6)", "cdef"),
        ("SUBSTRING('abcdef', -1, 4)", "varchar(6)", "ab"),
        (
            "SWITCHOFFSET(CAST('2020-01-01 10:00 +01:00' AS datetimeoffset(0)), '-14:00')",
            "datetimeoffset(0)",
            {"ticks": at(2020, 1, 1, 9 * 36 * 10**9), "offset_minutes": -840},
        ),
        ("DATEFROMPARTS(2024, 2, 29)", "date", datetime.date(2024, 2, 29)),
        ("DATEFROMPARTS(2024, NULL, 29)", "date", None),
        ("EOMONTH('2024-01-31', 1)", "date", datetime.date(2024, 2, 29)),
        ("CAST(CAST(1 AS bit) AS datetime)", "datetime", at(1900, 1, 2)),
        ("CAST(CAST(0 AS bit) AS smalldatetime)", "smalldatetime", at(1900, 1, 1)),
        ("TRY_CAST(N'abcdef' AS nvarchar(3))", "nvarchar(3)", "abc"),
        ("DATALENGTH(N'ab ')", "int", 6),
        ("DATEDIFF(day, '2026-11-30', '2026-12-25')", "int", 25),
        ("DATEADD(month, 1, CAST('2026-01-31' AS date))", "date", datetime.date(2026, 2, 28)),
        ("DATEPART(nanosecond, CAST('10:00:00.1234567' AS time))", "int", 123456700),
        (
            "CAST('2026-07-01 12:00' AS datetime2(0)) AT TIME ZONE 'W. Europe Standard Time'",
            "datetimeoffset(0)",
            {"ticks": at(2026, 7, 1, 36 * 10**10), "offset_minutes": 120},
        ),
    ],
)
def test_expressions(shared: Client, expression: str, kind: str, value: Any) -> None:
    assert shared.types(f"SELECT {expression}") == [kind]
    assert shared.value(f"SELECT {expression}") == value
    # Over a column instead of constants, nothing is computed beforehand.
    assert shared.value(f"SELECT {expression} FROM (VALUES (1)) AS v(one)") == value


@pytest.mark.parametrize(
    ("aggregate", "kind", "value"),
    [
        ("COUNT(*)", "int", 3),
        ("COUNT_BIG(i)", "bigint", 3),
        ("SUM(i)", "int", 8),
        ("AVG(i)", "int", 2),
        ("SUM(t)", "int", 8),
        ("MIN(s)", "varchar(5)", "A"),
        ("MAX(s)", "varchar(5)", "b"),
        ("SUM(d)", "decimal(38,2)", Decimal("8.00")),
        ("AVG(d)", "numeric(38,6)", Decimal("2.666666")),
        ("MAX(b)", "varbinary(4)", b"\x05"),
        ("COUNT(DISTINCT s)", "int", 2),
    ],
)
def test_aggregates(shared: Client, aggregate: str, kind: str, value: Any) -> None:
    source = (
        "(SELECT i, CAST(i AS tinyint) AS t, CAST(i AS decimal(10,2)) AS d, CAST(s AS varchar(5)) "
        "AS s, CAST(b AS varbinary(4)) AS b FROM (VALUES (1, 'A', 0x01), (2, 'a ', 0x02), "
        "(5, 'b', 0x05)) AS v(i, s, b)) AS q"
    )
    assert shared.types(f"SELECT {aggregate} FROM {source}") == [kind]
    assert shared.value(f"SELECT {aggregate} FROM {source}") == value


def test_nullability_is_told(shared: Client) -> None:
    shared.run("CREATE TABLE n (a int NOT NULL, b int NULL)")
    try:
        found = shared.columns("SELECT a, b, a + 1 AS c, COUNT(*) OVER () AS d, 'x' AS e FROM n")
        assert [c.nullable for c in found] == [False, True, False, False, False]
    finally:
        shared.run("DROP TABLE n")


def test_a_null_text_is_cut_to_null(shared: Client) -> None:
    shared.run("CREATE TABLE cuts (a nvarchar(9) NULL)", "INSERT cuts VALUES (N'日本'), (NULL)")
    try:
        for target in ("nvarchar(5)", "varchar(5)", "nchar(3)"):
            rows = shared.rows(f"SELECT CAST(a AS {target}) FROM cuts WHERE a IS NULL")
            assert rows == [(None,)], target
        assert shared.rows("SELECT LEFT(a, 1) FROM cuts") == [("日",), (None,)]
    finally:
        shared.run("DROP TABLE cuts")


def test_an_offset_given_to_a_datetime_leaves_its_milliseconds(shared: Client) -> None:
    shared.run("CREATE TABLE instants (a datetime NULL)")
    try:
        shared.run(
            "INSERT instants VALUES ('2026-01-01T10:00:00.003'), ('2026-01-01T10:00:00.007')"
        )
        rows = shared.rows("SELECT TODATETIMEOFFSET(a, 60) FROM instants ORDER BY a")
        assert [row[0]["ticks"] % 10_000_000 for row in rows] == [30_000, 70_000]
        text = shared.value(
            "SELECT CAST(TODATETIMEOFFSET(MAX(a), 60) AS varchar(40)) FROM instants"
        )
        assert text == "2026-01-01 10:00:00.007 +01:00"
    finally:
        shared.run("DROP TABLE instants")


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("POWER(2, 31)", 8115),
        ("POWER(10.0, 38)", 8115),
        ("POWER(CAST(3 AS bigint), 39)", 40515),  # a double has not so many digits
        ("SQRT(-1)", 3623),
        ("SWITCHOFFSET(CAST('2020-01-01' AS datetimeoffset), 'x')", 9812),
        ("SWITCHOFFSET(CAST('2020-01-01' AS datetimeoffset), '+14:01')", 9812),
        ("TODATETIMEOFFSET('2020-01-01', 841)", 9812),
        ("CAST('2020-01-01 10:00 +15:30' AS datetimeoffset)", 241),
        ("LOG(0)", 3623),
        ("DATEFROMPARTS(2023, 2, 29)", 289),
        ("DATEFROMPARTS(10000, 1, 1)", 289),
        ("CAST(-1 AS smalldatetime)", 8115),
        ("CAST(2958464 AS datetime)", 8115),
        ("CAST('2020-01-01' AS datetime) + 3000000", 8115),
        ("DATEADD(year, -300, CAST('2020-01-01' AS datetime))", 517),
        ("DATEADD(year, 100, CAST('2020-01-01' AS smalldatetime))", 517),
    ],
)
def test_results_out_of_their_range(shared: Client, expression: str, number: int) -> None:
    assert shared.error(f"SELECT {expression}").number == number


@pytest.mark.sandbox
def test_style_114_has_a_colon_before_a_datetimes_milliseconds(shared: Client) -> None:
    text = "CONVERT(varchar(40), CAST('2026-01-01T01:02:03' AS {}), 114)"
    assert shared.value(f"SELECT {text.format('datetime')}") == "01:02:03:000"
    assert shared.value(f"SELECT {text.format('smalldatetime')}") == "01:02:00:000"
    assert shared.value(f"SELECT {text.format('datetime2(3)')}") == "01:02:03.000"
    # What comes of more digits, no page says.
    assert shared.error(f"SELECT {text.format('datetime2(7)')}").number == 40515
    assert shared.error(f"SELECT {text.format('time(7)')}").number == 40515
    seconds = "CONVERT(varchar(20), CAST('01:02:03.456' AS time(3)), 108)"
    assert shared.value(f"SELECT {seconds}") == "01:02:03"
