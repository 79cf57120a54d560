"""Change capture: a step of its own that moves committed changes into the change tables."""

from __future__ import annotations

import logging
import threading
import time

import duckdb

from cdc_assets.lsn import Lsn
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import jobs, lsns
from cdc_assets.sandbox.engine.duck import Connection
from cdc_assets.sandbox.engine.jobs import CaptureJob
from cdc_assets.sandbox.engine.scans import Scan
from cdc_assets.sandbox.engine.store import Store
from cdc_assets.sandbox.language.values import TICKS_PER_SECOND

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.05
_LONGEST_LOOK_SECONDS = 2.0
FIRST_CAPTURED = 6
"""The change table's column id of the first captured column."""


class Capture:
    """The capture job of every database.

    `interval_seconds` is the wait between steps of the jobs that have no @pollinginterval of their
    own; 0 means a step with each commit.
    """

    def __init__(
        self, store: Store, *, interval_seconds: float, idle_seconds: float = 300.0
    ) -> None:
        self.store = store
        self.idle_seconds = idle_seconds
        self._interval = interval_seconds
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._due: dict[int, float] = {}
        self._active: dict[int, CaptureJob] = {}
        """The jobs as they were when they started: a change counts from the next start."""

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

    @property
    def interval_seconds(self) -> float:
        """The wait of jobs that have none of their own."""
        return self._interval

    @interval_seconds.setter
    def interval_seconds(self, seconds: float) -> None:
        self._interval = seconds
        self._due.clear()

    def interval(self, database: int) -> float:
        """Seconds between the steps of a database's job; 0: with each commit."""
        own = self._job(database).pollinginterval
        return self._interval if own is None else float(own)

    def _job(self, database: int) -> CaptureJob:
        # Looked at once: `forget` may come in between, from another thread.
        active = self._active.get(database)
        if active is None:
            found = jobs.find(self.store.catalog, database, jobs.CAPTURE)
            if not isinstance(found, CaptureJob):
                return CaptureJob()
            active = self._active[database] = found
        return active

    def running(self, database: int) -> bool:
        """Whether the database's capture job exists and runs."""
        catalog = self.store.catalog
        if catalog.setting(f"capture/{database}", "on") != "on":
            return False
        return jobs.find(catalog, database, jobs.CAPTURE) is not None

    def switch(self, database: int, *, on: bool) -> None:
        """Start or stop the database's capture job; it stays so across restarts."""
        with self.store.transaction() as connection:
            self.store.catalog = self.store.catalog.put(
                connection, e.Setting(f"capture/{database}", "on" if on else "off")
            )
        self.forget(database)
        if on and not self.interval(database):
            self.catch_up(database)

    def forget(self, database: int) -> None:
        """The database's job has new parameters, or is gone."""
        self._active.pop(database, None)
        self._due.pop(database, None)

    def committed(self, database: int) -> None:
        """A commit of the database has changes: with interval 0 they are captured now."""
        if self.running(database) and not self.interval(database):
            self._try(database)

    def _run(self) -> None:
        while not self._ending.wait(_TICK_SECONDS):
            for database in list(self.store.catalog.databases.values()):
                try:
                    self._look(database)
                except Exception:  # noqa: BLE001 - logged; no job may end with one failed look
                    _log.exception("the capture job of %s failed; it goes on", database.name)

    def _look(self, database: e.Database) -> None:
        """Run a database's step where one is due."""
        if not database.cdc_enabled or time.monotonic() < self._due.get(database.id, 0.0):
            return
        if not self.running(database.id):
            return
        wait = self.interval(database.id) or self._idle_look
        self._due[database.id] = time.monotonic() + wait
        self._try(database.id)
        if not self._job(database.id).continuous:
            self.switch(database.id, on=False)

    @property
    def _idle_look(self) -> float:
        """Seconds between two looks whether an idle entry is due, where commits are not awaited."""
        return min(_LONGEST_LOOK_SECONDS, max(_TICK_SECONDS, self.idle_seconds / 10))

    def _try(self, database: int) -> None:
        try:
            self.step(database)
        except duckdb.Error as error:
            _log.exception("a capture step failed; the next one tries again")
            self.store.scans.failed(database, self.store.clock.datetime(), str(error))

    # --- one step ------------------------------------------------------------------------------

    def catch_up(self, database: int, *, idle: bool = False) -> int:
        """Steps until every commit so far is moved; returns how many."""
        moved = self.step(database, idle=idle)
        total = moved
        while moved:
            moved = self.step(database)
            total += moved
        return total

    def step(self, database: int, *, idle: bool = False) -> int:
        """Move commits, at most as many as the job moves at once; returns how many.

        `idle` writes an idle entry at once where there are none.
        """
        with self.store.commit_lock:
            mapping = self.store.catalog.mapping(database)
            if mapping is None:
                return 0
            connection = self.store.connect()
            try:
                return self._step(connection, database, mapping, idle=idle)
            finally:
                connection.close()

    def _step(self, connection: Connection, database: int, mapping: e.Table, *, idle: bool) -> int:
        job, started = self._job(database), self.store.clock.datetime()
        pending = connection.rows(
            "SELECT lsn, instances, ended FROM catalog.commits WHERE database = ? ORDER BY lsn "
            "LIMIT ?",
            [database, job.maxtrans * job.maxscans],
        )
        scan = Scan(0, started, started, len(pending), empty=int(not pending))
        if pending:
            touched = {int(n) for row in pending for n in row[1].split(",") if n}
            scan.start_lsn, scan.end_lsn = bytes(pending[0][0]), bytes(pending[-1][0])
            scan.last_commit = pending[-1][2]
            scan.commands = self._move(connection, database, mapping, touched, scan.end_lsn)
        elif idle or self._quiet(connection, mapping):
            self._idle_entry(connection, database, mapping)
        scan.end = self.store.clock.datetime()
        self.store.scans.note(database, scan)
        return len(pending)

    def _move(
        self,
        connection: Connection,
        database: int,
        mapping: e.Table,
        touched: set[int],
        last: bytes,
    ) -> int:
        """Move the commits up to an LSN; how many change rows they have."""
        count = 0
        # A transaction over several databases has a commit in each: only its own counts here.
        commits = f"database = {database} AND lsn <= unhex('{last.hex()}')"
        moving = f"(SELECT * FROM catalog.commits WHERE {commits})"
        connection.execute("BEGIN")
        try:
            for instance in self.store.catalog.instances(database):
                if instance.table in touched:
                    count += move_changes(connection, instance, moving)
            connection.execute(
                f"INSERT INTO {mapping.physical} SELECT lsn, begun, ended, "
                f"unhex(format('{{:020X}}', tran)), lsn FROM {moving} AS c ORDER BY lsn"
            )
            connection.execute(f"DELETE FROM catalog.commits WHERE {commits}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        return count

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


def move_changes(connection: Connection, instance: e.Instance, commits: str) -> int:
    """Move an instance's changes of some commits into its change table, in order."""
    count = len(instance.columns)
    captured = ", ".join(f"l.c{FIRST_CAPTURED + i}" for i in range(count))
    last = f"c{FIRST_CAPTURED + count}"
    names = ", ".join(
        ["c1", "c2", "c3", "c4", "c5", *(f"c{FIRST_CAPTURED + i}" for i in range(count)), last]
    )
    # A change's position: the file's 4 bytes, then 6 that count on from the last commit.
    position = "unhex(c.prefix || format('{:012X}', c.base + l.seq))"
    moved = connection.change(
        f"INSERT INTO data.t{instance.table} ({names}) "
        f"SELECT c.lsn, NULL, {position}, l.op, l.mask, {captured}, l.cmd "
        f"FROM {instance.log} AS l JOIN {commits} AS c ON c.tran = l.tran "
        "ORDER BY c.lsn, l.cmd, l.seq, l.op"
    )
    connection.execute(
        f"DELETE FROM {instance.log} WHERE tran IN (SELECT c.tran FROM {commits} AS c)"
    )
    return moved
