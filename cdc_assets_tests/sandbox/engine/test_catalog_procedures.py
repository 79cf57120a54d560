"""sp_tables, sp_columns, sp_pkeys, sp_statistics and sp_special_columns."""

from __future__ import annotations

import pytest

from cdc_assets_tests.sandbox.harness import Client

pytestmark = pytest.mark.sqlserver

TABLE = """CREATE TABLE dbo.kinds (
    id int IDENTITY NOT NULL,
    code nvarchar(20) NOT NULL,
    big varchar(max) NULL,
    price decimal(10, 3) NOT NULL DEFAULT 0,
    day date NULL,
    clock time(3) NULL,
    at datetime2(7) NULL,
    zoned datetimeoffset(0) NULL,
    raw varbinary(5) NULL,
    flag bit NOT NULL,
    half AS price / 2,
    stamp rowversion NOT NULL,
    CONSTRAINT pk_kinds PRIMARY KEY (code, id),
    CONSTRAINT uq_kinds UNIQUE (price))"""


@pytest.fixture(scope="module", autouse=True)
def kinds(shared: Client) -> None:
    shared.run(TABLE, "CREATE TABLE dbo.other_kinds (x int NULL)")
    shared.run(
        "CREATE INDEX by_day ON dbo.kinds (day DESC, flag)",
        "INSERT dbo.kinds (code, flag) VALUES ('a', 1)",
    )


def test_tables_are_found_by_pattern_owner_and_type(shared: Client) -> None:
    call = "EXEC sp_tables @table_name = N'{}', @table_owner = N'dbo', @table_type = N'{}'"
    both = [row[2:4] for row in shared.rows(call.format("%kinds", "''TABLE'',''VIEW''"))]
    assert both == [("kinds", "TABLE"), ("other_kinds", "TABLE")]
    assert [row[2] for row in shared.rows(call.format("KIND_", "''TABLE''"))] == ["kinds"]
    assert shared.rows(call.format("%kinds", "''VIEW''")) == []
    assert [row[2] for row in shared.rows("EXEC sp_tables N'other[_]kinds'")] == ["other_kinds"]
    assert (shared.database, "sys", "objects", "VIEW", None) in shared.rows("EXEC sp_tables")


def test_another_database_is_refused(shared: Client) -> None:
    assert shared.error("EXEC sp_tables @table_qualifier = N'master'").number == 15250
    assert shared.error("EXEC sp_columns_100 N'kinds', NULL, N'master'").number == 15250


def test_columns_have_the_numbers_of_odbc(shared: Client) -> None:
    rows = shared.rows("EXEC sp_columns_100 N'kinds', N'dbo', NULL, NULL, @ODBCVer = 3")
    assert [row[3:10] for row in rows] == [
        ("id", 4, "int identity", 10, 4, 0, 10),
        ("code", -9, "nvarchar", 20, 40, None, None),
        ("big", 12, "varchar", 0, 0, None, None),
        ("price", 3, "decimal", 10, 12, 3, 10),
        ("day", 91, "date", 10, 6, None, None),
        ("clock", -154, "time", 12, 12, 3, None),
        ("at", 93, "datetime2", 27, 16, 7, None),
        ("zoned", -155, "datetimeoffset", 26, 20, 0, None),
        ("raw", -3, "varbinary", 5, 5, None, None),
        ("flag", -7, "bit", 1, 1, None, None),
        ("half", 2, "numeric", 13, 15, 6, 10),
        ("stamp", -2, "timestamp", 8, 8, None, None),
    ]
    by_name = {row[3]: row for row in rows}
    assert by_name["price"][10:][:3] == (0, None, "((0))")
    assert by_name["half"][20:22] == (1, 0)
    assert by_name["id"][20:22] == (0, 1)
    assert [by_name["at"][4], by_name["at"][13:15]] == [93, (9, 3)]
    assert [row[17] for row in rows[:3]] == ["NO", "NO", "YES"]


def test_the_old_forms_know_the_old_codes(shared: Client) -> None:
    rows = shared.rows(f"EXEC sp_columns N'kinds', N'dbo', N'{shared.database}', N'd%'")
    assert [(row[3], row[4], len(row)) for row in rows] == [("day", 9, 19)]


def test_the_primary_key_comes_in_its_order(shared: Client) -> None:
    rows = shared.rows(f"EXEC sp_pkeys N'kinds', N'dbo', N'{shared.database}'")
    named = (shared.database, "dbo", "kinds")
    assert rows == [(*named, "code", 1, "pk_kinds"), (*named, "id", 2, "pk_kinds")]
    assert shared.rows("EXEC sp_pkeys N'other_kinds'") == []


def test_statistics_tell_of_the_table_and_each_index(shared: Client) -> None:
    rows = shared.rows("EXEC sp_statistics_100 N'kinds', N'dbo'")
    assert [row[3:10] for row in rows] == [
        (None, None, None, 0, None, None, None),
        (0, "kinds", "pk_kinds", 1, 1, "code", "A"),
        (0, "kinds", "pk_kinds", 1, 2, "id", "A"),
        (0, "kinds", "uq_kinds", 3, 1, "price", "A"),
        (1, "kinds", "by_day", 3, 1, "day", "D"),
        (1, "kinds", "by_day", 3, 2, "flag", "A"),
    ]
    assert rows[0][10] == 1
    unique = shared.rows("EXEC sp_statistics N'kinds', @is_unique = 'Y', @index_name = N'%kinds'")
    assert {row[5] for row in unique} == {None, "pk_kinds", "uq_kinds"}


def test_special_columns_name_the_key_or_the_rowversion(shared: Client) -> None:
    best = shared.rows("EXEC sp_special_columns_100 N'kinds', @col_type = 'R'")
    assert [(row[0], row[1]) for row in best] == [(1, "code"), (1, "id")]
    version = shared.rows("EXEC sp_special_columns N'kinds', @col_type = 'V'")
    assert [(row[0], row[1]) for row in version] == [(None, "stamp")]


def test_a_driver_may_keep_the_rows_in_a_table_variable(shared: Client) -> None:
    """As mssql-jdbc does."""
    rows = shared.rows(
        "DECLARE @t TABLE (a sysname, b sysname, c sysname, d sysname, e smallint, f sysname);"
        "INSERT INTO @t EXEC sp_pkeys N'kinds'; SELECT d, e FROM @t ORDER BY e"
    )
    assert rows == [("code", 1), ("id", 2)]


def test_foreign_keys_are_asked_for_a_table(shared: Client) -> None:
    assert shared.rows("EXEC sp_fkeys @fktable_name = N'kinds', @fktable_owner = N'dbo'") == []
    assert shared.error("EXEC sp_fkeys").number == 15252


def test_a_computed_column_may_be_null_where_it_is_computed(shared: Client) -> None:
    shared.run("CREATE TABLE c (a int NOT NULL, b AS a, c AS a + 1, d AS ISNULL(a, 0))")
    try:
        rows = shared.rows("EXEC sp_columns_100 N'c', N'dbo'")
        assert [row[17] for row in rows] == ["NO", "NO", "YES", "NO"]
    finally:
        shared.run("DROP TABLE c")
