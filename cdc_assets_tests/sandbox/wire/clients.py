"""The real drivers, pointed at a server of the tests."""

from __future__ import annotations

import contextlib
import importlib.util
import socket
from pathlib import Path
from typing import Any

import arrow_odbc
import pyarrow as pa
import pytds
from arrow_odbc import TextEncoding

from cdc_assets.sandbox.server import TdsServer
from cdc_assets_tests.sandbox.wire import packets as p
from cdc_assets_tests.sandbox.wire.canned import PASSWORD, USER


def driver() -> Path:
    """Microsoft's driver, as the wheel brings it."""
    spec = importlib.util.find_spec("mssql_python_odbc")
    assert spec is not None
    assert spec.origin is not None
    found = Path(spec.origin).parent.glob(
        "libs/linux/debian_ubuntu/x86_64/lib/libmsodbcsql-18*.so*"
    )
    return next(found)


def connection_string(server: TdsServer, **options: str) -> str:
    escaped = PASSWORD.replace("}", "}}")
    given = {
        "Driver": str(driver()),
        "Server": f"127.0.0.1,{server.port}",
        "UID": USER,
        "PWD": f"{{{escaped}}}",
        "Encrypt": "no",
        **options,
    }
    return ";".join(f"{key}={value}" for key, value in given.items())


def odbc(server: TdsServer, **options: str) -> Any:
    return arrow_odbc.connect(connection_string(server, **options))


def read(
    connection: Any, query: str, parameters: list[str | None] | None = None, **options: Any
) -> pa.Table:
    reader = connection.read_arrow_batches(
        query, parameters=parameters, payload_text_encoding=TextEncoding.UTF16, **options
    )
    return reader.into_pyarrow_record_batch_reader().read_all()


def tds(server: TdsServer, *, autocommit: bool = True) -> Any:
    return pytds.connect(
        "127.0.0.1",
        port=server.port,
        user=USER,
        password=PASSWORD,
        database="sales",
        autocommit=autocommit,
        timeout=20,
        login_timeout=20,
    )


class RawClient:
    """A socket that sends what it is told, and knows when the server has answered."""

    def __init__(self, port: int, seconds: float = 10.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self.received = bytearray()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def log_in(self, login: bytes) -> bytes:
        """PRELOGIN without encryption, then a LOGIN7; what the server said to that."""
        self.ask(p.PRELOGIN, p.prelogin())
        return self.ask(p.LOGIN7, login)

    def ask(self, kind: int, data: bytes, status: int = 1) -> bytes:
        """Send a message of one packet; the answer's tokens, nothing where the server ended it."""
        self.received.clear()
        self.socket.sendall(p.packet(kind, data, status))
        return b"".join(p.payloads(self.received)) if self.answer() else b""

    def answer(self) -> bool:
        """Read one message; False where the connection ended first. Raises TimeoutError."""
        start = len(self.received)
        while not p.has_message(self.received, start):
            if not self._more():
                return False
        return True

    def drain(self) -> None:
        """Say that no more comes, and read to the end. Raises TimeoutError."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        while self._more():
            pass

    def _more(self) -> bool:
        try:
            piece = self.socket.recv(65_536)
        except ConnectionError:
            return False  # a reset is an end too: the server leaves what it did not read
        self.received += piece
        return bool(piece)
