"""The sandbox in a process of its own, with the measured table in it, as the product sees it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import arrow_odbc

from benchmarks.orders import CREATE, ENABLE, INSTANCE, Orders
from benchmarks.processes import Process
from cdc_assets.cli.children import running_sandbox
from cdc_assets.cli.wire import wire
from cdc_assets.engines.database import Database
from cdc_assets.sandbox.state import LOCK_FILE
from cdc_assets.settings import DatabaseSettings
from cdc_assets.settings.tables import EngineName, FinalitySettings, TableDefaults, TableSettings
from cdc_assets.sqlserver.connection import Connection, SourceConnection, connect
from cdc_assets.sqlserver.driver import find_driver

NAME = "sales"
READER_FILE = f"{NAME}.odbc"
ADMIN_FILE = f"{NAME}.admin.odbc"
CA_FILE = "ca.pem"
CAPTURE_NOW = "EXEC sandbox.capture_now"

WORKLOAD_MIN = 0.001
"""Scale of the demo's tables where they are not what is measured."""

_CA_VARIABLE = "SSL_CERT_FILE"


@dataclass(slots=True)
class Source:
    """A running sandbox and where its files are."""

    state: Path
    orders: Orders = field(default_factory=Orders)

    def database(self, lake: Path, engine: str = EngineName.ARROW, *tables: str) -> Database:
        """Tables, else the measured one, in settings of their own, through the reader login."""
        settings = DatabaseSettings(
            connection=f"file:{self.state / READER_FILE}",
            ca_file=str(self.state / CA_FILE),
            lake=str(lake),
            # Seconds, so that every round moves the verdict.
            defaults=TableDefaults(
                engine=EngineName(engine), finality=FinalitySettings(granularity="second")
            ),
            tables={table: TableSettings() for table in tables or (INSTANCE,)},
        )
        return Database.of(NAME, settings)

    @property
    def server(self) -> Process:
        """The server's own process."""
        return Process(int((self.state / LOCK_FILE).read_text()))

    @property
    def reader(self) -> SourceConnection:
        """The reader login, outside of any lake."""
        return self.database(self.state).source

    def execute(self, *statements: str) -> None:
        """Run statements as the administrator, each as a batch of its own."""
        with wire((self.state / ADMIN_FILE).read_text()) as cursor:
            for statement in statements:
                cursor.execute(statement)

    def traced(self, work: Callable[[], object]) -> list[str]:
        """The texts of the batches that the reader login sends meanwhile."""
        with wire((self.state / ADMIN_FILE).read_text()) as cursor:
            cursor.execute(f"EXEC sandbox.trace @login = N'{self.reader.user}'")
            work()
            cursor.execute("EXEC sandbox.traced")
            texts = [str(row[1]) for row in cursor.fetchall()]
            cursor.execute("EXEC sandbox.trace")
        return texts

    def load(self, rows: int, *, captured: bool) -> None:
        """Create the measured table with this many rows; `captured` makes each a change too."""
        self.execute(CREATE, *([ENABLE] if captured else []))
        self.execute(*self.orders.load(rows))
        if not captured:
            self.execute(ENABLE)
        self.execute(f"GRANT SELECT ON dbo.bench_orders TO {self.reader.user}")
        self.execute(f"GRANT SELECT ON cdc.{INSTANCE}_CT TO {self.reader.user}")

    def captured(self, table: str) -> Iterator[str]:
        """The statements that enable a table and let the reader login read it."""
        yield (
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo',"
            f" @source_name = N'{table}', @role_name = NULL, @supports_net_changes = 0"
        )
        yield f"GRANT SELECT ON dbo.{table} TO {self.reader.user}"
        yield f"GRANT SELECT ON cdc.dbo_{table}_CT TO {self.reader.user}"

    def commit_changes(self, count: int) -> None:
        """Change rows in a few transactions; when it returns they are captured."""
        self.execute(*self.orders.changes(count), CAPTURE_NOW)


@contextlib.contextmanager
def running_source(state: Path, *, workload: float = WORKLOAD_MIN) -> Iterator[Source]:
    """Start a fresh sandbox with the demo's tables in it; it captures at commit."""
    state.mkdir(parents=True, exist_ok=True)
    sandbox = running_sandbox(state, scale=workload, fresh=True, capture_interval_seconds=0)
    with sandbox, _trusting(state / CA_FILE):
        yield Source(state)


@contextlib.contextmanager
def _trusting(ca_file: Path) -> Iterator[None]:
    """Let the driver trust this CA: it looks at the variable, and a user's own value wins there."""
    before = os.environ.get(_CA_VARIABLE)
    os.environ[_CA_VARIABLE] = str(ca_file.absolute())
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CA_VARIABLE]
        else:
            os.environ[_CA_VARIABLE] = before


@contextlib.contextmanager
def reading(source: Source) -> Iterator[Connection]:
    """A connection of the reader login."""
    with connect(source.reader) as connection:
        yield connection


def bare_connection(source: Source) -> arrow_odbc.Connection:
    """A connection of arrow-odbc alone, made as ours is made."""
    given = source.reader
    return arrow_odbc.connect(f"Driver={{{find_driver()}}};{given.text}")
