"""Connections to SQL Server through ODBC, and what its errors mean.

One connection has one active reader, so whoever reads in parallel opens several.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from tenacity import RetryCallState, Retrying, stop_after_attempt

from cdc_assets.errors import (
    DatabaseRefusedError,
    DriverMissingError,
    PermissionMissingError,
    SourceBusyError,
    SourceQueryError,
    SourceUnavailableError,
    UnsupportedColumnError,
)
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.connection_string import odbc_pairs
from cdc_assets.sqlserver.driver import find_driver
from cdc_assets.sqlserver.odbc_errors import translate
from cdc_assets.sqlserver.statements import in_parameters
from cdc_assets.sqlserver.trust import trust

ATTEMPTS_MAX = 4
"""One call and three retries, after 1-2, 2-4 and 4-8 seconds."""
DATABASE_ATTEMPTS_MAX = 2
"""For a name that is wrong it ends soon, and a server that was just started may have it by then."""
CONNECTIONS_MAX = 16
"""Connections that one run has open at the same time, where the settings say nothing."""
IDLE_CONNECTIONS_MAX = 1
"""Connections that stay open after a sync, for the poll of the next one in the same process."""
ROWS_PER_BATCH_MAX = 65_535
SMALL_BATCH_ROWS = 256
"""Fetch buffer of a statement that asks for a few rows, as a sync sends a dozen for each table: one
for 65,535 takes a third of a millisecond to prepare each time."""
BYTES_PER_BATCH_MAX = 8 << 20
"""Fetch buffer of one reader; arrow-odbc holds two of them while it fetches concurrently."""
ROW_BYTES_MAX = 1 << 30
"""The most that one row's buffer may take, where (max) columns hold large values."""
LARGE_VALUE_BYTES_START = 8 << 10
"""First buffer for one value of a (max) column; see `MAX_VALUE_BYTES` for the last."""

_ROW_BYTES = re.compile(r"a single row does require up to (\d+)")

try:
    import arrow_odbc  # Loads the driver manager's library at once.
except OSError as error:
    raise DriverMissingError(
        f"the ODBC driver manager cannot be loaded: {error}",
        hint="Run: apt-get install unixodbc libltdl7",
    ) from None

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceConnection:
    """How to reach one database; the text holds the password and is never printed."""

    name: str
    text: str = field(repr=False)
    ca_file: str | None = None
    login_timeout_seconds: int = 5
    lock_timeout_ms: int | None = None
    isolation: str = "read_committed"
    batch_rows: int = ROWS_PER_BATCH_MAX
    batch_bytes: int = BYTES_PER_BATCH_MAX

    @property
    def user(self) -> str:
        """The login, for messages and GRANTs."""
        pairs = odbc_pairs(self.text)
        return pairs.get("uid") or pairs.get("user id") or "the login"


NO_RESTORING = "ConnectRetryCount=0"
"""The driver must not open a broken connection again by itself: a statement on it would succeed,
and with that say that what was read before came whole (`Connection.check_whole`)."""


class Connection:
    """One open connection."""

    def __init__(self, source: SourceConnection) -> None:
        self.source = source
        self._odbc = _open(source)
        self._waited_ms = 0

    def close(self) -> None:
        """Let go of it: the driver closes a connection that nobody holds."""
        del self._odbc

    def read(
        self,
        text: str,
        parameters: Sequence[str | None] = (),
        *,
        large_value_bytes: int = LARGE_VALUE_BYTES_START,
        concurrently: bool = False,
        batch_rows_max: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Run one query and give its rows as Arrow batches, of at most `batch_rows_max` rows.

        Nanosecond timestamps are fetched in microseconds: the range of datetime2 does not fit
        nanoseconds. Raises the errors of `translate`, and `ValueTooLargeError`.

        It may take as long as the server takes, for a large range hours. The driver notices a
        dead connection (keep-alives after 30 s), `lock_timeout_ms` bounds a wait for a lock.
        """
        text, parameters = in_parameters(text, parameters)
        # With each statement, not once a connection: one that a pool has reset has neither; and it
        # costs no round trip of its own.
        if self.source.lock_timeout_ms is not None:
            text = f"SET LOCK_TIMEOUT {self.source.lock_timeout_ms}; {text}"
        if self.source.isolation == "snapshot":
            text = f"SET TRANSACTION ISOLATION LEVEL SNAPSHOT; {text}"
        batches = partial(self._batches, text, parameters, large_value_bytes, batch_rows_max)
        try:
            try:
                yield from batches(concurrently)
            except arrow_odbc.Error as error:
                # Said before any row: several (max) columns of one row pass a batch's bytes.
                needed = _ROW_BYTES.search(error.message())
                if needed is None:
                    raise
                row_bytes = int(needed.group(1))
                if row_bytes > ROW_BYTES_MAX:
                    raise UnsupportedColumnError(
                        f"one row would need a buffer of {row_bytes:,} bytes",
                        where=self.source.name,
                        hint="Its (max) columns hold large values: leave some of them out under"
                        " `columns`, or lower `max_value_bytes`.",
                    ) from None
                # One buffer at a time: fetching ahead would take as much again.
                yield from batches(False, row_bytes)
        except arrow_odbc.Error as error:
            raise translate(error, self.source) from None

    def _batches(
        self,
        text: str,
        parameters: Sequence[str | None],
        large_value_bytes: int,
        rows_max: int | None,
        concurrently: bool,
        bytes_max: int = 0,
    ) -> Iterable[pa.RecordBatch]:
        found: Iterable[pa.RecordBatch] = self._odbc.read_arrow_batches(
            query=text,
            parameters=list(parameters) or None,
            batch_size=min(self.source.batch_rows, rows_max or self.source.batch_rows),
            max_bytes_per_batch=bytes_max or self.source.batch_bytes,
            max_text_size=large_value_bytes,
            max_binary_size=large_value_bytes,
            map_schema=_in_microseconds,
            fetch_concurrently=concurrently,
            payload_text_encoding=arrow_odbc.TextEncoding.UTF16,
        )
        return found

    def check_whole(self) -> None:
        """Raise `SourceUnavailableError` where the rows read last may not be all.

        Of a connection that breaks just behind a row the driver says now and then that its rows
        have ended. The next statement on it fails, so each read of a table is followed by one.
        """
        self.rows(queries.ALIVE)

    def rows(self, text: str, parameters: Sequence[str | None] = ()) -> list[dict[str, Any]]:
        """Run one small query and give its rows as dicts."""
        batches = self.read(text, parameters, batch_rows_max=SMALL_BATCH_ROWS)
        return [row for batch in batches for row in batch.to_pylist()]

    def network_wait_ms(self) -> int | None:
        """How long the server waited for us to take rows, since the last call.

        None where this login may not ask for that.
        """
        try:
            total = int(self.rows(queries.NETWORK_WAIT)[0]["wait_ms"])
        except (PermissionMissingError, SourceQueryError):
            return None
        waited, self._waited_ms = total - self._waited_ms, total
        return waited


@contextmanager
def connect(source: SourceConnection) -> Iterator[Connection]:
    """Open a connection for a block; at its end nothing of ours holds it any more."""
    connection = Connection(source)
    try:
        yield connection
    finally:
        connection.close()


class Connections:
    """Open connections of one run, each lent to one reader at a time.

    A connection costs two round trips and a TLS handshake, more than a small read. One that an
    error passed through is closed, and the idle ones with it: what broke one may have broken all.
    """

    def __init__(self, source: SourceConnection, limit: int = CONNECTIONS_MAX) -> None:
        self.source = source
        self._free = threading.Semaphore(limit)
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """An idle connection, or a new one; waits while as many as there may be are lent.

        Who holds one must not ask for another: those who hold them are the only ones to give one
        back, after a read that may take hours, so the wait has no limit of its own.
        """
        with self._free, self._lent() as connection:
            yield connection

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or Connection(self.source)
        try:
            yield connection
        except BaseException:
            connection.close()
            self.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def close(self, *, but: int = 0) -> None:
        """Close the idle ones, or all `but` so many."""
        with self._lock:
            idle, self._idle = self._idle[but:], self._idle[:but]
        for connection in idle:
            connection.close()


def with_retries(call: Callable[[], T], attempts_max: int = ATTEMPTS_MAX) -> T:
    """Make a call again while it fails transiently, with jittered waits.

    Whole pieces of work are repeated (a poll, one table's share), each on fresh connections. Where
    a database is refused there are `DATABASE_ATTEMPTS_MAX`, as Microsoft's own clients have.
    """
    retrying = Retrying(
        stop=stop_after_attempt(attempts_max),
        wait=retry_wait_seconds,
        retry=_may_pass,
        reraise=True,
    )
    return retrying(call)


def _may_pass(state: RetryCallState) -> bool:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, DatabaseRefusedError):
        return state.attempt_number < DATABASE_ATTEMPTS_MAX
    return isinstance(error, (SourceUnavailableError, SourceBusyError))


def retry_wait_seconds(state: RetryCallState) -> float:
    """Twice as long each time, and jittered, so that many tables do not come back as one."""
    return random.uniform(1.0, 2.0) * float(2 ** (state.attempt_number - 1))  # noqa: S311 - no secret


def _open(source: SourceConnection) -> arrow_odbc.Connection:
    if source.ca_file:
        trust(source.ca_file, where=source.name)
    # Of a keyword that is there twice the driver takes the first.
    text = f"{NO_RESTORING};{source.text}"
    if "driver" not in odbc_pairs(text):
        text = f"Driver={{{find_driver()}}};{text}"
    try:
        return arrow_odbc.connect(text, login_timeout_sec=source.login_timeout_seconds)
    except arrow_odbc.Error as error:
        raise translate(error, source) from None


def _in_microseconds(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [
            f.with_type(pa.timestamp("us"))
            if pa.types.is_timestamp(f.type) and f.type.unit == "ns"
            else f
            for f in schema
        ]
    )
