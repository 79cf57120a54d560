"""A silver table whose places a caller names, as the core of the apply takes it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_assets.engines.arrow.engine import ArrowEngine
from cdc_assets.engines.door import Engine
from cdc_assets.errors import TableFeatureError
from cdc_assets.lake.tables import StorageOptions
from cdc_assets.names import DatabaseName, TableName
from cdc_assets.planning.plans import EngineChoice
from cdc_assets.settings import EngineName
from cdc_assets.settings.model import SparkSettings
from cdc_assets.sqlserver.connection import Connections, SourceConnection

_NO_SOURCE = SourceConnection(name="none", text="")
"""An apply asks the lake alone."""


@dataclass(frozen=True, slots=True)
class PlacedDatabaseName(DatabaseName):
    """Where control and the facts are that a caller names."""

    control: str = ""
    facts: str = ""

    @property
    def facts_uri(self) -> str:
        """The facts table."""
        return self.facts

    @property
    def control_uri(self) -> str:
        """The control table."""
        return self.control

    @property
    def plans_uri(self) -> str:
        """The plans of chunked snapshots, beside the facts."""
        return f"{self.facts.rpartition('/')[0]}/plans"


@dataclass(frozen=True, slots=True)
class PlacedTable(TableName):
    """A bronze and a silver that a caller names; `key` begins bronze's transaction ids.

    The names are what control, or the facts, hold the table under.
    """

    bronze_target: str
    bronze_in_control: str
    bronze_place: str
    silver_in_control: str
    silver_place: str

    @property
    def bronze(self) -> str:
        """Bronze in the facts."""
        return self.bronze_target

    @property
    def bronze_row(self) -> str:
        """Bronze in control."""
        return self.bronze_in_control

    @property
    def silver(self) -> str:
        """Silver in control."""
        return self.silver_in_control

    @property
    def bronze_uri(self) -> str:
        """Where bronze is."""
        return self.bronze_place

    @property
    def silver_uri(self) -> str:
        """Where silver is."""
        return self.silver_place

    @property
    def apply_app(self) -> str:
        """Transaction id of silver's MERGEs: as that of a table of the settings at this place."""
        return f"{self.silver_place.rpartition('/')[2]}#apply"

    def __str__(self) -> str:
        return self.silver_in_control


_APP = re.compile(r"(.+)#(?:changes|snap\..*)|(.+)\.g\d+", re.DOTALL)


def key_of(app_ids: Iterable[str], bronze_place: str) -> str:
    """What begins bronze's transaction ids, by those that the facts hold; else as we call it.

    A stream's batches have its own id, and that of its generation.
    """
    for app_id in sorted(app_ids):
        if found := _APP.fullmatch(app_id):
            return found[1] or found[2]
    return next(iter(app_ids), bronze_place.rpartition("/")[2])


@dataclass(frozen=True)
class Worker:
    """Who applies: a session of the caller's, or without one this process."""

    spark: Any
    options: StorageOptions = field(repr=False)
    lake: str
    """A place of the kind that the tables are in."""

    def choose(self, beyond: str, _: int | None) -> EngineChoice:
        """The session; raises `TableFeatureError` where there is none and Spark alone can do it."""
        if self.spark is not None:
            return EngineChoice(EngineName.SPARK, "the session given")
        if beyond:
            raise TableFeatureError(
                f"the arrow engine cannot {beyond}", hint="Pass a Spark session."
            )
        return EngineChoice(EngineName.ARROW, "no session given")

    def engine(self, choice: EngineChoice) -> Engine:
        """Who that is."""
        return self._arrow if choice.name == EngineName.ARROW else self._spark_engine

    def alter(self, uri: str, change: str) -> None:
        """Alter a table that delta-rs cannot."""
        # Late: pyspark is an extra.
        from cdc_assets.engines.spark.config import SessionConfig  # noqa: PLC0415
        from cdc_assets.engines.spark.engine import alter_table  # noqa: PLC0415

        config = SessionConfig.of(SparkSettings(), self.lake, self.options)
        alter_table(replace(config, given=self.spark), uri, change)

    @functools.cached_property
    def _arrow(self) -> Engine:
        return ArrowEngine(Connections(_NO_SOURCE), self.options)

    @functools.cached_property
    def _spark_engine(self) -> Engine:
        # Late, for the same reason.
        from cdc_assets.engines.spark.engine import SparkEngine  # noqa: PLC0415

        engine: Engine = SparkEngine(
            _NO_SOURCE, SparkSettings(), self.options, self.lake, self.spark
        )
        return engine
