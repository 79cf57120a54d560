"""TLS: the chain is Microsoft's driver, Encrypt=yes, and a certificate that is verified."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_assets_tests.source import Server

CODE = """
import sys
from cdc_assets.errors import CdcError
from cdc_assets.sqlserver.connection import SourceConnection, connect
text, ca_file = sys.argv[1], sys.argv[2] or None
try:
    with connect(SourceConnection("sales", text, ca_file)) as connection:
        print(connection.rows("SELECT 1 AS one"))
except CdcError as error:
    print(error)
"""


def answer(text: str, ca_file: str | None) -> str:
    """In a process of its own: what OpenSSL trusts is the process's."""
    environment = {k: v for k, v in os.environ.items() if k != "SSL_CERT_FILE"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, text, ca_file or ""],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def sandbox(server: Server) -> Server:
    if not server.is_sandbox:
        pytest.skip("the certificate is the sandbox's")
    return server


def test_the_tests_themselves_use_tls_and_verify_it(sandbox: Server) -> None:
    text = sandbox.text("master").lower()
    assert "encrypt=yes" in text
    assert "trustservercertificate" not in text
    assert answer(sandbox.text("master"), sandbox.ca_file) == "[{'one': 1}]"


def test_an_unknown_authority_is_refused(sandbox: Server) -> None:
    assert "certificate verify failed" in answer(sandbox.text("master"), None)


def test_another_name_in_the_certificate_is_refused(sandbox: Server) -> None:
    text = sandbox.text("master").replace("localhost", "db.example.com")
    assert "[{'one': 1}]" not in answer(text, sandbox.ca_file)


def test_blind_trust_has_to_be_asked_for(sandbox: Server) -> None:
    """The one place with TrustServerCertificate: a user may say so, we never do."""
    assert answer(sandbox.text("master") + ";TrustServerCertificate=yes", None) == "[{'one': 1}]"


def test_a_missing_ca_file_is_told(sandbox: Server, tmp_path: Path) -> None:
    said = answer(sandbox.text("master"), str(tmp_path / "none.pem"))
    assert "cannot read the certificate authority" in said
