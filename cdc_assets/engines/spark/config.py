"""What a Spark session is started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cdc_assets.engines.spark.storage import connector, hadoop_conf
from cdc_assets.lake.tables import StorageOptions
from cdc_assets.settings import masters
from cdc_assets.settings.model import SparkSettings

HADOOP = "spark.hadoop."
"""Begins the name of a setting that is Hadoop's."""

SESSION_CONF = {
    "spark.sql.session.timeZone": "UTC",
    # By default the value of a setting, or of the driver's environment, stands in a statement
    # wherever that has its ${name}: in a column's name or a key's literal, too.
    "spark.sql.variable.substitute": "false",
    # By default in nanoseconds since 1970, which hold no date before 1677 or after 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # One calendar for all times, in our files and in delta-rs's.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    # 50 by default; the state of a small table is read in as many tasks.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Rows are taken from the commit that was made.
    "spark.databricks.delta.history.metricsEnabled": "true",
}


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """What a session is started with; settings of the user's win over the engine's."""

    master: str = field(default="local[*]", repr=False)
    conf: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Hadoop's settings for the lake."""
    packages: tuple[str, ...] = ()
    """Maven coordinates of what the lake needs beside Delta."""
    given: Any = field(default=None, repr=False, compare=False)
    """A session of the caller's: all others are made from it, and nothing is started."""

    @classmethod
    def of(
        cls, settings: SparkSettings, lake: str = "", options: StorageOptions | None = None
    ) -> SessionConfig:
        """The configuration that a database's settings ask for."""
        storage = hadoop_conf(lake, options or {})
        needed = connector(lake)
        return cls(
            settings.master,
            tuple(sorted(settings.conf.items())),
            tuple(sorted(storage.items())),
            (needed,) if needed else (),
        )

    @property
    def is_local(self) -> bool:
        """Whether executors are threads of the driver's JVM."""
        return masters.is_local(self.master)

    @property
    def is_connect(self) -> bool:
        """Whether Spark is a server's, and this process has neither its JVM nor its context."""
        if self.given is not None:
            return type(self.given).__module__.startswith("pyspark.sql.connect")
        return masters.is_connect(self.master)

    def lake_conf(self) -> dict[str, str]:
        """Hadoop's settings for the lake, but for those that the user names himself."""
        given = dict(self.conf)
        return {key: value for key, value in self.storage if f"{HADOOP}{key}" not in given}
