"""FreeTDS, which shares no code with Microsoft's drivers: its command line and its ODBC driver."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from cdc_assets_tests.clients.checks import Checks
from cdc_assets_tests.clients.expectation import in_reach, normal, wanted
from cdc_assets_tests.clients.freetds import (
    ODBC_DRIVER,
    PLAIN,
    STRANGE,
    FreeTds,
    Tsql,
    lines,
    write_conf,
)
from cdc_assets_tests.clients.stacks import CHECKS, EXPECTED, Place
from cdc_assets_tests.source import Server

pytestmark = [pytest.mark.clients, pytest.mark.sqlserver]
needs_tsql = pytest.mark.skipif(
    shutil.which("tsql") is None, reason="FreeTDS is missing: no `tsql` (freetds-bin)"
)
needs_odbc = pytest.mark.skipif(
    ODBC_DRIVER is None, reason="FreeTDS's ODBC driver is missing: no libtdsodbc.so (tdsodbc)"
)


@pytest.fixture(scope="module")
def place(server: Server) -> Place:
    """A database as expected.json has it."""
    return Place.certified(server)


@pytest.fixture(scope="module")
def conf(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that FreeTDS finds the server in."""
    return write_conf(place, tmp_path_factory.mktemp("freetds"))


@pytest.fixture
def tsql(place: Place, conf: Path) -> Tsql:
    return Tsql(place, conf)


@needs_tsql
def test_tsql_logs_in_with_verified_tls(tsql: Tsql) -> None:
    assert tsql.run("SELECT 1 AS a").lines == ["a", "1"]
    assert tsql.run("SELECT 1 AS a", server=STRANGE).status != 0


@needs_tsql
def test_tsql_logs_in_without_tls(tsql: Tsql) -> None:
    assert tsql.run("SELECT 1 AS a", server=PLAIN).lines == ["a", "1"]


@needs_tsql
def test_tsql_is_refused_with_a_wrong_password(tsql: Tsql) -> None:
    case = EXPECTED["wrong_password"]
    said = tsql.run("SELECT 1 AS a", password=case["password"])
    assert [number for number, _, _ in said.errors] == [case["number"]]
    assert said.lines == []


@needs_tsql
def test_tsql_reads_every_type_as_text(tsql: Tsql) -> None:
    case = EXPECTED["types"]
    texts = ", ".join(column["text"] for column in case["columns"] if "text" in column)
    said = tsql.run("SET TEXTSIZE 2147483647", f"SELECT {texts} FROM {case['table']} ORDER BY id")
    assert said.lines[1:] == lines(wanted("text_of_types"))


@needs_tsql
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_tsql_ends_transactions_by_statement(tsql: Tsql, end: str) -> None:
    case = EXPECTED["transactions"]
    table = f"dbo.tsql_{end}"
    created = EXPECTED["scratch"]["create"].replace("{table}", table)
    statements = [text.replace("{table}", table) for text in case["statements"]]
    read = case["read"].replace("{table}", table)
    said = tsql.run(created, "BEGIN TRANSACTION", *statements, read, f"{end.upper()} TRANSACTION")
    assert said.errors == []
    assert said.lines[1:] == lines(case["inside"])
    assert tsql.run(read).lines[1:] == lines(case[f"after_{end}"])


@needs_tsql
@pytest.mark.parametrize("case", EXPECTED["errors"]["cases"], ids=lambda case: case["name"])
def test_tsql_shows_errors_and_goes_on(tsql: Tsql, place: Place, case: dict[str, Any]) -> None:
    then = EXPECTED["errors"]["then"]
    user, password = getattr(place, case["login"])
    said = tsql.run(case["sql"], then["sql"], user=user, password=password)
    ((number, severity, text),) = said.errors
    assert (number, severity) == (case["number"], case["severity"])
    assert case["text"] in text
    assert said.lines[-1:] == lines(then["rows"])


@needs_tsql
def test_tsql_reads_several_result_sets(tsql: Tsql) -> None:
    case = EXPECTED["several_result_sets"]
    sets = zip(case["columns"], case["sets"], strict=True)
    assert tsql.run(case["sql"]).lines == [
        line for columns, rows in sets for line in lines([columns, *rows])
    ]


@needs_tsql
def test_tsql_reads_unicode(tsql: Tsql) -> None:
    case = EXPECTED["unicode"]
    texts = [one["text"] for one in case["texts"]]
    said = tsql.run(*(case["literal"].replace("{text}", text) for text in texts))
    assert said.lines[1::2] == texts


@needs_odbc
def test_odbc_driver_logs_in_with_verified_tls(place: Place, conf: Path) -> None:
    freetds = FreeTds(conf)
    freetds.connect(place).close()
    # It does not say why; nothing but the CA is another.
    with pytest.raises(freetds.error, match="Unable to connect to data source"):
        freetds.connect(place, ca_file=None)


@needs_odbc
@pytest.mark.parametrize("check", [one for one in CHECKS if one != "login_with_verified_tls"])
def test_odbc_driver(place: Place, conf: Path, check: str) -> None:
    got = getattr(Checks(place, FreeTds(conf), stranger=""), check)()
    assert normal(check, got) == in_reach(check, got)
