"""Strings under the default collation: case and trailing spaces do not count."""

from __future__ import annotations

import pytest

from cdc_assets_tests.sandbox.harness import Client

pytestmark = pytest.mark.sqlserver


def test_comparison(shared: Client) -> None:
    for yes in (
        "N'ABC ' = N'abc'",
        "'a' < 'B'",
        "'_' < 'a'",
        "'é' <> 'e'",
        "'e' < 'é'",
        "'é' < 'f'",
        "'Z' > 'a'",
        "'a' IN ('A')",
        "'x' BETWEEN 'W' AND 'Y'",
        "'' = ' '",
        "'~' < '1'",
    ):
        assert shared.value(f"SELECT CASE WHEN {yes} THEN 1 ELSE 0 END") == 1, yes


def test_grouping_ordering_distinct(shared: Client) -> None:
    source = "(VALUES (N'b'), (N'A'), (N'a '), (N'B'), (NULL)) AS v(x)"
    assert [
        r[1] for r in shared.rows(f"SELECT x, COUNT(*) FROM {source} GROUP BY x ORDER BY x")
    ] == [
        1,
        2,
        2,
    ]
    assert len(shared.rows(f"SELECT DISTINCT x FROM {source}")) == 3
    assert len(shared.rows(f"SELECT x FROM {source} UNION SELECT N'A'")) == 3
    ordered = [r[0] for r in shared.rows(f"SELECT x FROM {source} ORDER BY x DESC")]
    assert [None if x is None else x.strip().lower() for x in ordered] == ["b", "b", "a", "a", None]


def test_unique_keys(db: Client) -> None:
    db.run("CREATE TABLE k (c varchar(10) PRIMARY KEY, u nvarchar(10) NULL UNIQUE)")
    db.run("INSERT k VALUES ('Ab', N'x')")
    error = db.error("INSERT k VALUES ('aB  ', N'y')")
    assert error.number == 2627
    assert "PRIMARY KEY" in error.text
    assert "(aB)" in error.text
    assert "UNIQUE KEY" in db.error("INSERT k VALUES ('c', N'X ')").text
    db.run("INSERT k VALUES ('d', NULL)")
    assert db.error("INSERT k VALUES ('e', NULL)").number == 2627  # one NULL only
    db.run("CREATE UNIQUE INDEX i ON k (u DESC, c)")
    assert db.error("CREATE UNIQUE INDEX i ON k (u)").number == 1913


def test_other_collations(db: Client) -> None:
    db.run(
        "CREATE TABLE c (s varchar(5) COLLATE Latin1_General_100_CS_AS, "
        "b varchar(5) COLLATE Latin1_General_BIN2)",
        "INSERT c VALUES ('a', 'a'), ('B', 'B'), ('A', 'A')",
    )
    assert db.value("SELECT COUNT(*) FROM c WHERE s = 'A'") == 1
    assert [r[0] for r in db.rows("SELECT s FROM c ORDER BY s")] == ["a", "A", "B"]
    assert [r[0] for r in db.rows("SELECT b FROM c ORDER BY b")] == ["A", "B", "a"]
    assert (
        db.value("SELECT COUNT(*) FROM c WHERE s = 'A' COLLATE SQL_Latin1_General_CP1_CI_AS") == 2
    )
    assert db.error("SELECT COUNT(*) FROM c WHERE s = b").number == 468
    assert db.error("SELECT 'a' COLLATE [x; y]").number == 448


@pytest.mark.sandbox
def test_a_collation_whose_order_is_not_known(db: Client) -> None:
    assert db.error("CREATE TABLE j (s varchar(5) COLLATE Czech_CI_AS)").number == 40515


def test_like(shared: Client) -> None:
    for yes in (
        "'Hello' LIKE 'h%O'",
        "'a_c' LIKE 'a[_]c'",
        "'abc' NOT LIKE 'a[_]c'",
        "'b' LIKE '[a-c]'",
        "'d' LIKE '[^a-c]'",
        "'50%' LIKE '50!%' ESCAPE '!'",
        "'x.y' LIKE 'x.y'",
        "'a\nb' LIKE 'a%b'",
    ):
        assert shared.value(f"SELECT CASE WHEN {yes} THEN 1 ELSE 0 END") == 1, yes
    for no in ("'xzy' LIKE 'x.y'", "'ab' LIKE '_'", "NULL LIKE '%'"):
        assert shared.value(f"SELECT CASE WHEN {no} THEN 1 ELSE 0 END") == 0, no


def test_uniqueidentifiers_order_by_their_last_bytes(shared: Client) -> None:
    first = "FFFFFFFF-FFFF-FFFF-FFFF-000000000001"
    second = "00000000-0000-0000-0000-000000000002"
    text = (
        f"SELECT x FROM (VALUES (CAST('{second}' AS uniqueidentifier)), (CAST('{first}' AS "
        "uniqueidentifier))) AS v(x) ORDER BY x"
    )
    assert [r[0] for r in shared.rows(text)] == [first, second]
    assert (
        shared.value(
            f"SELECT CASE WHEN CAST('{first}' AS uniqueidentifier) < '{second}' THEN 1 ELSE 0 END"
        )
        == 1
    )


def test_hostile_names_and_values(db: Client) -> None:
    for name in ("a b", "x]y", 'q"t', "semi;colon", "d.o.t", "日本", "n'q", "--", "x" * 128):
        quoted = f"[{name.replace(']', ']]')}]"
        db.run(f"CREATE TABLE {quoted} ({quoted} nvarchar(50))")
        value = "'; DROP TABLE x; --\0\x02 ]"
        db.results(f"INSERT {quoted} SELECT @P1", value)
        assert db.rows(f"SELECT {quoted} FROM dbo.{quoted} WHERE {quoted} = @P1", value) == [
            (value,)
        ]
        assert db.value("SELECT OBJECT_NAME(OBJECT_ID(@P1))", f"dbo.{quoted}") == name
        db.run(f"DROP TABLE {quoted}")
    assert db.error(f"SELECT 1 AS [{'x' * 129}]").number == 103


def test_null_is_null_whatever_its_length(db: Client) -> None:
    kinds = ("char(9)", "varchar(9)", "varchar(max)", "nchar(9)", "nvarchar(9)", "nvarchar(max)")
    columns = ", ".join(f"c{place} {kind} NULL" for place, kind in enumerate(kinds))
    db.run(f"CREATE TABLE nothing (id int, {columns})", "INSERT nothing (id) VALUES (1)")
    for place in range(len(kinds)):
        for target in ("char(4)", "varchar(4)", "nchar(4)", "nvarchar(4)", "nvarchar(max)"):
            assert db.value(f"SELECT CAST(c{place} AS {target}) FROM nothing") is None, target


def test_a_string_and_null_is_null_and_no_number(shared: Client) -> None:
    rows = shared.rows("SELECT s + NULL, NULL + s, s + N'b' + NULL FROM (VALUES ('x')) AS v(s)")
    assert rows == [(None, None, None)]
