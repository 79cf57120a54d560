"""The sandbox's door: a TDS server on loopback in front of a `Backend`."""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
import time
from pathlib import Path
from types import TracebackType

from cdc_assets.sandbox.results import Backend
from cdc_assets.sandbox.wire.certificate import ensure_certificate, server_contexts
from cdc_assets.sandbox.wire.connection import Connection, Environment
from cdc_assets.sandbox.wire.limits import ACCEPT_RETRY_SECONDS, MAX_CONNECTIONS, STOP_SECONDS
from cdc_assets.sandbox.wire.watcher import Watcher

_log = logging.getLogger(__name__)
_FIRST_PROCESS_ID = 51
_MAX_PROCESS_ID = 32767


class TdsServer:
    """Listens on loopback; each connection has a thread. Also a context manager."""

    def __init__(
        self, backend: Backend, *, host: str = "127.0.0.1", port: int = 0, state_dir: Path
    ) -> None:
        """Make the certificate if there is none; `port` 0 takes a free one at `start`.

        Raises `ValueError` for a host that is not loopback: the sandbox's logins guard nothing.
        """
        if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
            raise ValueError(f"the sandbox listens on loopback only, not on {host}")
        self._address = (host, port)
        self._backend = backend
        self._certificate = ensure_certificate(state_dir)
        self._watcher = Watcher()
        self._listener: socket.socket | None = None
        self._port: int | None = None
        self._accepting: threading.Thread | None = None
        self._connections: dict[Connection, threading.Thread] = {}
        self._lock = threading.Lock()
        self._stopping = False

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._port is None:
            raise RuntimeError("the server has not been started")
        return self._port

    @property
    def ca_file(self) -> Path:
        """What a client trusts: the CA of the server's certificate, as PEM."""
        return self._certificate.ca

    def start(self) -> None:
        """Listen and serve in the background, once; `OSError` where the port is taken."""
        inside, first = server_contexts(self._certificate)
        environment = Environment(self._backend, inside, first, self._watcher)
        self._listener = socket.create_server(self._address, backlog=MAX_CONNECTIONS)
        self._port = int(self._listener.getsockname()[1])
        self._watcher.start()
        self._accepting = threading.Thread(
            target=self._accept, args=(self._listener, environment), name="tds-accept", daemon=True
        )
        self._accepting.start()

    def stop(self) -> None:
        """Close the listener and every connection; waits at most `STOP_SECONDS` for threads."""
        deadline = time.monotonic() + STOP_SECONDS
        with self._lock:
            self._stopping = True
            connections = dict(self._connections)
        if self._listener is not None:
            _wake(self._listener)
            self._listener.close()
            self._watcher.stop()
        for connection in connections:
            connection.close()
        for thread in (self._accepting, *connections.values()):
            if thread is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
                if thread.is_alive():
                    _log.warning("%s did not end in %g s", thread.name, STOP_SECONDS)

    def __enter__(self) -> TdsServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _accept(self, listener: socket.socket, environment: Environment) -> None:
        accepted = 0
        while not self._stopping:
            try:
                sock, _ = listener.accept()
            except OSError as error:
                # One client that vanished, or too many open files, is not the end of the server.
                if not self._stopping:
                    _log.warning("a connection could not be accepted: %s", error)
                    time.sleep(ACCEPT_RETRY_SECONDS)
                continue
            process_id = _FIRST_PROCESS_ID + accepted % (_MAX_PROCESS_ID - _FIRST_PROCESS_ID)
            accepted += 1
            if not self._begin(Connection(sock, process_id, environment), process_id):
                sock.close()

    def _begin(self, connection: Connection, process_id: int) -> bool:
        thread = threading.Thread(
            target=self._run, args=(connection,), name=f"tds-{process_id}", daemon=True
        )
        with self._lock:
            if self._stopping:
                return False
            if len(self._connections) >= MAX_CONNECTIONS:
                _log.warning("more than %d connections: the newest is closed", MAX_CONNECTIONS)
                return False
            try:
                thread.start()
            except RuntimeError as error:
                _log.warning("a connection is closed: %s", error)  # no thread to be had
                return False
            self._connections[connection] = thread
        return True

    def _run(self, connection: Connection) -> None:
        try:
            connection.run()
        finally:
            with self._lock:
                self._connections.pop(connection, None)


def _wake(listener: socket.socket) -> None:
    """End a blocked `accept`; closing the socket alone does not, on Linux."""
    try:
        listener.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # not listening any more
