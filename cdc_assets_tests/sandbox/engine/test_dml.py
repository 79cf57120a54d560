"""Changes and definitions over T-SQL, batches and control flow."""

from __future__ import annotations

import pytest

from cdc_assets_tests.sandbox.harness import Client

pytestmark = pytest.mark.sqlserver


def test_identity(db: Client) -> None:
    db.run("CREATE TABLE i (id int IDENTITY(10, 5) PRIMARY KEY, a int NULL)")
    db.run("INSERT i (a) VALUES (1), (2)", "INSERT i DEFAULT VALUES")
    assert db.rows("SELECT id, a FROM i ORDER BY id") == [(10, 1), (15, 2), (20, None)]
    assert db.value("SELECT SCOPE_IDENTITY()") == 20
    assert db.error("INSERT i (id, a) VALUES (1, 1)").number == 544
    assert db.error("UPDATE i SET id = 1").number == 8102
    db.run("SET IDENTITY_INSERT dbo.i ON; INSERT i (id, a) VALUES (100, 9)")
    db.run("SET IDENTITY_INSERT dbo.i OFF; INSERT i (a) VALUES (10)")
    assert db.value("SELECT MAX(id) FROM i") == 105
    db.run("BEGIN TRAN; INSERT i (a) VALUES (0); ROLLBACK; INSERT i (a) VALUES (1)")
    assert db.value("SELECT MAX(id) FROM i") == 115  # a number once given is gone
    assert db.value("SELECT IDENT_CURRENT('i')") == 115


def test_defaults_computed_columns_and_rowversion(db: Client) -> None:
    db.run(
        "CREATE TABLE d (a int NOT NULL DEFAULT (7), b AS (a * 2) PERSISTED, g uniqueidentifier "
        "DEFAULT NEWID(), at datetime2 DEFAULT SYSUTCDATETIME(), r rowversion, c varchar(5) NULL)"
    )
    db.run("INSERT d (c) VALUES ('x'), (DEFAULT)", "INSERT d (a) SELECT 1")
    assert db.rows("SELECT a, b, c FROM d ORDER BY a, c") == [
        (1, 2, None),
        (7, 14, None),
        (7, 14, "x"),
    ]
    assert db.value("SELECT COUNT(DISTINCT g) FROM d") == 3
    versions = [r[0] for r in db.rows("SELECT r FROM d")]
    assert versions == sorted(set(versions))
    db.run("UPDATE d SET a = 50, c = DEFAULT WHERE a = 1")
    assert db.rows("SELECT b FROM d WHERE a = 50") == [(100,)]
    assert db.value("SELECT MAX(r) FROM d WHERE a = 50") > max(versions)
    assert db.error("INSERT d (b) VALUES (1)").number == 271
    assert db.error("UPDATE d SET b = 1").number == 271
    assert db.error("UPDATE d SET r = 0x00").number == 272


def test_counts_and_shapes(db: Client) -> None:
    db.run("CREATE TABLE t (a int PRIMARY KEY, b int)")
    assert db.counts("INSERT t VALUES (1, 1), (2, 2); INSERT INTO t SELECT a + 10, b FROM t") == [
        2,
        2,
    ]
    assert db.counts("UPDATE t SET b += 1 WHERE a > 10; DELETE TOP (1) FROM t; DELETE t") == [
        2,
        1,
        3,
    ]
    assert not any(db.counts("SET NOCOUNT ON; INSERT t VALUES (1, 1)"))
    assert db.value("INSERT t VALUES (5, 5); SELECT @@ROWCOUNT") == 1
    for text, number in (
        ("INSERT t VALUES (1)", 213),
        ("INSERT t (a, b) VALUES (1)", 109),
        ("INSERT t (a) VALUES (1, 2)", 110),
        ("INSERT t (a, b) SELECT 1", 120),
        ("INSERT t (a, a) VALUES (1, 2)", 264),
        ("INSERT t (nope) VALUES (1)", 207),
        ("UPDATE t SET nope = 1", 207),
        ("UPDATE t SET a = 1, a = 2", 264),
        ("INSERT nope VALUES (1)", 208),
    ):
        assert db.error(text).number == number, text


def test_joined_changes_and_output(db: Client) -> None:
    db.run("CREATE TABLE a (k int PRIMARY KEY, v int)", "CREATE TABLE b (k int, v int)")
    db.run("INSERT a VALUES (1, 1), (2, 2), (3, 3)", "INSERT b VALUES (1, 10), (1, 10), (3, 30)")
    assert db.counts("UPDATE x SET v = b.v FROM a AS x INNER JOIN b ON b.k = x.k") == [2]
    assert db.rows("SELECT * FROM a ORDER BY k") == [(1, 10), (2, 2), (3, 30)]
    assert db.rows("UPDATE a SET v = 0 OUTPUT deleted.v, inserted.v AS new WHERE k = 1") == [
        (10, 0)
    ]
    assert db.rows("INSERT a OUTPUT inserted.* VALUES (4, 4)") == [(4, 4)]
    db.run("WITH gone AS (SELECT k FROM b) DELETE a WHERE k IN (SELECT k FROM gone)")
    assert db.rows("DELETE FROM a OUTPUT deleted.k") == [(2,), (4,)]


def test_merge(db: Client) -> None:
    db.run("CREATE TABLE m (k int PRIMARY KEY, v nvarchar(5))")
    db.run("INSERT m VALUES (1, N'a'), (2, N'b'), (3, N'c')")
    merge = (
        "MERGE INTO m AS d USING (VALUES (1, N's2.x'), (9, N'new'), (3, NULL)) AS s(k, v) ON d.k = "
        "s.k WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN "
        "NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v) WHEN NOT MATCHED BY SOURCE THEN UPDATE "
        "SET v = d.v + N'!';"
    )
    assert db.counts(merge) == [4]
    assert db.rows("SELECT * FROM m ORDER BY k") == [(1, "s2.x"), (2, "b!"), (9, "new")]
    twice = "MERGE m USING (VALUES (1), (1)) AS s(k) ON m.k = s.k WHEN MATCHED THEN DELETE;"
    assert db.error(twice).number == 8672


def test_definitions(db: Client) -> None:
    db.run("CREATE SCHEMA [my schema]", "CREATE TABLE [my schema].t (a int NULL)")
    assert db.error("CREATE TABLE [My Schema].[T] (a int)").number == 2714
    assert db.error("CREATE TABLE nowhere.t (a int)").number == 2760
    assert db.error("CREATE TABLE x (a int, A int)").number == 2705
    assert db.error("CREATE TABLE x (a int NULL PRIMARY KEY)").number == 8111
    assert db.error("CREATE TABLE x (a varchar(max) PRIMARY KEY)").number == 1919
    assert db.error("DROP SCHEMA [my schema]").number == 3729
    db.run("INSERT [my schema].t VALUES (1), (1), (NULL)")
    assert db.error("CREATE UNIQUE INDEX i ON [my schema].t (a)").number == 1505
    assert db.error("ALTER TABLE [my schema].t ADD b int NOT NULL").number == 4901
    db.run(
        "ALTER TABLE [my schema].t ADD b int NOT NULL DEFAULT 4, c AS a + b, d int NULL DEFAULT 5"
    )
    assert db.rows("SELECT a, b, c, d FROM [my schema].t ORDER BY a") == [
        (None, 4, None, None),
        (1, 4, 5, None),
        (1, 4, 5, None),
    ]
    db.run("ALTER TABLE [my schema].t ALTER COLUMN b bigint NOT NULL")
    assert db.types("SELECT b FROM [my schema].t") == ["bigint"]
    assert db.error("ALTER TABLE [my schema].t ALTER COLUMN a int NOT NULL").number == 515
    db.run("ALTER TABLE [my schema].t DROP COLUMN c", "DROP TABLE IF EXISTS [my schema].t, nope")
    assert db.error("DROP TABLE [my schema].t").number == 3701
    db.run("CREATE TABLE p (a int CONSTRAINT pk PRIMARY KEY, CONSTRAINT u UNIQUE (a DESC))")
    db.run("ALTER TABLE p DROP CONSTRAINT u", "TRUNCATE TABLE p")
    assert db.rows("SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID('p')") == [("pk",)]


def test_databases(db: Client) -> None:
    db.run("CREATE DATABASE [other db] COLLATE Latin1_General_100_CS_AS", "USE [other db]")
    db.run("CREATE TABLE t (s varchar(5))", "INSERT t VALUES ('a'), ('A')")
    assert db.value("SELECT COUNT(*) FROM t WHERE s = 'a'") == 1
    assert db.rows("SELECT collation_name FROM sys.columns WHERE name = 's'") == [
        ("Latin1_General_100_CS_AS",)
    ]
    assert db.error("CREATE DATABASE [OTHER DB]").number == 1801
    assert db.error("DROP DATABASE [other db]").number == 3702
    db.run(f"USE [{db.database}]")
    assert db.value("SELECT COUNT(*) FROM [other db].dbo.t") == 2
    assert db.value("SELECT COUNT(*) FROM [other db]..t") == 2
    db.run("DROP DATABASE [other db]")
    assert db.error("SELECT * FROM [other db].dbo.t").number == 911


def test_control_flow(db: Client) -> None:
    assert db.sets(
        "DECLARE @i int = 0, @s nvarchar(20) = N''; WHILE 1 = 1 BEGIN SET @i += 1; IF @i "
        "= 2 CONTINUE; "
        "IF @i > 4 BREAK; SET @s = @s + CAST(@i AS nvarchar(5)) END; SELECT @i, @s; "
        "IF @i = 5 RETURN SELECT 'never'"
    ) == [[(5, "134")]]
    assert db.messages("PRINT N'hello'; RAISERROR('%s is %d', 10, 1, 'x', 5)") == [
        "hello",
        "x is 5",
    ]
    assert db.rows(
        "BEGIN TRY SELECT 1 / 0 AS x END TRY BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_SEVERITY(), "
        "ERROR_MESSAGE() END CATCH"
    ) == [(8134, 16, "Divide by zero error encountered.")]
    assert (
        db.error("BEGIN TRY SELECT 1 / 0 AS x END TRY BEGIN CATCH THROW END CATCH").number == 8134
    )
    assert db.error("THROW 51000, N'mine', 3").state == 3
    assert db.error("RAISERROR('bad', 16, 1)").number == 50000
    assert db.error("DECLARE @a int; DECLARE @A int").number == 134
    assert db.value("DECLARE @a int = 3; SELECT @a = x FROM (VALUES (8)) AS v(x); SELECT @a") == 8
    assert db.value("EXEC('SELECT 5')") == 5
    assert db.value("EXEC sp_executesql N'SELECT @a + @b', N'@a int, @b int', 2, @b = 3") == 5
    assert db.error("DECLARE @deep nvarchar(50) = N'x'; EXEC('SELECT @deep')").number == 137


def test_temporary_tables(db: Client) -> None:
    db.run("CREATE TABLE #t (a int PRIMARY KEY, b varchar(5))", "INSERT #t VALUES (1, 'x')")
    assert db.error("INSERT #t VALUES (1, 'y')").number == 2627
    db.run("UPDATE #t SET b = 'z'", "INSERT #t SELECT 2, 'q'", "DELETE #t WHERE a = 1")
    assert db.rows("SELECT * FROM #t") == [(2, "q")]
    db.run("SELECT a, b INTO #u FROM #t", "DROP TABLE #t")
    assert db.error("SELECT * FROM #t").number == 208
    assert db.rows("SELECT * FROM #u") == [(2, "q")]
    db.run("BEGIN TRAN; CREATE TABLE #r (a int); INSERT #r VALUES (1)")
    assert db.value("SELECT COUNT(*) FROM #r") == 1
    db.run("ROLLBACK")


@pytest.mark.sandbox
def test_a_reset_session_has_no_temporary_tables(db: Client) -> None:
    db.run("CREATE TABLE #t (a int PRIMARY KEY)")
    db.session.reset()
    assert db.error("SELECT * FROM #t").number == 208


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT x FROM v EXCEPT SELECT 1", [(2,), (3,)]),
        ("SELECT x FROM v INTERSECT SELECT 2", [(2,)]),
        (
            "SELECT a.x, b.x FROM v a LEFT JOIN v b ON b.x = a.x + 1 ORDER BY 1",
            [(1, 2), (2, 3), (3, None)],
        ),
        (
            "SELECT a.x, b.x FROM v a RIGHT JOIN v b ON b.x = a.x + 2 ORDER BY 2",
            [(None, 1), (None, 2), (1, 3)],
        ),
        ("SELECT COUNT(*) FROM v a FULL OUTER JOIN v b ON b.x = a.x + 1", [(4,)]),
        ("SELECT a.x FROM v a WHERE NOT EXISTS (SELECT 1 FROM v b WHERE b.x > a.x)", [(3,)]),
        (
            "SELECT x, (SELECT COUNT(*) FROM v b WHERE b.x < a.x) FROM v a ORDER BY x",
            [(1, 0), (2, 1), (3, 2)],
        ),
        (
            "SELECT a.x, t.y FROM v a CROSS APPLY (SELECT TOP 1 b.x AS y FROM v b WHERE b.x "
            "> a.x ORDER BY b.x) t ORDER BY 1",
            [(1, 2), (2, 3)],
        ),
        (
            "SELECT a.x, t.y FROM v a OUTER APPLY (SELECT b.x AS y FROM v b WHERE b.x = a.x "
            "+ 2) t ORDER BY 1",
            [(1, 3), (2, None), (3, None)],
        ),
        (
            "SELECT x, ROW_NUMBER() OVER (ORDER BY x DESC), SUM(x) OVER (ORDER BY x ROWS "
            "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), LAG(x) OVER (ORDER BY x) FROM v "
            "ORDER BY x",
            [(1, 3, 1, None), (2, 2, 3, 1), (3, 1, 6, 2)],
        ),
        ("SELECT x % 2, COUNT(*) FROM v GROUP BY x % 2 HAVING COUNT(*) > 1", [(1, 2)]),
        ("SELECT x FROM v WHERE x NOT IN (SELECT x FROM v WHERE x > 1)", [(1,)]),
        ("SELECT TOP 1 x FROM v ORDER BY CASE WHEN x = 2 THEN 0 ELSE 1 END, x", [(2,)]),
        ("SELECT MAX(q.n) FROM (SELECT x AS n FROM v UNION ALL SELECT 9) AS q", [(9,)]),
    ],
)
def test_queries(shared: Client, text: str, rows: list[tuple[object, ...]]) -> None:
    common = "WITH v AS (SELECT x FROM (VALUES (1), (2), (3)) AS q(x)) "
    found = shared.rows(common + text)
    assert (found if "ORDER BY" in text else sorted(found)) == rows


def test_identity_of_temporary_tables_is_each_tables_own(db: Client) -> None:
    db.run("CREATE TABLE #a (id int IDENTITY(10, 5), x int)", "INSERT #a VALUES (1), (2)")
    text = (
        "DECLARE @b TABLE (id bigint IDENTITY, x int); INSERT @b VALUES (1), (2); INSERT @b (x) "
        "SELECT id FROM #a; INSERT #a VALUES (3); "
        "SELECT SCOPE_IDENTITY(), MAX(id), COUNT(*) FROM @b"
    )
    assert db.rows(text) == [(20, 4, 4)]
    assert db.rows("SELECT id FROM #a ORDER BY id") == [(10,), (15,), (20,)]
    db.run("DROP TABLE #a", "CREATE TABLE #a (id int IDENTITY, x int)", "INSERT #a VALUES (1)")
    assert db.value("SELECT id FROM #a") == 1
