"""A session's writing transaction: DuckDB's own, and what a commit must still do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.catalog import Catalog
from cdc_assets.sandbox.engine.clock import as_datetime
from cdc_assets.sandbox.engine.duck import Connection
from cdc_assets.sandbox.engine.journal import MAX_JOURNAL_BYTES, Journal
from cdc_assets.sandbox.engine.locks import ROW_LOCKS, Patience, StaleError
from cdc_assets.sandbox.engine.lsns import to_bytes
from cdc_assets.sandbox.engine.store import Store
from cdc_assets.sandbox.engine.translate import conflict, translate
from cdc_assets.sandbox.language import collation
from cdc_assets.sandbox.results import SqlError

_FIRST_OWN_ROW = 36_028_797_018_960_000
"""DuckDB's row ids of rows that a transaction has inserted itself begin here, in each anew."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """What a transaction had done at one moment, to go back to."""

    changes: int
    catalog: Catalog | None
    written: frozenset[int]
    taken: int
    sequence: dict[int, int]
    commands: dict[int, int]
    touched: dict[int, frozenset[int]]
    temporary: Mapping[str, e.TableVariable]
    restarted: frozenset[int]


class Work:
    """One open DuckDB transaction on a session's connection."""

    def __init__(
        self,
        store: Store,
        connection: Connection,
        patience: Patience,
        temporary: dict[str, e.TableVariable],
        *,
        several: bool = False,
        fixed: bool = False,
    ) -> None:
        """Begin it; `several` statements need a journal, `fixed` is a snapshot for all of them.

        `temporary` are the session's temporary tables, which a rollback brings back and takes away.
        """
        self.store = store
        self.connection = connection
        self.id = store.new_transaction_id()
        self._patience = patience
        self.begun = store.clock.local()
        self._base = store.catalog
        self.catalog: Catalog | None = None
        self.written: set[int] = set()
        self._seen = dict(store.serials)
        self._lazy_keys: list[tuple[e.Table, e.Key, str]] = []
        self._taken: list[tuple[e.Table, e.Key, pa.Table]] = []
        self._sequence: defaultdict[int, int] = defaultdict(int)
        self._commands: defaultdict[int, int] = defaultdict(int)
        self._touched: defaultdict[int, set[int]] = defaultdict(set)
        self._relied: set[int] = set()
        self._restarted: dict[int, int] = {}
        self._beginning: list[e.Instance] = []
        self.open = True
        self._temporary = temporary
        self._temporary_before = dict(temporary)
        self._fixed = fixed
        self._journal = Journal(connection) if several else None
        self.several = several
        # DuckDB takes the snapshot at the first read, so never before `_seen` was noted.
        connection.control("BEGIN")
        connection.recorder = self._journal

    @property
    def current(self) -> Catalog:
        """The catalogue as this transaction sees it."""
        return self.catalog or self._base

    # --- what statements ask for and report ----------------------------------------------------

    def take_identities(self, table: e.Table, column: e.Column, count: int) -> int:
        """The first of `count` new identity values; a rollback does not give them back."""
        return self.store.identities.take(self.connection, table, column, count)

    def note_identity(self, table: e.Table, column: e.Column, value: int) -> None:
        """An explicit identity value is inserted: later ones follow it."""
        self.store.identities.note(self.connection, table, column, value)

    def restart_identities(self, table: e.Table) -> None:
        """TRUNCATE: the values begin anew, and a rollback lets them go on where they were."""
        for column in table.columns:
            if column.identity is not None:
                last = self.store.identities.last(self.connection, table, column)
                self._restarted.setdefault(table.id, last)
                seed, step = column.identity
                self.store.identities.restart(table.id, seed - step)

    def wrote(self, table: e.Table) -> None:
        """A statement changed rows of a table."""
        self.written.add(table.id)

    def lock_rows(self, table: e.Table, stage: str, count: int) -> None:
        """Before a statement changes the rows that `stage` names (rid): nobody else may meanwhile.

        Raises Msg 1205 or 1222, and `StaleError` where what was staged is not the newest.
        """
        # Nobody else sees a row that is not committed, and everybody's first has the same id.
        self._lock(table, count, f"SELECT 0, rid FROM {stage} WHERE rid < {_FIRST_OWN_ROW}")

    def lock_keys(self, table: e.Table, key: e.Key, select: str, count: int) -> None:
        """Before a statement takes or leaves a unique key's values (k0, k1, …)."""
        self._lock(table, count, f"SELECT {key.id}, * FROM ({select})")

    def _lock(self, table: e.Table, count: int, select: str) -> None:
        locks = self.store.locks
        names = None
        if count <= ROW_LOCKS or not locks.alone(self.id, table.id):
            names = frozenset(self.connection.rows(select))
        waited = locks.take(self.id, table.id, names, self._patience)
        moved = self.store.serials[table.id] != self._seen.get(table.id, 0)
        # Without a wait only a statement that may simply begin anew looks again.
        if moved and (waited or not (self.written or self._fixed)):
            raise StaleError

    def took_keys(self, table: e.Table, key: e.Key, select: str) -> None:
        """A statement added the values of a unique key that `select` gives (k0, k1, …).

        Read only if a commit needs them, or `keep_keys` says that they are about to go.
        """
        self._lazy_keys.append((table, key, select))

    def relies_on(self, table: e.Table) -> None:
        """What a statement did holds only while nobody else changes this table."""
        self._relied.add(table.id)

    def keep_keys(self) -> None:
        """Read the keys that the last statement took, before its staged rows are gone."""
        for table, key, select in self._lazy_keys:
            rows = self.connection.arrow(select)
            self._taken.append((table, key, rows))
        self._lazy_keys.clear()

    def record(self, instance: e.Instance, insert: Callable[[int, int], str], room: int) -> None:
        """Write a statement's changes into an instance's log.

        `insert` makes the text out of the position before the first of at most `room` log records
        and the statement's number among those that changed rows of the instance.
        """
        before = self._sequence[instance.database]
        command = self._commands[instance.table] + 1
        if self.connection.change(insert(before, command)):
            self._sequence[instance.database] += room
            self._commands[instance.table] = command
            self._touched[instance.database].add(instance.table)

    # --- after an error ------------------------------------------------------------------------

    def savepoint(self) -> Savepoint:
        """What is done so far."""
        self.keep_keys()
        return Savepoint(
            len(self._journal) if self._journal is not None else 0,
            self.catalog,
            frozenset(self.written),
            len(self._taken),
            dict(self._sequence),
            dict(self._commands),
            {database: frozenset(tables) for database, tables in self._touched.items()},
            dict(self._temporary),
            frozenset(self._restarted),
        )

    def fix(self) -> None:
        """What it sees must stay so, after an error too."""
        self._fixed = True

    def undo(self, point: Savepoint | None = None, *, broken: bool = True) -> None:
        """Go back to a savepoint (None: to where it is), also where DuckDB broke off.

        Raises Msg 3960 where somebody else committed to what was changed here, and 40515 for a
        transaction too large to be kept; then everything is rolled back.
        """
        journal = self._journal
        count = point.changes if point is not None else len(journal or ())
        if broken or journal is None or len(journal) > count or journal.overflowed:
            self._begin_anew(journal, count)
        if point is None:
            return
        self.catalog = point.catalog
        self.written = set(point.written)
        self._lazy_keys.clear()
        del self._taken[point.taken :]
        self._return_temporary(point.temporary)
        self._return_identities(point.restarted)
        self._sequence = defaultdict(int, point.sequence)
        self._commands = defaultdict(int, point.commands)
        touched = {database: set(tables) for database, tables in point.touched.items()}
        self._touched = defaultdict(set, touched)

    def _return_temporary(self, before: Mapping[str, e.TableVariable]) -> None:
        """The temporary tables of an earlier moment; table variables stay what they are."""
        for name in [n for n in self._temporary if n.startswith("#")]:
            del self._temporary[name]
        self._temporary.update((n, t) for n, t in before.items() if n.startswith("#"))

    def _return_identities(self, kept: frozenset[int]) -> None:
        for table in [t for t in self._restarted if t not in kept]:
            self.store.identities.restart(table, self._restarted.pop(table))

    def _begin_anew(self, journal: Journal | None, count: int) -> None:
        # Nobody commits in between, so the row ids that the journal names stay what they are.
        with self.store.commit_lock:
            with suppress(duckdb.Error):
                self.connection.control("ROLLBACK")
            self.open = False
            self.connection.recorder = None
            if journal is None or journal.overflowed:
                raise SqlError(
                    40515,
                    "The transaction is rolled back: outliving an error after changes of more than "
                    f"{MAX_JOURNAL_BYTES >> 20} MB is not supported by the sandbox.",
                )
            seen = self.store.serials
            tables = set(seen) if self._fixed else self.written | self._relied
            if any(seen[t] != self._seen.get(t, 0) for t in tables):
                raise conflict()
            self._seen = dict(seen)
            self.connection.control("BEGIN")
            self.open = True
            try:
                journal.repeat(count)
            except duckdb.Error as error:
                self.rollback()
                raise translate(error) from error

    # --- the end -------------------------------------------------------------------------------

    def commit(self) -> set[int]:
        """Commit; returns the databases that have new changes for capture to move.

        Raises Msg 3960 where another transaction changed the same rows or took the same keys.
        """
        with self.store.commit_lock:
            try:
                self._check_capture()
                self._check_keys()
                self._begin_capture()
                changed = self._write_commits()
                self.connection.control("COMMIT")
            except duckdb.Error as error:
                self.rollback()
                raise translate(error) from error
            except SqlError:
                self.rollback()
                raise
            self.open = False
            self.connection.recorder = None
            for table in self.written:
                self.store.serials[table] += 1
            self._publish()
            self.store.locks.release(self.id)
            return changed

    def _publish(self) -> None:
        """Make this transaction's catalogue everyone's."""
        if self.catalog is None:
            return
        if self.store.catalog is self._base:
            self.store.catalog = self.catalog
        else:
            # Someone else changed it meanwhile: what is stored now has both changes.
            version = max(self.store.catalog.version, self.catalog.version) + 1
            self.store.catalog = Catalog.load(self.connection, version)

    def begins_capture(self, instance: e.Instance) -> None:
        """From this transaction's commit on, an instance's changes are recorded."""
        self._beginning.append(instance)

    def _begin_capture(self) -> None:
        """Who committed meanwhile did not record: those commits come before the low watermark."""
        for instance in self._beginning:
            position = self.store.next_lsn(instance.database, 0)
            self.connection.execute(
                "UPDATE catalog.watermarks SET start_lsn = ? WHERE instance = ?",
                [to_bytes(position.lsn), instance.table],
            )

    def _write_commits(self) -> set[int]:
        changed = {database for database, count in self._sequence.items() if count}
        for database in changed:
            position = self.store.next_lsn(database, self._sequence[database])
            self.connection.execute(
                "INSERT INTO catalog.commits VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    database,
                    to_bytes(position.lsn),
                    position.prefix,
                    position.base,
                    self.id,
                    as_datetime(self.begun),
                    self.store.clock.datetime(),
                    ",".join(str(number) for number in self._touched[database]),
                ],
            )
        return changed

    def _check_capture(self) -> None:
        """Capture of a table we wrote began or ended meanwhile: our changes are not recorded so.

        SQL Server's procedures wait for writers; here the writer gives way.
        """
        newest = self.store.catalog
        if newest is self._base:
            return
        for table in self.written:
            if newest.instances_of(table) != self._base.instances_of(table):
                raise conflict()

    def _check_keys(self) -> None:
        """Someone else committed to a table meanwhile: did they take a key we took too?"""
        if any(self.store.serials[t] != self._seen.get(t, 0) for t in self._relied):
            raise conflict()
        touched = {t.id for t, _, _ in self._lazy_keys} | {t.id for t, _, _ in self._taken}
        if all(self.store.serials[t] == self._seen.get(t, 0) for t in touched):
            return
        self.keep_keys()
        other = self.store.connect()
        try:
            for table, key, mine in self._taken:
                if _holds(other, table, key, mine):
                    raise conflict()
        finally:
            other.close()

    def rollback(self) -> None:
        """Undo everything; the identity values stay taken, as in SQL Server."""
        self._return_temporary(self._temporary_before)
        self._return_identities(frozenset())
        if self.open:
            self.open = False
            self.connection.recorder = None
            with suppress(duckdb.Error):  # DuckDB may have ended it already
                self.connection.control("ROLLBACK")
        self.store.locks.release(self.id)


def key_items(table: e.Table, key: e.Key, prefix: str) -> list[str]:
    """A key's columns as what must differ between rows; `prefix` stands before each name."""
    columns = [table.by_id(number) for number in key.columns]
    return [collation.equality_key(f"{prefix}{c.physical}", c.type) for c in columns]


def _holds(other: Connection, table: e.Table, key: e.Key, mine: pa.Table) -> bool:
    """Whether the committed table, as another connection sees it, has one of these keys."""
    if not mine.num_rows:
        return False
    other.register("mine", mine)
    items = key_items(table, key, "t.")
    match = " AND ".join(f"m.k{i} IS NOT DISTINCT FROM {text}" for i, text in enumerate(items))
    found = other.one(f"SELECT 1 FROM {table.physical} AS t, mine AS m WHERE {match} LIMIT 1")
    return found is not None
