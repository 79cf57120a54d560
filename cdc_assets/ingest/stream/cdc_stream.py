"""`CdcStream`: a table's changes into bronze by a Spark query, beside or in place of syncs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from deltalake import DeltaTable

from cdc_assets.contract import SnapshotMode
from cdc_assets.engines.database import Database
from cdc_assets.engines.spark.checkpoints import Checkpoints
from cdc_assets.engines.spark.installed import require_pyspark
from cdc_assets.errors import SettingsError
from cdc_assets.ingest import seeding
from cdc_assets.ingest.backfill import backfill
from cdc_assets.ingest.outcome import BackfillOutcome
from cdc_assets.ingest.stream.places import (
    SOURCE_KEY,
    OwnDatabaseName,
    generation_app,
    own_database,
    settings_of,
)
from cdc_assets.ingest.stream.planner import OffsetPlanner, OffsetPlanning
from cdc_assets.ingest.stream.queries import CdcQuery
from cdc_assets.ingest.stream.sink import BronzeSink
from cdc_assets.ingest.stream.starting import Start, begin, take
from cdc_assets.ingest.sync import known_table
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lsn import Lsn
from cdc_assets.planning.generations import Generation
from cdc_assets.planning.offsets import Offset
from cdc_assets.settings import EngineName
from cdc_assets.settings.lakes import wants_one_engine
from cdc_assets.settings.model import DatabaseSettings
from cdc_assets.settings.options import read_options
from cdc_assets.settings.tables import DataLossPolicy

TRIGGER_EVERY = "10 seconds"
"""How often a query without a trigger asks the server: Spark's own default is at once again."""

_numbers = itertools.count(1)
_registering = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a stream writes: by the settings, or as its caller says."""

    database: Database
    key: str
    is_own: bool


class CdcStream:
    """One table's changes as a stream, and the snapshots that it starts from.

    `options` are those of docs/reference/options.md. With `table` it is a table of `tables.yaml`:
    bronze, facts, control and transaction ids are the settings', and syncs and streams may take
    turns. Else the source stands in the options, and every call says where it writes.
    """

    def __init__(self, spark: Any, options: Mapping[str, str]) -> None:
        """Raises `SettingsError`; connects to nothing."""
        require_pyspark()
        self._spark = spark
        self._options = read_options(options)
        self._source, self._table, self._settings = settings_of(self._options)
        if wants_one_engine(self._settings.lake):
            return
        # What runs in Spark anyway reads in its tasks, unless the table says otherwise.
        if self._settings.engine_of(self._table) is EngineName.AUTO:
            self._settings = self._with(engine=EngineName.SPARK)

    def to_delta(  # noqa: PLR0913 - as Spark's users know it
        self,
        target: str | None = None,
        app_id: str | None = None,
        checkpoint: str | None = None,
        facts_table: str | None = None,
        *,
        trigger: Mapping[str, Any] | None = None,
        query_name: str | None = None,
        bootstrap: bool = False,
        on_data_loss: Literal["fail", "resnapshot", "skip"] | None = None,
        resnapshot_interval_days: int | None = None,
        snapshot: Literal["full", "chunked"] | None = None,
    ) -> CdcQuery:
        """Start the query that appends the changes to bronze.

        `checkpoint` is its folder. `target`, `app_id` and `facts_table` are for a table that is
        in no settings; control is beside the facts. `trigger` is Spark's, such as
        {"availableNow": True}; without one the server is asked every `TRIGGER_EVERY`. `bootstrap`
        takes the first snapshot before the query runs, `on_data_loss` and `snapshot` stand in for
        the settings'.

        Raises what keeps it from starting: `SettingsError`, `CheckpointError`, `DataLossError`,
        and what a snapshot raises. What ends it later is raised by the query's awaitTermination.
        """
        if checkpoint is None:
            raise SettingsError("to_delta needs a checkpoint", hint="Name a folder of its own.")
        changed = _choices(
            {"snapshot": (SnapshotMode, snapshot), "on_data_loss": (DataLossPolicy, on_data_loss)}
        )
        settings = _every(self._with(**changed), resnapshot_interval_days)
        checkpoints = Checkpoints(self._spark, checkpoint)
        place = self._place(settings, target, app_id, facts_table, checkpoints.newest())
        loss = settings.on_data_loss_of(self._table)
        if place.is_own and loss is DataLossPolicy.RESNAPSHOT and not bootstrap:
            raise SettingsError(
                "on_data_loss='resnapshot' needs a stream that began with a snapshot",
                hint="Start it with bootstrap=True.",
            )
        planner = OffsetPlanner(place.database, place.key, self._options)
        start = Start(place.database, place.key, checkpoints, planner, place.is_own, bootstrap)
        generation = begin(start)
        if place.is_own and generation.number:
            place = self._place(settings, target, app_id, facts_table, generation)
        return self._run(place, generation, checkpoints, trigger, query_name)

    def snapshot(
        self,
        target: str | None = None,
        app_id: str | None = None,
        facts_table: str | None = None,
        *,
        resnapshot: bool = False,
    ) -> Offset:
        """Take the table's first snapshot, or with `resnapshot` a further one; gives its LSN.

        Where there is one already and none is asked for anew, that one's, and nothing is read. A
        chunked one is opened: `backfill` reads it.
        """
        place = self._place(self._settings, target, app_id, facts_table)
        snapshots = known_table(place.database, place.key).snapshots
        there = snapshots.open_chunked or snapshots.complete
        if there is not None and not resnapshot:
            return there.at
        return take(place.database, place.key, resnapshot=resnapshot)

    def seed(
        self,
        copy: Any,
        as_of: str | datetime | Lsn,
        target: str | None = None,
        app_id: str | None = None,
        facts_table: str | None = None,
    ) -> Offset:
        """Make a copy that already exists the table's first snapshot; gives its LSN.

        `copy` is a Spark DataFrame, which comes to the driver, or anything with Arrow data;
        `as_of` is as `ingest.seeding.seed` takes it.
        """
        place = self._place(self._settings, target, app_id, facts_table)
        rows = copy.toArrow() if hasattr(copy, "toArrow") else copy
        outcome = seeding.seed(place.database, place.key, rows, as_of)
        assert outcome.start is not None  # noqa: S101 - a seed has an LSN
        return outcome.start

    def backfill(
        self,
        target: str | None = None,
        app_id: str | None = None,
        facts_table: str | None = None,
        **limits: Any,
    ) -> BackfillOutcome:
        """Read a chunked snapshot on, beside the running stream, until its `done`.

        `limits` are those of `ingest.backfill.backfill`: max_waves, max_seconds,
        min_headroom_hours.
        """
        place = self._place(self._settings, target, app_id, facts_table)
        return backfill(place.database, place.key, **limits)

    def _run(
        self,
        place: _Place,
        generation: Generation,
        checkpoints: Checkpoints,
        trigger: Mapping[str, Any] | None,
        name: str | None,
    ) -> CdcQuery:
        # Late: pyspark is an extra.
        from cdc_assets.engines.spark import streaming  # noqa: PLC0415

        sink = BronzeSink(place.database, place.key, generation, checkpoints, place.is_own)
        planning = OffsetPlanning(
            place.database.name, place.database.settings, place.key, generation
        )
        source = f"mssql_cdc_offsets_{next(_numbers)}"
        with _registering:
            streaming.register(self._spark, source, planning)
        writer = (
            self._spark.readStream.format(source)
            .load()
            .writeStream.foreachBatch(sink)
            .queryName(name or f"{place.database.table(place.key)}.g{generation.number}")
            .option("checkpointLocation", checkpoints.place(generation.number))
        )
        writer = writer.trigger(**(trigger or {"processingTime": TRIGGER_EVERY}))
        return CdcQuery(writer.start(), generation)

    def _with(self, **changed: Any) -> DatabaseSettings:
        own = self._settings.tables[self._table].model_copy(update=changed)
        return self._settings.model_copy(
            update={"tables": {**self._settings.tables, self._table: own}}
        )

    def _place(
        self,
        settings: DatabaseSettings,
        target: str | None,
        app_id: str | None,
        facts_table: str | None,
        generation: Generation | None = None,
    ) -> _Place:
        """Where the rows go; raises `SettingsError` for a place that is not the settings'."""
        if self._source != SOURCE_KEY:
            database = Database.of(self._source, settings)
            name = database.table(self._table)
            wanted = (name.bronze_uri, name.changes_app, database.name.facts_uri)
            for given, held in zip((target, app_id, facts_table), wanted, strict=True):
                if given is not None and given.rstrip("/") != held:
                    raise SettingsError(
                        f"{given} is not where the settings have it: {held}",
                        where=str(name),
                        hint="Leave it out: for a table of tables.yaml they say it all.",
                    )
            return _Place(database, self._table, is_own=False)
        if target is None or app_id is None:
            raise SettingsError(
                "a table that is in no settings needs target and app_id",
                hint="Name them, or the option `table` for a table of tables.yaml.",
            )
        app = generation_app(app_id, generation.number if generation else 0)
        target = target.rstrip("/")
        facts = (facts_table or f"{target}_cdc/facts").rstrip("/")
        name_of = OwnDatabaseName(SOURCE_KEY, settings.lake, target, facts, app)
        _check_target(target, settings)
        return _Place(own_database(settings, app_id, name_of), app_id, is_own=True)


def _choices(given: Mapping[str, tuple[type[StrEnum], str | None]]) -> dict[str, StrEnum]:
    """What was chosen of each; raises `SettingsError` for what is no choice."""
    chosen = {}
    for name, (kind, value) in given.items():
        if value is None:
            continue
        if value not in list(kind):
            raise SettingsError(
                f"{name} cannot be {value!r}", hint=f"It is one of: {', '.join(kind)}."
            )
        chosen[name] = kind(value)
    return chosen


def _every(settings: DatabaseSettings, days: int | None) -> DatabaseSettings:
    if days is None:
        return settings
    defaults = settings.defaults.model_copy(update={"resnapshot_interval_days": days})
    return settings.model_copy(update={"defaults": defaults})


def _check_target(target: str, settings: DatabaseSettings) -> None:
    """Raise `SettingsError` for the bronze of a table that syncs write: its rows would double."""
    options = dict(settings.storage_options)
    with lake_failures(target):
        if not DeltaTable.is_deltatable(target, storage_options=options):
            return
        table = DeltaTable(target, storage_options=options)
    key = target.rpartition("/")[2]
    if table.transaction_version(f"{key}#changes") is not None:
        raise SettingsError(
            f"{target} is bronze of the table {key} of some tables.yaml",
            hint=f"Name it by the option `table` (<database>.{key}), which knows its position.",
        )
