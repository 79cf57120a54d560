"""Malformed packets never crash or hang the server, and a bad login never gets in."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.sandbox.results import SqlType
from cdc_assets.sandbox.server import TdsServer
from cdc_assets_tests.sandbox.wire import packets as p
from cdc_assets_tests.sandbox.wire.canned import CannedBackend
from cdc_assets_tests.sandbox.wire.clients import RawClient, odbc, read
from cdc_assets_tests.sandbox.wire.fuzz import Case, Fuzzer, Stage

PACKETS = (2_500, 10_000)
SEED = int(os.environ.get("CDC_FUZZ_SEED", "20261130"))
ENGINE_PACKETS = 500
"""About so many of them go to the real engine, whose logins take their time."""

LOOK_EVERY = 1_000
ANSWER_SECONDS = 10.0
MEMORY_GROWTH_MAX = 64 * 1024 * 1024
"""Bytes of resident memory that all cases together may leave behind: allocators keep some."""

LOGIN_ACK = "Microsoft SQL Server".encode("utf-16-le")
"""What LOGINACK has and nothing else says."""


@pytest.fixture
def answered(backend: CannedBackend) -> CannedBackend:
    backend.rows_of("one", [("n", SqlType("int"), pa.array([1], pa.int32()))])
    return backend


def handshake(client: RawClient) -> None:
    """Agree on TLS, its flights inside packets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    complete = False
    while not complete:
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
            complete = True
        if flight := outgoing.read():
            client.socket.sendall(p.message(p.PRELOGIN, flight, 4088))
        if not complete:
            client.received.clear()
            assert client.answer()
            incoming.write(b"".join(p.payloads(client.received)))


def reach(client: RawClient, stage: Stage, login: bytes) -> None:
    """Do as a good client does up to a stage."""
    if stage == Stage.CONNECTED:
        return
    encrypted = stage in (Stage.ENCRYPTING, Stage.ENCRYPTED)
    client.socket.sendall(p.packet(p.PRELOGIN, p.prelogin(1 if encrypted else 2)))
    assert client.answer()
    if stage == Stage.ENCRYPTED:
        handshake(client)
    if stage == Stage.LOGGED_IN:
        client.socket.sendall(p.packet(p.LOGIN7, login))
        assert client.answer()
        assert LOGIN_ACK in client.received
    client.received.clear()


def play(port: int, case: Case, login: bytes | None = None) -> bytes:
    """Send a case and wait until the server has dealt with it; what it said."""
    with RawClient(port, ANSWER_SECONDS) as client:
        reach(client, case.stage, login or p.login())
        with contextlib.suppress(ConnectionError):
            client.socket.sendall(case.data)
            if _needs_an_answer(case):
                client.answer()
        client.drain()
    return bytes(client.received)


def _needs_an_answer(case: Case) -> bool:
    """Whether the server owes an answer or an end; a TLS handshake may wait for more instead."""
    tls = case.stage in (Stage.ENCRYPTING, Stage.ENCRYPTED) or case.data[:1] == b"\x16"
    return not tls and p.framing(case.data) != "waiting"


@pytest.fixture(scope="module")
def others() -> frozenset[threading.Thread]:
    """Threads of before: the servers that other modules share have clients of their own."""
    return frozenset(threading.enumerate())


class Footprint:
    """What a server holds: connections, threads, files, memory."""

    def __init__(self, server: TdsServer, others: frozenset[threading.Thread]) -> None:
        self._server = server
        self._others = others
        self._let_go()
        self._files = self._open_files()
        self._memory = resident_bytes()

    def assert_back(self) -> None:
        """Nothing is left of the connections that were served meanwhile."""
        self._let_go()
        wait_until(lambda: self._open_files() <= self._files)
        assert resident_bytes() - self._memory < MEMORY_GROWTH_MAX

    def _let_go(self) -> None:
        wait_until(lambda: not self._server._connections)
        wait_until(lambda: self._threads() == {"tds-accept", "tds-watcher"})

    def _threads(self) -> set[str]:
        own = set(threading.enumerate()) - self._others
        return {thread.name for thread in own if thread.name.startswith("tds-")}

    @staticmethod
    def _open_files() -> int:
        return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ANSWER_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the server still holds what it should have let go"
        time.sleep(0.01)


def behaves(server: TdsServer) -> None:
    """Good clients get right answers, with TLS and without."""
    for encrypt in ("no", "yes"):
        connection = odbc(server, Encrypt=encrypt, HostNameInCertificate="localhost")
        assert read(connection, "one").to_pydict() == {"n": [1]}


@pytest.mark.parametrize("packets", PACKETS)
def test_malformed_packets(
    packets: int,
    others: frozenset[threading.Thread],
    answered: CannedBackend,
    server: TdsServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "cdc_assets.sandbox")
    fuzzer = Fuzzer(SEED)
    behaves(server)
    footprint = None
    for number in range(packets):
        case = fuzzer.case()
        where = f"packet {number} of seed {SEED}, {case.what} ({case.stage.value}): "
        sessions = len(answered.sessions)
        try:
            said = play(server.port, case)
        except TimeoutError:
            pytest.fail(f"{where}no answer in {ANSWER_SECONDS:g} s to {case.data.hex()}")
        assert LOGIN_ACK not in said, f"{where}a login got in: {case.data.hex()}"
        if case.stage != Stage.LOGGED_IN:
            assert len(answered.sessions) == sessions, f"{where}a session: {case.data.hex()}"
        assert not caplog.records, f"{where}{caplog.text} after {case.data.hex()}"
        if number % LOOK_EVERY == 0:
            behaves(server)
            footprint = footprint or Footprint(server, others)
            footprint.assert_back()
    behaves(server)
    assert footprint is not None
    footprint.assert_back()


def test_malformed_requests_to_the_real_engine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "cdc_assets.sandbox")
    fuzzer = Fuzzer(SEED)
    cases = (fuzzer.case() for _ in range(3 * ENGINE_PACKETS))
    with Sandbox(tmp_path / "state") as sandbox:
        login = p.login("sa", sandbox.admin_password, database="master")
        for case in cases:
            if case.stage != Stage.LOGGED_IN:
                continue
            try:
                play(sandbox.port, case, login)
            except TimeoutError:
                pytest.fail(f"seed {SEED}, {case.what}: no answer to {case.data.hex()}")
            assert not caplog.records, f"seed {SEED}: {caplog.text} after {case.data.hex()}"
        wait_until(lambda: not sandbox.engine._sessions)
        with RawClient(sandbox.port) as client:
            assert LOGIN_ACK in client.log_in(login)
            # A DONE with one row.
            assert client.ask(p.SQL_BATCH, p.batch("SELECT 1"))[-8:] == b"\x01" + bytes(7)
