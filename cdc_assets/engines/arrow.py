"""The engine of one machine: arrow-odbc reads, delta-rs writes, in the run's own process."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from cdc_assets.contract import Column
from cdc_assets.errors import CdcError, expected
from cdc_assets.lake.failures import is_conflict, lake_failures
from cdc_assets.lake.files import (
    LARGE_VALUES_GROUP_BYTES,
    Place,
    commit_files,
    takes_files,
    write_files,
)
from cdc_assets.lake.tables import (
    APPEND_ATTEMPTS_MAX,
    StorageOptions,
    columns_of,
    commit_properties,
    query,
    retry_conflicts,
    table_to_append,
)
from cdc_assets.planning.merging import key_bounds, quoted
from cdc_assets.planning.plans import (
    AppendPlan,
    AppendResult,
    ApplyPlan,
    ApplyResult,
    at_once,
    total_wait_ms,
)
from cdc_assets.planning.ranges import read_columns
from cdc_assets.sqlserver.connection import LARGE_VALUE_BYTES_START, Connections
from cdc_assets.sqlserver.odbc_errors import ValueTooLargeError
from cdc_assets.sqlserver.read import arrow_schema, read_range, with_large_values
from cdc_assets.sqlserver.types import arrow_type

BATCHES_WAITING_MAX = 4
"""Batches that wait for the writer while several connections read; bounds the memory."""


class ArrowEngine:
    """See `engines.door.Engine`."""

    name = "arrow"

    def __init__(self, connections: Connections, options: StorageOptions) -> None:
        self._connections = connections
        self._options = dict(options)

    def append(self, plan: AppendPlan, ready: Callable[[], None] = at_once) -> AppendResult:
        """Read the plan's ranges, several at a time, and stream them into one commit."""
        with lake_failures(plan.uri):
            return retry_conflicts(
                lambda: self._append_once(plan, ready),
                where=plan.table,
                attempts_max=APPEND_ATTEMPTS_MAX,
            )

    def _append_once(self, plan: AppendPlan, ready: Callable[[], None]) -> AppendResult:
        table = table_to_append(plan, self._options)
        if table is None:
            return AppendResult(committed=False)

        def attempt(large_value_bytes: int) -> AppendResult:
            reading = _Reading(self._connections, plan, large_value_bytes, ready)
            has_large = large_value_bytes > LARGE_VALUE_BYTES_START
            place = Place(table.table_uri, self._options) if has_large else None
            return _write(table, plan, reading, place)

        return with_large_values(attempt, plan, self._connections.lend)

    def apply(self, plan: ApplyPlan) -> ApplyResult:
        """Rank with DataFusion, MERGE with delta-rs."""
        with lake_failures(plan.silver_uri):
            return self._apply(plan)

    def _apply(self, plan: ApplyPlan) -> ApplyResult:
        silver = DeltaTable(plan.silver_uri, storage_options=self._options)
        if (silver.transaction_version(plan.tag.app_id) or 0) != plan.tag.version - 1:
            return ApplyResult(overtaken=True)
        bronze = DeltaTable(
            plan.bronze_uri, version=plan.bronze_version, storage_options=self._options
        )
        ranked = _bare(query(plan.texts.ranking, bronze=bronze))
        try:
            metrics = _merge(silver, plan, ranked)
            if not metrics.changed:
                _commit_nothing(silver, plan)
        except DeltaError as error:
            if is_conflict(error):
                return ApplyResult(overtaken=True)
            raise
        return ApplyResult(
            overtaken=False,
            version=silver.version(),
            upserted=metrics.upserted,
            deleted=metrics.deleted,
        )


class Rows(Protocol):
    """Rows on their way into one commit, and what was seen of them."""

    @property
    def rows(self) -> int:
        """How many have passed."""
        ...

    @property
    def bytes(self) -> int:
        """How many bytes they had."""
        ...

    @property
    def waits(self) -> list[int | None]:
        """How many milliseconds the server waited for each range; None where it was not told."""
        ...

    @property
    def error(self) -> Exception | None:
        """What ended them early."""
        ...

    def batches(self) -> Generator[pa.RecordBatch]:
        """Non-empty batches of the plan's columns."""
        ...


def append_rows(plan: AppendPlan, options: StorageOptions, rows: Rows) -> AppendResult:
    """Append rows that are read once: a lost conflict is an error, and a rerun finds what is there.

    Nothing is read where the plan's tag is committed already. Raises `CommitConflictError`, and
    as the engine's `append` does where the lake fails or bronze was replaced.
    """
    with lake_failures(plan.uri):
        table = table_to_append(plan, options)
        if table is None:
            return AppendResult(committed=False)
        return retry_conflicts(lambda: _write(table, plan, rows), where=plan.table, attempts_max=1)


def _write(
    table: DeltaTable, plan: AppendPlan, reading: Rows, large: Place | None = None
) -> AppendResult:
    """Write the rows as one commit; `large` is where the files go where values are large."""
    started = time.monotonic()
    batches = reading.batches()
    try:
        first = next(batches, None)
        if first is None and not plan.keeps_empty:
            return AppendResult(committed=False)
        columns = _all_columns(table, plan.columns)
        read = itertools.chain((first,), batches) if first is not None else ()
        rows = (_padded(batch, columns) for batch in read)
        new_columns = len(columns) > len(table.schema().fields)
        schema = arrow_schema(columns)
        if large is not None and takes_files(table, columns):
            files = write_files(large, schema, rows, LARGE_VALUES_GROUP_BYTES)
            commit_files(table, files, commit_properties(plan.tag))
        else:
            write_deltalake(
                table,
                pa.RecordBatchReader.from_batches(schema, rows),
                mode="append",
                schema_mode="merge" if new_columns else None,
                commit_properties=commit_properties(plan.tag),
            )
    except Exception:
        # An error of the source crosses delta-rs as text; the original says what to do.
        if reading.error is None:
            raise
        if isinstance(reading.error, (CdcError, ValueTooLargeError)):
            raise reading.error from None
        # What nobody foresaw of a read is no failure of the lake.
        raise expected(reading.error) from reading.error
    finally:
        batches.close()
    return AppendResult(
        committed=True,
        rows=reading.rows,
        read_seconds=time.monotonic() - started,
        read_mb=reading.bytes / 1e6,
        network_wait_ms=total_wait_ms(reading.waits),
    )


def _all_columns(table: DeltaTable, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns, and those that the table has besides: delta-rs appends no fewer."""
    given = {column.name for column in columns}
    return (*columns, *(c for c in columns_of(table) if c.name not in given))


def _padded(batch: pa.RecordBatch, columns: tuple[Column, ...]) -> pa.RecordBatch:
    """A batch with NULL in the columns that were not read."""
    more = columns[batch.num_columns :]
    if not more:
        return batch
    nulls = [pa.nulls(batch.num_rows, arrow_type(column.type)) for column in more]
    return pa.RecordBatch.from_arrays([*batch.columns, *nulls], schema=arrow_schema(columns))


@dataclass(slots=True)
class _Reading:
    """One attempt to read all ranges of a plan; counts what passes and keeps the first error."""

    connections: Connections
    plan: AppendPlan
    large_value_bytes: int
    ready: Callable[[], None]
    rows: int = 0
    bytes: int = 0
    waits: list[int | None] = field(default_factory=list)
    error: Exception | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def batches(self) -> Generator[pa.RecordBatch]:
        """Non-empty batches of all ranges, in no order between ranges; ends when all is ready."""
        several = len(self.plan.ranges) > 1
        read = [column.name for column in read_columns(self.plan.columns, self.plan.ranges)]
        try:
            for batch in self._concurrent() if several else self._range(0):
                if batch.num_rows:
                    self.rows += batch.num_rows
                    self.bytes += sum(batch.column(name).nbytes for name in read)
                    yield batch
            self.ready()
        except Exception as error:
            self.error = self.error or error
            raise
        finally:
            self._stop.set()

    def _range(self, index: int) -> Iterator[pa.RecordBatch]:
        return read_range(
            self.connections.source,
            self.plan.ranges[index],
            self.plan.columns,
            large_value_bytes=self.large_value_bytes,
            connections=self.connections,
            waited=self.waits.append,
        )

    def _concurrent(self) -> Iterator[pa.RecordBatch]:
        waiting: queue.Queue[pa.RecordBatch | BaseException | None]
        waiting = queue.Queue(BATCHES_WAITING_MAX)

        def offer(item: pa.RecordBatch | BaseException | None) -> None:
            while not self._stop.is_set():
                with contextlib.suppress(queue.Full):
                    waiting.put(item, timeout=0.1)
                    return

        def read(index: int) -> None:
            try:
                for batch in self._range(index):
                    offer(batch)
                    if self._stop.is_set():
                        return
                offer(None)
            except BaseException as error:  # noqa: BLE001 - the consumer waits for each thread
                offer(error)

        threads = [
            threading.Thread(target=read, args=(i,), name=f"read-{self.plan.table}-{i}")
            for i in range(len(self.plan.ranges))
        ]
        for thread in threads:
            thread.start()
        try:
            running = len(threads)
            while running:
                item = waiting.get()  # no thread ends without its rows, its end or its error
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    running -= 1
                else:
                    yield item
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()


@dataclass(frozen=True, slots=True)
class _Metrics:
    changed: bool
    upserted: int
    deleted: int


def _bare(rows: pa.Table) -> pa.Table:
    """Rows without bronze's comments: merged into silver's schema, they would contradict its."""
    return rows.cast(pa.schema([pa.field(f.name, f.type) for f in rows.schema]))


def _merge(silver: DeltaTable, plan: ApplyPlan, ranked: pa.Table) -> _Metrics:
    known = {f.name for f in silver.schema().fields}
    every = {quoted(c.name): f"s.{quoted(c.name)}" for c in plan.columns}
    before = silver.version()
    texts = plan.texts
    merger = (
        silver.merge(
            ranked,
            _with_bounds(plan, ranked),
            source_alias="s",
            target_alias="t",
            merge_schema=any(c.name not in known for c in plan.columns),
            streamed_exec=False,
            commit_properties=commit_properties(plan.tag, retries=0),
        )
        .when_matched_delete(f"{texts.newer} AND {texts.is_delete}")
        .when_matched_update(every, f"{texts.newer} AND {texts.is_upsert}")
        .when_not_matched_insert(every, texts.is_upsert)
    )
    if plan.rebuild:
        merger = merger.when_not_matched_by_source_delete()
    found = merger.execute()
    return _Metrics(
        changed=silver.version() != before,
        upserted=found["num_target_rows_inserted"] + found["num_target_rows_updated"],
        deleted=found["num_target_rows_deleted"],
    )


def _with_bounds(plan: ApplyPlan, ranked: pa.Table) -> str:
    """The match condition with the source's key bounds, so that file statistics prune.

    A rebuild looks at every target row, so there is nothing to prune.
    """
    if plan.rebuild or ranked.num_rows == 0:
        return plan.texts.matched
    types = {column.name: column for column in plan.columns}
    bounds = [_bounds(types[key], ranked[key]) for key in plan.keys]
    return " AND ".join([plan.texts.matched, *(b for b in bounds if b)])


def _bounds(key: Column, values: pa.ChunkedArray) -> str | None:
    extent = pc.min_max(values).as_py()
    if extent["min"] is None:
        return None
    return key_bounds(key, extent["min"], extent["max"], values.null_count > 0)


def _commit_nothing(silver: DeltaTable, plan: ApplyPlan) -> None:
    """Carry the transaction where the MERGE changed nothing: delta-rs then commits nothing."""
    write_deltalake(
        silver,
        arrow_schema(_all_columns(silver, plan.columns)).empty_table(),
        mode="append",
        commit_properties=commit_properties(plan.tag, retries=0),
    )
