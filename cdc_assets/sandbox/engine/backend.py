"""The engine behind the server: logins, sessions, and what they share."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.capture import Capture
from cdc_assets.sandbox.engine.context import Context
from cdc_assets.sandbox.engine.counters import Counters
from cdc_assets.sandbox.engine.faults import Faults
from cdc_assets.sandbox.engine.security import new_login, verify
from cdc_assets.sandbox.engine.session import EngineSession
from cdc_assets.sandbox.engine.store import Store
from cdc_assets.sandbox.results import Failed, ResultColumn, ResultSet, Session, SqlError

ADMINISTRATOR = "sa"
READER = "reader"
_FIRST_PROCESS = 51


class Engine:
    """Implements `results.Backend` over a state directory."""

    def __init__(
        self,
        directory: Path,
        *,
        capture_interval_seconds: float = 0.0,
        idle_seconds: float = 300.0,
        memory_limit: str = "2GB",
    ) -> None:
        """Open the state and start the capture job."""
        self.store = Store(directory, memory_limit=memory_limit)
        self.capture = Capture(
            self.store, interval_seconds=capture_interval_seconds, idle_seconds=idle_seconds
        )
        self.counters = Counters()
        self.faults = Faults()
        self._lock = threading.Lock()
        self._sessions: set[EngineSession] = set()
        self._process = _FIRST_PROCESS
        self.passwords = self._ensure_logins(directory)
        self.capture.start()
        # pyarrow loads pandas with the first array of Python values: not while a client waits.
        self._warming = threading.Thread(target=pa.array, args=([0],), name="warming")
        self._warming.start()

    def _ensure_logins(self, directory: Path) -> dict[str, str]:
        """The passwords of sa and reader, made at the first start; files of mode 0600."""
        found = {}
        for name in (ADMINISTRATOR, READER):
            file = directory / f"{name}.password"
            if file.exists():
                found[name] = file.read_text().strip()
            else:
                found[name] = secrets.token_urlsafe(16)
                file.touch(mode=0o600)
                file.write_text(found[name] + "\n")
            known = self.store.catalog.login(name)
            if known is None or not verify(known, found[name]):
                login = new_login(name, found[name], administrator=name == ADMINISTRATOR)
                with self.store.transaction() as connection:
                    self.store.catalog = self.store.catalog.put(connection, login)
        return found

    # --- the seam ------------------------------------------------------------------------------

    def login(self, user: str, password: str, database: str, application: str) -> EngineSession:
        """Check the login and open a session; raises Msg 18456 or 4060."""
        found = self.store.catalog.login(user)
        if found is None or not verify(found, password):
            raise SqlError(18456, f"Login failed for user '{user}'.", 14)
        name = self._home(found, database)
        context = Context(
            self.store, self.store.connect(), found, name, self._next_process(), application
        )
        session = EngineSession(self, context, name)
        with self._lock:
            self._sessions.add(session)
        self.counters.connection(found.name)
        return session

    def _home(self, login: e.Login, database: str) -> str:
        wanted = database or login.database
        found = self.store.catalog.databases.get(wanted.lower())
        context = Context(self.store, self.store.connect(), login, "master", 0)
        try:
            allowed = found is not None and context.access.may_enter(found.id)
        finally:
            context.connection.close()
        if found is None or not allowed:
            raise SqlError(
                4060,
                f'Cannot open database "{wanted}" requested by the login. The login failed.',
                11,
            )
        return found.name

    def _next_process(self) -> int:
        with self._lock:
            self._process += 1
            return self._process

    def rows_sent(self, session: Session, rows: int, columns: Sequence[ResultColumn]) -> None:
        """Count rows that leave."""
        del columns
        if not isinstance(session, EngineSession):
            raise TypeError("not a session of this engine")
        self.counters.rows(session.context.login.name, session.reading, rows)

    # --- for sessions --------------------------------------------------------------------------

    def execute(self, text: str, database: str) -> None:
        """Run a batch as sa for its effect; no planted fault strikes it."""
        session = self.login(ADMINISTRATOR, self.passwords[ADMINISTRATOR], database, "sandbox")
        session.victim.immune = True
        try:
            for result in session.execute(text):
                if isinstance(result, Failed):
                    raise result.error
                if isinstance(result, ResultSet):
                    for _ in result.batches:
                        pass
        finally:
            session.close()

    def closed(self, session: EngineSession) -> None:
        """A session ended."""
        with self._lock:
            self._sessions.discard(session)

    def in_use(self, database: str) -> bool:
        """Whether a session has the database as its current one."""
        with self._lock:
            return any(s.database.lower() == database.lower() for s in self._sessions)

    def writes(self, database: str) -> bool:
        """Whether a session has changed something in it and not committed yet."""
        with self._lock:
            return any(
                s.database.lower() == database.lower() and s.work is not None and s.work.open
                for s in self._sessions
            )

    def close(self) -> None:
        """Stop capture, end the sessions and close the store."""
        self.capture.stop()
        self._warming.join()  # a process must not end in the middle of an import
        for session in list(self._sessions):
            session.close()
        self.store.close()
