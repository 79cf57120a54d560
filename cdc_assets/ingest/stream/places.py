"""Where a stream reads from and writes to: a table of the settings, or one of the options alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cdc_assets.engines.database import Database, paused
from cdc_assets.errors import SettingsError
from cdc_assets.lake.lake import Lake
from cdc_assets.names import Command, DatabaseName, TableName
from cdc_assets.settings import DatabaseSettings, load_settings
from cdc_assets.settings.load import FILE_PREFIX, connection_text
from cdc_assets.settings.options import Options
from cdc_assets.settings.tables import TableSettings

SOURCE_KEY = "stream"
"""What a source is called that the options alone describe."""


@dataclass(frozen=True, slots=True)
class OwnDatabaseName(DatabaseName):
    """Where a stream writes whose table is in no settings: as its caller says."""

    target: str = ""
    facts: str = ""
    app: str = ""

    @property
    def facts_uri(self) -> str:
        """The facts table."""
        return self.facts

    @property
    def control_uri(self) -> str:
        """The control table, beside the facts."""
        return self._beside("control")

    @property
    def plans_uri(self) -> str:
        """The plans of chunked snapshots, beside them."""
        return self._beside("plans")

    def table(self, key: str) -> TableName:
        """The only one; `key` is the stream's `app_id`."""
        return OwnTableName(self, key, self.target, self.app)

    def _beside(self, name: str) -> str:
        return f"{self.facts.rpartition('/')[0]}/{name}"


_CALLS: Mapping[Command, str] = {
    Command.SYNC: "stream.to_delta with bootstrap=True",
    Command.RESNAPSHOT: "stream.snapshot({}, resnapshot=True)",
    Command.BACKFILL: "stream.backfill({})",
    Command.SEED: "stream.seed(copy, as_of, {})",
    Command.RESET: "stream.to_delta with another target, app_id and checkpoint",
}


@dataclass(frozen=True, slots=True)
class OwnTableName(TableName):
    """A table that is in no settings: `key` is the `app_id`, `app` that of the generation."""

    target: str
    app: str

    @property
    def bronze(self) -> str:
        """In the facts and in control it is called as its caller calls it."""
        return self.target

    @property
    def bronze_uri(self) -> str:
        """The same."""
        return self.target

    @property
    def changes_app(self) -> str:
        """The generation's transaction id."""
        return self.app

    @property
    def facts_app(self) -> str:
        """The same in the facts."""
        return f"{self.app}#facts"

    def command(self, command: Command) -> str:
        """How a person runs it: as a call of the `CdcStream`, since no command line knows it."""
        places = (self.target, self.key, self.database.facts_uri)
        return _CALLS[command].format(", ".join(map(repr, places)))

    @property
    def delta_uris(self) -> tuple[str, ...]:
        """Nobody has told where its silver is, if it has one."""
        return (self.target,)

    def of_generation(self, number: int) -> OwnTableName:
        """The table as another generation of the stream writes it."""
        return replace(self, app=generation_app(self.key, number))


@dataclass(frozen=True, slots=True)
class QueryDatabaseName(DatabaseName):
    """Where a query of any other sink reads from."""

    def table(self, key: str) -> TableName:
        """One of its tables."""
        return QueryTableName(self, key)


@dataclass(frozen=True, slots=True)
class QueryTableName(TableName):
    """A table as a query of any other sink reads it: nothing of it is in a lake of ours."""

    def command(self, _: Command) -> str:
        """All that a person can do is to start over: the checkpoint is its only position."""
        return "start the query with a new checkpoint"

    @property
    def delta_uris(self) -> tuple[str, ...]:
        """None: its sink is its own."""
        return ()


def generation_app(app_id: str, number: int) -> str:
    """The transaction id of a generation's batches, where no settings know the table."""
    return f"{app_id}.g{number}" if number else app_id


def settings_of(options: Options) -> tuple[str, str, DatabaseSettings]:
    """Database key, table key and settings that the options ask for.

    The connection string itself stands in them, so that another process needs no file of ours.
    Raises `SettingsError`, and `TablePausedError` for a table that stands still.
    """
    if "table" in options.stream:
        database, table, settings = _of_file(options)
    else:
        database = table = SOURCE_KEY
        settings = DatabaseSettings(tables={table: TableSettings()})
    own = settings.tables[table].model_copy(update=dict(options.table))
    given = dict(options.database)
    if "num_partitions" in given and given["num_partitions"] is None:
        given["num_partitions"] = os.cpu_count() or 1
    file = given.get("connection", "").removeprefix(FILE_PREFIX)
    if given.get("connection", "").startswith(FILE_PREFIX):
        given["connection"] = f"{FILE_PREFIX}{Path(file).absolute()}"
    settings = settings.model_copy(update={**given, "tables": {**settings.tables, table: own}})
    text = connection_text(settings, where=database)
    return database, table, settings.model_copy(update={"connection": text})


def _of_file(options: Options) -> tuple[str, str, DatabaseSettings]:
    named, file = str(options.get("table")), options.get("settings")
    database, _, table = named.partition(".")
    found = load_settings(Path(file) if file else None).databases.get(database)
    if found is None or table not in found.tables:
        raise SettingsError(
            f"tables.yaml has no table {named}",
            hint="`table` is <database>.<table>, by their keys.",
        )
    if found.is_paused(table):
        raise paused(named)
    return database, table, found


def query_database(settings: DatabaseSettings, key: str) -> Database:
    """The clients of a query of any other sink."""
    name = QueryDatabaseName(key, settings.lake)
    return Database(name, settings, Lake(name, settings.storage_options))


def own_database(settings: DatabaseSettings, app_id: str, name: OwnDatabaseName) -> Database:
    """The clients of a stream whose table is in no settings."""
    (table,) = settings.tables.values()
    # Not validated: an app id may have letters that a key of tables.yaml may not.
    settings = settings.model_copy(update={"tables": {app_id: table}})
    return Database(name, settings, Lake(name, settings.storage_options))
