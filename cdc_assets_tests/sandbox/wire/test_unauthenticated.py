"""What a client may use up before it is let in, and which logins never get in."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pyarrow as pa
import pytest

from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.sandbox.results import SqlType
from cdc_assets.sandbox.server import TdsServer
from cdc_assets.sandbox.wire import channels
from cdc_assets.sandbox.wire.limits import MAX_CONNECTIONS, MAX_LOGIN_BYTES, MAX_LOGIN_MESSAGE_BYTES
from cdc_assets_tests.sandbox.wire import packets as p
from cdc_assets_tests.sandbox.wire.canned import CannedBackend
from cdc_assets_tests.sandbox.wire.clients import RawClient, tds
from cdc_assets_tests.sandbox.wire.test_fuzz import LOGIN_ACK, wait_until


@pytest.fixture
def answered(backend: CannedBackend) -> CannedBackend:
    backend.rows_of("one", [("n", SqlType("int"), pa.array([1], pa.int32()))])
    return backend


def ended(client: socket.socket) -> bool:
    """Whether the server ends the connection, whatever it says before that."""
    try:
        while client.recv(4096):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_a_byte_now_and_then_does_not_prolong_a_login(
    server: TdsServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(channels, "LOGIN_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.settimeout(0.05)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while True:
                client.sendall(p.packet(p.PRELOGIN, b"x", status=0))
                sent += 1
                with contextlib.suppress(TimeoutError):
                    if not client.recv(1):
                        break
        assert 2 < sent < 50
    assert "no login within 0.5 s" in caplog.text


@pytest.mark.parametrize("first", [b"", p.packet(p.PRELOGIN, p.prelogin())], ids=["new", "greeted"])
def test_a_silent_client_is_closed(
    server: TdsServer, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    monkeypatch.setattr(channels, "LOGIN_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.sendall(first)
        if first:
            assert client.recv(4096)
        assert ended(client)


def test_a_session_outlives_the_time_for_logins(
    answered: CannedBackend, server: TdsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "LOGIN_SECONDS", 0.3)
    with (
        tds(server) as connection,
        socket.create_connection(("127.0.0.1", server.port), timeout=5) as later,
    ):
        assert ended(later)  # began after the session, and its time is over
        with connection.cursor() as cursor:
            cursor.execute("one")
            assert cursor.fetchall() == [(1,)]


@pytest.mark.parametrize("status", [0, 1], ids=["one message", "many messages"])
def test_bytes_before_the_login_are_bounded(
    server: TdsServer, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.sendall(p.packet(p.PRELOGIN, p.prelogin(1)))
        assert client.recv(4096)
        # A TLS handshake in packets of nothing, which never ends.
        piece = 1000 * p.packet(p.PRELOGIN, b"", status)
        with contextlib.suppress(ConnectionError):
            for _ in range(MAX_LOGIN_BYTES // len(piece) + 1):
                client.sendall(piece)
        assert ended(client)
    limit = MAX_LOGIN_BYTES if status else MAX_LOGIN_MESSAGE_BYTES
    assert f"more than {limit} bytes" in caplog.text


def test_more_connections_than_there_may_be(answered: CannedBackend, server: TdsServer) -> None:
    with contextlib.ExitStack() as held:
        half_open = [
            held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=5))
            for _ in range(MAX_CONNECTIONS + 20)
        ]
        assert all(ended(client) for client in half_open[MAX_CONNECTIONS:])
        assert len(server._connections) == MAX_CONNECTIONS
    wait_until(lambda: not server._connections)
    with tds(server) as connection, connection.cursor() as cursor:
        cursor.execute("one")
        assert cursor.fetchall() == [(1,)]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("logins") / "state") as running:
        yield running


def said_to(port: int, login: bytes) -> bytes:
    """What the server says to a LOGIN7."""
    with RawClient(port) as client:
        return client.log_in(login)


def test_only_the_right_password_of_a_real_login_gets_in(sandbox: Sandbox) -> None:
    right = sandbox.admin_password
    assert LOGIN_ACK in said_to(sandbox.port, p.login("sa", right, database="master"))
    wrong = [
        ("sa", ""),
        ("sa", right.swapcase()),
        ("sa", right + "\0"),
        ("sa", " " + right),
        ("sa", right[:-1]),
        ("sa", sandbox.reader_password),
        ("sa", "\ud800"),
        ("reader", right),
        ("sa\0", right),
        ("", right),
        ("", ""),
        ("\udfff", right),
        ("x" * 128, "x" * 128),
    ]
    failed = (18456).to_bytes(4, "little")
    for user, password in wrong:
        said = said_to(sandbox.port, p.login(user, password, database="master"))
        assert LOGIN_ACK not in said, (user, password)
        assert failed in said, (user, password)
    assert not sandbox.engine._sessions
