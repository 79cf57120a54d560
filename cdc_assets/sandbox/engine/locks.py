"""Locks of writers: who changes a row, or takes a unique key, makes others wait until it has ended.

Readers take none and wait for none: they read versions of rows, as under READ_COMMITTED_SNAPSHOT.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from cdc_assets.sandbox.engine.faults import lock_timeout
from cdc_assets.sandbox.results import SqlError

ROW_LOCKS = 5000
"""Locks of one statement on one table; one that needs more takes the table, if it is alone there.

SQL Server escalates at about this number too.
"""
_LOOK_SECONDS = 0.05


class StaleError(Exception):
    """What a statement found was changed before it could lock it: it has to look again."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How a session waits: SET LOCK_TIMEOUT in ms (-1: for ever), its attention, its Msg 1205."""

    limit_ms: Callable[[], int]
    check: Callable[[], None]
    deadlocked: Callable[[], SqlError]


@dataclass(slots=True)
class _Table:
    """The locks on one table: by name, or all of it."""

    names: dict[Hashable, int] = field(default_factory=dict)
    whole: int | None = None

    def owners(self) -> set[int]:
        found = set(self.names.values())
        return found if self.whole is None else found | {self.whole}

    def blockers(self, owner: int, names: frozenset[Hashable] | None) -> frozenset[int]:
        if names is None:
            return frozenset(self.owners() - {owner})
        found = {self.names[name] for name in names if name in self.names}
        if self.whole is not None:
            found.add(self.whole)
        return frozenset(found - {owner})


class Locks:
    """Every lock of every transaction; an owner is a transaction's id."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tables: dict[int, _Table] = {}
        self._waiting: dict[int, frozenset[int]] = {}

    def take(
        self, owner: int, table: int, names: frozenset[Hashable] | None, patience: Patience
    ) -> bool:
        """Lock rows and keys by name, or (None) the whole table; whether it had to wait.

        Raises Msg 1222 when the session's patience ends, and 1205 to the one whose waiting would
        make a circle: the newest waiter is the victim.
        """
        waited = False
        limit = patience.limit_ms()
        deadline = None if limit < 0 else time.monotonic() + limit / 1000
        with self._changed:
            while blockers := self._of(table).blockers(owner, names):
                left = _LOOK_SECONDS if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    raise lock_timeout()
                if self._would_circle(owner, blockers):
                    raise patience.deadlocked()
                self._waiting[owner] = blockers
                try:
                    self._changed.wait(min(left, _LOOK_SECONDS))
                finally:
                    del self._waiting[owner]
                patience.check()
                waited = True
            held = self._of(table)
            if names is None:
                held.whole = owner
            else:
                held.names.update(dict.fromkeys(names, owner))
        return waited

    def alone(self, owner: int, table: int) -> bool:
        """Whether nobody else has locks on the table."""
        with self._changed:
            return not self._of(table).blockers(owner, None)

    def release(self, owner: int) -> None:
        """The transaction has ended."""
        with self._changed:
            for number, table in list(self._tables.items()):
                if owner not in table.owners():
                    continue
                table.names = {name: by for name, by in table.names.items() if by != owner}
                if table.whole == owner:
                    table.whole = None
                if not table.owners():
                    del self._tables[number]
            self._changed.notify_all()

    def _of(self, table: int) -> _Table:
        return self._tables.setdefault(table, _Table())

    def _would_circle(self, owner: int, blockers: frozenset[int]) -> bool:
        """Whether one of those waits, itself or through others, for the owner."""
        seen: set[int] = set()
        ahead = list(blockers)
        while ahead:
            other = ahead.pop()
            if other == owner:
                return True
            if other not in seen:
                seen.add(other)
                ahead += self._waiting.get(other, ())
        return False
