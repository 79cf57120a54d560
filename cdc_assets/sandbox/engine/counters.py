"""What each login asked for and got: the sandbox's own proof of what was read."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field

TEXTS_MAX = 10_000
"""Batches whose text is kept while a login is traced; the oldest go first."""


@dataclass(slots=True)
class Counts:
    """One login's, or one login's and table's."""

    connections: int = 0
    statements: int = 0
    rows: int = 0


@dataclass(slots=True)
class Counters:
    """Counts per login, and per login and object."""

    _logins: defaultdict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))
    _objects: defaultdict[tuple[str, int], Counts] = field(
        default_factory=lambda: defaultdict(Counts)
    )
    _traced: str | None = None
    _texts: deque[str] = field(default_factory=lambda: deque(maxlen=TEXTS_MAX))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def trace(self, login: str | None) -> None:
        """Keep the texts of one login's batches from now on, or of nobody's."""
        with self._lock:
            self._traced = None if login is None else login.lower()
            self._texts.clear()

    def text(self, login: str, text: str) -> None:
        """A batch has arrived."""
        if self._traced is not None and self._traced == login.lower():
            with self._lock:
                self._texts.append(text)

    def texts(self) -> list[str]:
        """The traced login's batches, in their order."""
        with self._lock:
            return list(self._texts)

    def connection(self, login: str) -> None:
        """A login succeeded."""
        with self._lock:
            self._logins[login].connections += 1

    def execution(self, login: str) -> None:
        """A statement starts to run."""
        with self._lock:
            self._logins[login].statements += 1

    def statement(self, login: str, objects: frozenset[int]) -> None:
        """A statement reads these tables."""
        with self._lock:
            for number in objects:
                self._objects[(login, number)].statements += 1

    def rows(self, login: str, objects: frozenset[int], count: int) -> None:
        """Rows left for the client, read from these tables."""
        with self._lock:
            self._logins[login].rows += count
            for number in objects:
                self._objects[(login, number)].rows += count

    def reset(self) -> None:
        """Begin anew."""
        with self._lock:
            self._logins.clear()
            self._objects.clear()

    def logins(self) -> list[tuple[str, Counts]]:
        """Every login's counts."""
        with self._lock:
            return sorted(self._logins.items())

    def objects(self) -> list[tuple[str, int, Counts]]:
        """Every login's counts per object id."""
        with self._lock:
            return sorted(
                (login, number, counts) for (login, number), counts in self._objects.items()
            )
