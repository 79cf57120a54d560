"""A backend without an engine: texts and procedures with canned results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import pyarrow as pa

from cdc_assets.sandbox.results import (
    Parameter,
    Result,
    ResultColumn,
    ResultSet,
    SqlError,
    SqlType,
    TransactionChange,
)

USER = "reader"
PASSWORD = "Pa55;w}rd ü"

Answer = Callable[["CannedSession", Sequence[Parameter]], Iterator[Result]]


class CannedSession:
    def __init__(self, backend: CannedBackend, database: str) -> None:
        self.backend = backend
        self.database = database
        self.log: list[str] = []
        self.changes: list[TransactionChange] = []
        self.parameters: list[tuple[Parameter, ...]] = []
        self.cancelled = threading.Event()
        self.closed = threading.Event()

    def begin_request(self) -> None:
        pass

    def execute(self, text: str, parameters: Sequence[Parameter] = ()) -> Iterator[Result]:
        self.log.append(text)
        self.parameters.append(tuple(parameters))
        answer = self.backend.answers.get(text)
        if answer is None:
            raise SqlError(208, f"Invalid object name '{text}'.")
        yield from answer(self, parameters)

    def call(self, procedure: str, parameters: Sequence[Parameter]) -> Iterator[Result]:
        answer = self.backend.procedures.get(procedure)
        self.parameters.append(tuple(parameters))
        if answer is None:
            raise SqlError(2812, f"Could not find stored procedure '{procedure}'.", state=62)
        yield from answer(self, parameters)

    def begin(self, name: str | None = None) -> None:
        self._changed("begin", name)

    def commit(self) -> None:
        self._changed("commit")

    def rollback(self, name: str | None = None) -> None:
        self._changed("rollback", name)

    def save(self, name: str) -> None:
        self.log.append(f"save {name}")

    def _changed(
        self, kind: Literal["begin", "commit", "rollback"], name: str | None = None
    ) -> None:
        self.log.append(f"{kind} {name}" if name else kind)
        self.changes.append(TransactionChange(kind, 7))

    def transaction_changes(self) -> Sequence[TransactionChange]:
        taken, self.changes = self.changes, []
        return taken

    def reset(self, *, keep_transaction: bool = False) -> None:
        self.log.append("reset, transaction kept" if keep_transaction else "reset")

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        self.closed.set()


class CannedBackend:
    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.procedures: dict[str, Answer] = {}
        self.sessions: list[CannedSession] = []
        self.rows = 0
        self.drop_after: int | None = None

    def login(self, user: str, password: str, database: str, application: str) -> CannedSession:
        if (user, password) != (USER, PASSWORD):
            raise SqlError(18456, f"Login failed for user '{user}'.", severity=14)
        if database == "nodb":
            text = 'Cannot open database "nodb" requested by the login. The login failed.'
            raise SqlError(4060, text, severity=11)
        session = CannedSession(self, database or "master")
        self.sessions.append(session)
        return session

    def rows_sent(self, session: CannedSession, rows: int, columns: Sequence[ResultColumn]) -> None:
        self.rows += rows
        if self.drop_after is not None and self.rows > self.drop_after:
            raise ConnectionAbortedError("dropped by a fault")

    def rows_of(self, text: str, columns: Sequence[tuple[str, SqlType, pa.Array]]) -> None:
        """Answer `text` with one batch."""
        described = tuple(ResultColumn(name, sql_type) for name, sql_type, _ in columns)
        batch = pa.record_batch(
            [array for *_, array in columns], names=[name for name, *_ in columns]
        )
        self.results_of(text, lambda: [ResultSet(described, iter([batch]))])

    def results_of(self, text: str, results: Callable[[], Sequence[Result]]) -> None:
        """Answer `text` with results made anew each time."""
        self.answers[text] = lambda _session, _parameters: iter(results())
