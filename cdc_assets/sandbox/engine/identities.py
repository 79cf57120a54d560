"""The values of identity columns: given once, whatever becomes of the row or of the server."""

from __future__ import annotations

import threading

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.catalog import Catalog
from cdc_assets.sandbox.engine.duck import Connection

RESERVED = {"tinyint": 10, "smallint": 100, "int": 1000}
"""Values written down ahead, per type: so many are lost when the server is killed, as SQL Server
loses its identity cache."""
_RESERVED = 10_000


class Identities:
    """The last value of each table's identity column, and how far the file says it may be."""

    def __init__(self, connection: Connection, catalog: Catalog) -> None:
        """What was given out before a stop, or may have been before a kill."""
        self._connection = connection
        self._lock = threading.Lock()
        kept = {int(t): int(last) for t, last in connection.rows("FROM catalog.identities")}
        self._last = {t: last for t, last in kept.items() if catalog.table_by_id(t) is not None}
        self._reserved = dict(self._last)
        for table in kept.keys() - self._last.keys():
            self._forget(table)  # its id may come again

    def take(self, connection: Connection, table: e.Table, column: e.Column, count: int) -> int:
        """The first of `count` new values; like SQL Server's, never given back.

        `connection` sees the table, which its transaction may have made.
        """
        step = (column.identity or (1, 1))[1]
        with self._lock:
            last = self._known(connection, table, column)
            if count:
                self._move(table, column, last + step * count)
            return last + step

    def last(self, connection: Connection, table: e.Table, column: e.Column) -> int:
        """The last value that was given out; before the first, the one before the seed."""
        with self._lock:
            return self._known(connection, table, column)

    def note(self, connection: Connection, table: e.Table, column: e.Column, value: int) -> None:
        """An explicit value was inserted: later ones follow it."""
        step = (column.identity or (1, 1))[1]
        with self._lock:
            last = self._known(connection, table, column)
            if (value - last) * step > 0:
                self._move(table, column, value)

    def restart(self, table: int, last: int) -> None:
        """TRUNCATE began anew, or was rolled back."""
        with self._lock:
            self._last[table] = last

    def forget(self, table: int) -> None:
        """Another state of the table was restored: its rows tell the last value."""
        with self._lock:
            self._last.pop(table, None)
            if self._reserved.pop(table, None) is not None:
                self._forget(table)

    def close(self) -> None:
        """Write down the exact values."""
        with self._lock:
            for table, last in self._last.items():
                if table in self._reserved:
                    self._write(table, last)
            self._connection.close()

    def _known(self, connection: Connection, table: e.Table, column: e.Column) -> int:
        if table.id not in self._last:
            seed, step = column.identity or (1, 1)
            function = "max" if step > 0 else "min"
            row = connection.one(f"SELECT {function}({column.physical}) FROM {table.physical}")
            last = row[0] if row else None
            self._last[table.id] = seed - step if last is None else int(last)
        return self._last[table.id]

    def _move(self, table: e.Table, column: e.Column, last: int) -> None:
        step = (column.identity or (1, 1))[1]
        known = self._reserved.get(table.id)
        if known is None or (last - known) * step > 0:
            reserved = last + step * RESERVED.get(column.type.name, _RESERVED)
            if known is None:
                self._connection.execute(
                    "INSERT INTO catalog.identities VALUES (?, ?)", [table.id, reserved]
                )
            else:
                self._write(table.id, reserved)
            self._reserved[table.id] = reserved
        self._last[table.id] = last

    def _write(self, table: int, last: int) -> None:
        self._connection.execute(
            "UPDATE catalog.identities SET last = ? WHERE tab = ?", [last, table]
        )

    def _forget(self, table: int) -> None:
        self._connection.execute("DELETE FROM catalog.identities WHERE tab = ?", [table])
