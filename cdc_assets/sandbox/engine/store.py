"""The store: one DuckDB file with every database's rows, the catalogue and the change log."""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from cdc_assets.lsn import Lsn
from cdc_assets.sandbox.engine import catalog as catalogs
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import lsns
from cdc_assets.sandbox.engine.catalog import Catalog
from cdc_assets.sandbox.engine.clock import Clock
from cdc_assets.sandbox.engine.duck import Connection, connect
from cdc_assets.sandbox.engine.identities import Identities
from cdc_assets.sandbox.engine.locks import Locks
from cdc_assets.sandbox.engine.scans import Scans
from cdc_assets.sandbox.language.macros import definitions

FILE = "sandbox.duckdb"
_FIRST_OBJECT_ID = 245_575_913
_OBJECT_ID_STEP = 16
_FORMAT = "1"

_TABLES = (
    "CREATE SCHEMA IF NOT EXISTS catalog",
    "CREATE SCHEMA IF NOT EXISTS data",
    catalogs.CREATE,
    # Commits that touched captured tables and that capture has not moved yet.
    "CREATE TABLE IF NOT EXISTS catalog.commits(database INTEGER, lsn BLOB, prefix VARCHAR, "
    "base BIGINT, tran BIGINT, begun BIGINT, ended BIGINT, instances VARCHAR)",
    # The oldest LSN each change table holds; cleanup moves it before it deletes rows.
    "CREATE TABLE IF NOT EXISTS catalog.watermarks(instance INTEGER, start_lsn BLOB)",
    # The last identity values; while the server runs, those that nobody has got yet.
    "CREATE TABLE IF NOT EXISTS catalog.identities(tab INTEGER, last HUGEINT)",
    # Copies of databases, to be restored.
    "CREATE SCHEMA IF NOT EXISTS backups",
    "CREATE TABLE IF NOT EXISTS catalog.backups(id INTEGER, name VARCHAR, database INTEGER, "
    "lsn VARCHAR)",
)


class Store:
    """Opens the file, hands out connections, and holds what all sessions share."""

    def __init__(self, directory: Path, *, memory_limit: str = "2GB", threads: int = 2) -> None:
        """Open or create the store in a directory."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.clock = Clock()
        self.scans = Scans()
        self.locks = Locks()
        self.commit_lock = threading.RLock()
        """Held by whoever commits: so the order of LSNs is the order of commits."""
        self._ids = threading.Lock()
        self._root = connect(str(directory / FILE), memory_limit=memory_limit, threads=threads)
        self._prepare()
        self.catalog = Catalog.load(self._root)
        if not self.catalog.databases:
            self._create_master()
        self.clock.zone = self.catalog.setting("clock/zone", self.clock.zone)
        self.clock.shift = int(self.catalog.setting("clock/shift", "0"))
        self.last_lsns: dict[int, Lsn] = {}
        self.serials: defaultdict[int, int] = defaultdict(int)
        """How often each table was committed to; a transaction compares what it saw."""
        self.identities = Identities(self._root.cursor(), self.catalog)
        self.next_object = max(
            (t.id for t in self.catalog.of_kind(e.Table)), default=_FIRST_OBJECT_ID
        )
        self.next_transaction = self.clock.utc() // 10
        self.next_rowversion = self.clock.utc() // 1000
        for database in self.catalog.of_kind(e.Database):
            if database.cdc_enabled:
                self._recall_lsn(database.id)

    def _prepare(self) -> None:
        self._root.execute("SET python_enable_replacements = false")
        self._root.execute("SET TimeZone = 'UTC'")
        for statement in _TABLES:
            self._root.execute(statement)
        macros = definitions()
        wanted = hashlib.sha256("\n".join(macros).encode()).hexdigest()
        known = self._root.one("SELECT body FROM catalog.entries WHERE kind = 'Macros'")
        if known is not None and known[0] == wanted:
            return
        self._root.execute("BEGIN")
        for statement in macros:
            self._root.execute(statement)
        self._root.execute("DELETE FROM catalog.entries WHERE kind = 'Macros'")
        self._root.execute("INSERT INTO catalog.entries VALUES ('Macros', '', ?)", [wanted])
        self._root.execute("COMMIT")

    def _create_master(self) -> None:
        now = self.clock.datetime()
        self.catalog = self.catalog.put(
            self._root,
            e.Setting("format", _FORMAT),
            *(
                e.Database(number, name, now)
                for number, name in enumerate(("master", "tempdb", "model", "msdb"), start=1)
            ),
        )

    def _recall_lsn(self, database: int) -> None:
        """Find the last LSN that the database gave out."""
        found = [
            row[0]
            for row in self._root.rows(
                "SELECT max(lsn) FROM catalog.commits WHERE database = ?", [database]
            )
        ]
        mapping = self.catalog.mapping(database)
        if mapping is not None:
            found += [r[0] for r in self._root.rows(f"SELECT max(c1) FROM {mapping.physical}")]
        instances = ",".join(str(i.table) for i in self.catalog.instances(database)) or "0"
        found += [
            r[0]
            for r in self._root.rows(
                f"SELECT max(start_lsn) FROM catalog.watermarks WHERE instance IN ({instances})"
            )
        ]
        known = [lsns.of_bytes(value) for value in found if value is not None]
        saved = Lsn.parse_optional(self.catalog.setting(f"lsn/{database}", "0x" + "0" * 20))
        self.last_lsns[database] = max([*known, saved or lsns.FIRST])

    def keep_clock(self) -> None:
        """The clock's zone and shift outlive a restart, as a machine's do."""
        with self.transaction() as connection:
            self.catalog = self.catalog.put(
                connection,
                e.Setting("clock/zone", self.clock.zone),
                e.Setting("clock/shift", str(self.clock.shift)),
            )

    def connect(self) -> Connection:
        """A connection of its own transactions; used by one thread at a time."""
        return self._root.cursor()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction on a connection of its own, under the commit lock."""
        with self.commit_lock:
            connection = self.connect()
            try:
                connection.execute("BEGIN")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                _rollback(connection)
                raise
            finally:
                connection.close()

    def next_lsn(self, database: int, changes: int) -> lsns.Position:
        """The next commit's position; the caller holds the commit lock."""
        position = lsns.after(self.last_lsns.get(database), changes)
        self.last_lsns[database] = position.lsn
        return position

    def new_object_id(self) -> int:
        """An id that no object had."""
        with self._ids:
            self.next_object += _OBJECT_ID_STEP
            return self.next_object

    def new_transaction_id(self) -> int:
        """An id that no transaction had."""
        with self._ids:
            self.next_transaction += 1
            return self.next_transaction

    def take_rowversions(self, count: int) -> int:
        """The first of `count` new rowversions."""
        with self._ids:
            first = self.next_rowversion + 1
            self.next_rowversion += count
            return first

    def close(self) -> None:
        """Write everything into the file and close it."""
        self.identities.close()
        self._root.execute("CHECKPOINT")
        self._root.close()


def _rollback(connection: Connection) -> None:
    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:
        return  # no transaction was open any more
