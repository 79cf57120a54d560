"""The Spark engine: reads in tasks, writes with Delta's Spark library."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cdc_assets import faults
from cdc_assets.contract import Column
from cdc_assets.engines.spark.commits import (
    DELETION_VECTORS,
    TableState,
    own_commit,
    table_bytes,
    table_state,
)
from cdc_assets.engines.spark.config import SessionConfig
from cdc_assets.engines.spark.failures import is_conflict, is_unreachable, typed_error, worker_error
from cdc_assets.engines.spark.files import PlannedFiles, Written, run
from cdc_assets.engines.spark.merging import bounds_query, delta_path, extent_of, merge_text
from cdc_assets.engines.spark.session import size_shuffle, work_session
from cdc_assets.engines.spark.sources import (
    PlannedReads,
    RangeReader,
    ReadCounters,
    SourceReader,
    load,
    with_literals,
)
from cdc_assets.engines.spark.storage import location
from cdc_assets.engines.spark.upkeep import maintain
from cdc_assets.errors import (
    CommitConflictError,
    SparkUnavailableError,
    UnexpectedError,
    expected,
)
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.failures import lake_error, lake_failures
from cdc_assets.lake.files import (
    LARGE_VALUES_GROUP_BYTES,
    ROW_GROUP_BYTES,
    Place,
    commit_files,
    takes_files,
)
from cdc_assets.lake.tables import (
    APPEND_ATTEMPTS_MAX,
    StorageOptions,
    commit_properties,
    retry_conflicts,
    table_to_append,
)
from cdc_assets.lake.upkeep import orders
from cdc_assets.planning.bounds import Times, is_bounded, key_bounds
from cdc_assets.planning.plans import (
    AppendPlan,
    AppendResult,
    ApplyPlan,
    ApplyResult,
    CommitTag,
    MaintainPlan,
    MaintainResult,
    at_once,
)
from cdc_assets.planning.ranges import read_columns, shared_constants
from cdc_assets.settings.lakes import wants_one_engine
from cdc_assets.settings.model import SparkSettings
from cdc_assets.sqlserver.connection import LARGE_VALUE_BYTES_START, SourceConnection, connect
from cdc_assets.sqlserver.read import with_large_values

DELETION_VECTORS_BYTES_MIN = 256 << 20
"""Size of a silver from which its MERGEs mark rows instead of rewriting whole files."""

_BRONZE = "bronze"
_SILVER = "silver"
_RANKING = "ranking"
_COLUMN_EXISTS = "FIELD_ALREADY_EXISTS"


class SparkEngine:
    """See `engines.door.Engine`.

    `options` are delta-rs's, for looking at the tables; Spark gets them as Hadoop's settings,
    as a `lake` of its kind asks for them. `given` is a session of the caller's to work with.
    """

    name = "spark"

    def __init__(
        self,
        source: SourceConnection,
        settings: SparkSettings,
        options: StorageOptions,
        lake: str = "",
        given: SparkSession | None = None,
    ) -> None:
        self._source = source
        self._config = replace(SessionConfig.of(settings, lake, options), given=given)
        self._options = dict(options)

    def append(self, plan: AppendPlan, ready: Callable[[], None] = at_once) -> AppendResult:
        """Read the plan's ranges, one in a task, and append them as one commit."""
        with lake_failures(plan.uri):
            return retry_conflicts(
                lambda: self._append_once(plan, ready),
                where=plan.table,
                attempts_max=APPEND_ATTEMPTS_MAX,
            )

    def apply(self, plan: ApplyPlan, bronze: DeltaTable | None = None) -> ApplyResult:
        """Rank with Spark SQL, MERGE with Delta's library; `bronze` is nothing to its tasks."""
        before = table_state(plan.silver_uri, self._options, plan.tag.app_id)
        if (before.transaction or 0) != plan.tag.version - 1:
            return ApplyResult(overtaken=True)
        try:
            with work_session(self._config) as session, _failures_typed(plan.silver_uri):
                self._merge(session, plan, before)
        except _ConflictError:
            return ApplyResult(overtaken=True)
        commit = own_commit(plan.silver_uri, self._options, plan.tag, before.version)
        if commit is None:
            return ApplyResult(overtaken=True)
        return ApplyResult(
            overtaken=False,
            version=commit.version,
            upserted=commit.count("numTargetRowsInserted", "numTargetRowsUpdated"),
            deleted=commit.count("numTargetRowsDeleted"),
        )

    def select(self, uri: str, version: int, sql: str) -> list[dict[str, Any]]:
        """By Spark SQL."""
        with work_session(self._config) as session, _failures_typed(uri):
            _at_version(session, uri, version).createOrReplaceTempView(_BRONZE)
            return [row.asDict() for row in session.sql(sql).collect()]

    def maintain(self, plan: MaintainPlan) -> MaintainResult:
        """Upkeep by Delta's library."""
        with lake_failures(plan.uri):
            table = DeltaTable(plan.uri, storage_options=self._options)
        ordered = orders(plan, table)
        size = table_bytes(plan.uri, self._options, table.version())
        try:
            with work_session(self._config) as session, _failures_typed(plan.uri):
                size_shuffle(session, self._config, size)
                return maintain(session, plan, ordered=ordered)
        except _ConflictError:
            raise CommitConflictError(
                "a MERGE came first, and what was rewritten counts for nothing",
                where=plan.table,
                hint="Run it again, at a time with fewer changes.",
            ) from None

    def range_reader(self, columns: tuple[Column, ...], large_value_bytes: int) -> RangeReader:
        """What a task reads a range with."""
        return SourceReader(self._source, columns, large_value_bytes)

    def _append_once(self, plan: AppendPlan, ready: Callable[[], None]) -> AppendResult:
        table = table_to_append(plan, self._options)
        if table is None:
            return AppendResult(committed=False)
        # Where one library alone may commit, Spark's does: it merges as well.
        if takes_files(table, plan.columns) and not wants_one_engine(plan.uri):
            return self._append_files(plan, table, ready)
        ready()
        return self._append_rows(plan, table.version())

    def _append_files(
        self, plan: AppendPlan, table: DeltaTable, ready: Callable[[], None]
    ) -> AppendResult:
        """Tasks write the files, and one commit of delta-rs adds them."""
        place = Place(table.table_uri, self._options)

        def attempt(large_value_bytes: int) -> Written:
            reader = self.range_reader(plan.columns, large_value_bytes)
            large = large_value_bytes > LARGE_VALUE_BYTES_START
            group_bytes = LARGE_VALUES_GROUP_BYTES if large else ROW_GROUP_BYTES
            with work_session(self._config) as session, _failures_typed(plan.uri):
                return run(
                    session, PlannedFiles(place, plan.columns, plan.ranges, reader, group_bytes)
                )

        written = with_large_values(attempt, plan, lambda: connect(self._source))
        ready()
        if not written.files and not plan.keeps_empty:
            return AppendResult(committed=False)
        commit_files(table, written.files, commit_properties(plan.tag))
        return AppendResult(
            committed=True,
            rows=written.rows,
            read_seconds=written.read_seconds,
            read_mb=written.bytes / 1e6,
            network_wait_ms=written.network_wait_ms,
        )

    def _append_rows(self, plan: AppendPlan, version: int) -> AppendResult:
        """Delta's library writes the rows, which come to it from the tasks."""
        literals = shared_constants(plan.columns, plan.ranges)
        given = read_columns(plan.columns, plan.ranges)

        def attempt(large_value_bytes: int) -> ReadCounters:
            reader = self.range_reader(given, large_value_bytes)
            with work_session(self._config) as session, _failures_typed(plan.uri):
                counters = ReadCounters.of(session)
                rows = load(session, PlannedReads(given, plan.ranges, reader, counters))
                _write(with_literals(rows, plan.columns, literals), plan)
            return counters

        began = time.monotonic()
        counters = with_large_values(attempt, plan, lambda: connect(self._source))
        seconds = time.monotonic() - began
        commit = own_commit(plan.uri, self._options, plan.tag, version)
        rows_written = commit.count("numOutputRows") if commit else 0
        if commit is None or not (rows_written or plan.keeps_empty):
            return AppendResult(committed=False)
        # Without accumulators: how long it took, and what it wrote.
        uncounted = self._config.is_connect
        return AppendResult(
            committed=True,
            rows=rows_written,
            read_seconds=seconds if uncounted else counters.seconds.value,
            read_mb=(commit.count("numOutputBytes") if uncounted else counters.bytes.value) / 1e6,
            network_wait_ms=counters.network_wait_ms,
        )

    def _merge(self, session: SparkSession, plan: ApplyPlan, before: TableState) -> None:
        bronze_bytes = table_bytes(plan.bronze_uri, self._options, plan.bronze_version)
        silver_bytes = table_bytes(plan.silver_uri, self._options, before.version)
        size_shuffle(session, self._config, bronze_bytes + silver_bytes)
        target = delta_path(location(plan.silver_uri))
        if silver_bytes >= DELETION_VECTORS_BYTES_MIN and not before.deletion_vectors:
            session.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('{DELETION_VECTORS}' = 'true')")
            faults.reach(FaultPoint.SILVER_PREPARED)
        views = {_BRONZE: (plan.bronze_uri, plan.bronze_version)}
        if plan.texts.reads_silver:
            views[_SILVER] = (plan.silver_uri, before.version)
        for name, at in views.items():
            _at_version(session, *at).createOrReplaceTempView(name)
        ranking = session.sql(plan.texts.ranking)
        if not plan.rebuild:  # A rebuild has no key bounds, which would read it once more.
            ranking.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            ranking.createOrReplaceTempView(_RANKING)
            bounds = () if plan.rebuild else _bounds(session, plan)
            _prepare_merge(session, plan.tag)
            evolve = before.lacks(plan.columns)
            session.sql(merge_text(plan, target, _RANKING, bounds, evolve=evolve))
        finally:
            ranking.unpersist()


def alter_table(config: SessionConfig, uri: str, change: str) -> None:
    """Run `ALTER TABLE … <change>` on the table at a location.

    Raises `CommitConflictError`, which may be tried again, where another writer came first.
    """
    overtaken = CommitConflictError(
        "another opener altered it first", where=uri, hint="Run it again."
    )
    try:
        with work_session(config) as session, _failures_typed(uri):
            session.sql(f"ALTER TABLE {delta_path(location(uri))} {change}")
    except _ConflictError:
        raise overtaken from None
    except UnexpectedError as error:
        if _COLUMN_EXISTS not in str(error.__cause__):
            raise
        raise overtaken from None


def _write(rows: DataFrame, plan: AppendPlan) -> None:
    writer = rows.write.format("delta").mode("append").option("mergeSchema", "true")
    writer = writer.option("txnAppId", plan.tag.app_id).option("txnVersion", plan.tag.version)
    writer.option("userMetadata", plan.tag.user_metadata).save(location(plan.uri))


def _at_version(session: SparkSession, uri: str, version: int) -> DataFrame:
    reader = session.read.format("delta").option("versionAsOf", version)
    return reader.load(location(uri))


def _prepare_merge(session: SparkSession, tag: CommitTag) -> None:
    """Give the session's next commit, which must be the MERGE, its transaction.

    A MERGE has no options of its own. Delta reads its source twice, to find the files it touches
    and to write them, and both must be the same rows: so the ranking is materialised, always.
    """
    session.conf.set("spark.databricks.delta.merge.materializeSource", "all")
    session.conf.set("spark.databricks.delta.write.txnAppId", tag.app_id)
    session.conf.set("spark.databricks.delta.write.txnVersion", str(tag.version))
    session.conf.set("spark.databricks.delta.commitInfo.userMetadata", tag.user_metadata)


def _bounds(session: SparkSession, plan: ApplyPlan) -> tuple[str, ...]:
    keys = tuple(c for key in plan.keys for c in plan.columns if c.name == key and is_bounded(c))
    if not keys:
        return ()
    row = session.sql(bounds_query(keys, _RANKING)).collect()[0].asDict()
    found = (key_bounds(key, extent_of(row, at, key), Times.SPARK) for at, key in enumerate(keys))
    return tuple(bound for bound in found if bound)


class _ConflictError(CommitFailedError):
    """Delta's library refused the commit because another writer was first."""


@contextmanager
def _failures_typed(uri: str) -> Iterator[None]:
    """Turn what Spark raises into our errors: a task's, the lake's at `uri`, a lost conflict."""
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        if (ours := typed_error(failure)) is not None:
            raise ours from (failure if isinstance(ours, UnexpectedError) else None)
        if is_conflict(failure):
            raise _ConflictError from None
        if is_unreachable(failure):
            raise SparkUnavailableError(
                "Spark was lost while it worked",
                where=uri,
                hint="Is its Spark Connect server up? Run it again: nothing is half-written.",
            ) from failure
        told = worker_error(failure) or lake_error(failure, uri) or expected(failure)
        raise told from failure
