"""go-mssqldb, Microsoft's driver for Go, against the server of the tests."""

import shutil

import pytest

from cdc_assets_tests.clients.expectation import normal, wanted
from cdc_assets_tests.clients.stacks import (
    CLIENTS,
    SETUP_SECONDS_MAX,
    STACK_CHECKS,
    Outcomes,
    Place,
    build,
    build_folder,
)
from cdc_assets_tests.source import Server

pytestmark = [
    pytest.mark.clients,
    pytest.mark.sqlserver,
    pytest.mark.timeout(SETUP_SECONDS_MAX),
    pytest.mark.skipif(shutil.which("go") is None, reason="Go's toolchain is missing: no `go`"),
]


@pytest.fixture(scope="module")
def outcomes(server: Server) -> Outcomes:
    folder = build_folder("go")
    program = folder / "clients"
    build(["go", "build", "-mod=readonly", "-o", str(program), "."], CLIENTS / "go")
    return Outcomes.of([str(program)], Place.certified(server))


@pytest.mark.parametrize("check", STACK_CHECKS)
def test_go_mssqldb(outcomes: Outcomes, check: str) -> None:
    assert normal(check, outcomes.got(check)) == wanted(check)
