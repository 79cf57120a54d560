"""A state directory belongs to one running server."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

LOCK_FILE = "lock"


class StateInUseError(Exception):
    """Another server runs on the directory; the message is one sentence."""


class StateLock:
    """Keeps a directory from other servers, of this process too; a killed one lets it go."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take it, and make the directory if there is none; raises `StateInUseError`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StateInUseError(
                f"a sandbox (process {holder}) is running on {self.directory}: stop it, or give "
                "this one another directory"
            ) from None
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Let it go; more than once does no harm."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
