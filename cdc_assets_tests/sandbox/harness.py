"""The engine in process, as the tests speak to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cdc_assets.sandbox.engine.backend import Engine
from cdc_assets.sandbox.engine.failures import STATEMENT_TERMINATED
from cdc_assets.sandbox.engine.session import EngineSession
from cdc_assets.sandbox.results import (
    MAX_LENGTH,
    Failed,
    Message,
    OutputParameters,
    Parameter,
    Result,
    ResultColumn,
    ResultSet,
    RowCount,
    SqlError,
    SqlType,
)

Row = tuple[Any, ...]
CAPTURE_SECONDS_MAX = 30.0


def utf16_units(text: str) -> int:
    """How long SQL Server takes a text to be."""
    return len(text.encode("utf-16-le")) // 2


def text_parameters(values: tuple[str | None, ...]) -> list[Parameter]:
    """What arrow-odbc sends: `@P1 nvarchar(n)`."""
    return [
        Parameter(f"@P{i}", SqlType("nvarchar", length=max(1, utf16_units(value or ""))), value)
        for i, value in enumerate(values, start=1)
    ]


class Client:
    """One session."""

    def __init__(self, engine: Engine, session: EngineSession) -> None:
        self.engine = engine
        self.session = session
        self.database = session.database
        """Where it began."""

    def another(self, user: str = "sa", database: str = "") -> Client:
        """A new session on the same server, in the same database unless one is named."""
        chosen = self.engine.passwords[user]
        return Client(
            self.engine, self.engine.login(user, chosen, database or self.database, "tests")
        )

    def reader(self) -> Client:
        """A session of a login without rights, as the new user `reader` of this database."""
        self.run("CREATE USER reader FOR LOGIN reader")
        return self.another("reader")

    def close(self) -> None:
        """End the session."""
        self.session.close()

    def in_transaction(self) -> bool:
        """Whether one is open."""
        return bool(self.session.context.transactions)

    def results(self, text: str, *values: str | None) -> list[Any]:
        """Every result of a batch; a result set as (columns, rows), which are counted as sent."""
        found = self.outcome(text, *values)
        for result in found:
            if isinstance(result, Failed):
                raise result.error
        return found

    def outcome(self, text: str, *values: str | None) -> list[Any]:
        """Every result of a batch to its end, the errors of single statements among them."""
        return [self.read(result) for result in self.session.execute(text, text_parameters(values))]

    def ending(self, text: str) -> list[Any]:
        """What a batch does, shortly: its values, its errors' numbers, and the one it ends with."""
        found: list[Any] = []
        try:
            for result in self.session.execute(text):
                found.extend(self.shortly(self.read(result)))
        except SqlError as error:
            found.append(f"end {error.number}")
        return found

    @staticmethod
    def shortly(read: Any) -> list[Any]:
        """A result's part of `ending`."""
        if isinstance(read, Failed):
            return [read.error.number]
        if isinstance(read, tuple):
            return [[row[0] if len(row) == 1 else row for row in read[1]]]
        if isinstance(read, Message) and read.number != STATEMENT_TERMINATED:
            return [read.text]
        return []

    def read(self, result: Result) -> Any:
        if not isinstance(result, ResultSet):
            return result
        rows: list[Row] = []
        with suppress(SqlError):  # the session tells it
            for batch in result.batches:
                self.engine.rows_sent(self.session, batch.num_rows, result.columns)
                for column, array in zip(result.columns, batch.columns, strict=True):
                    assert column.nullable or not array.null_count, f"NULL in {column.name}"
                columns = [column.to_pylist() for column in batch.columns]
                rows.extend(zip(*columns, strict=True))
        return (result.columns, rows)

    def sets(self, text: str, *values: str | None) -> list[list[Row]]:
        return [r[1] for r in self.results(text, *values) if isinstance(r, tuple)]

    def rows(self, text: str, *values: str | None) -> list[Row]:
        """The rows of the batch's only result set."""
        (rows,) = self.sets(text, *values)
        return rows

    def value(self, text: str, *values: str | None) -> Any:
        """The only value of the only row."""
        ((value,),) = self.rows(text, *values)
        return value

    def columns(self, text: str, *values: str | None) -> tuple[ResultColumn, ...]:
        (columns,) = [r[0] for r in self.results(text, *values) if isinstance(r, tuple)]
        result: tuple[ResultColumn, ...] = columns
        return result

    def types(self, text: str, *values: str | None) -> list[str]:
        return [str(column.type) for column in self.columns(text, *values)]

    def counts(self, text: str, *values: str | None) -> list[int | None]:
        return [r.rows for r in self.results(text, *values) if isinstance(r, RowCount)]

    def messages(self, text: str) -> list[str]:
        return [r.text for r in self.results(text) if isinstance(r, Message)]

    def run(self, *texts: str) -> None:
        for text in texts:
            self.results(text)

    def error(self, text: str, *values: str | None) -> SqlError:
        """The error a batch ends with."""
        try:
            self.results(text, *values)
        except SqlError as error:
            return error
        raise AssertionError(f"no error: {text}")

    def call(self, name: str, **values: object) -> list[Any]:
        """A procedure by RPC, with text parameters."""
        parameters = [
            Parameter(f"@{name}", SqlType("nvarchar", length=MAX_LENGTH), value)
            for name, value in values.items()
        ]
        found = [self.read(result) for result in self.session.call(name, parameters)]
        return [r for r in found if not isinstance(r, OutputParameters)]


class Server:
    """An engine over a directory, restartable."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        self.options = options
        self.engine = Engine(directory, **options)

    def client(self, user: str = "sa", database: str = "shop", password: str = "") -> Client:
        chosen = password or self.engine.passwords[user]
        return Client(self.engine, self.engine.login(user, chosen, database, "tests"))

    def restart(self) -> None:
        self.engine.close()
        self.engine = Engine(self.directory, **self.options)

    def close(self) -> None:
        self.engine.close()


@contextmanager
def serving(directory: Path, **options: Any) -> Iterator[Server]:
    server = Server(directory, **options)
    try:
        client = server.client(database="master")
        client.run("CREATE DATABASE shop")
        client.session.close()
        yield server
    finally:
        server.close()


def captured(client: Client, table: str, schema: str = "dbo", columns: str | None = None) -> None:
    """Enable capture of a table."""
    listed = f", @captured_column_list = N'{columns}'" if columns else ""
    client.run(
        f"EXEC sys.sp_cdc_enable_table @source_schema = N'{schema}', @source_name = N'{table}', "
        f"@role_name = NULL, @supports_net_changes = 0{listed}"
    )


def recorded(client: Client, changes: int, instance: str = "dbo_t") -> None:
    """Wait until capture has recorded so many changes: in process it has, a real job polls.

    Raises `TimeoutError`.
    """
    deadline = time.monotonic() + CAPTURE_SECONDS_MAX
    while client.value(f"SELECT COUNT(*) FROM cdc.[{instance}_CT]") < changes:
        if time.monotonic() > deadline:
            raise TimeoutError(f"capture recorded fewer than {changes} changes of {instance}")
        time.sleep(0.05)


def max_lsn(client: Client) -> str | None:
    found: str | None = client.value("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")
    return found
