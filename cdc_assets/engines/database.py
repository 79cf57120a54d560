"""All that a run needs of one database: settings, names, source, lake and engines."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_assets.engines.arrow.engine import ArrowEngine
from cdc_assets.engines.choice import choose
from cdc_assets.engines.spark.installed import require_pyspark
from cdc_assets.errors import TablePausedError
from cdc_assets.lake.lake import Lake
from cdc_assets.names import DatabaseName, TableName
from cdc_assets.planning.plans import EngineChoice
from cdc_assets.settings import DatabaseSettings, EngineName
from cdc_assets.settings.load import connection_text
from cdc_assets.sqlserver.connection import Connections, SourceConnection

if TYPE_CHECKING:
    from cdc_assets.engines.door import Engine


@dataclass(frozen=True)
class Database:
    """The clients of one database; nothing in it could be lost in a crash."""

    name: DatabaseName
    settings: DatabaseSettings
    lake: Lake

    @classmethod
    def of(cls, key: str, settings: DatabaseSettings) -> Database:
        """The database of these settings; opens nothing."""
        name = DatabaseName(key, settings.lake)
        by_spark = functools.partial(_alter_by_spark, settings)
        silver_file_mb = settings.maintenance.silver_file_mb
        lake = Lake(name, settings.storage_options, by_spark, silver_file_mb)
        return cls(name, settings, lake)

    @functools.cached_property
    def source(self) -> SourceConnection:
        """How to reach the server; raises `SettingsError` when its file is not there."""
        return SourceConnection(
            name=self.name.key,
            text=connection_text(self.settings, where=self.name.key),
            ca_file=self.settings.ca_file,
            login_timeout_seconds=self.settings.connect_timeout_seconds,
            lock_timeout_ms=self.settings.lock_timeout_ms,
            isolation=self.settings.isolation,
            batch_rows=self.settings.batch_rows,
            batch_bytes=self.settings.batch_bytes,
        )

    @functools.cached_property
    def connections(self) -> Connections:
        """Connections to it, shared by all that this process does in one run."""
        return Connections(self.source, self.settings.max_connections)

    def table(self, key: str) -> TableName:
        """The names of one of its tables."""
        return self.name.table(key)

    def check_active(self, tables: Sequence[str]) -> None:
        """Raise `TablePausedError` where one of these tables stands still."""
        for table in tables:
            if self.settings.is_paused(table):
                raise paused(self.table(table))

    def choose(self, table: str, beyond_arrow: str = "", rows: int | None = None) -> EngineChoice:
        """Which engine works on a table, and why; see `engines.choice.choose`."""
        return choose(self.settings, table, beyond_arrow, rows)

    def engine(self, choice: EngineChoice) -> Engine:
        """The engine itself; Spark starts when a plan first needs it."""
        return self._spark if choice.name == EngineName.SPARK else self._arrow

    @functools.cached_property
    def _arrow(self) -> Engine:
        return ArrowEngine(self.connections, self.settings.storage_options)

    @functools.cached_property
    def _spark(self) -> Engine:
        # Late: pyspark is an extra, and importing it costs what most runs never need.
        require_pyspark()
        from cdc_assets.engines.spark.engine import SparkEngine  # noqa: PLC0415

        return SparkEngine(
            self.source, self.settings.spark, self.settings.storage_options, self.settings.lake
        )


def paused(table: TableName | str) -> TablePausedError:
    """What whoever asks for a table is told that stands still."""
    return TablePausedError(
        "it stands still: `paused: true` in tables.yaml",
        where=str(table),
        hint="Take that out to let it go on; what has changed meanwhile is read then, as far as CDC"
        " still holds it.",
    )


def _alter_by_spark(settings: DatabaseSettings, uri: str, change: str) -> None:
    # Late, for the same reason.
    require_pyspark()
    from cdc_assets.engines.spark.config import SessionConfig  # noqa: PLC0415
    from cdc_assets.engines.spark.engine import alter_table  # noqa: PLC0415

    config = SessionConfig.of(settings.spark, settings.lake, settings.storage_options)
    alter_table(config, uri, change)
