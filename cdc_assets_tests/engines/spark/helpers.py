"""An engine over literal ranges, and one table with plans for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import CommitProperties, Transaction

from cdc_assets.contract import Column, bronze_columns, silver_columns
from cdc_assets.engines.spark.engine import SparkEngine
from cdc_assets.engines.spark.sources import RangeReader
from cdc_assets.lake.tables import delta_schema
from cdc_assets.lsn import Lsn
from cdc_assets.planning.merging import changes_above, merge_texts
from cdc_assets.planning.plans import AppendPlan, ApplyPlan, CommitTag, ReadRange
from cdc_assets.settings.model import SparkSettings
from cdc_assets.sqlserver.connection import SourceConnection
from cdc_assets.sqlserver.read import arrow_schema
from cdc_assets_tests.source import SPARK

CANARY = "Tr0ub4dor-and-3"
LOCAL = SparkSettings(**SPARK)
CAPTURED = (Column("id", "INT"), Column("name", "STRING"))
BRONZE = bronze_columns(CAPTURED)
SILVER = silver_columns(CAPTURED)


def lsn(number: int) -> str:
    return f"0x{number:020X}"


class LiteralEngine(SparkEngine):
    """The engine over ranges whose rows stand in the test; its tasks read no server."""

    def __init__(self, settings: SparkSettings = LOCAL) -> None:
        source = SourceConnection("shop", f"Server=nowhere;UID=reader;PWD={CANARY}")
        super().__init__(source, settings, {})
        self.read: Callable[[SourceConnection, ReadRange, int], Iterator[pa.RecordBatch]]

    def range_reader(self, columns: tuple[Column, ...], large_value_bytes: int) -> RangeReader:
        source, read = self._source, self.read
        return lambda planned, _: read(source, planned, large_value_bytes)


def as_table(rows: list[dict[str, Any]], columns: tuple[Column, ...]) -> pa.Table:
    """Rows in declared columns; what a row leaves out is NULL."""
    schema = arrow_schema(columns)
    full = [{name: row.get(name) for name in schema.names} for row in rows]
    return pa.Table.from_pylist(full, schema=schema)


@dataclass
class Tables:
    """A bronze and a silver of one table, and plans for them."""

    root: Path
    columns: tuple[Column, ...] = CAPTURED
    keys: tuple[str, ...] = ("id",)

    @property
    def bronze(self) -> str:
        return str(self.root / "bronze")

    @property
    def silver(self) -> str:
        return str(self.root / "silver")

    def create(self) -> "Tables":
        bronze, silver = bronze_columns(self.columns), silver_columns(self.columns)
        DeltaTable.create(self.bronze, delta_schema(bronze))
        DeltaTable.create(self.silver, delta_schema(silver))
        return self

    def rows(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        """Bronze rows; what a row leaves out is NULL."""
        table = as_table(rows, bronze_columns(self.columns)).combine_chunks()
        return pa.RecordBatch.from_arrays(
            [column.combine_chunks() for column in table.columns], schema=table.schema
        )

    def changes(self, *changes: tuple[int, int, dict[str, Any]]) -> pa.RecordBatch:
        """Change rows from (LSN, operation, captured values)."""
        return self.rows(
            [
                {
                    "_start_lsn": lsn(at),
                    "_seqval": lsn(order),
                    "_operation": operation,
                    "_command_id": 1,
                    **values,
                }
                for order, (at, operation, values) in enumerate(changes)
            ]
        )

    def write(self, batch: pa.RecordBatch) -> int:
        """Append rows to bronze and give its version."""
        write_deltalake(self.bronze, pa.table(batch), mode="append")
        return DeltaTable(self.bronze).version()

    def append_plan(self, version: int, *ranges: ReadRange, metadata: str = "") -> AppendPlan:
        tag = CommitTag("t#changes", version, metadata or f"batch {version}")
        return AppendPlan("t", self.bronze, bronze_columns(self.columns), ranges, tag)

    def apply_plan(
        self, version: int, rows: str = "", *, rebuild: bool = False, metadata: str = ""
    ) -> ApplyPlan:
        columns = silver_columns(self.columns)
        return ApplyPlan(
            table="t",
            bronze_uri=self.bronze,
            bronze_version=DeltaTable(self.bronze).version(),
            silver_uri=self.silver,
            columns=columns,
            keys=self.keys,
            texts=merge_texts(columns, self.keys, rows or changes_above(Lsn(lsn(0)))),
            rebuild=rebuild,
            tag=CommitTag("t#apply", version, metadata or f"apply {version}"),
        )

    def commit_elsewhere(self, uri: str, app_id: str, version: int, metadata: str) -> None:
        """What another writer's commit of a transaction leaves behind."""
        table = DeltaTable(uri)
        empty = pa.schema(table.schema().to_arrow()).empty_table()
        properties = CommitProperties(
            custom_metadata={"userMetadata": metadata},
            app_transactions=[Transaction(app_id, version)],
        )
        write_deltalake(table, empty, mode="append", commit_properties=properties)


def read(uri: str, *, by: str = "id") -> list[dict[str, Any]]:
    """A table's rows, ordered."""
    rows = DeltaTable(uri).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row[by] is not None, row[by]))


@contextmanager
def event_log(session: Any, folder: Path) -> Iterator[Path]:
    """What Spark writes where event logs are on; the shared session runs without."""
    folder.mkdir()
    context = session.sparkContext
    jvm = context._jvm
    conf = context._jsc.sc().conf().clone()
    conf.set("spark.eventLog.rolling.enabled", "false").set("spark.eventLog.compress", "false")
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "canary", jvm.scala.Option.empty(), jvm.java.net.URI(folder.as_uri()), conf
    )
    listener.start()
    context._jsc.sc().addSparkListener(listener)
    yield folder / "canary"
    context._jsc.sc().listenerBus().waitUntilEmpty()
    context._jsc.sc().removeSparkListener(listener)
    listener.stop()
