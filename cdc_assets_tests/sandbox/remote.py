"""A real SQL Server, as the tests of the sandbox's engine speak to it.

The same tests then say the same of both. The driver is one whose tokens can be read one by one:
the others end a batch at its first error, or tell results and messages in an order of their own.
"""

from __future__ import annotations

import itertools
import os
import secrets
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytds
from pytds import tds_base

from cdc_assets.sandbox.results import Failed, Message, ResultColumn, RowCount, SqlError
from cdc_assets.sqlserver.connection_string import odbc_pairs
from cdc_assets_tests.sandbox.exact import ExactTypes
from cdc_assets_tests.sandbox.harness import Client, Row, text_parameters
from cdc_assets_tests.source import Server, bracketed

SECONDS = 60.0
"""How long a batch may take."""

LEAVING_SECONDS = 30.0
"""How long sessions and jobs may take to leave a database."""

END = "end of the batch"
_DONE = (tds_base.TDS_DONE_TOKEN, tds_base.TDS_DONEPROC_TOKEN, tds_base.TDS_DONEINPROC_TOKEN)
_ROW = (tds_base.TDS_ROW_TOKEN, tds_base.TDS_NBC_ROW_TOKEN)
_TOLD = (tds_base.TDS_ERROR_TOKEN, tds_base.TDS_INFO_TOKEN)
_IN_USE = (3702, 15434)
_DATABASE_CHANGED, _LANGUAGE_CHANGED = 5701, 5703
_numbers = itertools.count(1)


class RemoteClient(Client):
    """One connection of an administrator."""

    def __init__(self, text: str, database: str) -> None:
        self.text = text
        self.database = database
        self.logins: list[str] = []
        self.others: list[RemoteClient] = []
        self.connection = connect(text, database)
        self.tokens = tokens_of(self.connection)

    def another(self, user: str = "sa", database: str = "") -> RemoteClient:
        assert user == "sa", "only an administrator's connection string is known"
        return self._with(RemoteClient(self.text, database or self.database))

    def reader(self) -> RemoteClient:
        login, password = f"r{self.database}", _password()
        self.run(
            f"CREATE LOGIN [{login}] WITH PASSWORD = N'{password}'",
            f"CREATE USER reader FOR LOGIN [{login}]",
        )
        self.logins.append(login)
        return self._with(RemoteClient(_as_login(self.text, login, password), self.database))

    def _with(self, other: RemoteClient) -> RemoteClient:
        self.others.append(other)
        return other

    def close(self) -> None:
        for other in self.others:
            other.close()
        self.connection.close()

    def in_transaction(self) -> bool:
        return bool(self.value("SELECT @@TRANCOUNT"))

    def outcome(self, text: str, *values: str | None) -> list[Any]:
        return list(results_of(self.tokens, _with_parameters(text, values)))

    def ending(self, text: str) -> list[Any]:
        """As in process; whether the last error ended the batch, a statement after it tells."""
        found = [
            shown
            for result in self.outcome(f"{text}\n;PRINT '{END}'")
            for shown in self.shortly(result)
        ]
        if END in found:
            found.remove(END)
            return found
        return [*found[:-1], f"end {found[-1]}"]

    def call(self, name: str, **values: object) -> list[Any]:
        listed = ", ".join(f"@{key} = {_literal(value)}" for key, value in values.items())
        return self.results(f"EXEC {name} {listed}")


def connect(text: str, database: str) -> Any:
    """A connection by an ODBC connection string, encrypted where `SSL_CERT_FILE` names the CA.

    Without one the driver has nothing to check the server by, and asks for no encryption.
    """
    pairs = odbc_pairs(text)
    host, _, port = pairs["server"].removeprefix("tcp:").partition(",")
    return pytds.connect(
        host,
        port=int(port or 1433),
        user=pairs["uid"],
        password=pairs["pwd"],
        database=database,
        autocommit=True,
        timeout=SECONDS,
        cafile=_authority(text),
        validate_host=pairs.get("hostnameincertificate", host) == host,
    )


@contextmanager
def remote_database(text: str) -> Iterator[RemoteClient]:
    """A new database on a real server, and an administrator in it; dropped at the end."""
    name = f"s{os.getpid()}_{next(_numbers)}"
    with closing(RemoteClient(text, "master")) as admin:
        admin.run(
            f"CREATE DATABASE [{name}]",
            f"ALTER DATABASE [{name}] SET READ_COMMITTED_SNAPSHOT ON",  # as the sandbox's are
        )
        try:
            with closing(RemoteClient(text, name)) as client:
                yield client
        finally:
            drop_database(admin, name)
            for login in client.logins:
                _drop(admin, f"LOGIN [{login}]")


@contextmanager
def remote_server(text: str) -> Iterator[Server]:
    """A real server with a login for the product, which has no rights; gone at the end."""
    login, password = f"reader{os.getpid()}", _password()
    with closing(RemoteClient(text, "master")) as admin:
        admin.run(f"CREATE LOGIN [{login}] WITH PASSWORD = N'{password}'")
        server = Server(text, _as_login(text, login, password), _authority(text), is_sandbox=False)
        try:
            yield server
        finally:
            try:
                drop_databases(server, *server.databases)
                _drop(admin, f"LOGIN [{login}]")
            except SqlError as error:
                warnings.warn(f"left on the server: {error.text}", stacklevel=1)


def drop_databases(server: Server, *names: str) -> None:
    """Drop databases that the tests made."""
    with closing(RemoteClient(server.admin, "master")) as admin:
        for name in names:
            drop_database(admin, name)
            server.databases.discard(name)


def drop_database(admin: Client, name: str) -> None:
    """Drop a database, with its capture jobs; raises `SqlError` 3702 where somebody stays in it."""
    if admin.value("SELECT is_cdc_enabled FROM sys.databases WHERE name = @P1", name):
        admin.run(f"USE {bracketed(name)}", "EXEC sys.sp_cdc_disable_db", "USE master")
    with suppress(SqlError):  # drivers' pools stay connected; a sandbox has no such statement
        admin.run(f"ALTER DATABASE {bracketed(name)} SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
    _drop(admin, f"DATABASE {bracketed(name)}")


def _drop(admin: Client, named: str) -> None:
    """Drop what nobody uses: sessions and jobs need a moment to leave."""
    deadline = time.monotonic() + LEAVING_SECONDS
    while True:
        try:
            return admin.run(f"DROP {named}")
        except SqlError as error:
            if error.number not in _IN_USE or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _password() -> str:
    return f"aA1{secrets.token_urlsafe(16)}"


def _as_login(text: str, login: str, password: str) -> str:
    pairs = {**odbc_pairs(text), "uid": login, "pwd": password}
    return ";".join(f"{key}={value}" for key, value in pairs.items())


def _authority(text: str) -> str | None:
    """The file of the CA to check the server by, unless it is to be trusted blindly."""
    trusted = odbc_pairs(text).get("trustservercertificate", "no").lower() in ("yes", "true")
    return None if trusted else os.environ.get("SSL_CERT_FILE")


def tokens_of(connection: Any) -> Any:
    """A connection's stream of tokens, whose columns say their exact types."""
    tokens = connection._tds_socket.main_session
    tokens._tds.type_factory = ExactTypes(tokens._tds.type_factory)
    return tokens


def results_of(tokens: Any, text: str) -> Iterator[Any]:
    """What the server says to a batch, in its order."""
    tokens.submit_plain_query(text)
    tokens.begin_response()
    columns: tuple[ResultColumn, ...] | None = None
    rows: list[Row] = []
    while True:
        token = tokens.get_token_id()
        if token in _DONE:
            with_count, more = _done(tokens, token)
            if columns is not None:
                yield (columns, rows)
            elif with_count is not None:
                yield RowCount(with_count)
            columns = None
            if not more:
                return
            continue
        tokens.process_token(token)
        if token == tds_base.TDS7_RESULT_TOKEN:
            columns, rows = _columns(tokens), []
        elif token in _ROW:
            rows.append(tuple(tokens.row))
        elif token in _TOLD:
            told = _told(tokens.messages[-1])
            if columns is not None and isinstance(told, Failed):
                yield (columns, rows)
                columns = None
            if told is not None:
                yield told


def _done(tokens: Any, token: int) -> tuple[int | None, bool]:
    """The count a statement ends with, if it has one, and whether more follows."""
    with suppress(tds_base.Error):  # told already, by its own token
        tokens.process_end(token)
    flags = tokens.done_flags
    counted = tokens.rows_affected if flags & tds_base.TDS_DONE_COUNT else None
    return counted, bool(flags & tds_base.TDS_DONE_MORE_RESULTS)


def _columns(tokens: Any) -> tuple[ResultColumn, ...]:
    return tuple(
        ResultColumn(
            column.column_name,
            column.serializer.named(column.column_usertype),
            bool(column.flags & tds_base.Column.fNullable),
        )
        for column in tokens.res_info.columns
    )


def _told(message: Any) -> Failed | Message | None:
    number, text = message["msgno"], message["message"]
    if message["marker"] == tds_base.TDS_ERROR_TOKEN:
        error = SqlError(number, text, message["severity"], message["state"])
        error.line = message["line_number"]
        return Failed(error)
    if number in (_DATABASE_CHANGED, _LANGUAGE_CHANGED):
        return None
    return Message(number, text, message["severity"], message["state"])


def _with_parameters(text: str, values: tuple[str | None, ...]) -> str:
    if not values:
        return text
    declared = ", ".join(f"{p.name} {p.type}" for p in text_parameters(values))
    return ", ".join(
        (f"EXEC sp_executesql {_literal(text)}", _literal(declared), *map(_literal, values))
    )


def _literal(value: object) -> str:
    return "NULL" if value is None else "N'{}'".format(str(value).replace("'", "''"))
