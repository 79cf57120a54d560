"""tedious, the driver for Node.js, against the server of the tests."""

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
    pytest.mark.skipif(
        not (shutil.which("node") and shutil.which("npm")),
        reason="Node.js is missing: no `node` or no `npm`",
    ),
]


@pytest.fixture(scope="module")
def outcomes(server: Server) -> Outcomes:
    folder = build_folder("node")
    # npm installs beside package.json, so into a copy; `installed` is the lock file of that.
    lock, installed = CLIENTS / "node" / "package-lock.json", folder / "installed.json"
    shutil.copytree(lock.parent, folder, dirs_exist_ok=True)
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        build(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
        shutil.copy(lock, installed)
    return Outcomes.of(["node", str(folder / "main.js")], Place.certified(server))


@pytest.mark.parametrize("check", STACK_CHECKS)
def test_tedious(outcomes: Outcomes, check: str) -> None:
    assert normal(check, outcomes.got(check)) == wanted(check)
