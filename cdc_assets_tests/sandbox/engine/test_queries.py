"""What queries of real clients use besides the plain parts: hints, INTO, sets of strings, units."""

from __future__ import annotations

import pytest

from cdc_assets_tests.sandbox.harness import Client

pytestmark = pytest.mark.sqlserver

_SC = "COLLATE Latin1_General_100_CI_AS_SC"


@pytest.fixture
def t(db: Client) -> Client:
    db.run("CREATE TABLE t(id int NOT NULL PRIMARY KEY, s nvarchar(9) NULL)")
    db.run("INSERT t VALUES (1, N'a'), (2, N'B,c'), (3, NULL)")
    return db


# --- hints -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hints",
    [
        "WITH (TABLOCKX)",
        "WITH (TABLOCK, HOLDLOCK)",
        "WITH (UPDLOCK, ROWLOCK, XLOCK, PAGLOCK)",
        "AS x WITH (NOLOCK)",
        "(NOLOCK)",
        "AS x (NOLOCK, INDEX(1))",
        "WITH (INDEX = pk_t, FORCESEEK)",
        "WITH (SERIALIZABLE, NOWAIT)",
    ],
)
def test_hints_that_only_lock(t: Client, hints: str) -> None:
    assert t.rows(f"SELECT TOP 0 * FROM t {hints}") == []
    assert t.value(f"SELECT COUNT(*) FROM t {hints}") == 3


@pytest.mark.sandbox
def test_hints_with_other_meanings_are_refused(t: Client) -> None:
    for hint in ("READPAST", "NOSUCH", "IGNORE_CONSTRAINTS"):
        assert t.error(f"SELECT * FROM t WITH ({hint})").number == 40515
    assert t.error("INSERT t WITH (READPAST) VALUES (4, NULL)").number == 40515


@pytest.mark.sandbox
def test_nolock_sees_committed_rows_alone(t: Client) -> None:
    t.run("BEGIN TRAN; INSERT t VALUES (4, N'd')")
    other = t.another()
    assert other.value("SELECT COUNT(*) FROM t WITH (NOLOCK)") == 3
    other.run("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
    assert other.value("SELECT COUNT(*) FROM t") == 3


@pytest.mark.sandbox
def test_a_lock_that_lasts_keeps_what_was_read(t: Client) -> None:
    other = t.another()
    t.run("BEGIN TRAN; SELECT TOP 0 * FROM t WITH (TABLOCKX)")
    assert t.value("SELECT COUNT(*) FROM t") == 3
    other.run("INSERT t VALUES (4, N'd')")
    assert t.value("SELECT COUNT(*) FROM t") == 3
    t.run("COMMIT")
    assert t.value("SELECT COUNT(*) FROM t") == 4


# --- sets, INTO, strings -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "expected"),
    [("EXCEPT", ["b", None]), ("INTERSECT", ["a"]), ("UNION", ["a", "b", "c", None])],
)
def test_sets_of_strings_compare_by_collation(
    db: Client, op: str, expected: list[str | None]
) -> None:
    left = "SELECT v FROM (VALUES ('A'), ('A '), ('b'), ('b'), (NULL)) AS l(v)"
    right = "SELECT v FROM (VALUES ('a'), ('c')) AS r(v)"
    found = [row[0] for row in db.rows(f"{left} {op} {right}")]
    shown = [value and value.strip().lower() for value in found]
    assert sorted(shown, key=str) == sorted(expected, key=str)


def test_except_finds_null_equal_to_null(db: Client) -> None:
    text = "SELECT v FROM (VALUES ('a'), (NULL)) AS l(v) {} SELECT CAST(NULL AS varchar(1))"
    assert db.rows(text.format("EXCEPT")) == [("a",)]
    assert db.rows(text.format("INTERSECT")) == [(None,)]
    three = "SELECT 'a' EXCEPT SELECT 'b' EXCEPT SELECT 'A'"
    assert db.rows(three) == []


def test_select_into_makes_a_table(t: Client) -> None:
    assert t.counts("SELECT id, s AS text, id * 1.5 AS n INTO made FROM t WHERE id < 3") == [2]
    assert t.rows("SELECT id, text, n FROM made ORDER BY id")[0][:2] == (1, "a")
    assert [(c.name, str(c.type)) for c in t.columns("SELECT * FROM made")] == [
        ("id", "int"),
        ("text", "nvarchar(9)"),
        ("n", "numeric(13,1)"),
    ]
    t.run("UPDATE made SET text = N'x' WHERE id = 1; DELETE made WHERE id = 2")
    assert t.rows("SELECT id, text FROM made") == [(1, "x")]


def test_select_into_is_refused_with_the_servers_number(t: Client) -> None:
    assert t.error("SELECT id INTO t FROM t").number == 2714
    assert t.error("SELECT id + 1 INTO made FROM t").number == 1038
    assert t.error("SELECT id, id INTO made FROM t").number == 2705
    assert t.ending("SELECT 1 / (id - 1) AS n INTO #x FROM t; SELECT 2 AS n INTO #x") == [8134]
    assert t.value("SELECT n FROM #x") == 2


@pytest.mark.sandbox
def test_select_into_does_not_inherit_identity(t: Client) -> None:
    t.run("CREATE TABLE i(id int IDENTITY, v int)")
    assert t.error("SELECT * INTO made FROM i").number == 40515


def test_datename(db: Client) -> None:
    moment = "CAST('2024-03-05 06:07:08.1234567' AS datetime2(7))"
    parts = ("month", "weekday", "year", "dd", "hh", "ns")
    items = ", ".join(f"DATENAME({part}, {moment})" for part in parts)
    assert db.rows(f"SELECT {items}") == [("March", "Tuesday", "2024", "5", "6", "123456700")]
    assert db.types(f"SELECT DATENAME(month, {moment})") == ["nvarchar(30)"]
    offset = "CAST('2024-03-05 06:07:08 +05:30' AS datetimeoffset)"
    assert db.value(f"SELECT DATENAME(tz, {offset})") == "+05:30"
    assert db.value("SELECT DATENAME(month, CAST(NULL AS date))") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LEN(N'😀a')", 3),
        ("LEFT(N'😀a', 2)", "😀"),
        ("RIGHT(N'a😀', 2)", "😀"),
        ("SUBSTRING(N'x😀ab', 4, 1)", "a"),
        ("SUBSTRING(N'😀ab', 0, 3)", "😀"),
        ("CHARINDEX(N'A', N'😀a')", 3),
        ("CHARINDEX(N'a', N'a😀a', 2)", 4),
        ("CHARINDEX(N'😀', N'a😀')", 2),
        ("STUFF(N'😀ab', 3, 1, N'xy')", "😀xyb"),
        ("STUFF(N'😀ab', 1, 2, N'')", "ab"),
        ("REVERSE(N'abc')", "cba"),
        ("UNICODE(N'😀')", 0xD83D),
        ("NCHAR(128512)", None),
        (f"LEN(N'😀a' {_SC})", 2),
        (f"LEFT(N'😀a' {_SC}, 1)", "😀"),
        (f"REVERSE(N'😀a' {_SC})", "a😀"),
        (f"UNICODE(N'😀' {_SC})", 0x1F600),
    ],
)
def test_strings_count_utf16_units(db: Client, text: str, expected: object) -> None:
    assert db.value(f"SELECT {text}") == expected
    db.run("CREATE TABLE one(n int); INSERT one VALUES (1)")


def test_a_character_of_two_units_fits_its_type(db: Client) -> None:
    columns = f"LEFT(N'😀ab' {_SC}, 1), RIGHT(N'abc' {_SC}, 9), LEFT(N'abc', 1)"
    assert db.types(f"SELECT {columns}") == ["nvarchar(2)", "nvarchar(3)", "nvarchar(1)"]


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "text",
    [
        "LEFT(N'😀', 1)",
        "RIGHT(N'😀', 1)",
        "SUBSTRING(N'a😀', 2, 1)",
        "REVERSE(N'😀')",
        "NCHAR(55357)",
    ],
)
def test_half_a_pair_is_refused(db: Client, text: str) -> None:
    assert db.error(f"SELECT {text}").number == 40515


def test_lists_as_strings(t: Client) -> None:
    assert t.value("SELECT STRING_AGG(s, N';') WITHIN GROUP (ORDER BY id DESC) FROM t") == "B,c;a"
    split = "SELECT t.id, v.value, v.ordinal FROM t CROSS APPLY STRING_SPLIT(t.s, N',', 1) AS v"
    assert t.rows(f"{split} ORDER BY t.id, v.ordinal") == [(1, "a", 1), (2, "B", 1), (2, "c", 2)]
    assert t.types("SELECT value FROM STRING_SPLIT(N'a,b', N',')") == ["nvarchar(3)"]
    assert t.error("SELECT value FROM STRING_SPLIT('a', '')").number == 214
    assert t.error("SELECT MAX(id) WITHIN GROUP (ORDER BY id) FROM t").number == 10757


def test_choose_and_space(db: Client) -> None:
    assert db.rows("SELECT CHOOSE(2, 'a', 'b'), CHOOSE(3, 'a', 'b'), SPACE(2) + 'x'") == [
        ("b", None, "  x")
    ]


# --- savepoints --------------------------------------------------------------------------------


def test_savepoints(t: Client) -> None:
    t.run("BEGIN TRAN outermost; UPDATE t SET s = N'1' WHERE id = 1; SAVE TRAN here")
    t.run("UPDATE t SET s = N'2' WHERE id = 1; INSERT t VALUES (4, N'x'); CREATE TABLE gone(a int)")
    t.run("SAVE TRANSACTION later; DELETE t WHERE id = 2; ROLLBACK TRAN here")
    assert t.value("SELECT @@TRANCOUNT") == 1
    assert t.error("ROLLBACK TRAN later").number == 6401
    assert t.error("SELECT * FROM gone").number == 208
    t.run("INSERT t VALUES (4, N'y'); COMMIT")
    assert t.rows("SELECT id, s FROM t WHERE id <> 3 ORDER BY id") == [
        (1, "1"),
        (2, "B,c"),
        (4, "y"),
    ]
    assert t.error("SAVE TRAN here").number == 628
    t.run("BEGIN TRAN outermost; DELETE t; ROLLBACK TRAN outermost")
    assert t.rows("SELECT COUNT(*), @@TRANCOUNT FROM t") == [(4, 0)]


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "text",
    [
        "GOTO there",
        "there: SELECT 1",
        "DECLARE c CURSOR FOR SELECT 1",
        "DECLARE @c CURSOR",
        "OPEN c",
        "FETCH NEXT FROM c",
        "CLOSE c",
        "DEALLOCATE c",
        "SELECT FORMAT(1, 'N')",
        "SELECT JSON_VALUE('{}', '$.a')",
        "BACKUP DATABASE shop TO DISK = 'x'",
    ],
)
def test_what_is_known_and_missing_says_so(db: Client, text: str) -> None:
    assert db.error(text).number == 40515


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, ROW_NUMBER() OVER (ORDER BY 10 / v) FROM {t} WHERE v <> 0",
        "SELECT id, ROW_NUMBER() OVER (ORDER BY 10 / v) FROM {t} WHERE 10 / id > 0 AND v <> 0",
        "SELECT id, RANK() OVER (PARTITION BY 10 / v ORDER BY id) FROM {t} WHERE v IN (1, 2)",
        "SELECT a.id, ROW_NUMBER() OVER (ORDER BY 10 / a.v) FROM {t} JOIN {t2} ON a.v = b.id",
        "SELECT TOP 2 WITH TIES id, v FROM {t} WHERE 10 / id > 0 AND v <> 0 ORDER BY 10 / v",
        "SELECT id, v FROM {t} WHERE CAST(s AS int) > 0 AND v <> 0 ORDER BY 10 / v",
    ],
)
def test_keys_are_computed_of_the_rows_that_are_left(shared: Client, query: str) -> None:
    rows = "(VALUES (1, '5', 1), (2, '7', 2), (3, '8', 0))"
    text = query.format(t=f"{rows} AS a(id, s, v)", t2=f"{rows} AS b(id, s, v)")
    assert {row[0] for row in shared.rows(text)} == {1, 2}
