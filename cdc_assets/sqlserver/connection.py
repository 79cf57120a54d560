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
from typing import Any, TypeVar

import pyarrow as pa
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from cdc_assets.errors import (
    CaptureNotEnabledError,
    CdcError,
    DriverMissingError,
    IsolationRefusedError,
    LoginRefusedError,
    PermissionMissingError,
    SettingsError,
    SourceBusyError,
    SourceQueryError,
    SourceUnavailableError,
    UnsupportedColumnError,
)
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.connection_string import odbc_pairs
from cdc_assets.sqlserver.driver import find_driver
from cdc_assets.sqlserver.statements import in_parameters
from cdc_assets.sqlserver.trust import trust

ATTEMPTS_MAX = 4
"""One call and three retries, after 1-2, 2-4 and 4-8 seconds."""
CONNECTIONS_MAX = 16
"""Connections that one run has open at the same time, where the settings say nothing."""
ROWS_PER_BATCH_MAX = 65_535
BYTES_PER_BATCH_MAX = 8 << 20
"""Fetch buffer of one reader; arrow-odbc holds two of them while it fetches concurrently."""
ROW_BYTES_MAX = 1 << 30
"""The most that one row's buffer may take, where (max) columns hold large values."""
LARGE_VALUE_BYTES_START = 8 << 10
"""First buffer for one value of a (max) column; see `MAX_VALUE_BYTES` for the last."""

_BUSY_NATIVE = frozenset(
    # Locks, versions and memory: Microsoft's lists for its retrying clients.
    {601, 617, 669, 1203, 1204, 1205, 1222, 3956, 3958, 3960, 3961, 3966, 4221}
    | {8628, 8645, 8651, 10922, 10928, 10929, 10936, 41301, 41302, 41305, 41325, 41839}
    # A replica or a server that comes up, goes down or ends sessions.
    | {596, 921, 922, 976, 983, 988, 6005, 17142, 17197, 18401}
    # Azure.
    | {40143, 40197, 40501, 40540, 40613, 42108, 42109, 49918, 49919, 49920}
)
_DENIED_NATIVE = frozenset({229, 230, 262, 297, 300, 916, 22904})
_REPORT = "It is the driver's own error; if it stays, please report it."
_ODBC_ERROR = re.compile(r"State: (\w+), Native error: (-?\d+), Message: (.*)", re.DOTALL)
_MISSPELT = re.compile(r"Invalid value specified for connection string|Neither DSN nor SERVER")
"""What the driver says before it has tried to connect, with the state of a failed connection."""
_ROW_BYTES = re.compile(r"a single row does require up to (\d+)")
_PREFIX = re.compile(r"^(\[[^\]]*\])+")

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


class ValueTooLargeError(Exception):
    """A (max) value did not fit the fetch buffer; read the range again with a larger one."""


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
    ) -> Iterator[pa.RecordBatch]:
        """Run one query and give its rows as Arrow batches.

        Nanosecond timestamps are fetched in microseconds: the range of datetime2 does not fit
        nanoseconds. Raises the errors of `translate`, and `ValueTooLargeError`.

        It may take as long as the server takes, for a large range hours. The driver notices a
        dead connection (keep-alives after 30 s), `lock_timeout_ms` bounds a wait for a lock.
        """
        text, parameters = in_parameters(text, parameters)
        if self.source.lock_timeout_ms is not None:
            text = f"SET LOCK_TIMEOUT {self.source.lock_timeout_ms}; {text}"
        if self.source.isolation == "snapshot":
            text = f"SET TRANSACTION ISOLATION LEVEL SNAPSHOT; {text}"
        try:
            try:
                yield from self._batches(text, parameters, large_value_bytes, concurrently)
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
                yield from self._batches(text, parameters, large_value_bytes, False, row_bytes)
        except arrow_odbc.Error as error:
            raise translate(error, self.source) from None

    def _batches(
        self,
        text: str,
        parameters: Sequence[str | None],
        large_value_bytes: int,
        concurrently: bool,
        bytes_max: int = 0,
    ) -> Iterable[pa.RecordBatch]:
        found: Iterable[pa.RecordBatch] = self._odbc.read_arrow_batches(
            query=text,
            parameters=list(parameters) or None,
            batch_size=self.source.batch_rows,
            max_bytes_per_batch=bytes_max or self.source.batch_bytes,
            max_text_size=large_value_bytes,
            max_binary_size=large_value_bytes,
            map_schema=_in_microseconds,
            fetch_concurrently=concurrently,
            payload_text_encoding=arrow_odbc.TextEncoding.UTF16,
        )
        return found

    def rows(self, text: str, parameters: Sequence[str | None] = ()) -> list[dict[str, Any]]:
        """Run one small query and give its rows as dicts."""
        return [row for batch in self.read(text, parameters) for row in batch.to_pylist()]

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

    def close(self) -> None:
        """Close the idle ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def with_retries(call: Callable[[], T]) -> T:
    """Make a call again while it fails transiently, with jittered waits; see `ATTEMPTS_MAX`.

    Whole pieces of work are repeated (a poll, one table's share), each on fresh connections.
    """
    retrying = Retrying(
        stop=stop_after_attempt(ATTEMPTS_MAX),
        wait=retry_wait_seconds,
        retry=retry_if_exception_type((SourceUnavailableError, SourceBusyError)),
        reraise=True,
    )
    return retrying(call)


def retry_wait_seconds(state: RetryCallState) -> float:
    """Twice as long each time, and jittered, so that many tables do not come back as one."""
    return random.uniform(1.0, 2.0) * float(2 ** (state.attempt_number - 1))  # noqa: S311 - no secret


def translate(error: arrow_odbc.Error, source: SourceConnection) -> Exception:
    """The typed error for what ODBC reported; the connection string is never part of it."""
    raw = error.message()
    found = _ODBC_ERROR.search(raw)
    if found is None:
        if "too large" in raw.lower() or "truncat" in raw.lower():
            return ValueTooLargeError(raw)
        return SourceQueryError(_one_line(raw), where=source.name, hint=_REPORT)
    state, native, message = found.group(1), int(found.group(2)), _one_line(found.group(3))
    if _MISSPELT.match(message):
        return SettingsError(
            message, where=source.name, hint="Correct the connection string of this database."
        )
    ours = _unavailable(state, native, message, source) or _refused(state, native, message, source)
    return ours or SourceQueryError(
        f"{message} (Msg {native})",
        where=source.name,
        hint="It is the server's own error: its number says more.",
    )


def _unavailable(
    state: str, native: int, message: str, source: SourceConnection
) -> CdcError | None:
    """The errors of a server that cannot answer now, and of a driver that cannot ask."""
    if native in _BUSY_NATIVE or state == "40001":
        return SourceBusyError(message, where=source.name, hint="Run it again.")
    # IMC01 to IMC06: an idle connection broke, and the driver's own attempts to restore it failed.
    if state.startswith(("08", "IMC")) or state in ("HYT00", "HYT01"):
        if native not in (4060, 18456):
            return SourceUnavailableError(
                message, where=source.name, hint="Is the server up, and the address right?"
            )
    elif state.startswith("IM") or (state == "01000" and "file not found" in message.lower()):
        return DriverMissingError(
            message, where=source.name, hint="Install unixodbc, or set CDC_ODBC_DRIVER to the .so."
        )
    return None


def _refused(state: str, native: int, message: str, source: SourceConnection) -> CdcError | None:
    """The errors that stay until somebody changes something; None for what says enough itself."""
    database = odbc_pairs(source.text).get("database", "the source database")
    quoted, user = _bracketed(database), _bracketed(source.user)
    if state.startswith("28") or native in (4060, 18456):
        return LoginRefusedError(
            message,
            where=source.name,
            hint="Check the user, password and database; the login needs a user in it:"
            f" CREATE USER {user} FOR LOGIN {user}.",
        )
    if native == 916:
        hint = f"Run in {quoted}: CREATE USER {user} FOR LOGIN {user}."
        return PermissionMissingError(message, where=source.name, hint=hint)
    if native in _DENIED_NATIVE:
        return PermissionMissingError(message, where=source.name, hint=_grant(message, source))
    if native in (3952, 3957):
        return IsolationRefusedError(
            f"the database {database} does not allow snapshot isolation",
            where=source.name,
            hint=f"Run: ALTER DATABASE {quoted} SET ALLOW_SNAPSHOT_ISOLATION ON, or leave"
            " `isolation: snapshot` out of tables.yaml.",
        )
    if native == 207 and "__$command_id" in message:
        return SourceQueryError(
            "the change table has no column __$command_id, as on some builds of SQL Server 2016",
            where=source.name,
            hint="Set `include_command_id: false` for the table in tables.yaml, or update the"
            " server.",
        )
    if native == 22901 or (native == 208 and "cdc.lsn_time_mapping" in message):
        return CaptureNotEnabledError(
            f"change data capture is not on in the database {database}",
            where=source.name,
            hint=f"Run in {quoted}: EXEC sys.sp_cdc_enable_db, and sys.sp_cdc_enable_table for"
            " each table.",
        )
    return None


def _open(source: SourceConnection) -> arrow_odbc.Connection:
    if source.ca_file:
        trust(source.ca_file, where=source.name)
    text = source.text
    if "driver" not in odbc_pairs(text):
        text = f"Driver={{{find_driver()}}};{text}"
    try:
        return arrow_odbc.connect(text, login_timeout_sec=source.login_timeout_seconds)
    except arrow_odbc.Error as error:
        raise translate(error, source) from None


def _grant(message: str, source: SourceConnection) -> str:
    found = re.search(r"object '([^']+)', database '([^']+)', schema '([^']+)'", message)
    if not found:
        return "See README: the login needs SELECT on the table and on its change table."
    name, database, schema = (_bracketed(part) for part in found.groups())
    user = _bracketed(source.user)
    return f"Run in {database}: GRANT SELECT ON {schema}.{name} TO {user}."


def _bracketed(name: str) -> str:
    """A name of any length in brackets, for a message alone."""
    return "[" + name.replace("]", "]]") + "]"


def _one_line(message: str) -> str:
    return _PREFIX.sub("", " ".join(message.split())).strip().rstrip(".")


def _in_microseconds(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [
            f.with_type(pa.timestamp("us"))
            if pa.types.is_timestamp(f.type) and f.type.unit == "ns"
            else f
            for f in schema
        ]
    )
