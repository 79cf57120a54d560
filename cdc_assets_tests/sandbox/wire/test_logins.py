"""Logins of the real drivers, with and without TLS."""

from __future__ import annotations

import stat
from pathlib import Path

import arrow_odbc
import pyarrow as pa
import pytds
import pytest

from cdc_assets.sandbox.results import SqlType
from cdc_assets.sandbox.server import TdsServer
from cdc_assets.sandbox.wire.login import Login
from cdc_assets_tests.sandbox.wire.canned import USER, CannedBackend
from cdc_assets_tests.sandbox.wire.clients import connection_string, odbc, read, tds

MODES = [
    {"Encrypt": "no"},
    {"Encrypt": "yes", "HostNameInCertificate": "localhost"},
    {"Encrypt": "yes", "TrustServerCertificate": "yes"},
    {"Encrypt": "strict", "HostNameInCertificate": "localhost"},
    {"Encrypt": "yes", "HostNameInCertificate": "localhost", "PacketSize": "32767"},
    {"Encrypt": "no", "PacketSize": "512"},
]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: ",".join(mode.values()))
def test_odbc_logs_in_and_reads(
    backend: CannedBackend, server: TdsServer, mode: dict[str, str]
) -> None:
    numbers = pa.array(range(60_000), pa.int32())
    backend.rows_of("q", [("n", SqlType("int"), numbers)])
    connection = odbc(server, Database="sales", **mode)
    assert read(connection, "q").column("n").combine_chunks() == numbers
    assert read(connection, "q", ["text"]).num_rows == 60_000
    assert backend.sessions[0].database == "sales"
    assert backend.rows == 120_000


@pytest.mark.parametrize("encrypt", ["yes", "strict"])
def test_a_certificate_nobody_vouches_for_is_refused(
    backend: CannedBackend,
    server: TdsServer,
    encrypt: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(arrow_odbc.Error, match="certificate verify failed"):
        odbc(server, Encrypt=encrypt, HostNameInCertificate="localhost")
    assert not backend.sessions


@pytest.mark.parametrize("encrypt", ["no", "yes"])
def test_a_wrong_password_is_28000(server: TdsServer, encrypt: str) -> None:
    options = {"Encrypt": encrypt, "HostNameInCertificate": "localhost", "PWD": "wrong"}
    with pytest.raises(arrow_odbc.Error, match=r"28000.*18456.*Login failed for user"):
        odbc(server, **options)


def test_an_unknown_database_is_4060(server: TdsServer) -> None:
    with pytest.raises(arrow_odbc.Error, match=r"Cannot open database"):
        odbc(server, Database="nodb")


def test_integrated_authentication_is_refused_with_a_sentence(server: TdsServer) -> None:
    with pytest.raises(pytds.Error, match="SQL logins only"):
        pytds.connect("127.0.0.1", port=server.port, auth=_Ticket(), login_timeout=5)


def test_pytds_logs_in(backend: CannedBackend, server: TdsServer) -> None:
    backend.rows_of("q", [("n", SqlType("nvarchar", length=20), pa.array(["Ελλάδα", None]))])
    with tds(server) as connection, connection.cursor() as cursor:
        cursor.execute("q")
        assert cursor.fetchall() == [("Ελλάδα",), (None,)]
    assert backend.sessions[0].database == "sales"
    assert backend.sessions[0].closed.wait(5)


def test_keys_are_private_and_the_certificate_is_made_once(
    server: TdsServer, wire_state: Path, backend: CannedBackend
) -> None:
    key = wire_state / "tls" / "server.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    TdsServer(backend, state_dir=wire_state)
    assert key.read_bytes() == before


def test_only_loopback(backend: CannedBackend, wire_state: Path) -> None:
    with pytest.raises(ValueError, match="loopback only"):
        TdsServer(backend, host="0.0.0.0", state_dir=wire_state)


def test_a_password_never_shows_in_a_login(server: TdsServer) -> None:
    login = Login("u", "canary", "d", "a", 0, 0, frozenset(), False, False)
    assert "canary" not in repr(login)
    assert USER in connection_string(server)


class _Ticket(pytds.tds_base.AuthProtocol):
    def create_packet(self) -> bytes:
        return b"NTLMSSP\x00"

    def handle_next(self, packet: bytes) -> bytes | None:
        return None

    def close(self) -> None:
        pass
