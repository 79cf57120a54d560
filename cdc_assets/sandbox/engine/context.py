"""What a session knows, for those that answer questions while a statement is bound."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.access import Access
from cdc_assets.sandbox.engine.catalog import Catalog
from cdc_assets.sandbox.engine.duck import Connection
from cdc_assets.sandbox.engine.failures import no_snapshots
from cdc_assets.sandbox.engine.store import Store
from cdc_assets.sandbox.engine.transaction import OpenTransaction
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import DEFAULT_COLLATION, SqlError

VERSION = (
    "Microsoft SQL Server 2022 (RTM-CU14) (KB5038325) - 16.0.4135.4 (X64) \n\t"
    "Jul 10 2024 14:09:09 \n\tCopyright (C) 2022 Microsoft Corporation\n\t"
    "Developer Edition (64-bit) on the cdc_assets sandbox, a stand-in over DuckDB"
)
SERVER_NAME = "sandbox"


@dataclass(slots=True)
class Options:
    """The SET options that change something here."""

    nocount: bool = False
    isolation: str = "READ COMMITTED"
    implicit_transactions: bool = False
    xact_abort: bool = False
    lock_timeout: int = -1
    identity_insert: int | None = None
    language: str = "us_english"
    date_format: str = "mdy"
    date_first: int = 7
    text_size: int = 2_147_483_647
    row_count: int = 0


@dataclass(slots=True)
class Context:
    """A session's state, shared by everything that runs its statements."""

    store: Store
    connection: Connection
    login: e.Login
    database: str
    process_id: int
    application: str = ""
    options: Options = field(default_factory=Options)
    variables: dict[str, Value] = field(default_factory=dict)
    temporary: dict[str, e.TableVariable] = field(default_factory=dict)
    changed_catalog: Catalog | None = None
    now_utc: int = 0
    doomed: bool = False
    """XACT_STATE() is -1: the open transaction can only be read in and rolled back."""
    transaction: OpenTransaction = field(default_factory=OpenTransaction)
    row_count: int = 0
    error_number: int = 0
    last_identity: int | None = None
    caught: list[SqlError] = field(default_factory=list)
    """The errors whose CATCH blocks run, innermost last."""

    @property
    def transactions(self) -> int:
        """@@TRANCOUNT."""
        return self.transaction.count

    @property
    def catalog(self) -> Catalog:
        """The catalogue as the session's transaction sees it."""
        return self.changed_catalog or self.store.catalog

    @property
    def current(self) -> e.Database:
        """The current database."""
        return self.catalog.databases[self.database.lower()]

    @property
    def collation(self) -> str:
        """The current database's collation."""
        found = self.catalog.databases.get(self.database.lower())
        return found.collation if found else DEFAULT_COLLATION

    @property
    def access(self) -> Access:
        """The login's rights."""
        return Access(self.catalog, self.login)

    def find_database(self, name: str) -> e.Database:
        """A database the login may use; raises Msg 911 or 916."""
        found = self.catalog.databases.get(name.lower())
        if found is None:
            raise SqlError(
                911,
                f"Database '{name}' does not exist. Make sure that the name is entered correctly.",
            )
        if not self.access.may_enter(found.id):
            raise SqlError(
                916,
                f'The server principal "{self.login.name}" is not able to access the database '
                f'"{found.name}" under the current security context.',
                14,
            )
        return found

    def within(self, qualifier: str) -> Context:
        """This context in the database of a qualified name; raises Msg 911 or 916."""
        if not qualifier:
            return self
        return dataclasses.replace(self, database=self.find_database(qualifier).name)

    def check_isolation(self, database: int) -> None:
        """Raise Msg 3952 where a database is read or written under a level that it forbids.

        SET TRANSACTION ISOLATION LEVEL itself succeeds, and the level stays.
        """
        found = self.catalog.database(database)
        if self.options.isolation == "SNAPSHOT" and not found.snapshot_allowed:
            raise no_snapshots(found.name)

    def find_view(self, parts: tuple[str, ...]) -> e.View | None:
        """A view by its one to three part name."""
        schema = parts[-2] if len(parts) > 1 and parts[-2] else "dbo"
        database = self.current
        if len(parts) > 2 and parts[-3]:
            database = self.find_database(parts[-3])
        return self.catalog.view(database.id, schema, parts[-1])

    def find_table(self, parts: tuple[str, ...]) -> e.Table | None:
        """A stored table by its one to three part name."""
        *_, name = parts
        schema = parts[-2] if len(parts) > 1 and parts[-2] else "dbo"
        database = self.current
        if len(parts) > 2 and parts[-3]:
            database = self.find_database(parts[-3])
        return self.catalog.table(database.id, schema, name)
