"""DuckDB connections as the engine uses them: every result is read to its end at once.

A connection of DuckDB's runs one query at a time and refuses another while a result is open; only
a session's result set stays open on purpose, as the reader that `stream` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from cdc_assets.sandbox.language.keying import register

Row = tuple[Any, ...]

OPTIMIZERS_OFF = "row_group_pruner"
"""It has `ORDER BY … LIMIT` read only the row groups whose statistics promise the first rows, and
DuckDB 2.0.1 trusts those of a group whose rows were updated since: others' rows go missing."""


class Recorder(Protocol):
    """Is told of every change before it is made, so that it can be made again."""

    def note(self, sql: str, parameters: Sequence[object] | None) -> None:
        """A statement is about to change something."""
        ...

    def staged(self, name: str) -> None:
        """A temporary table has new rows that later changes may read."""
        ...


class Connection:
    """One connection with its own transactions; used by one thread at a time."""

    def __init__(self, raw: duckdb.DuckDBPyConnection) -> None:
        self._raw = raw
        self.recorder: Recorder | None = None

    def control(self, sql: str) -> None:
        """BEGIN, COMMIT or ROLLBACK."""
        self._raw.execute(sql).fetchall()

    def execute(self, sql: str, parameters: Sequence[object] | None = None) -> None:
        """Run a statement whose result does not matter."""
        self.change(sql, parameters)

    def change(self, sql: str, parameters: Sequence[object] | None = None) -> int:
        """Run a statement that changes rows or makes a table of them; how many."""
        if self.recorder is not None:
            self.recorder.note(sql, parameters)
        found = self._raw.execute(sql, parameters).fetchall()
        return int(found[0][0]) if found and isinstance(found[0][0], int) else 0

    def stage(self, name: str, select: str) -> int:
        """Put a query's rows into a temporary table, in the place of its last ones; how many."""
        found = self._raw.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {select}").fetchall()
        if self.recorder is not None:
            self.recorder.staged(name)
        return int(found[0][0])

    def rows(self, sql: str, parameters: Sequence[object] | None = None) -> list[Row]:
        """All rows of a query."""
        found: list[Row] = self._raw.execute(sql, parameters).fetchall()
        return found

    def one(self, sql: str, parameters: Sequence[object] | None = None) -> Row | None:
        """A query's first row."""
        found = self.rows(sql, parameters)
        return found[0] if found else None

    def count(self, relation: str) -> int:
        """How many rows a relation has."""
        row = self.one(f"SELECT count(*) FROM {relation}")
        return int(row[0]) if row else 0

    def arrow(self, sql: str) -> pa.Table:
        """All rows of a query as an Arrow table."""
        return self._raw.sql(sql).to_arrow_table()

    def stream(self, sql: str, batch_rows: int) -> pa.RecordBatchReader:
        """A query's rows in batches; nothing else runs here until the reader is closed."""
        return self._raw.sql(sql).to_arrow_reader(batch_rows)

    def register(self, name: str, rows: pa.Table) -> None:
        """Make an Arrow table readable under a name, on this connection only."""
        self._raw.register(name, rows)

    def unregister(self, name: str) -> None:
        """Forget a registered table; a transaction that failed has forgotten it already."""
        with suppress(duckdb.Error):
            self._raw.unregister(name)

    def cursor(self) -> Connection:
        """Another connection to the same database."""
        return Connection(self._raw.cursor())

    def interrupt(self) -> None:
        """Stop what runs here; may be called from another thread."""
        self._raw.interrupt()

    def close(self) -> None:
        """Close it."""
        self._raw.close()


def connect(path: str, **config: str | int) -> Connection:
    """Open a database file, whose connections know the language's functions and answer right."""
    raw = duckdb.connect(path, config=config)
    raw.execute(f"SET GLOBAL disabled_optimizers = '{OPTIMIZERS_OFF}'")
    register(raw)
    return Connection(raw)
