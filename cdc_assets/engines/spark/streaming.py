"""The data source `mssql_cdc`: offsets and ranges from a planner, rows read in Spark tasks.

Spark plans in a Python process of the query's own, on the driver's machine, and reads in tasks.
Neither the options nor the plan hold the connection: the planner resolves it, and it crosses to
the tasks in what Spark pickles, as that of `PlannedSource` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from cdc_assets.contract import Column
from cdc_assets.engines.spark.failures import typed_in_text
from cdc_assets.engines.spark.sources import SourceReader, ddl
from cdc_assets.errors import UnsupportedColumnError
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import ReadRange
from cdc_assets.sqlserver.connection import LARGE_VALUE_BYTES_START, SourceConnection
from cdc_assets.sqlserver.odbc_errors import ValueTooLargeError
from cdc_assets.sqlserver.read import next_large_value_bytes


class Planner(Protocol):
    """What decides of a stream; every method asks the server, or the lake, anew."""

    @property
    def commits_max(self) -> int | None:
        """Commits that one micro-batch may hold; None for all there are."""
        ...

    @property
    def source(self) -> SourceConnection:
        """How tasks reach the server."""
        ...

    @property
    def value_bytes_max(self) -> int:
        """Largest value that is read."""
        ...

    def columns(self) -> tuple[Column, ...]:
        """The columns of the rows."""
        ...

    def initial(self) -> Offset:
        """Where a query without a checkpoint begins."""
        ...

    def newest(self) -> Offset | None:
        """How far capture is; None where it never ran."""
        ...

    def latest(self, start: Offset, *, limited: bool, until: Offset | None) -> Offset:
        """How far the next micro-batch goes, `until` at most."""
        ...

    def ranges(
        self, start: Offset, end: Offset, columns: tuple[Column, ...]
    ) -> tuple[ReadRange, ...]:
        """What tasks read of (start, end]; nothing where the rows are somebody else's work."""
        ...

    def snapshot(self) -> tuple[ReadRange, ...]:
        """What tasks read of the table as it is now."""
        ...


PlannerOf = Callable[[Mapping[str, str]], Planner]
"""Makes a planner from a query's options, in whatever process Spark wants one."""


@dataclass(frozen=True)
class Maker:
    """A `PlannerOf` in a class: a bare function there would be taken for a method."""

    make: PlannerOf


class CdcSource(DataSource):  # type: ignore[misc]
    """The data source; each registered class has its own name and planner."""

    format_name: ClassVar[str]
    maker: ClassVar[Maker]

    @classmethod
    def name(cls) -> str:
        """The format it is registered under."""
        return cls.format_name

    def schema(self) -> str:
        """The columns as the source captures them now; a running query keeps them."""
        with typed_in_text():
            return ddl(self._planner().columns())

    def reader(self, schema: Any) -> DataSourceReader:
        """The table as it is now: `spark.read`."""
        with typed_in_text():
            return SnapshotReader(self._planner(), _declared(schema))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Offsets, ranges and rows of one query."""
        with typed_in_text():
            return StreamReader(self._planner(), _declared(schema))

    def _planner(self) -> Planner:
        return self.maker.make(dict(self.options))


def _declared(schema: Any) -> tuple[Column, ...]:
    """Spark's schema as declared columns."""
    return tuple(Column(f.name, f.dataType.simpleString().upper()) for f in schema.fields)


class SnapshotReader(DataSourceReader):  # type: ignore[misc]
    """Reads a table once; planned where it is made, so that a task knows no planner."""

    def __init__(self, planner: Planner, columns: tuple[Column, ...]) -> None:
        self._ranges = planner.snapshot()
        self._task = TaskReader(planner.source, columns, planner.value_bytes_max)

    def partitions(self) -> list[InputPartition]:
        """A range for each task."""
        return [InputPartition(planned) for planned in self._ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: a range's rows."""
        with typed_in_text():
            yield from self._task.batches(partition.value)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """One query's reader. In a task it knows the connection and the columns, and no planner."""

    def __init__(self, planner: Planner, columns: tuple[Column, ...]) -> None:
        self._planner: Planner | None = planner
        self._columns = columns
        self._until: Offset | None = None
        self._task = TaskReader(planner.source, columns, planner.value_bytes_max)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins."""
        with typed_in_text():
            return self._plan.initial().to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """At most so many commits.

        Spark has no limit of commits; files are its word for what is read as a whole or not.
        """
        limit = self._plan.commits_max
        return ReadAllAvailable() if limit is None else ReadMaxFiles(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Go no further than capture is now."""
        with typed_in_text():
            self._until = self._plan.newest()

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        """How far the next micro-batch goes."""
        limited = not isinstance(limit, ReadAllAvailable)
        with typed_in_text():
            begun = Offset.from_dict(start)
            return self._plan.latest(begun, limited=limited, until=self._until).to_dict()

    def reportLatestOffset(self) -> dict[str, str] | None:  # noqa: N802 - Spark's name
        """How far capture is, for the query's progress."""
        with typed_in_text():
            newest = self._plan.newest()
            return None if newest is None else newest.to_dict()

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """A range for each task; none where nothing lies in between."""
        with typed_in_text():
            ranges = self._plan.ranges(
                Offset.from_dict(start), Offset.from_dict(end), self._columns
            )
            return [InputPartition(planned) for planned in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: a range's rows."""
        with typed_in_text():
            yield from self._task.batches(partition.value)

    @property
    def _plan(self) -> Planner:
        assert self._planner is not None  # noqa: S101 - only tasks have none
        return self._planner


@dataclass(frozen=True)
class TaskReader:
    """Reads one range in a task, with the smallest buffer that its largest value fits."""

    source: SourceConnection
    columns: tuple[Column, ...]
    value_bytes_max: int

    def batches(self, planned: ReadRange) -> Iterator[pa.RecordBatch]:
        """A range's rows, in their order; what was given before a value did not fit, once."""
        given, value_bytes = 0, LARGE_VALUE_BYTES_START
        while True:
            to_skip = given
            try:
                for batch in SourceReader(self.source, self.columns, value_bytes)(planned, _ignore):
                    new = batch.slice(min(to_skip, batch.num_rows))
                    to_skip -= batch.num_rows - new.num_rows
                    given += new.num_rows
                    if new.num_rows:
                        yield new
            except ValueTooLargeError:
                larger = next_large_value_bytes(value_bytes, self.value_bytes_max)
                if larger is None:
                    raise UnsupportedColumnError(
                        f"a value has more than maxValueBytes: {self.value_bytes_max:,}",
                        where=self.source.name,
                        hint="Raise the option maxValueBytes, or list other `columns`.",
                    ) from None
                value_bytes = larger
            else:
                return


def _ignore(_: int | None) -> None:
    """Nobody records how long the server waited."""


def register(session: SparkSession, name: str, maker: PlannerOf) -> None:
    """Make a format known to a session, with what plans it."""
    # A class made here is pickled with what stands in it, one imported by its name alone.
    members = {"format_name": name, "maker": Maker(maker), "__module__": "__main__"}
    # Spark refuses a format that the thread's active session has, if that is another session.
    session.createDataFrame([], "id INT")
    session.dataSource.register(type("MssqlCdc", (CdcSource,), members))
