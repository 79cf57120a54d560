"""Tasks that write what they read: Arrow batches go from the server into Parquet files.

As Spark's rows they would be taken apart and put together again, which costs more than the read
(docs/decisions/0017). A task gives back what it wrote, as one row; the driver commits it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from cdc_assets.contract import Column
from cdc_assets.engines.spark.failures import typed_in_text
from cdc_assets.engines.spark.sources import RangeReader
from cdc_assets.errors import CdcError, expected
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.files import DataFile, Place, write_files
from cdc_assets.planning.plans import ReadRange, total_wait_ms
from cdc_assets.planning.ranges import read_columns
from cdc_assets.sqlserver.odbc_errors import ValueTooLargeError
from cdc_assets.sqlserver.read import arrow_schema

FILES_FORMAT = "mssql_cdc_planned_files"


@dataclass(frozen=True)
class PlannedFiles:
    """What one registered data source reads, and where it writes it."""

    place: Place
    columns: tuple[Column, ...]
    ranges: tuple[ReadRange, ...]
    read: RangeReader
    group_bytes: int


@dataclass(frozen=True, slots=True)
class Written:
    """What a task wrote and measured; a task that Spark runs again counts once."""

    files: tuple[DataFile, ...] = ()
    rows: int = 0
    bytes: int = 0
    read_seconds: float = 0.0
    network_wait_ms: int | None = None

    def to_json(self) -> str:
        """As a task's row carries it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Written:
        """Read a task's row back."""
        found = json.loads(text)
        return cls(**{**found, "files": tuple(DataFile(**file) for file in found["files"])})


def total(parts: Iterable[Written]) -> Written:
    """What all tasks did together."""
    found = tuple(parts)
    return Written(
        tuple(file for part in found for file in part.files),
        sum(part.rows for part in found),
        sum(part.bytes for part in found),
        sum(part.read_seconds for part in found),
        total_wait_ms(part.network_wait_ms for part in found),
    )


def load(session: SparkSession, planned: PlannedFiles) -> DataFrame:
    """A row per range, which reads and writes it once the rows are asked for.

    The session must be the work's own: the format is registered in it.
    """
    # A class made here is pickled with what stands in it, one imported by its name alone.
    members = {"planned": planned, "__module__": "__main__"}
    session.dataSource.register(type("PlannedFilesSource", (_FilesSource,), members))
    return session.read.format(FILES_FORMAT).load()


def run(session: SparkSession, planned: PlannedFiles) -> Written:
    """Read and write all ranges, one in a task; nothing is committed."""
    return total(Written.from_json(row["written"]) for row in load(session, planned).collect())


class _FilesSource(DataSource):  # type: ignore[misc]
    planned: ClassVar[PlannedFiles]

    @classmethod
    def name(cls) -> str:
        return FILES_FORMAT

    def schema(self) -> str:
        return "written STRING"

    def reader(self, schema: Any) -> DataSourceReader:
        return _FilesReader(self.planned)


class _FilesReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, planned: PlannedFiles) -> None:
        self._planned = planned

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(planned) for planned in self._planned.ranges]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        if partition.value is None:  # Spark asks for this one where there are no ranges.
            return
        planned = self._planned
        reading = _Reading([c.name for c in read_columns(planned.columns, planned.ranges)])
        with typed_in_text(), lake_failures(planned.place.uri):
            files = write_files(
                planned.place,
                arrow_schema(planned.columns),
                reading.counted(planned.read(partition.value, reading.waits.append)),
                planned.group_bytes,
            )
        yield (reading.written(files).to_json(),)


@dataclass(slots=True)
class _Reading:
    names: list[str]
    """The columns whose bytes count."""
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    waits: list[int | None] = field(default_factory=list)

    def counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with rows; their errors are the source's, whatever they say."""
        began = time.monotonic()
        try:
            for batch in batches:
                self.seconds += time.monotonic() - began
                if batch.num_rows:
                    self.rows += batch.num_rows
                    self.bytes += sum(batch.column(name).nbytes for name in self.names)
                    yield batch
                began = time.monotonic()
        except (CdcError, ValueTooLargeError):
            raise
        except Exception as error:
            raise expected(error) from error
        self.seconds += time.monotonic() - began

    def written(self, files: list[DataFile]) -> Written:
        waited = total_wait_ms(self.waits)
        return Written(tuple(files), self.rows, self.bytes, self.seconds, waited)
