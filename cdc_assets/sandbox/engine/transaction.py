"""How deep a session's transaction is, its savepoints, and what its driver is told of it."""

from __future__ import annotations

import itertools
from typing import Literal

from cdc_assets.sandbox.engine.work import Savepoint
from cdc_assets.sandbox.results import SqlError, TransactionChange

_numbers = itertools.count(1)


class OpenTransaction:
    """@@TRANCOUNT and the names inside it."""

    def __init__(self) -> None:
        self.count = 0
        self._number = 0
        self._name: str | None = None
        self._savepoints: dict[str, Savepoint | None] = {}
        self._changes: list[TransactionChange] = []

    def begin(self, name: str | None) -> None:
        """One level deeper; only the outermost begins anything, and its name counts."""
        self.count += 1
        if self.count > 1:
            return
        self._number = next(_numbers)
        self._name = name
        self._changes.append(TransactionChange("begin", self._number))

    def end(self, outcome: Literal["commit", "rollback"]) -> None:
        """It is over, if one was open."""
        if self._number:
            self._changes.append(TransactionChange(outcome, self._number))
        self.count = self._number = 0
        self._savepoints.clear()

    def save(self, name: str, point: Savepoint | None) -> None:
        """Set a savepoint, None before anything was begun. Raises Msg 628 without a transaction.

        A name may be set again: the last one counts, as in SQL Server.
        """
        if not self.count:
            raise SqlError(
                628, "Cannot issue SAVE TRANSACTION when there is no active transaction."
            )
        self._savepoints.pop(name, None)
        self._savepoints[name] = point

    def is_outermost(self, name: str) -> bool:
        """Whether the whole transaction has that name. Raises Msg 6401 for no name of its."""
        if name in self._savepoints:
            return False
        if name == self._name:
            return True
        raise SqlError(
            6401,
            f"Cannot roll back {name}. No transaction or savepoint of that name was found.",
        )

    def return_to(self, name: str) -> Savepoint | None:
        """Where a savepoint is; those after it are forgotten."""
        names = list(self._savepoints)
        for later in names[names.index(name) + 1 :]:
            del self._savepoints[later]
        return self._savepoints[name]

    def take_changes(self) -> list[TransactionChange]:
        """What began and ended since the last call."""
        taken, self._changes = self._changes, []
        return taken
