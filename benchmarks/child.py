"""A child process that answers one line of JSON for each line it is told."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

_STOP_SECONDS_MAX = 60
_LOG_LINES_SHOWN = 5


class ChildError(Exception):
    """A child ended or fell silent; the message has the end of its log."""


class JsonChild:
    """Starts a command with a pipe to its standard input and output; a context manager.

    It gets a process group of its own, so that its children (a JVM) end with it.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        answer_seconds_max: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        self._answer_seconds_max = answer_seconds_max
        self._answers: queue.Queue[str | None] = queue.Queue()
        with log.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._follow, name="child-answers", daemon=True)
        self._reader.start()

    def tell(self, line: str) -> None:
        """Write one line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            raise ChildError(self._why("it ended")) from None

    def answer(self) -> dict[str, Any]:
        """Its next answer; raises `ChildError` when it ends or says nothing for too long."""
        try:
            line = self._answers.get(timeout=self._answer_seconds_max)
        except queue.Empty:
            raise ChildError(self._why(f"no answer in {self._answer_seconds_max:.0f} s")) from None
        if line is None:
            raise ChildError(self._why("it ended"))
        found: dict[str, Any] = json.loads(line)
        return found

    def __enter__(self) -> JsonChild:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it may have ended before us
            self._process.stdin.close()
        try:
            self._process.wait(0.1 if error else _STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _why(self, what: str) -> str:
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        end = " | ".join(said[-_LOG_LINES_SHOWN:])
        return f"child process {self._process.args!r}: {what}. {end} (log: {self._log})"
