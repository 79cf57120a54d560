"""Spark data sources of the engine: planned ranges read in Spark tasks as Arrow batches.

A data source is registered for one piece of work, in that work's own session. What it reads, and
the connection, stand in the class, which Spark pickles: no option carries them, so that no plan,
explain output, event log or page of Spark's UI can show them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from cdc_assets.contract import Column
from cdc_assets.engines.spark.failures import typed_in_text
from cdc_assets.planning.literals import quoted
from cdc_assets.planning.plans import ReadRange
from cdc_assets.sqlserver.connection import LARGE_VALUE_BYTES_START, SourceConnection
from cdc_assets.sqlserver.read import read_range

# Names of the engine's own: a session that is not ours alone may know `mssql_cdc` already.
CHANGES_FORMAT = "mssql_cdc_planned_changes"
SNAPSHOT_FORMAT = "mssql_cdc_planned_snapshot"

RangeReader = Callable[[ReadRange, Callable[[int | None], None]], Iterator[pa.RecordBatch]]
"""Gives a range's batches, and tells how many milliseconds the server waited for them."""


@dataclass(frozen=True)
class SourceReader:
    """Reads one range in a task: a callable that pickles, and does not print the connection."""

    source: SourceConnection
    columns: tuple[Column, ...]
    large_value_bytes: int = LARGE_VALUE_BYTES_START

    def __call__(
        self, planned: ReadRange, waited: Callable[[int | None], None]
    ) -> Iterator[pa.RecordBatch]:
        """The range's batches, of exactly `columns`."""
        return read_range(
            self.source,
            planned,
            self.columns,
            large_value_bytes=self.large_value_bytes,
            waited=waited,
        )


class Counter(Protocol):
    """An accumulator of Spark's, as far as a read needs one."""

    value: Any

    def add(self, term: Any) -> None:
        """Count."""


class Uncounted:
    """What stands for one where there is no context to make it."""

    value: Any = 0

    def add(self, term: Any) -> None:
        """Forget it."""


@dataclass(frozen=True)
class ReadCounters:
    """What tasks measured; a task that Spark runs again counts again."""

    seconds: Counter
    bytes: Counter
    waits: Counter
    waits_ms: Counter

    @classmethod
    def of(cls, session: SparkSession) -> ReadCounters:
        """New counters at zero; over Spark Connect they stay there."""
        context = getattr(session, "sparkContext", None)
        if context is None:
            return cls(Uncounted(), Uncounted(), Uncounted(), Uncounted())
        numbers = [context.accumulator(0) for _ in range(3)]
        return cls(context.accumulator(0.0), *numbers)

    def waited(self, milliseconds: int | None) -> None:
        """Count what a task was told; None says that the server may not be asked."""
        if milliseconds is not None:
            self.waits.add(1)
            self.waits_ms.add(milliseconds)

    @property
    def network_wait_ms(self) -> int | None:
        """The sum; None where no task was told."""
        return self.waits_ms.value if self.waits.value else None


@dataclass(frozen=True)
class PlannedReads:
    """What one registered data source reads."""

    columns: tuple[Column, ...]
    ranges: tuple[ReadRange, ...]
    read: RangeReader
    counters: ReadCounters


class PlannedSource(DataSource):  # type: ignore[misc]
    """A data source whose ranges were planned before it was registered."""

    format_name: ClassVar[str]
    reads: ClassVar[PlannedReads]

    @classmethod
    def name(cls) -> str:
        """The format it is registered under."""
        return cls.format_name

    def schema(self) -> str:
        """The declared columns, all nullable."""
        return ddl(self.reads.columns)

    def reader(self, schema: Any) -> DataSourceReader:
        """The one reader that both formats share."""
        return _RangesReader(self.reads)


class _RangesReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, reads: PlannedReads) -> None:
        self._reads = reads

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(planned) for planned in self._reads.ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark asks for this one where there are no ranges.
            return
        counters = self._reads.counters
        began = time.monotonic()
        with typed_in_text():
            for batch in self._reads.read(partition.value, counters.waited):
                counters.seconds.add(time.monotonic() - began)
                counters.bytes.add(batch.nbytes)
                yield batch
                began = time.monotonic()
        counters.seconds.add(time.monotonic() - began)


def ddl(columns: tuple[Column, ...]) -> str:
    """Columns as Spark's DDL text."""
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)


def load(session: SparkSession, reads: PlannedReads) -> DataFrame:
    """The rows of planned ranges; a range per task.

    The session must be the work's own: the format is registered in it.
    """
    name = CHANGES_FORMAT if any(r.guard for r in reads.ranges) else SNAPSHOT_FORMAT
    # A class made here is pickled with what stands in it, one imported by its name alone.
    members = {"format_name": name, "reads": reads, "__module__": "__main__"}
    session.dataSource.register(type("PlannedRanges", (PlannedSource,), members))
    return session.read.format(name).load()


def with_literals(
    rows: DataFrame, columns: tuple[Column, ...], literals: Mapping[str, str | None]
) -> DataFrame:
    """Rows as exactly `columns`: those among `literals`, text in the column's type, are added.

    Spark makes them where it writes. From a task they would come row by row, like what was read.
    """
    if not literals:
        return rows
    return rows.selectExpr(
        *(
            f"CAST({_literal(literals[column.name])} AS {column.type}) AS {quoted(column.name)}"
            if column.name in literals
            else quoted(column.name)
            for column in columns
        )
    )


def _literal(text: str | None) -> str:
    """A text as Spark SQL takes any, whatever its rules of escaping are."""
    if text is None:
        return "NULL"
    return f"decode(X'{text.encode().hex()}', 'UTF-8')"
