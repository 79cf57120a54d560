"""What goes wrong: attentions, dropped connections, garbage, limits, stopping."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence

import arrow_odbc
import pyarrow as pa
import pytds
import pytest

from cdc_assets.contract import Column
from cdc_assets.errors import SourceUnavailableError
from cdc_assets.planning.plans import ReadRange
from cdc_assets.sandbox import server as server_module
from cdc_assets.sandbox.results import Parameter, Result, ResultColumn, ResultSet, SqlType
from cdc_assets.sandbox.server import TdsServer
from cdc_assets.sandbox.wire.limits import MAX_LOGIN_MESSAGE_BYTES
from cdc_assets.sqlserver.connection import SourceConnection
from cdc_assets.sqlserver.read import read_range
from cdc_assets_tests.sandbox.wire.canned import CannedBackend, CannedSession
from cdc_assets_tests.sandbox.wire.clients import connection_string, odbc, read, tds
from cdc_assets_tests.sandbox.wire.packets import HEADERS, packet

COLUMNS = (ResultColumn("n", SqlType("int")), ResultColumn("t", SqlType("varchar", length=20)))


def endless() -> Iterator[pa.RecordBatch]:
    batch = pa.record_batch(
        [pa.array(range(20_000), pa.int32()), pa.array(["text"] * 20_000)], names=["n", "t"]
    )
    while True:
        yield batch


@pytest.fixture
def answered(backend: CannedBackend) -> CannedBackend:
    backend.rows_of("one", [("n", SqlType("int"), pa.array([1], pa.int32()))])
    backend.results_of("endless", lambda: [ResultSet(COLUMNS, endless())])

    def wait(session: CannedSession, _: Sequence[Parameter]) -> Iterator[Result]:
        assert session.cancelled.wait(20)
        session.cancelled.clear()
        raise RuntimeError("interrupted")
        yield

    backend.answers["wait"] = wait
    return backend


@pytest.mark.parametrize("encrypt", ["no", "yes", "strict"])
def test_a_reader_given_up_midway(answered: CannedBackend, server: TdsServer, encrypt: str) -> None:
    connection = odbc(server, Encrypt=encrypt, HostNameInCertificate="localhost")
    for _ in range(3):
        reader = connection.read_arrow_batches("endless", batch_size=1000, fetch_concurrently=False)
        assert next(iter(reader)).num_rows == 1000
        del reader
        assert read(connection, "one").num_rows == 1
    assert answered.sessions[0].cancelled.is_set()


def test_a_cursor_cancelled_midway(answered: CannedBackend, server: TdsServer) -> None:
    with tds(server) as connection, connection.cursor() as cursor:
        cursor.execute("endless")
        assert len(cursor.fetchmany(10)) == 10
        cursor.cancel()
        cursor.execute("one")
        assert cursor.fetchall() == [(1,)]


@pytest.mark.parametrize("encrypt", ["no", "yes"])
def test_a_timeout_reaches_a_statement_that_runs_in_the_engine(
    answered: CannedBackend, server: TdsServer, encrypt: str
) -> None:
    connection = odbc(server, Encrypt=encrypt, HostNameInCertificate="localhost")
    with pytest.raises(arrow_odbc.Error, match="HYT00"):
        read(connection, "wait", query_timeout_sec=1)
    assert read(connection, "one").num_rows == 1


def test_an_attention_is_acknowledged_in_a_message_of_its_own(
    answered: CannedBackend, server: TdsServer
) -> None:
    client = tds(server)._tds_socket._main_session._transport
    client.settimeout(10)
    ended = struct.pack("<BHHQ", 0xFD, 0x02, 0, 0)  # an error: it is not the whole answer
    acknowledged = struct.pack("<BHHQ", 0xFD, 0x20, 0, 0)
    client.sendall(packet(1, HEADERS + "wait".encode("utf-16-le")) + packet(6, b""))
    received = b""
    while len(received) < 2 * (8 + len(ended)):
        received += client.recv(100)
    assert (received[8:21], received[29:]) == (ended, acknowledged)
    # One that comes when nothing runs is acknowledged too.
    client.sendall(packet(6, b""))
    assert client.recv(100)[8:] == acknowledged
    client.close()


def test_a_client_that_vanishes_cancels_what_it_started(
    answered: CannedBackend, server: TdsServer
) -> None:
    client = tds(server)._tds_socket._main_session._transport
    client.sendall(packet(1, HEADERS + "wait".encode("utf-16-le")))
    client.close()
    assert answered.sessions[0].closed.wait(10)
    assert answered.sessions[0].log == ["wait"]


def test_a_dropped_connection_is_08s01(answered: CannedBackend, server: TdsServer) -> None:
    answered.drop_after = 100_000
    connection = odbc(server)
    with pytest.raises((arrow_odbc.Error, pa.ArrowException), match="08S01"):
        read(connection, "endless")
        # Behind a whole row the driver may take it for the rows' end; the next statement fails.
        read(connection, "one")
    answered.drop_after = None
    assert read(odbc(server), "one").num_rows == 1


def test_a_read_that_broke_off_is_never_taken_for_whole(
    answered: CannedBackend, server: TdsServer
) -> None:
    """Ours: a snapshot's rows, which nobody has counted before."""
    source = SourceConnection(name="sales", text=connection_string(server))
    columns = (Column("n", "INT"), Column("t", "STRING"))
    answered.drop_after = 1
    for _ in range(50):
        with pytest.raises(SourceUnavailableError):
            list(read_range(source, ReadRange("endless"), columns))


def test_many_connections_at_once(answered: CannedBackend, server: TdsServer) -> None:
    connections = [tds(server) for _ in range(20)]
    for connection in connections:
        with connection.cursor() as cursor:
            cursor.execute("one")
            assert cursor.fetchall() == [(1,)]
        connection.close()


def test_one_connection_too_many_is_closed(
    answered: CannedBackend, server: TdsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    held = [tds(server), tds(server)]
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as third:
        assert third.recv(1) == b""
    held.pop().close()
    assert answered.sessions[1].closed.wait(5)
    deadline = time.monotonic() + 5
    while len(server._connections) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert read(odbc(server), "one").num_rows == 1


def test_stop_ends_busy_and_idle_connections(answered: CannedBackend, wire_state: object) -> None:
    before = {thread.name for thread in threading.enumerate()}
    server = TdsServer(answered, state_dir=wire_state)
    server.start()
    idle = tds(server)
    busy = odbc(server)
    reader = busy.read_arrow_batches("endless", batch_size=10)
    waiting = tds(server)
    failed = threading.Event()

    def wait() -> None:
        with pytest.raises((pytds.Error, ConnectionError)):
            waiting.cursor().execute("wait")
        failed.set()

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    started = time.monotonic()
    server.stop()
    assert time.monotonic() - started < 5
    thread.join(5)
    assert failed.is_set()
    assert all(session.closed.is_set() for session in answered.sessions)
    names = {thread.name for thread in threading.enumerate()} - before
    assert not [name for name in names if name.startswith("tds-")]
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port))
    del reader, busy, idle


def exchange(port: int, data: bytes) -> None:
    """Send bytes and read until the server ends the connection."""
    client = socket.create_connection(("127.0.0.1", port), timeout=5)
    # A reset is an end too: the server leaves what it did not read.
    with client, contextlib.suppress(ConnectionError, OSError):
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass


def test_a_message_too_long_ends_the_connection(server: TdsServer) -> None:
    piece = packet(18, bytes(30_000), status=0)
    exchange(server.port, piece * (MAX_LOGIN_MESSAGE_BYTES // 30_000 + 1))
