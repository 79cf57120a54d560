"""The sandbox as Python sees it: start it on a directory, connect, load the workload, stop it."""

from __future__ import annotations

import errno
import shutil
import threading
from pathlib import Path
from types import TracebackType

from cdc_assets.sandbox.engine.backend import ADMINISTRATOR, READER, Engine
from cdc_assets.sandbox.server import TdsServer
from cdc_assets.sandbox.state import LOCK_FILE, StateLock
from cdc_assets.sandbox.workload import tables
from cdc_assets.sandbox.workload.load import administrator, load, run
from cdc_assets.sandbox.workload.work import Done, work

HOST = "127.0.0.1"
_PORT_FILE = "port"
_MARK = "sandbox.duckdb"


class Sandbox:
    """An embedded SQL Server stand-in over one state directory. Also a context manager.

    Databases, rows, logins and the port outlive a stop; `fresh` begins with nothing.
    """

    def __init__(
        self,
        state_dir: Path | str,
        *,
        capture_interval_seconds: float = 0.0,
        idle_seconds: float = 300.0,
        port: int = 0,
        fresh: bool = False,
        memory_limit: str = "2GB",
    ) -> None:
        """`capture_interval_seconds` 0 captures with each commit; `port` 0 keeps the last one."""
        self.state_dir = Path(state_dir)
        self._interval = capture_interval_seconds
        self._idle = idle_seconds
        self._port = port
        self._memory = memory_limit
        self._engine: Engine | None = None
        self._server: TdsServer | None = None
        self._lock = StateLock(self.state_dir)
        if fresh and self.state_dir.exists():
            self._clear()

    def _clear(self) -> None:
        """Remove an earlier state; a directory that holds something else is left alone.

        Raises `StateInUseError` where a server runs on it.
        """
        entries = [entry for entry in self.state_dir.iterdir() if entry.name != LOCK_FILE]
        if entries and not (self.state_dir / _MARK).exists():
            raise ValueError(f"{self.state_dir} is not empty and holds no sandbox: not removing it")
        self._lock.acquire()
        try:
            for entry in entries:
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        finally:
            self._lock.release()

    # --- running -------------------------------------------------------------------------------

    def start(self) -> Sandbox:
        """Open the state and listen on loopback.

        Raises `StateInUseError` where another server runs on it, `OSError` where an asked port is
        taken.
        """
        self._lock.acquire()
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def _open(self) -> None:
        self._engine = Engine(
            self.state_dir,
            capture_interval_seconds=self._interval,
            idle_seconds=self._idle,
            memory_limit=self._memory,
        )
        try:
            self._server = self._listen(self._engine)
        except BaseException:
            self._engine.close()
            raise
        (self.state_dir / _PORT_FILE).write_text(str(self.port))
        shutil.copyfile(self._server.ca_file, self.ca_file)
        self._write_connection_strings()

    def _listen(self, engine: Engine) -> TdsServer:
        """On the asked port, else the last one if it is free, else any."""
        remembered = self.state_dir / _PORT_FILE
        wanted = self._port or (int(remembered.read_text()) if remembered.exists() else 0)
        server = TdsServer(engine, host=HOST, port=wanted, state_dir=self.state_dir)
        try:
            server.start()
        except OSError as error:
            if self._port or error.errno != errno.EADDRINUSE:
                raise
            server = TdsServer(engine, host=HOST, port=0, state_dir=self.state_dir)
            server.start()
        return server

    def stop(self) -> None:
        """Stop listening, end the sessions and close the state."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        self._lock.release()

    def restart(self) -> Sandbox:
        """Stop and start on the same port: open connections break, what was committed stays."""
        self._port = self._port or self.port
        self.stop()
        return self.start()

    def __enter__(self) -> Sandbox:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- facts ---------------------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        """The engine; `RuntimeError` while stopped."""
        if self._engine is None:
            raise RuntimeError("the sandbox has not been started")
        return self._engine

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._server is None:
            raise RuntimeError("the sandbox has not been started")
        return self._server.port

    @property
    def ca_file(self) -> Path:
        """The CA that signed the server's certificate, as PEM."""
        return self.state_dir / "ca.pem"

    @property
    def reader_password(self) -> str:
        """The password of `reader`, which may SELECT what it was granted."""
        return self.engine.passwords[READER]

    @property
    def admin_password(self) -> str:
        """The password of `sa`."""
        return self.engine.passwords[ADMINISTRATOR]

    def connection_string(self, database: str = tables.DATABASE, *, admin: bool = False) -> str:
        """A whole ODBC connection string without Driver, with its password: never log it."""
        user = ADMINISTRATOR if admin else READER
        password = self.engine.passwords[user]
        return (
            f"Server=tcp:{HOST},{self.port};Database={database};UID={user};PWD={password};"
            "Encrypt=yes;HostNameInCertificate=localhost"
        )

    def connection_file(self, database: str = tables.DATABASE, *, admin: bool = False) -> Path:
        """The file with that connection string."""
        return self.state_dir / f"{database}{'.admin' if admin else ''}.odbc"

    def _write_connection_strings(self) -> None:
        names = {d.name for d in self.engine.store.catalog.databases.values() if d.id > 4}
        for name in names | {tables.DATABASE}:
            self.write_connection_file(name)

    def write_connection_file(self, database: str) -> Path:
        """Write both files for a database (mode 0600); the reader's path."""
        for admin in (False, True):
            path = self.connection_file(database, admin=admin)
            path.touch(mode=0o600)
            path.chmod(0o600)
            path.write_text(self.connection_string(database, admin=admin) + "\n")
        return self.connection_file(database)

    # --- data ----------------------------------------------------------------------------------

    def load_workload(
        self, scale: float = 1.0, *, seed: int = 0, settled: bool = True
    ) -> tables.Scale:
        """The workload's tables and rows in database `sales`, captured and granted to `reader`.

        Scale 1.0 is 5,000 customers, 50,000 orders and about 200,000 line items. `settled` ends
        with an idle entry, so that the instances have a min_lsn at once.
        """
        size = tables.Scale.of(scale)
        load(self.engine, size, seed, settled=settled)
        self.write_connection_file(tables.DATABASE)
        return size

    def run_workload(
        self,
        *,
        seed: int = 0,
        transactions: int | None = None,
        per_second: float | None = None,
        stop: threading.Event | None = None,
    ) -> Done:
        """Change the workload's tables: so many transactions or until `stop`, at a rate or at once.

        Long transactions span others, and some roll back; the same seed on the same rows changes
        them in the same way.
        """
        return work(self.engine, seed, transactions=transactions, per_second=per_second, stop=stop)

    def execute(self, text: str, database: str = tables.DATABASE) -> None:
        """Run a T-SQL batch as sa, in process, for its effect."""
        session = administrator(self.engine, database)
        try:
            run(session, text)
        finally:
            session.close()
