"""docs/sandbox.md: its statements run, and what it says is refused is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets.sandbox.workload.load import load
from cdc_assets.sandbox.workload.tables import Scale
from cdc_assets_tests.sandbox.harness import Client, serving

PAGE = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text()
REFUSALS = (40515, 156)
"""Not supported, or no syntax at all."""

REFUSED = {
    "Stored procedures": "CREATE PROCEDURE p AS SELECT 1",
    "functions and triggers": "CREATE FUNCTION f() RETURNS int AS BEGIN RETURN 1 END",
    "cursors": "DECLARE c CURSOR FOR SELECT 1",
    "GOTO": "GOTO here",
    "PIVOT": "SELECT * FROM t PIVOT (SUM(a) FOR b IN ([1])) AS p",
    "FOR JSON": "SELECT 1 AS a FOR JSON PATH",
    "FOR XML": "SELECT 1 AS a FOR XML RAW",
    "JSON and XML functions": "SELECT JSON_VALUE('{}', '$.a')",
    "FORMAT": "SELECT FORMAT(1, 'N')",
    "PATINDEX": "SELECT PATINDEX('%a%', 'ba')",
    "recursive CTEs": "WITH r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3)"
    " SELECT n FROM r",
    "TOP PERCENT": "SELECT TOP (10) PERCENT a FROM t",
    "READPAST": "SELECT a FROM t WITH (READPAST)",
    "distributed transactions": "BEGIN DISTRIBUTED TRANSACTION",
}


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("page")) as server:
        load(server.engine, Scale.of(0.001), 0, settled=True)
        yield server.client(database="sales")


def statements() -> list[str]:
    (block,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    text = re.sub(r"--.*", "", block)
    return [f"EXEC {part.strip()}" for part in text.split("EXEC sandbox")[1:] if part.strip()]


def test_the_statements_of_the_page_run(sales: Client) -> None:
    found = [f"EXEC sandbox{text.removeprefix('EXEC ')}" for text in statements()]
    assert len(found) == 7
    for text in found:
        sales.run(text)
    waiting = sales.rows("EXEC sandbox.faults")
    assert len(waiting) == len(found)
    sales.run("EXEC sandbox.clear_faults")


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_refuses_is_an_error(sales: Client, name: str) -> None:
    assert name in PAGE
    assert sales.error(REFUSED[name]).number in REFUSALS


def test_its_procedures_are_there(sales: Client) -> None:
    named = set(re.findall(r"`sandbox\.(\w+)", PAGE)) - {"fault"}
    given = {
        "capture_now": "@idle = 0",
        "backup_database": "@name = N'page'",
        "restore_database": "@name = N'page'",
        "set_clock": "@zone = N'UTC'",
        "set_capture": "@interval_seconds = 0",
    }
    for name in sorted(named):
        sales.run(f"EXEC sandbox.{name} {given.get(name, '')}")
