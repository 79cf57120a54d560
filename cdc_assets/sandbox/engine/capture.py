"""Change capture: a step of its own that moves committed changes into the change tables."""

from __future__ import annotations

import logging
import threading
import time

import duckdb

from cdc_assets.lsn import Lsn
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import lsns
from cdc_assets.sandbox.engine.duck import Connection
from cdc_assets.sandbox.engine.store import Store
from cdc_assets.sandbox.language.values import TICKS_PER_SECOND

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.05
FIRST_CAPTURED = 6
"""The change table's column id of the first captured column."""


class Capture:
    """The capture job of every database; `interval` 0 means a step with each commit."""

    def __init__(
        self, store: Store, *, interval_seconds: float, idle_seconds: float = 300.0
    ) -> None:
        self.store = store
        self.interval_seconds = interval_seconds
        self.idle_seconds = idle_seconds
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._due: dict[int, float] = {}

    # --- the job -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread that runs due steps and idle entries."""
        self._thread = threading.Thread(target=self._run, name="sandbox-capture", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def running(self, database: int) -> bool:
        """Whether the database's capture job runs."""
        return self.store.catalog.setting(f"capture/{database}", "on") == "on"

    def switch(self, database: int, *, on: bool) -> None:
        """Start or stop the database's capture job; it stays so across restarts."""
        with self.store.transaction() as connection:
            self.store.catalog = self.store.catalog.put(
                connection, e.Setting(f"capture/{database}", "on" if on else "off")
            )
        if on and not self.interval_seconds:
            self.step(database)

    def committed(self, database: int) -> None:
        """A commit of the database has changes: with interval 0 they are captured now."""
        if not self.interval_seconds and self.running(database):
            self._try(database)

    def _run(self) -> None:
        while not self._ending.wait(_TICK_SECONDS):
            for database in list(self.store.catalog.databases.values()):
                if not database.cdc_enabled or not self.running(database.id):
                    continue
                if time.monotonic() >= self._due.get(database.id, 0.0):
                    self._due[database.id] = time.monotonic() + max(self.interval_seconds, 0.2)
                    self._try(database.id)

    def _try(self, database: int) -> None:
        try:
            self.step(database)
        except duckdb.Error:
            _log.exception("a capture step failed; the next one tries again")

    # --- one step ------------------------------------------------------------------------------

    def step(self, database: int, *, idle: bool = False) -> int:
        """Move every commit so far; returns how many. `idle` writes an idle entry at once."""
        with self.store.commit_lock:
            mapping = self.store.catalog.mapping(database)
            if mapping is None:
                return 0
            connection = self.store.connect()
            try:
                pending = connection.rows(
                    "SELECT instances FROM catalog.commits WHERE database = ?", [database]
                )
                if pending:
                    touched = {int(n) for row in pending for n in row[0].split(",") if n}
                    self._move(connection, database, mapping, touched)
                elif idle or self._quiet(connection, mapping):
                    self._idle_entry(connection, database, mapping)
                return len(pending)
            finally:
                connection.close()

    def _move(
        self, connection: Connection, database: int, mapping: e.Table, touched: set[int]
    ) -> None:
        connection.execute("BEGIN")
        try:
            for instance in self.store.catalog.instances(database):
                if instance.table in touched:
                    move_changes(connection, instance)
            connection.execute(
                f"INSERT INTO {mapping.physical} SELECT lsn, begun, ended, "
                "unhex(format('{:020X}', tran)), lsn FROM catalog.commits WHERE database = ? "
                "ORDER BY lsn",
                [database],
            )
            connection.execute("DELETE FROM catalog.commits WHERE database = ?", [database])
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def _quiet(self, connection: Connection, mapping: e.Table) -> bool:
        """Whether nothing was recorded for the idle time."""
        row = connection.one(f"SELECT max(c3) FROM {mapping.physical}")
        last = row[0] if row and row[0] is not None else mapping.created
        quiet = self.store.clock.local() - last
        return bool(quiet >= self.idle_seconds * TICKS_PER_SECOND)

    def _idle_entry(self, connection: Connection, database: int, mapping: e.Table) -> Lsn:
        position = self.store.next_lsn(database, 0)
        now = self.store.clock.datetime()
        raw = lsns.to_bytes(position.lsn)
        connection.execute(
            f"INSERT INTO {mapping.physical} VALUES (?, ?, ?, ?, ?)",
            [raw, now, now, bytes(10), bytes(10)],
        )
        return position.lsn


def move_changes(connection: Connection, instance: e.Instance) -> None:
    """Move an instance's committed changes from its log into its change table, in order."""
    count = len(instance.columns)
    captured = ", ".join(f"l.c{FIRST_CAPTURED + i}" for i in range(count))
    last = f"c{FIRST_CAPTURED + count}"
    names = ", ".join(
        ["c1", "c2", "c3", "c4", "c5", *(f"c{FIRST_CAPTURED + i}" for i in range(count)), last]
    )
    # A change's position: the file's 4 bytes, then 6 that count on from the last commit.
    position = "unhex(c.prefix || format('{:012X}', c.base + l.seq))"
    connection.execute(
        f"INSERT INTO data.t{instance.table} ({names}) "
        f"SELECT c.lsn, NULL, {position}, l.op, l.mask, {captured}, l.cmd "
        f"FROM {instance.log} AS l JOIN catalog.commits AS c ON c.tran = l.tran "
        "ORDER BY c.lsn, l.cmd, l.seq, l.op"
    )
    connection.execute(
        f"DELETE FROM {instance.log} WHERE tran IN (SELECT tran FROM catalog.commits)"
    )
