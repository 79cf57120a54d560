"""mssql-jdbc, Microsoft's driver for Java, against the server of the tests."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets_tests.clients.expectation import normal, wanted
from cdc_assets_tests.clients.java import java_program, missing
from cdc_assets_tests.clients.stacks import (
    BUILD_SECONDS_MAX,
    EXPECTED,
    RUN_SECONDS_MAX,
    STACK_CHECKS,
    Outcomes,
    Place,
)
from cdc_assets_tests.source import Server, Source

pytestmark = [
    pytest.mark.clients,
    pytest.mark.sqlserver,
    pytest.mark.timeout(BUILD_SECONDS_MAX + RUN_SECONDS_MAX),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

CAPTURED = """CREATE TABLE dbo.client_captured (
    code nvarchar(20) NOT NULL,
    id int IDENTITY NOT NULL,
    price decimal(10, 3) NOT NULL DEFAULT 0,
    at datetime2(3) NULL,
    half AS price / 2,
    CONSTRAINT pk_client_captured PRIMARY KEY (code, id))"""

TYPES = """bigint binary bit char date datetime datetime2 datetimeoffset decimal float image int
money nchar ntext numeric nvarchar real smalldatetime smallint smallmoney text time timestamp
tinyint uniqueidentifier varbinary varchar xml"""

CHILD = """CREATE TABLE dbo.client_child (
    id int NOT NULL PRIMARY KEY,
    person int NULL CONSTRAINT fk_client_child REFERENCES dbo.client_people (id))"""

TABLES = ["captured", "child", "people", "secret", "types", "unique"]

PEOPLE = [["1", "Ada"], ["2", "Grace 😀"], ["3", None]]

WANTED: dict[str, Any] = {
    "jdbc_strict_tls": [["1"]],
    "jdbc_sqlstates": {
        "SELECT * FROM dbo.no_such_table": "S0002",
        "SELECT no_such_column FROM dbo.client_people": "S0001",
        "INSERT INTO dbo.client_unique (id) VALUES (1)": "23000",
        "SELECT 1 / 0": "S0001",
        "SELEC 1": "S0062",
        "SELECT FROM WHERE": "S0001",
    },
    "jdbc_prepared_handle": [[str(n + 1), None if n % 2 else "even"] for n in range(5)],
    "jdbc_typed_parameters": [
        *("1", "-3", "-9223372036854775808", "-12345678901234567890.123", "0.5", "0.25"),
        *("0x0001FF", "2026-11-30", "2026-11-30 12:34:56.1234567", "01:02:03:450", None),
    ],
    "jdbc_parameter_metadata": ["int", "nvarchar"],
    "jdbc_batch": {"prepared": [1, 1, 1], "plain": [2, 1], "rows": [["2", "x"], ["3", "x"]]},
    # Of the batch only the failed statement is undone; -3 is EXECUTE_FAILED.
    "jdbc_batch_error": {
        "number": 2627,
        "counts": [1, 1, -3, 1],
        "rows": [["1"], ["2"], ["3"]],
    },
    "jdbc_generated_keys": [10, 15, 20, 25, 30],
    "jdbc_isolation": ["1", "1", "2", "2", "4", "3", "8", "4"],
    "jdbc_server_cursor": [PEOPLE[run:] for run in range(5)],
    "jdbc_scrolling": [3, 3, 2, 1, 3, 0, 1, 2, 3],
    "jdbc_query_timeout": {"timed_out": True, "soon": True, "state": "HY008", "then": [["1"]]},
    "jdbc_procedure": {"status": 0, "instances": ["dbo_client_captured"]},
    "jdbc_tables": [["dbo", f"client_{name}", "TABLE"] for name in TABLES],
    "jdbc_columns": [
        ["code", "-9", "nvarchar", "20", None, "NO", None, "NO", "NO", "1"],
        ["id", "4", "int identity", "10", "0", "NO", None, "YES", "NO", "2"],
        ["price", "3", "decimal", "10", "3", "NO", "((0))", "NO", "NO", "3"],
        ["at", "93", "datetime2", "23", "3", "YES", None, "NO", "NO", "4"],
        ["half", "2", "numeric", "13", "6", "YES", None, "NO", "YES", "5"],
    ],
    "jdbc_primary_key": [["code", "1", "pk_client_captured"], ["id", "2", "pk_client_captured"]],
    "jdbc_indexes": [
        [None, None, "0", None, None, None],
        ["0", "pk_client_captured", "1", "1", "code", "A"],
        ["0", "pk_client_captured", "1", "2", "id", "A"],
        ["1", "by_price", "3", "1", "price", "D"],
    ],
    # 3 is importedKeyNoAction.
    "jdbc_foreign_keys": [["person", "client_people", "id", "3", "fk_client_child"]],
}


@pytest.fixture(scope="module")
def place(server: Server) -> Place:
    place = Place.certified(server)
    Source(server, place.database).execute(
        CAPTURED,
        CHILD,
        "CREATE INDEX by_price ON dbo.client_captured (price DESC)",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', "
        "@source_name = N'client_captured', @role_name = NULL, @supports_net_changes = 0",
    )
    return place


@pytest.fixture(scope="module")
def outcomes(place: Place) -> Outcomes:
    return Outcomes.of(java_program("jdbc", "Main"), place)


@pytest.mark.parametrize("check", STACK_CHECKS)
def test_mssql_jdbc(outcomes: Outcomes, check: str) -> None:
    assert normal(check, outcomes.got(check)) == wanted(check)


@pytest.mark.parametrize("check", WANTED)
def test_what_jdbc_has_of_its_own(outcomes: Outcomes, check: str) -> None:
    assert outcomes.got(check) == WANTED[check]


def test_the_rows_of_more_than_one_packet(outcomes: Outcomes, place: Place, server: Server) -> None:
    [[count]] = Source(server, place.database).rows("SELECT POWER(COUNT(*), 3) FROM sys.types")
    assert outcomes.got("jdbc_adaptive_rows") == count


def test_the_server_is_described(outcomes: Outcomes, place: Place) -> None:
    assert [place.database] in outcomes.got("jdbc_catalogs")
    assert {("dbo",), ("cdc",)} <= {tuple(row) for row in outcomes.got("jdbc_schemas")}
    assert set(TYPES.split()) <= {row[0] for row in outcomes.got("jdbc_type_info")}
    product = outcomes.got("jdbc_product")
    assert product["name"] == "Microsoft SQL Server"
    assert product["major"] >= 16
    assert product["user"]


def test_every_statement_that_must_fail_has_a_state(outcomes: Outcomes) -> None:
    texts = {case["sql"] for case in EXPECTED["errors"]["cases"] if case["login"] != "reader"}
    assert outcomes.got("jdbc_sqlstates").keys() == texts
