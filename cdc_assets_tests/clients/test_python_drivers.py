"""pyodbc, mssql-python and pytds: each check of expected.json, through each of them."""

from __future__ import annotations

import pytest

from cdc_assets.sandbox.wire.certificate import ensure_certificate
from cdc_assets_tests.clients.checks import Checks
from cdc_assets_tests.clients.drivers import DRIVERS, Driver
from cdc_assets_tests.clients.expectation import in_reach, normal
from cdc_assets_tests.clients.stacks import CHECKS, Place
from cdc_assets_tests.source import Server

pytestmark = [
    pytest.mark.sqlserver,
    # pytds asks pyOpenSSL for the certificate's name in the old way.
    pytest.mark.filterwarnings("ignore:X509.get_subject:DeprecationWarning"),
]


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
    assert normal(check, got) == in_reach(check, got)
