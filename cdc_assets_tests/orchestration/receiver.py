"""A webhook's receiver: an HTTP server on loopback that keeps what it is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET_PATH = "/hook/s3cret-canary"


@dataclass
class Receiver:
    """What was posted, and how it answers: with `status`, or not at all where that is None."""

    url: str = ""
    status: int | None = 200
    documents: list[Any] = field(default_factory=list)
    silence: threading.Event = field(default_factory=threading.Event)

    @property
    def lines(self) -> list[str]:
        """The lines of the last document's text."""
        return str(self.documents[-1]["text"]).splitlines()


@contextmanager
def receiver() -> Iterator[Receiver]:
    """One that listens until the end of the context."""
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if made.status is None:
                made.silence.wait(60)
                return
            if made.status == 200:
                assert self.headers["Content-Type"] == "application/json"
                made.documents.append(json.loads(body))
            self.send_response(made.status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}{SECRET_PATH}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.silence.set()
            server.shutdown()
            thread.join()
