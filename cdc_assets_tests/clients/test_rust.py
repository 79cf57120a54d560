"""tiberius, the driver for Rust, against the server of the tests."""

import shutil
import subprocess

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

ONE_MESSAGE = (
    "tiberius 0.13.0 looks for the acknowledgement of a cancel in the message of the cancelled"
    " answer alone; it comes in a message of its own, which tedious in turn insists on"
)


def missing() -> str:
    """What the build would lack; empty if nothing."""
    if shutil.which("cargo") is None:
        return "Rust's toolchain is missing: no `cargo`"
    found = shutil.which("pkg-config") and subprocess.run(
        ["pkg-config", "--exists", "openssl"], check=False
    )
    if not found or found.returncode:
        return "OpenSSL's headers are missing: pkg-config finds no `openssl` (libssl-dev)"
    return ""


pytestmark = [
    pytest.mark.clients,
    pytest.mark.sqlserver,
    pytest.mark.timeout(SETUP_SECONDS_MAX),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]


@pytest.fixture(scope="module")
def outcomes(server: Server) -> Outcomes:
    folder = build_folder("rust")
    build(
        ["cargo", "build", "--locked", "--quiet"],
        CLIENTS / "rust",
        CARGO_TARGET_DIR=str(folder),
        CARGO_INCREMENTAL="0",
    )
    return Outcomes.of([str(folder / "debug" / "clients")], Place.certified(server))


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, marks=pytest.mark.xfail(strict=True, reason=ONE_MESSAGE))
        if check == "cancel"
        else check
        for check in STACK_CHECKS
    ],
)
def test_tiberius(outcomes: Outcomes, check: str) -> None:
    assert normal(check, outcomes.got(check)) == wanted(check)
