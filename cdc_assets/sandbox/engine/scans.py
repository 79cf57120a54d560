"""What the capture jobs did lately, as sys.dm_cdc_log_scan_sessions and dm_cdc_errors tell it."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

KEPT_SESSIONS = 32
"""Log scan sessions and errors kept per database, as SQL Server keeps them."""


@dataclass(slots=True)
class Scan:
    """One session; times in ticks of the server's clock, LSNs as bytes."""

    number: int
    start: int
    end: int
    transactions: int = 0
    commands: int = 0
    start_lsn: bytes = b""
    end_lsn: bytes = b""
    last_commit: int | None = None
    empty: int = 0
    """How many scans in a row found nothing; they are one session."""
    failed: int = 0


@dataclass(frozen=True, slots=True)
class ScanError:
    """A step that failed."""

    session: int
    time: int
    text: str


@dataclass(slots=True)
class Scans:
    """The sessions of every database since the server started."""

    _sessions: dict[int, deque[Scan]] = field(default_factory=dict)
    _errors: dict[int, deque[ScanError]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _number: int = 0

    def note(self, database: int, scan: Scan) -> None:
        """A step ended; empty ones in a row are counted as one session."""
        with self._lock:
            known = self._sessions.setdefault(database, deque(maxlen=KEPT_SESSIONS))
            if scan.empty and known and known[-1].empty:
                known[-1].empty += 1
                known[-1].end = scan.end
                return
            self._number += 1
            scan.number = self._number
            known.append(scan)

    def failed(self, database: int, time: int, text: str) -> None:
        """A step failed."""
        self.note(database, Scan(0, time, time, failed=1))
        with self._lock:
            known = self._errors.setdefault(database, deque(maxlen=KEPT_SESSIONS))
            known.append(ScanError(self._number, time, text))

    def sessions(self, database: int) -> list[Scan]:
        """The last sessions, oldest first."""
        with self._lock:
            return list(self._sessions.get(database, ()))

    def errors(self, database: int) -> list[ScanError]:
        """The last errors, oldest first."""
        with self._lock:
            return list(self._errors.get(database, ()))
