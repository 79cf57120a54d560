"""A real SQL Server, as the tests of the sandbox's engine speak to it.

The same tests then say the same of both. Times come as ticks of 100 ns, as the engine gives them:
no Python type has them all.
"""

from __future__ import annotations

import datetime
import itertools
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyodbc

from cdc_assets.sandbox.results import Message, RowCount, SqlError
from cdc_assets.sqlserver.connection_string import odbc_pairs
from cdc_assets.sqlserver.driver import find_driver
from cdc_assets_tests.sandbox.harness import Client

SQL_TYPE_TIMESTAMP, SQL_SS_TIME2, SQL_SS_TIMESTAMPOFFSET = 93, -154, -155
_NATIVE = re.compile(r"\((\d+)\) \(SQL")
_PREFIX = re.compile(r"\[[^\]]*\]")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Described:
    """A result column, as the server describes it."""

    name: str
    type: str
    nullable: bool


class RemoteClient(Client):
    """One connection through Microsoft's driver; `results` and `columns` are all that differs."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        connection.add_output_converter(SQL_TYPE_TIMESTAMP, _timestamp)
        connection.add_output_converter(SQL_SS_TIME2, _time)
        connection.add_output_converter(SQL_SS_TIMESTAMPOFFSET, _timestamp_offset)

    def results(self, text: str, *values: str | None) -> list[Any]:
        cursor = self.connection.cursor()
        found: list[Any] = []
        try:
            if values:
                declared = ", ".join(f"@P{i} nvarchar(4000)" for i, _ in enumerate(values, 1))
                marks = ", ?" * len(values)
                cursor.execute(f"EXEC sp_executesql ?, ?{marks}", text, declared, *values)
            else:
                cursor.execute(text)
            more = True
            while more:
                found.extend(Message(*_message(m)) for _, m in cursor.messages or ())
                if cursor.description:
                    names = tuple(Described(c[0], "", bool(c[6])) for c in cursor.description)
                    found.append((names, [tuple(row) for row in cursor.fetchall()]))
                elif cursor.rowcount >= 0:
                    found.append(RowCount(cursor.rowcount))
                more = cursor.nextset()
        except pyodbc.Error as error:
            raise SqlError(*_message(str(error.args[-1]))) from None
        finally:
            cursor.close()
        return found

    def columns(self, text: str, *values: str | None) -> Any:
        declared = ", ".join(f"@P{i} nvarchar(4000)" for i, _ in enumerate(values, 1)) or None
        cursor = self.connection.cursor()
        cursor.execute("EXEC sp_describe_first_result_set ?, ?", text, declared)
        names = [c[0] for c in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return tuple(
            Described(row["name"] or "", row["system_type_name"], bool(row["is_nullable"]))
            for row in rows
        )


@contextmanager
def remote_database(text: str) -> Iterator[RemoteClient]:
    """A new database on a real server, and an administrator in it; dropped at the end."""
    name = f"s{os.getpid()}_{next(_numbers)}"
    with _connected(text, "master") as admin:
        admin.execute(f"CREATE DATABASE [{name}]")
        try:
            with _connected(text, name) as connection:
                yield RemoteClient(connection)
        finally:
            admin.execute(f"ALTER DATABASE [{name}] SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
            admin.execute(f"DROP DATABASE [{name}]")


@contextmanager
def _connected(text: str, database: str) -> Iterator[Any]:
    pairs = {"driver": f"{{{find_driver()}}}", **odbc_pairs(text), "database": database}
    joined = ";".join(f"{key}={value}" for key, value in pairs.items())
    connection = pyodbc.connect(joined, autocommit=True)
    try:
        yield connection
    finally:
        connection.close()


def _message(raw: str) -> tuple[int, str]:
    found = _NATIVE.search(raw)
    text = _PREFIX.sub("", raw.partition(" (SQL")[0].rpartition(" (")[0], count=4).strip()
    return (int(found.group(1)) if found else 0), text


def _ticks(day: datetime.date, hour: int, minute: int, second: int, nanoseconds: int) -> int:
    seconds = (day.toordinal() - 1) * 86_400 + hour * 3_600 + minute * 60 + second
    return seconds * 10_000_000 + nanoseconds // 100


def _timestamp(raw: bytes) -> int:
    year, month, day, hour, minute, second, fraction = struct.unpack("<hHHHHHI", raw)
    return _ticks(datetime.date(year, month, day), hour, minute, second, fraction)


def _time(raw: bytes) -> int:
    hour, minute, second, fraction = struct.unpack("<HHHxxI", raw)
    return _ticks(datetime.date.min, hour, minute, second, fraction)


def _timestamp_offset(raw: bytes) -> dict[str, int]:
    year, month, day, hour, minute, second, fraction, hours, minutes = struct.unpack(
        "<hHHHHHIhh", raw
    )
    offset = hours * 60 + minutes
    local = _ticks(datetime.date(year, month, day), hour, minute, second, fraction)
    return {"ticks": local - offset * 600_000_000, "offset_minutes": offset}
