"""The Python drivers, each as its own documentation has it; what differs between them is here."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

import mssql_python
import OpenSSL.SSL
import pyodbc
import pytds

from cdc_assets.sqlserver.driver import find_driver
from cdc_assets_tests.clients.stacks import Place

LOGIN_SECONDS_MAX = 20
_CERTIFIED = "localhost"
"""The name in the sandbox's certificate."""
_CA_VARIABLE = "SSL_CERT_FILE"
DATETIMEOFFSET = -155
"""SQL_SS_TIMESTAMPOFFSET of msodbcsql.h, which pyodbc leaves to its caller."""

Row = Sequence[Any]


class Driver(Protocol):
    """A DB-API driver and what it does in its own way."""

    name: str
    mark: str
    error: type[Exception]
    refusals: tuple[type[Exception], ...]
    """What it raises for a certificate that it does not trust."""

    def connect(self, place: Place, **how: Any) -> Any:
        """A connection: `login`, `tls`, `ca_file`, `database`, `autocommit`."""

    def seen(self, error: Exception) -> dict[str, Any]:
        """What it tells of a server's error: `text`, and of `number`, `sqlstate`, `severity`."""

    def cancelled(self, place: Place, after_seconds: float) -> contextlib.AbstractContextManager:
        """A connection and a cursor whose statement is cancelled so long after the start."""

    def prepared(self, connection: Any, sql: str, runs: Sequence[Row]) -> Iterator[list[Row]]:
        """The rows of one prepared statement, run after run."""


@contextlib.contextmanager
def trusting(ca_file: str | None) -> Iterator[None]:
    """What OpenSSL inside Microsoft's driver trusts beside what it always does."""
    before = os.environ.pop(_CA_VARIABLE, None)
    if ca_file is not None:
        os.environ[_CA_VARIABLE] = ca_file
    try:
        yield
    finally:
        os.environ.pop(_CA_VARIABLE, None)
        if before is not None:
            os.environ[_CA_VARIABLE] = before


def _odbc_pairs(place: Place, how: dict[str, Any]) -> dict[str, str]:
    user, password = how.get("login", place.administrator)
    escaped = password.replace("}", "}}")
    tls = how.get("tls", True)
    # Whose CA is not known, a server of someone else's: the check of its certificate is skipped.
    trusted = {"TrustServerCertificate": "yes"}
    return {
        "Server": f"tcp:{place.host},{place.port}",
        "Database": how.get("database", place.database),
        "UID": user,
        "PWD": f"{{{escaped}}}",
        "Encrypt": "yes" if tls else "no",
        **({"HostnameInCertificate": _CERTIFIED} if place.ca_file else trusted),
    }


def _text(pairs: dict[str, str]) -> str:
    return ";".join(f"{key}={value}" for key, value in pairs.items())


def _again(connection: Any, sql: str, runs: Sequence[Row]) -> Iterator[list[Row]]:
    """One cursor keeps its statement prepared from run to run."""
    with connection.cursor() as cursor:
        for values in runs:
            cursor.execute(sql, tuple(values))
            yield list(cursor.fetchall())


class Pyodbc:
    """pyodbc over Microsoft's ODBC driver from the wheel."""

    name = "pyodbc"
    mark = "?"
    error = pyodbc.Error
    refusals = (pyodbc.Error,)
    _number = re.compile(r"\((\d+)\) \(SQL\w+\)")

    def connect(self, place: Place, **how: Any) -> Any:
        text = _text({"Driver": find_driver(), **_odbc_pairs(place, how)})
        with trusting(how.get("ca_file", place.ca_file)):
            connection = pyodbc.connect(
                text, autocommit=how.get("autocommit", True), timeout=LOGIN_SECONDS_MAX
            )
        connection.add_output_converter(DATETIMEOFFSET, offset_text)
        return connection

    def seen(self, error: Exception) -> dict[str, Any]:
        state, text = error.args
        found = self._number.search(text)
        return {"text": text, "sqlstate": state, "number": int(found[1]) if found else None}

    @contextlib.contextmanager
    def cancelled(self, place: Place, after_seconds: float) -> Iterator[tuple[Any, Any]]:
        """By the call that ODBC has for it, from another thread."""
        connection = self.connect(place)
        cursor = connection.cursor()
        with contextlib.closing(connection), contextlib.closing(cursor):
            timer = threading.Timer(after_seconds, cursor.cancel)
            timer.start()
            try:
                yield connection, cursor
            finally:
                timer.cancel()
                timer.join()

    prepared = staticmethod(_again)


class MssqlPython:
    """Microsoft's mssql-python, with its pool of connections on, as it comes."""

    name = "mssql-python"
    mark = "?"
    error = mssql_python.Error
    refusals = (mssql_python.Error,)

    def connect(self, place: Place, **how: Any) -> Any:
        with trusting(how.get("ca_file", place.ca_file)):
            return mssql_python.connect(
                _text(_odbc_pairs(place, how)),
                autocommit=how.get("autocommit", True),
                timeout=LOGIN_SECONDS_MAX,
            )

    def seen(self, error: Exception) -> dict[str, Any]:
        """Its exceptions carry the server's text alone: neither number nor SQLSTATE."""
        return {"text": str(error)}

    @contextlib.contextmanager
    def cancelled(self, place: Place, after_seconds: float) -> Iterator[tuple[Any, Any]]:
        """By its time-out, in whole seconds: it has no public call."""
        with contextlib.closing(self.connect(place)) as connection:
            connection.timeout = max(1, round(after_seconds))
            with contextlib.closing(connection.cursor()) as cursor:
                yield connection, cursor

    prepared = staticmethod(_again)


class Pytds:
    """pytds, which speaks TDS in Python and shares no code with Microsoft's driver."""

    name = "pytds"
    mark = "%s"
    error = pytds.Error
    refusals = (pytds.Error, OpenSSL.SSL.Error)

    def connect(self, place: Place, **how: Any) -> Any:
        user, password = how.get("login", place.administrator)
        # Without a file it never speaks TLS.
        cafile = how.get("ca_file", place.ca_file) if how.get("tls", True) else None
        return pytds.connect(
            _CERTIFIED if cafile else place.host,
            port=place.port,
            user=user,
            password=password,
            database=how.get("database", place.database),
            autocommit=how.get("autocommit", True),
            cafile=cafile,
            timeout=how.get("timeout", 60),
            login_timeout=LOGIN_SECONDS_MAX,
            disable_connect_retry=True,
        )

    def seen(self, error: Exception) -> dict[str, Any]:
        if not isinstance(error, pytds.DatabaseError):
            return {"text": str(error)}
        return {"text": error.text, "number": error.number, "severity": error.severity}

    @contextlib.contextmanager
    def cancelled(self, place: Place, after_seconds: float) -> Iterator[tuple[Any, Any]]:
        """By its time-out, after which it sends the cancel itself."""
        connection = self.connect(place, timeout=after_seconds)
        with connection, connection.cursor() as cursor:
            yield connection, cursor

    def prepared(self, connection: Any, sql: str, runs: Sequence[Row]) -> Iterator[list[Row]]:
        """By calling the procedures: its cursor has no prepared statements of its own."""
        for number in range(1, len(runs[0]) + 1):
            sql = sql.replace("%s", f"@p{number}", 1)
        declared = ", ".join(
            f"@p{i} {'int' if isinstance(v, int) else 'nvarchar(100)'}"
            for i, v in enumerate(runs[0], 1)
        )
        with connection.cursor() as cursor:
            given = (pytds.output(param_type="int"), declared, sql, 1)
            handle = cursor.callproc("sp_prepare", given)[0]
            for values in runs:
                cursor.callproc("sp_execute", (handle, *values))
                yield list(cursor.fetchall())
            cursor.callproc("sp_unprepare", (handle,))


DRIVERS: tuple[Driver, ...] = (Pyodbc(), MssqlPython(), Pytds())


# --- values ------------------------------------------------------------------------------------


def offset_text(raw: bytes) -> str:
    """SQL_SS_TIMESTAMPOFFSET_STRUCT as canonical text; its fraction is in nanoseconds."""
    *clock, nanoseconds, hours, minutes = struct.unpack("<6hI2h", raw)
    year, month, day, hour, minute, second = clock
    offset = hours * 60 + minutes
    return (
        f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanoseconds // 100:07}"
        f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    )


def canonical(value: Any, kind: str = "text", scale: int = 0, digits: int = 7) -> str | None:
    """A driver's value as expected.json writes it; Python's clocks hold six of seven digits."""
    if value is None:
        return None
    if kind == "boolean":
        return str(int(value))
    if kind == "decimal":
        return f"{Decimal(value):.{scale}f}"
    if kind in ("real", "float"):
        return repr(float(value))
    if kind == "guid":
        return str(value).upper()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "0x" + bytes(value).hex().upper()
    if kind in ("time", "datetime", "datetimeoffset") and not isinstance(value, str):
        return _clock(value, kind, digits)
    return str(value)


def _clock(value: Any, kind: str, digits: int) -> str:
    if kind == "datetime" and digits == 3:
        # datetime counts 1/300 s: what is finer than a millisecond was made up by the driver.
        value = _rounded(value)
    text = value.strftime("%H:%M:%S") if kind == "time" else f"{value:%Y-%m-%dT%H:%M:%S}".zfill(19)
    if digits:
        text += f".{value.microsecond:06}"[: 1 + digits]
    if kind == "datetimeoffset":
        offset = value.utcoffset() // timedelta(minutes=1)
        text += f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    return text


def _rounded(value: datetime) -> datetime:
    milliseconds = (value.microsecond + 500) // 1000
    return value.replace(microsecond=milliseconds * 1000)
