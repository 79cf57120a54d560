"""A session as planted faults meet it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from cdc_assets.sandbox.engine import faults
from cdc_assets.sandbox.results import SqlError

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.session import EngineSession


class SessionVictim:
    """Lets faults strike a session's statements; implements `faults.Victim`."""

    def __init__(self, session: EngineSession) -> None:
        self._session = session
        self.immune = False
        """Whether faults pass it by: it runs the text of one."""

    def before_read(self, objects: frozenset[int], *, streams: bool = False) -> list[faults.Fault]:
        """Let faults strike the statement that is about to touch these tables; those for later."""
        if self.immune:
            return []
        login = self._session.context.login.name
        struck = self._session.engine.faults.take(login, objects, streams=streams)
        for fault in struck:
            if not fault.rows:
                faults.strike(fault, self)
        return [fault for fault in struck if fault.rows]

    def cut(
        self,
        batches: Iterator[pa.RecordBatch],
        later: list[faults.Fault],
        again: Callable[[], Iterator[pa.RecordBatch]] | None,
    ) -> Iterator[pa.RecordBatch]:
        """A result's batches, with faults striking in their middle."""
        left = yield from faults.cut(batches, later, lambda f: faults.strike(f, self), again)
        self._session.engine.faults.give_back(left)

    def deadlocked(self) -> SqlError:
        """The error; what it does to the transaction, the statement's outcome says."""
        return faults.deadlock(self._session.context.process_id)

    def interject(self, fault: faults.Fault) -> None:
        """Run a fault's text as sa, on a session of its own that meets no fault."""
        try:
            self._session.engine.execute(fault.text, fault.database)
        except SqlError as error:
            raise SqlError(50000, f"The text of a planted fault failed: {error}") from error
