"""pyodbc, mssql-python and pytds: each check of expected.json, through each of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cdc_assets.sandbox.wire.certificate import ensure_certificate
from cdc_assets_tests.clients.checks import Checks
from cdc_assets_tests.clients.drivers import DRIVERS, Driver
from cdc_assets_tests.clients.expectation import normal, wanted
from cdc_assets_tests.clients.stacks import CHECKS, EXPECTED, Place
from cdc_assets_tests.source import Server

pytestmark = [
    pytest.mark.sqlserver,
    # pytds asks pyOpenSSL for the certificate's name in the old way.
    pytest.mark.filterwarnings("ignore:X509.get_subject:DeprecationWarning"),
]
_SEVENTH_DIGIT = re.compile(r"(:\d\d\.\d{6})\d")


@pytest.fixture(scope="module")
def place(server: Server) -> Place:
    """A database as expected.json has it."""
    return Place.prepare(server)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A CA that has nothing to do with the server."""
    return str(ensure_certificate(tmp_path_factory.mktemp("stranger")).ca)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_driver(place: Place, stranger: str, driver: Driver, check: str) -> None:
    if check == "login_with_verified_tls" and place.ca_file is None:
        pytest.skip("the CA of this server's certificate is not known")
    got = getattr(Checks(place, driver, stranger), check)()
    assert normal(check, got) == _in_reach(check, got)


def _in_reach(check: str, got: Any) -> Any:
    """The expectation without what the driver has no way to tell, as expected.json allows."""
    expected = wanted(check)
    if check == "types":
        rows = zip(expected["rows"], got["rows"], strict=True)
        return {**expected, "rows": [list(map(_cut, *pair)) for pair in rows]}
    if check == "errors":
        states = [case["sqlstate"] for case in EXPECTED["errors"]["cases"]]
        whole = [{**one, "sqlstate": s} for one, s in zip(expected, states, strict=True)]
        return [{key: one[key] for key in told} for one, told in zip(whole, got, strict=True)]
    return expected


def _cut(expected: Any, got: Any) -> Any:
    """Python's clocks end at microseconds; the check `text_of_types` sees the seventh digit."""
    if not isinstance(expected, str):
        return expected
    short = _SEVENTH_DIGIT.sub(r"\1", expected)
    return short if got == short else expected
