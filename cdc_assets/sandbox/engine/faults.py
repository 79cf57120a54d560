"""Faults on demand: what the next statements of a kind run into, before or in their rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from cdc_assets.sandbox.results import SqlError

_DEADLOCK = (
    1205,
    "Transaction (Process ID {process}) was deadlocked on lock resources with another process and "
    "has been chosen as the deadlock victim. Rerun the transaction.",
    13,
    51,
)
KINDS = ("drop", "delay", "deadlock", "lock_timeout", "error", "execute")
MAX_REREAD_ROWS = 1_000_000
"""Rows of one result that a text in its middle may leave to be looked at again."""


def deadlock(process: int) -> SqlError:
    """Msg 1205 for a session."""
    number, text, severity, state = _DEADLOCK
    return SqlError(number, text.format(process=process), severity, state)


def lock_timeout() -> SqlError:
    """Msg 1222."""
    return SqlError(1222, "Lock request time out period exceeded.", 16, 51)


@dataclass(slots=True)
class Fault:
    """One planted fault; it strikes `times` statements and is gone."""

    kind: str
    object: int | None = None
    login: str | None = None
    rows: int = 0
    """How many rows leave before it strikes; 0: before the statement takes its snapshot."""
    seconds: float = 0.0
    number: int = 0
    text: str = ""
    times: int = 1
    after: int = 0
    """How many matching statements pass before it strikes."""
    database: str = "master"
    """Where the text of `execute` runs."""

    def matches(self, login: str, objects: frozenset[int], *, streams: bool) -> bool:
        """Whether a statement of that login over those tables is meant."""
        if self.rows and not streams:
            return False
        if self.login is not None and self.login.lower() != login.lower():
            return False
        return self.object is None or self.object in objects


@dataclass(slots=True)
class Faults:
    """The faults that wait for their statement."""

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

    def take(self, login: str, objects: frozenset[int], *, streams: bool) -> list[Fault]:
        """Those that the statement runs into, in the order of their rows."""
        struck = []
        with self._lock:
            for fault in list(self._waiting):
                if not fault.matches(login, objects, streams=streams):
                    continue
                if fault.after > 0:
                    fault.after -= 1
                    continue
                fault.times -= 1
                if fault.times <= 0:
                    self._waiting.remove(fault)
                struck.append(fault)
        return sorted(struck, key=lambda fault: fault.rows)

    def give_back(self, faults: Sequence[Fault]) -> None:
        """The statement ended before their rows: they wait for the next one."""
        with self._lock:
            for fault in faults:
                fault.times += 1
                if not any(other is fault for other in self._waiting):
                    self._waiting.append(fault)


class Victim(Protocol):
    """The statement's session, as a fault sees it."""

    def deadlocked(self) -> SqlError:
        """The error of a deadlock's victim."""
        ...

    def interject(self, fault: Fault) -> None:
        """Let the server run the fault's text."""
        ...


def strike(fault: Fault, victim: Victim) -> None:
    """Let a fault happen; raises what it is about, `ConnectionAbortedError` for `drop`."""
    if fault.kind == "delay":
        time.sleep(fault.seconds)
    elif fault.kind == "deadlock":
        raise victim.deadlocked()
    elif fault.kind == "lock_timeout":
        raise lock_timeout()
    elif fault.kind == "error":
        raise SqlError(fault.number, fault.text or "An injected error.")
    elif fault.kind == "execute":
        victim.interject(fault)
    else:
        raise ConnectionAbortedError("an injected fault drops the connection here")


def cut(
    batches: Iterator[pa.RecordBatch],
    faults: Sequence[Fault],
    happen: Callable[[Fault], None],
    again: Callable[[], Iterator[pa.RecordBatch]] | None,
) -> Generator[pa.RecordBatch, None, list[Fault]]:
    """A result's batches, cut at the row where each fault strikes.

    `again` runs the query anew: after a text has run, rows that are not in it any more are left
    out of what has not been sent yet, as a scan under READ COMMITTED misses what was deleted before
    it came there. None where a read keeps to the rows of its beginning. Returns the faults whose
    row never came.
    """
    left, sent = list(faults), 0
    pending = next(batches, None)
    while pending is not None or left:
        here = pending.num_rows if pending is not None else 0
        if left and left[0].rows <= sent + here:
            size = left[0].rows - sent
            if size and pending is not None:
                yield pending.slice(0, size)
                sent += size
                pending = pending.slice(size)
            fault = left.pop(0)
            if fault.kind == "execute" and again is not None:
                # Read to the end first: the connection runs one query at a time.
                rest = [batch for batch in (pending, *batches) if batch is not None]
                happen(fault)
                batches = _still_there(rest, again())
                pending = next(batches, None)
            else:
                happen(fault)
            continue
        if pending is None:
            break
        yield pending
        sent += here
        pending = next(batches, None)
    return left


def _still_there(
    rest: Sequence[pa.RecordBatch], anew: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of `rest` that are among the rows read anew."""
    present: set[str] = set()
    for batch in anew:
        present.update(_keys(batch))
        if len(present) > MAX_REREAD_ROWS:
            raise SqlError(
                701, f"A fault in the middle of more than {MAX_REREAD_ROWS} rows is too large.", 17
            )
    for batch in rest:
        kept = batch.filter(pa.array([key in present for key in _keys(batch)], pa.bool_()))
        if kept.num_rows:
            yield kept


def _keys(batch: pa.RecordBatch) -> list[str]:
    columns = [column.to_pylist() for column in batch.columns]
    return [repr(row) for row in zip(*columns, strict=True)]
