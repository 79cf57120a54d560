"""Faults on demand: what the next statements of a kind run into."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cdc_assets.sandbox.results import SqlError

_DEADLOCK = SqlError(
    1205,
    "Transaction (Process ID 51) was deadlocked on lock resources with another process and has "
    "been chosen as the deadlock victim. Rerun the transaction.",
    13,
    51,
)
_LOCK_TIMEOUT = SqlError(1222, "Lock request time out period exceeded.", 16, 51)
KINDS = ("drop", "delay", "deadlock", "lock_timeout", "error")


@dataclass(slots=True)
class Fault:
    """One planted fault; it strikes `times` statements and is gone."""

    kind: str
    object: int | None = None
    login: str | None = None
    rows: int = 0
    seconds: float = 0.0
    number: int = 0
    text: str = ""
    times: int = 1
    after: int = 0
    """How many matching statements pass before it strikes."""

    def matches(self, login: str, objects: frozenset[int]) -> bool:
        """Whether a statement of that login over those tables is meant."""
        if self.login is not None and self.login.lower() != login.lower():
            return False
        return self.object is None or self.object in objects


@dataclass(slots=True)
class Faults:
    """The faults that wait, and those that sessions carry."""

    _waiting: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def plant(self, fault: Fault) -> None:
        """Let a fault wait for its statement."""
        with self._lock:
            self._waiting.append(fault)

    def clear(self) -> None:
        """Take all of them back."""
        with self._lock:
            self._waiting.clear()

    def waiting(self) -> list[Fault]:
        """Those that have not struck yet."""
        with self._lock:
            return list(self._waiting)

    def _take(self, chosen: Callable[[Fault], bool]) -> list[Fault]:
        struck = []
        with self._lock:
            for fault in list(self._waiting):
                if not chosen(fault):
                    continue
                if fault.after > 0:
                    fault.after -= 1
                    continue
                fault.times -= 1
                if fault.times <= 0:
                    self._waiting.remove(fault)
                struck.append(fault)
        return struck

    def strike(self, login: str, objects: frozenset[int]) -> int | None:
        """A statement begins: delays pass, errors are raised; rows after which its line drops."""
        dropped = None
        for fault in self._take(lambda f: f.matches(login, objects)):
            if fault.kind == "delay":
                time.sleep(fault.seconds)
            elif fault.kind == "deadlock":
                raise _DEADLOCK
            elif fault.kind == "lock_timeout":
                raise _LOCK_TIMEOUT
            elif fault.kind == "error":
                raise SqlError(fault.number, fault.text or "An injected error.")
            else:
                dropped = fault.rows
        return dropped
