"""[database].schema.name for functions, views and procedures, from another database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc_assets_tests.sandbox.harness import Client, captured, max_lsn


@pytest.fixture(scope="module")
def elsewhere(shared: Client) -> Iterator[Client]:
    """A session in an empty database beside `shop`, which has a captured table."""
    shared.run(
        "CREATE TABLE dbo.a (id int NOT NULL CONSTRAINT pk_a PRIMARY KEY)",
        "EXEC sys.sp_cdc_enable_db",
    )
    captured(shared, "a")
    shared.run("INSERT dbo.a VALUES (1)", "CREATE DATABASE beside")
    client = Client(
        shared.engine,
        shared.engine.login("sa", shared.engine.passwords["sa"], "beside", "tests"),
    )
    yield client
    client.session.close()


def test_a_function_answers_for_the_named_database(shared: Client, elsewhere: Client) -> None:
    newest = max_lsn(shared)
    assert newest is not None
    shown = "SELECT CONVERT(varchar(22), {}, 1)"
    assert elsewhere.value(shown.format("[shop].sys.fn_cdc_get_max_lsn()")) == newest
    assert elsewhere.value(shown.format("sys.fn_cdc_get_max_lsn()")) is None
    low = elsewhere.value(shown.format("shop.sys.fn_cdc_get_min_lsn('dbo_a')"))
    assert low == shared.value(shown.format("sys.fn_cdc_get_min_lsn('dbo_a')"))
    step = "shop.sys.fn_cdc_increment_lsn(shop.sys.fn_cdc_get_max_lsn())"
    assert int(elsewhere.value(shown.format(step)), 16) == int(newest, 16) + 1
    assert elsewhere.value(
        "SELECT [shop].sys.fn_cdc_map_lsn_to_time([shop].sys.fn_cdc_get_max_lsn())"
    )


def test_changes_come_from_the_named_database(elsewhere: Client) -> None:
    rows = elsewhere.rows(
        "SELECT id FROM [shop].cdc.[fn_cdc_get_all_changes_dbo_a]("
        "shop.sys.fn_cdc_get_min_lsn('dbo_a'), shop.sys.fn_cdc_get_max_lsn(), N'all update old')"
    )
    assert rows == [(1,)]


def test_an_unknown_database_is_named(elsewhere: Client) -> None:
    for text in (
        "SELECT nowhere.sys.fn_cdc_get_max_lsn()",
        "SELECT nowhere.sys.fn_cdc_increment_lsn(0x00)",
        "EXEC nowhere.sys.sp_tables",
    ):
        assert elsewhere.error(text).number == 911, text


def test_an_unknown_function_stays_unknown(elsewhere: Client) -> None:
    assert elsewhere.error("SELECT shop.sys.fn_nothing()").number == 4121


def test_a_procedure_runs_in_the_named_database(elsewhere: Client) -> None:
    rows = elsewhere.rows("EXEC [shop].sys.sp_cdc_help_change_data_capture")
    assert [row[:2] for row in rows] == [("dbo", "a")]
    assert elsewhere.rows("EXEC shop..sp_pkeys N'a'") == [("shop", "dbo", "a", "id", 1, "pk_a")]
    assert elsewhere.value("SELECT DB_NAME()") == "beside"
    assert elsewhere.error("EXEC shop.sys.sp_cdc_disable_table N'dbo', N'no', N'all'").number
    assert elsewhere.value("SELECT DB_NAME()") == "beside"


def test_the_names_of_another_databases_objects(elsewhere: Client) -> None:
    rows = elsewhere.rows(
        "SELECT OBJECT_SCHEMA_NAME(source_object_id, DB_ID('shop')),"
        " OBJECT_NAME(source_object_id, DB_ID('shop')), OBJECT_NAME(source_object_id, DB_ID('no')),"
        " OBJECT_NAME(source_object_id) FROM shop.cdc.change_tables"
    )
    assert rows == [("dbo", "a", None, None)]


def test_names_and_numbers_of_columns_values(elsewhere: Client) -> None:
    rows = elsewhere.rows(
        "SELECT SCHEMA_ID(UPPER(name)), SCHEMA_NAME(schema_id) FROM sys.schemas"
        " WHERE name IN ('dbo', 'sys') ORDER BY 1"
    )
    assert rows == [(1, "dbo"), (4, "sys")]
    text = "SELECT DB_NAME(database_id), DB_ID(name) - database_id FROM sys.databases"
    assert ("shop", 0) in elsewhere.rows(text)
    assert elsewhere.rows("SELECT SCHEMA_ID(name + 'x') FROM sys.schemas WHERE name = 'dbo'") == [
        (None,)
    ]


@pytest.mark.parametrize(
    "call",
    [
        "COL_LENGTH(name, 'id')",
        "OBJECTPROPERTY(object_id, 'IsTable')",
        "HAS_PERMS_BY_NAME(name, 'OBJECT', 'SELECT')",
        "SERVERPROPERTY(name)",
        "HAS_DBACCESS(name)",
        "IS_MEMBER(name)",
        "TYPE_ID(name)",
    ],
)
def test_a_function_that_needs_a_constant_says_so(shared: Client, call: str) -> None:
    assert shared.error(f"SELECT {call} FROM sys.tables").number == 40515


def test_names_that_differ_in_case_alone(db: Client) -> None:
    """B124, B125: one name in most databases, two in those whose collation tells case."""
    db.run("CREATE DATABASE told COLLATE Latin1_General_BIN")
    told = db.another(database="told")
    told.run(
        "CREATE TABLE Items (Id int NOT NULL PRIMARY KEY, id int NULL, ID int NULL)",
        "CREATE TABLE items (a int NOT NULL PRIMARY KEY)",
        "INSERT Items (id, Id) VALUES (2, 1)",
        "UPDATE Items SET ID = 3 WHERE Id = 1",
        "EXEC sys.sp_cdc_enable_db",
        "EXEC sys.sp_cdc_enable_table 'dbo', 'Items', NULL",
        "EXEC sys.sp_cdc_enable_table 'dbo', 'items', NULL",
        "DELETE Items",
    )
    assert told.rows("SELECT Id, id, ID FROM cdc.dbo_Items_CT") == [(1, 2, 3)]
    assert told.rows("SELECT x.id FROM (SELECT Id, id FROM Items) AS x") == []
    assert told.rows("SELECT a FROM cdc.dbo_items_CT") == []
    assert told.value("SELECT OBJECT_ID('dbo.ITEMS')") is None
    zero = bytes(10)
    for name in ("'dbo_ITEMS'", "CAST('dbo_ITEMS' AS nvarchar(128)) + ''"):
        assert told.value(f"SELECT sys.fn_cdc_get_min_lsn({name})") == zero
    assert told.value("SELECT sys.fn_cdc_get_min_lsn('dbo_Items')") not in (None, zero)
    for text, number in (
        ("SELECT iD FROM Items", 207),
        ("UPDATE Items SET iD = 1", 207),
        ("SELECT * FROM ITEMS", 208),
        ("CREATE TABLE Items (a int)", 2714),
        ("CREATE TABLE t (a int, a int)", 2705),
        ("EXEC sys.sp_cdc_enable_table 'dbo', 'ITEMS', NULL", 22931),
    ):
        assert told.error(text).number == number, text
    assert db.error("CREATE TABLE u (a int, A int)").number == 2705
    assert db.rows("SELECT x.A FROM (SELECT 1 AS a) AS x") == [(1,)]
