"""Collations: code pages, what they tell apart, how they order, and what is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from cdc_assets.sandbox import collations
from cdc_assets_tests.sandbox.harness import Client, Server

pytestmark = pytest.mark.sqlserver
UNREAD = pytest.mark.sandbox
"""The driver of the tests takes UTF-8 for the code page of its language."""


def holds(client: Client, condition: str) -> bool:
    return bool(client.value(f"SELECT CASE WHEN {condition} THEN 1 ELSE 0 END") == 1)


@pytest.fixture
def letters(db: Client) -> Iterator[Client]:
    """Over a column instead of constants, nothing is computed beforehand."""
    db.run("CREATE TABLE pairs (a nvarchar(20), b nvarchar(20))")
    yield db
    db.run("DROP TABLE pairs")


EQUAL = [
    ("Latin1_General_CI_AS", "KÄSE ", "käse"),
    ("Latin1_General_CI_AS", "Straße", "STRASSE"),
    ("Latin1_General_CI_AS", "Æsop", "aesop"),
    ("Latin1_General_CI_AS", "é", "e\u0301"),
    ("Latin1_General_CI_AS", "ａｂ", "AB"),
    ("Latin1_General_CI_AS", "a\x01b\0", "ab"),
    ("Latin1_General_CI_AS", "a😀", "a"),  # before version 90 a pair has no weight
    ("Latin1_General_CI_AI", "ÀÉ", "ae"),
    ("Latin1_General_CS_AI", "é", "e"),
    ("Latin1_General_100_CI_AS_SC_UTF8", "KÄSE", "käse"),
    ("Greek_CI_AS", "ΟΔΥΣΣΕΎΣ", "οδυσσεύς"),
    ("Greek_CI_AI", "ΟΔΥΣΣΕΥΣ", "Οδυσσεύς"),
    ("Cyrillic_General_CI_AS", "МОСКВА", "москва"),
    ("Cyrillic_General_CI_AI", "ёлка", "елка"),
    ("Turkish_CI_AS", "DİYARBAKIR", "diyarbakır"),
    ("Japanese_CI_AS", "ｶﾞﾝ", "がん"),
    ("Latin1_General_BIN2", "a ", "a"),
]
DIFFERENT = [
    ("Latin1_General_CI_AS", "e", "é"),
    ("Latin1_General_CS_AS", "a", "A"),
    ("Latin1_General_CS_AI", "E", "e"),
    ("Latin1_General_CI_AS", "co-op", "coop"),
    ("Latin1_General_CI_AS_WS", "ａ", "a"),
    ("Turkish_CI_AS", "I", "i"),
    ("Cyrillic_General_CI_AI", "й", "и"),
    ("Cyrillic_General_CI_AS", "ё", "е"),
    ("Japanese_CI_AS_KS", "カ", "か"),
    ("Japanese_CI_AS", "か", "が"),
    ("Latin1_General_BIN2", "a", "A"),
    ("Latin1_General_BIN2", "é", "e\u0301"),
]


@pytest.mark.parametrize(("name", "a", "b"), EQUAL)
def test_equal(letters: Client, name: str, a: str, b: str) -> None:
    letters.results("INSERT pairs VALUES (@P1, @P2)", a, b)
    assert letters.value(f"SELECT COUNT(*) FROM pairs WHERE a = b COLLATE {name}") == 1
    # What is equal is in no order either.
    wrong = f"a < b COLLATE {name} OR a > b COLLATE {name}"
    if not set(a + b) & set("ｶﾞﾝがん\u0301"):
        assert letters.value(f"SELECT COUNT(*) FROM pairs WHERE {wrong}") == 0


@pytest.mark.parametrize(("name", "a", "b"), DIFFERENT)
def test_different(letters: Client, name: str, a: str, b: str) -> None:
    letters.results("INSERT pairs VALUES (@P1, @P2)", a, b)
    assert letters.value(f"SELECT COUNT(*) FROM pairs WHERE a = b COLLATE {name}") == 0


@pytest.mark.parametrize(
    ("name", "ordered"),
    [
        # Microsoft's example: nvarchar ignores the hyphen, see the next test for varchar.
        ("SQL_Latin1_General_CP1_CI_AS", ["ab", "a-c", "ac-"]),
        ("Latin1_General_CI_AS", ["!", "?", "_", "~", "+", ">", "1", "a", "é", "f", "Ωμέγα", "ж"]),
        ("Latin1_General_CI_AS", ["cote", "coté", "côte", "côté"]),
        ("Latin1_General_CS_AS", ["a", "A", "ab", "b", "B"]),
        ("Latin1_General_CI_AS", ["coop", "co-op", "coops"]),
        (
            "Latin1_General_CI_AS",
            ["coop", "-coop", "c-oop", "co'op", "co-op", "co--op", "co-o-p", "coo-p", "coops"],
        ),
        ("Latin1_General_CI_AS", ["a", "á", "à", "â", "ä", "ă", "ā", "ã", "å", "ą", "b"]),
        ("Latin1_General_CI_AS", ["z", "α", "ω", "а", "я", "א", "ב", "一", "丁"]),
        ("Greek_CI_AS", ["άλφα", "αλφαβ", "βήτα", "Ωμέγα"]),
        ("Cyrillic_General_CI_AS", ["еж", "ёж", "жук", "йод", "як"]),
        ("Turkish_CI_AS", ["cz", "ça", "d", "gz", "ğa", "h", "ız", "ia", "oz", "öa", "sz", "şa"]),
        ("Korean_Wansung_CI_AS", ["z", "가", "나", "하"]),
        ("Hebrew_CI_AS", ["א", "ב", "ת"]),
        ("Arabic_CI_AS", ["ب", "ت", "ي"]),
        ("Latin1_General_BIN2", ["A", "a", "é", "\ud7ff", "😀", "\uffff"]),
        ("Latin1_General_BIN2", ["a\x01", "a", "a!", "aa"]),
    ],
)
def test_order(db: Client, name: str, ordered: list[str]) -> None:
    db.run(f"CREATE TABLE o (s nvarchar(20) COLLATE {name})")
    for text in reversed(ordered):
        db.results("INSERT o VALUES (@P1)", text)
    assert [r[0] for r in db.rows("SELECT s FROM o ORDER BY s")] == ordered
    assert db.rows("SELECT MIN(s), MAX(s) FROM o") == [(ordered[0], ordered[-1])]


def test_varchar_of_sql_servers_own_collation_has_an_order_of_its_own(shared: Client) -> None:
    for yes in (
        "'a-c' < 'ab'",
        "N'a-c' > N'ab'",
        "'Straße' <> 'STRASSE'",
        "'~' < '¿'",
        "'÷' < '0'",
        "'é' > 'e'",
        "'é' < 'f'",
    ):
        assert holds(shared, yes), yes


def test_bin2_of_varchar_orders_the_bytes_of_its_code_page(db: Client) -> None:
    """€ is 0x80 in code page 1252, before é, though its code point comes after."""
    db.run("CREATE TABLE b (v varchar(5) COLLATE Latin1_General_BIN2, n nvarchar(5))")
    db.run("INSERT b VALUES (N'€', N'€'), (N'é', N'é'), (N'z', N'z')")
    assert [r[0] for r in db.rows("SELECT v FROM b ORDER BY v")] == ["z", "€", "é"]
    bin2 = "n COLLATE Latin1_General_BIN2"
    assert [r[0] for r in db.rows(f"SELECT n FROM b ORDER BY {bin2}")] == ["z", "é", "€"]


@pytest.mark.parametrize(
    ("name", "text", "stored"),
    [
        ("Latin1_General_CI_AS", "a€é", b"a\x80\xe9"),
        ("Greek_CI_AS", "Ω", b"\xd9"),
        ("Cyrillic_General_BIN", "жa", b"\xe6a"),
        ("Latin1_General_100_CI_AS_SC_UTF8", "é漢", "é漢".encode()),
        ("Japanese_CI_AS", "ab", b"ab"),
    ],
)
@pytest.mark.sandbox
def test_a_varchars_bytes_are_its_code_pages(
    db: Client, name: str, text: str, stored: bytes
) -> None:
    db.run(f"CREATE TABLE p (v varchar(9) COLLATE {name}, b varbinary(9))")
    db.results("INSERT p (v) VALUES (@P1)", text)
    db.run("UPDATE p SET b = CAST(v AS varbinary(9))")
    hashed = hashlib.md5(stored, usedforsecurity=False).digest()
    seen = db.rows("SELECT b, HASHBYTES('MD5', v), ASCII(v), DATALENGTH(v) FROM p")
    assert seen == [(stored, hashed, stored[0], len(stored))]
    db.run(f"CREATE DATABASE [of {name}] COLLATE {name}")
    db.run(f"USE [of {name}]")
    assert db.value(f"SELECT CAST(0x{stored.hex()} AS varchar(9))") == text
    if stored[0] == ord(text[0]) or len(stored) == 1:
        assert db.value(f"SELECT CHAR({stored[0]})") == text[0]


@pytest.mark.sandbox
def test_bytes_that_are_not_known_are_refused(shared: Client) -> None:
    japanese = "CAST(N'日' COLLATE Japanese_CI_AS AS varchar(9))"
    for asked in (f"CAST({japanese} AS varbinary(9))", f"ASCII({japanese})", "CHAR(129)"):
        assert shared.error(f"SELECT {asked}").number == 40515


@pytest.mark.parametrize(
    ("name", "text", "stored", "size"),
    [
        ("Latin1_General_CI_AS", "Ж日😀", "????", 4),
        ("Latin1_General_CI_AS", "āＡ", "aA", 2),
        ("Greek_CI_AS", "Ωμέγα Ж", "Ωμέγα ?", 7),
        ("Japanese_CI_AS", "日本ｱ", "日本ｱ", 5),
        ("Chinese_PRC_BIN2", "中文a", "中文a", 5),
        ("Korean_Wansung_CI_AS", "한국", "한국", 4),
        ("Thai_CI_AS", "ไทย", "ไทย", 3),
        pytest.param(*("Latin1_General_100_CI_AS_SC_UTF8", "é漢😀", "é漢😀", 9), marks=UNREAD),
    ],
)
def test_code_pages(db: Client, name: str, text: str, stored: str, size: int) -> None:
    db.run(f"CREATE TABLE p (v varchar(20) COLLATE {name}, c char(10) COLLATE {name})")
    db.results("INSERT p VALUES (@P1, @P1)", text)
    assert db.rows("SELECT v, DATALENGTH(v), DATALENGTH(c) FROM p") == [(stored, size, 10)]
    db.run(f"CREATE TABLE tight (v varchar({size}) COLLATE {name})")
    db.results("INSERT tight VALUES (@P1)", text)
    db.run(f"CREATE TABLE short (v varchar({size - 1}) COLLATE {name})")
    error = db.error("INSERT short VALUES (@P1)", text)
    assert error.number == 2628
    cut = error.text.partition("Truncated value: '")[2].removesuffix("'.")
    assert stored.startswith(cut)
    assert len(cut) == len(stored) - 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("CREATE TABLE x (s varchar(5) COLLATE Klingon_CI_AS)", 448),
        ("CREATE TABLE x (s varchar(5) COLLATE Latin1_General_140_CI_AS)", 448),
        ("CREATE TABLE x (i int COLLATE Greek_CI_AS)", 448),
        ("SELECT 'a' COLLATE Greek_CI", 448),
        ("SELECT 1 COLLATE Greek_CI_AS", 447),
        ("CREATE DATABASE x COLLATE Klingon_CI_AS", 448),
        ("CREATE DATABASE x COLLATE Lithuanian_CI_AS", 40515),
        ("CREATE TABLE x (s varchar(5) COLLATE Danish_Norwegian_CI_AS)", 40515),
        ("SELECT N'a' COLLATE SQL_Latin1_General_CP1_CS_AS", 40515),
        # No table here says where these sort, or what they equal.
        ("SELECT 1 WHERE N'っ' = N'つ' COLLATE Japanese_CI_AS", 40515),
        ("SELECT 1 WHERE N'日' < N'本' COLLATE Japanese_CI_AS", 40515),
        ("SELECT 1 WHERE N'™' = N'TM'", 40515),
        ("SELECT 1 WHERE N'ø' = N'o' COLLATE Latin1_General_CI_AI", 40515),
        ("SELECT 1 WHERE N'😀' = N'😁' COLLATE Latin1_General_100_CI_AS", 40515),
        ("SELECT CAST(N'∞' AS varchar(5))", 40515),
        ("SELECT 1 WHERE N'é' LIKE N'e' COLLATE Latin1_General_CI_AI", 40515),
    ],
)
def test_refused(shared: Client, text: str, number: int) -> None:
    assert shared.error(text).number == number


def test_conflicts(db: Client) -> None:
    db.run(
        "CREATE TABLE c (g nvarchar(5) COLLATE Greek_CI_AS, t nvarchar(5) COLLATE Turkish_CI_AS)"
    )
    error = db.error("SELECT 1 FROM c WHERE g = t")
    assert (error.number, error.text) == (
        468,
        'Cannot resolve the collation conflict between "Greek_CI_AS" and "Turkish_CI_AS" in the '
        "equal to operation.",
    )
    assert db.rows("SELECT 1 FROM c WHERE g = t COLLATE Greek_CI_AS") == []
    assert db.rows("SELECT 1 FROM c WHERE g = N'x'") == []


def test_a_key_in_a_collation(db: Client) -> None:
    db.run("CREATE TABLE k (s varchar(20) COLLATE Greek_CI_AI PRIMARY KEY)")
    db.run("INSERT k VALUES (N'Οδυσσεύς')")
    assert db.error("INSERT k VALUES (N'ΟΔΥΣΣΕΥΣ')").number == 2627


@pytest.mark.sandbox
def test_a_databases_collation(engine_server: Server) -> None:
    """Its columns, literals, variables and catalogue have it; it is there after a restart."""
    client = engine_server.client(database="master")
    client.run("CREATE DATABASE el COLLATE greek_ci_as")
    client.run("USE el", "CREATE TABLE t (s varchar(6), n nvarchar(6))")
    client.run("INSERT t VALUES ('Ωμέγα', 'Ωμέγα')")
    client.session.close()
    engine_server.restart()
    client = engine_server.client(database="el")
    assert client.rows("SELECT s, n, DATALENGTH(s) FROM t WHERE s = 'ΩΜΈΓΑ'") == [
        ("Ωμέγα", "Ωμέγα", 5)
    ]
    text = "DECLARE @v varchar(9) = 'ωμέγα'; SELECT @v, DATALENGTH(@v) FROM t WHERE n = @v"
    assert client.rows(text) == [("ωμέγα", 5)]
    assert client.value("SELECT collation_name FROM sys.columns WHERE name = 's'") == "Greek_CI_AS"
    assert client.rows("SELECT 1 FROM sys.tables AS a JOIN t ON t.n = a.name") == []
    assert client.value("SELECT DATABASEPROPERTYEX('el', 'Collation')") == "Greek_CI_AS"
    assert client.columns("SELECT s FROM t")[0].type.collation == "Greek_CI_AS"


def test_what_the_server_says_of_collations(shared: Client) -> None:
    listed = dict(shared.rows("SELECT name, description FROM sys.fn_helpcollations()"))
    assert set(listed) == {c.name for c in collations.known()}
    assert listed["Greek_CI_AS"] == (
        "Greek, case-insensitive, accent-sensitive, kanatype-insensitive, width-insensitive"
    )
    properties = ", ".join(
        f"COLLATIONPROPERTY('Japanese_XJIS_100_CS_AS_KS', '{name}')"
        for name in ("CodePage", "LCID", "ComparisonStyle", "Version", "Nothing")
    )
    assert shared.rows(f"SELECT {properties}") == [(932, 0x411, 0x20000, 2, None)]
    assert shared.value("SELECT COLLATIONPROPERTY('Klingon', 'LCID')") is None
    assert shared.value("SELECT SERVERPROPERTY('Collation')") == "SQL_Latin1_General_CP1_CI_AS"


def test_every_listed_collation_compares(shared: Client) -> None:
    """None of them is accepted and then unknown to a part of the server."""
    for name in {c.family: c.name for c in collations.known()}.values():
        assert holds(shared, f"N'a ' = N'a' COLLATE {name} AND N'a' < N'b' COLLATE {name}"), name


@pytest.mark.sandbox
def test_a_collation_without_known_order_is_refused_where_it_is_compared(db: Client) -> None:
    """One of SQL Server's own, in a column for its code page."""
    kind = "varchar(9) COLLATE SQL_Latin1_General_CP1251_CI_AS"
    db.run(f"CREATE TABLE kept (id int PRIMARY KEY, s {kind})")
    db.run("INSERT INTO kept VALUES (1, N'Привет')")
    assert db.value("SELECT DATALENGTH(s) FROM kept") == 6
    for text in (
        "SELECT 1 FROM kept WHERE s = N'x'",
        "SELECT s FROM kept ORDER BY s",
        "SELECT MAX(s) FROM kept",
        "SELECT s FROM kept GROUP BY s",
        "SELECT DISTINCT s FROM kept",
        "SELECT 1 FROM kept WHERE s LIKE 'x%'",
        "SELECT REPLACE(s, 'x', 'y') FROM kept",
        "CREATE UNIQUE INDEX one ON kept (s) INSERT INTO kept VALUES (2, 'x')",
    ):
        assert db.error(text).number == 40515, text
    db.run("DROP TABLE kept")
