"""A source database of a test's own, and the project that loads it.

On the sandbox by default; on a real SQL Server when `CDC_TEST_CONNECTION_STRING` names one (an
administrator's). Every test gets a database of its own, so that LSNs, captures and counters of
one test are no other's.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from cdc_assets.cli.wire import wire
from cdc_assets.engines.database import Database
from cdc_assets.lake.tables import query
from cdc_assets.planning.literals import quoted
from cdc_assets.settings import load_settings
from cdc_assets.sqlserver.connection_string import odbc_pairs

CONNECTION_VARIABLE = "CDC_TEST_CONNECTION_STRING"
CAPTURE_SECONDS_MAX = 60.0
_LAST_SCAN = (
    "SELECT TOP (1) session_id, empty_scan_count FROM sys.dm_cdc_log_scan_sessions"
    " WHERE session_id > 0 AND end_time IS NOT NULL ORDER BY session_id DESC"
)
"""Changes with each scan that ends: those in a row that find nothing are one session."""
_numbers = itertools.count(1)

SHORT_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""For short work: no optimising compiler. The other one has room for 48 MiB of code by itself, and
stops compiling when they are full: after a minute."""

SPARK: dict[str, Any] = {
    "master": "local[2]",
    "conf": {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": SHORT_JVM,
        # Nor Java that Spark writes and compiles: a fifth of such work. Tests of a Spark server do
        # without these settings.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
}
"""The Spark of all tests: one session, for short work."""


@dataclass(frozen=True)
class Server:
    """Where tests find a SQL Server.

    `admin` is an administrator's connection string, for the tests' own statements; `reader` is the
    product's, with the grants that `Source.enable` gives it and no other.
    """

    admin: str
    reader: str
    ca_file: str | None
    is_sandbox: bool
    databases: set[str] = field(default_factory=set, compare=False)
    """What the tests made and did not drop yet."""

    @property
    def reader_login(self) -> str:
        """The product's login."""
        return odbc_pairs(self.reader)["uid"]

    def without_tls(self) -> Server:
        """The sandbox, which the product then reads in the clear; a real server as it is.

        A handshake takes both ends tens of milliseconds, and each run opens connections of its own.
        TLS has its own tests (`sqlserver/test_tls.py`).
        """
        if not self.is_sandbox:
            return self
        return replace(self, reader=self.reader.replace("Encrypt=yes", "Encrypt=no"))

    def text(self, database: str) -> str:
        """The product's connection string for one of the databases."""
        pairs = {**odbc_pairs(self.reader), "database": database}
        return ";".join(f"{key}={_braced(value)}" for key, value in pairs.items())


def _braced(value: str) -> str:
    """A value of a connection string, in braces where it needs them."""
    return "{" + value.replace("}", "}}") + "}" if re.search(r"[^\w.,:/\\-]", value) else value


def bracketed(name: str) -> str:
    """A name as T-SQL takes any."""
    return "[" + name.replace("]", "]]") + "]"


def text(value: str) -> str:
    """A text literal."""
    return "N'" + value.replace("'", "''") + "'"


@dataclass(frozen=True)
class Counters:
    """A login's connections, statements and rows, and of them those of each (schema, table)."""

    connections: int
    statements: int
    rows: int
    tables: dict[tuple[str, str], tuple[int, int]]

    def rows_of(self, table: str, schema: str = "dbo") -> int:
        """Rows of one table that were sent."""
        return self.tables.get((schema, table), (0, 0))[1]


@dataclass
class Source:
    """One database, with CDC on."""

    server: Server
    name: str

    @classmethod
    def create(cls, server: Server, name: str = "", collation: str = "") -> Source:
        """A new, empty database; with the server's collation where none is given."""
        name = name or f"t{os.getpid()}_{next(_numbers)}"
        with wire(server.admin, database="master") as cursor:
            collate = f" COLLATE {collation}" if collation else ""
            cursor.execute(f"CREATE DATABASE {bracketed(name)}{collate}")
            cursor.execute(f"ALTER DATABASE {bracketed(name)} SET READ_COMMITTED_SNAPSHOT ON")
        server.databases.add(name)
        source = cls(server, name)
        source.execute("EXEC sys.sp_cdc_enable_db")
        if server.reader != server.admin:
            source.execute(f"CREATE USER [{server.reader_login}] FOR LOGIN [{server.reader_login}]")
        return source

    def execute(self, *texts: str) -> None:
        """Run statements, each as a batch of its own."""
        with wire(self.server.admin, database=self.name) as cursor:
            for text in texts:
                cursor.execute(text)

    def transaction(self, *texts: str) -> None:
        """Run statements as one transaction."""
        body = "; ".join(texts)
        self.execute(f"BEGIN TRANSACTION; {body}; COMMIT TRANSACTION")

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with wire(self.server.admin, database=self.name) as cursor:
            cursor.execute(text)
            return [tuple(row) for row in cursor.fetchall()]

    def enable(self, table: str, schema: str = "dbo", instance: str = "") -> None:
        """Capture a table, under its default name where none is given."""
        instance = instance or f"{schema}_{table}"
        self.execute(
            f"EXEC sys.sp_cdc_enable_table @source_schema = {text(schema)},"
            f" @source_name = {text(table)}, @capture_instance = {text(instance)},"
            " @role_name = NULL, @supports_net_changes = 0"
        )
        if self.server.reader != self.server.admin:
            reader = self.server.reader_login
            self.execute(
                f"GRANT SELECT ON {bracketed(schema)}.{bracketed(table)} TO [{reader}]",
                f"GRANT SELECT ON cdc.{bracketed(instance + '_CT')} TO [{reader}]",
            )

    def counters(self) -> Counters:
        """What the product's login has done since the last call; the sandbox counts it."""
        login = self.server.reader_login
        logins = {row[0]: row for row in self.rows("EXEC sandbox.counters")}
        tables = {
            (row[2], row[3]): (int(row[4]), int(row[5]))
            for row in self.rows("EXEC sandbox.table_counters")
            if row[0] == login and row[1] == self.name
        }
        self.execute("EXEC sandbox.reset_counters")
        _, connections, statements, rows = logins.get(login, (login, 0, 0, 0))
        return Counters(int(connections), int(statements), int(rows), tables)

    def trace(self) -> None:
        """Keep the texts of the product's batches from now on; the sandbox does."""
        self.execute(f"EXEC sandbox.trace @login = N'{self.server.reader_login}'")

    def traced(self) -> list[str]:
        """The texts since `trace`, which ends here."""
        texts = [str(row[1]) for row in self.rows("EXEC sandbox.traced")]
        self.execute("EXEC sandbox.trace")
        return texts

    def lsn(self, expression: str) -> str | None:
        """An LSN of the server's, as text."""
        return self.rows(f"SELECT CONVERT(varchar(22), {expression}, 1)")[0][0]

    def captured(self, minimum: str | None = None) -> str:
        """Wait until capture has processed what is committed; gives max_lsn."""
        deadline = time.monotonic() + CAPTURE_SECONDS_MAX
        if self.server.is_sandbox:
            self.execute("EXEC sandbox.capture_now")
        else:
            self._scanned(deadline)
        while True:
            newest = self.rows("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
            if newest and (minimum is None or newest > minimum):
                return str(newest)
            if time.monotonic() > deadline:
                raise TimeoutError("capture did not move")
            time.sleep(0.2)

    def _scanned(self, deadline: float) -> None:
        """Wait for the ends of two scans of the log: the second began after what is committed."""
        seen = None
        for _ in range(3):
            while (found := self.rows(_LAST_SCAN)) == seen:
                if time.monotonic() > deadline:
                    raise TimeoutError("the capture job does not scan the log")
                time.sleep(0.1)
            seen = found

    def stop_capture(self) -> None:
        """Stop the capture job."""
        self.execute("EXEC sys.sp_cdc_stop_job @job_type = N'capture'")

    def start_capture(self) -> None:
        """Start it again."""
        self.execute("EXEC sys.sp_cdc_start_job @job_type = N'capture'")


@dataclass
class Project:
    """A `tables.yaml` in a folder, for a source."""

    folder: Path
    source: Source
    engine: str = "arrow"
    tables: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    finality: dict[str, str] = field(
        default_factory=lambda: {"granularity": "second", "allowed_delay": "15m"}
    )
    extra: dict[str, Any] = field(default_factory=dict)
    key: str = "sales"

    @property
    def settings_file(self) -> Path:
        """Its settings."""
        return self.folder / "tables.yaml"

    def write(self) -> Path:
        """Write the settings; the connection string goes into a file beside them."""
        (self.folder / "source.odbc").write_text(self.source.server.text(self.source.name))
        database: dict[str, Any] = {
            "connection": "file:source.odbc",
            "lake": "lake",
            "defaults": {"engine": self.engine, "finality": self.finality},
            "spark": SPARK,
            "tables": self.tables,
            **self.extra,
        }
        if self.source.server.ca_file:
            database["ca_file"] = self.source.server.ca_file
        self.settings_file.write_text(yaml.safe_dump({"databases": {self.key: database}}))
        return self.settings_file

    def database(self) -> Database:
        """Its clients, from the settings as they are now."""
        settings = load_settings(self.write())
        return Database.of(self.key, settings.databases[self.key])

    def bronze(self, table: str, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Bronze's rows, in the order of the changes."""
        database = self.database()
        found = database.lake.bronze(database.table(table))
        names = ", ".join(quoted(c) for c in columns) or "*"
        return query(
            f"SELECT {names} FROM b ORDER BY `_start_lsn`, `_command_id` NULLS FIRST,"
            " `_seqval` NULLS FIRST, `_operation`",
            b=found,
        ).to_pylist()

    def silver(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Silver's rows as tuples, sorted."""
        database = self.database()
        found = database.lake.silver(database.table(table))
        names = ", ".join(quoted(c) for c in columns)
        rows = query(f"SELECT {names} FROM s", s=found).to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=repr)

    def assert_each_change_once(self, table: str) -> None:
        """Bronze holds no row twice; `id` is the table's key."""
        places = Counter(
            (r["_start_lsn"], r["_command_id"], r["_seqval"], r["_operation"], r["id"])
            for r in self.bronze(table)
        )
        assert {place: n for place, n in places.items() if n > 1} == {}

    def assert_identical(self, table: str, columns: Sequence[str], schema: str = "dbo") -> None:
        """Silver holds exactly the source's rows."""
        names = ", ".join(bracketed(c) for c in columns)
        name = table.removeprefix(f"{schema}_")
        theirs = sorted(self.source.rows(f"SELECT {names} FROM [{schema}].[{name}]"), key=repr)
        assert self.silver(table, columns) == theirs
