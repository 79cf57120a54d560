"""The journal of an open transaction: what it changed, so that it can be changed again.

DuckDB gives up a whole transaction with its first error, and knows no savepoints; in SQL Server
most errors end their statement alone. So the changes are kept, as texts and the rows that they
read, and made again in a new transaction of DuckDB's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from cdc_assets.sandbox.engine.duck import Connection

MAX_JOURNAL_BYTES = 256 * 1024 * 1024
"""Bytes of rows and texts that one open transaction keeps; a larger one does not outlive errors."""

_READ_ROWS = 65_536
_INCOMING = "journaled"


@dataclass(frozen=True, slots=True)
class _Change:
    """One statement, and the staged rows that are new since the one before."""

    sql: str
    parameters: Sequence[object] | None
    stages: tuple[tuple[str, pa.Table], ...]


class Journal:
    """Implements `duck.Recorder` for one transaction."""

    def __init__(self, connection: Connection, limit_bytes: int = MAX_JOURNAL_BYTES) -> None:
        self._connection = connection
        self._left = limit_bytes
        self._changes: list[_Change] = []
        self._fresh: set[str] = set()
        self.overflowed = False
        """Whether it had to forget, so that nothing can be made again."""

    def __len__(self) -> int:
        return len(self._changes)

    def staged(self, name: str) -> None:
        """A temporary table has new rows."""
        self._fresh.add(name)

    def note(self, sql: str, parameters: Sequence[object] | None) -> None:
        """Keep a change, with the rows of the temporary tables that it reads."""
        if self.overflowed:
            return
        named = sorted(name for name in self._fresh if f"temp.{name}" in sql)
        stages = []
        for name in named:
            rows = self._rows(name)
            if rows is None:
                self._give_up()
                return
            stages.append((name, rows))
            self._fresh.discard(name)
        self._left -= len(sql)
        self._changes.append(_Change(sql, parameters, tuple(stages)))

    def _rows(self, name: str) -> pa.Table | None:
        """A staged table's rows, or None where they are too many to keep."""
        reader = self._connection.stream(f"SELECT * FROM temp.{name}", _READ_ROWS)
        try:
            batches = []
            for batch in reader:
                self._left -= batch.nbytes
                if self._left < 0:
                    return None
                batches.append(batch)
            return pa.Table.from_batches(batches, reader.schema)
        finally:
            reader.close()

    def _give_up(self) -> None:
        self.overflowed = True
        self._changes.clear()

    def repeat(self, count: int) -> None:
        """Make the first `count` changes again and forget the rest; what they read is theirs."""
        del self._changes[count:]
        self._fresh.clear()
        self._connection.recorder = None
        try:
            for change in self._changes:
                for name, rows in change.stages:
                    self._connection.register(_INCOMING, rows)
                    self._connection.stage(name, f"SELECT * FROM {_INCOMING}")
                    self._connection.unregister(_INCOMING)
                self._connection.execute(change.sql, change.parameters)
        finally:
            self._connection.recorder = self
