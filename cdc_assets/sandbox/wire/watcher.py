"""Notices that a client gave up while its request still runs in the engine.

TDS lets a client send one thing before the answer ends: an attention. So any byte (or the end
of the stream) on a busy connection means: stop. The connection's own thread reads what it was.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cdc_assets.sandbox.results import Session
from cdc_assets.sandbox.wire.channels import has_waiting_bytes
from cdc_assets.sandbox.wire.limits import STOP_SECONDS, WATCH_SECONDS

_log = logging.getLogger(__name__)


class RunningRequest:
    """A request in the engine's hands; cancelled at most once, and never after its end."""

    def __init__(self, sock: socket.socket, session: Session) -> None:
        self.socket = sock
        self.cancelled = False
        self._session = session
        self._running = True
        self._lock = threading.Lock()
        session.begin_request()

    def cancel(self) -> None:
        """Tell the session to stop."""
        with self._lock:
            if self.cancelled or not self._running:
                return
            self.cancelled = True
            try:
                self._session.cancel()
            except Exception:  # noqa: BLE001 - logged
                _log.exception("cancelling a request failed")

    def end(self) -> None:
        """From here on nothing is cancelled."""
        with self._lock:
            self._running = False


class Watcher:
    """One thread that looks at all busy connections, and sleeps while there are none."""

    def __init__(self) -> None:
        self._requests: set[RunningRequest] = set()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tds-watcher", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Cancel everything that runs and end the thread."""
        with self._changed:
            self._stopping.set()
            requests = list(self._requests)
            self._changed.notify()
        for request in requests:
            request.cancel()
        self._thread.join(STOP_SECONDS)

    @contextmanager
    def watching(self, request: RunningRequest) -> Iterator[None]:
        """Watch a request for as long as the block runs."""
        with self._changed:
            self._requests.add(request)
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._requests.discard(request)
            request.end()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._requests and not self._stopping.is_set():
                    self._changed.wait()  # whoever begins a request says so, and `stop` does
            if self._stopping.wait(WATCH_SECONDS):
                return
            with self._changed:
                requests = list(self._requests)
            for request in requests:
                if not request.cancelled and has_waiting_bytes(request.socket):
                    request.cancel()
