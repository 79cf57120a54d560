"""Ranges read from a server by Spark's tasks: connections, guards, counts, and the same rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets.contract import Column, bronze_columns
from cdc_assets.engines.arrow.engine import ArrowEngine
from cdc_assets.engines.spark.engine import SparkEngine
from cdc_assets.errors import DataLossError, SourceQueryError, SourceUnavailableError
from cdc_assets.lake.tables import delta_schema
from cdc_assets.lsn import Lsn
from cdc_assets.planning.plans import AppendPlan, CommitTag, Guard, ReadRange
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.planning.ranges import Seek, integer_ranges
from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.sqlserver import change_queries, queries
from cdc_assets.sqlserver.catalog import capture_instances
from cdc_assets.sqlserver.connection import Connection, Connections, SourceConnection, connect
from cdc_assets_tests.engines.spark.helpers import LOCAL

pytestmark = pytest.mark.spark
ORDERS = (
    Column("order_id", "INT"),
    Column("customer_id", "INT"),
    Column("status", "STRING"),
    Column("total_price", "DECIMAL(15,2)"),
    Column("order_date", "DATE"),
    Column("comment", "STRING"),
    Column("created_at", "TIMESTAMP_NTZ"),
    Column("updated_at", "TIMESTAMP_NTZ"),
)


@dataclass
class Shop:
    """A captured table of the sandbox, a bronze for it, and plans."""

    sandbox: Sandbox
    source: SourceConnection
    connection: Connection
    instance: CaptureInstance
    bronze: str

    def snapshot(self, count: int) -> tuple[ReadRange, ...]:
        extent = self.connection.rows(queries.key_extent("dbo", "orders", "order_id"))[0]
        names = [(column.name, column.name) for column in ORDERS]
        constants = (
            ("_capture_instance", self.instance.name),
            ("_start_lsn", "0x" + "0" * 20),
            ("_operation", "0"),
            ("_commit_ts", "2026-01-15T10:00:00.123457"),
        )
        return tuple(
            ReadRange(
                queries.read_table("dbo", "orders", names, where),
                tuple(str(bound) for bound in (low, high) if bound is not None),
                constants,
                names=tuple(column.name for column in ORDERS),
            )
            for low, high in integer_ranges(extent["low"], extent["high"], count)
            for where in [
                queries.integer_range("order_id", "int", first=low is None, last=high is None)
            ]
        )

    def changes(self) -> ReadRange:
        names = [(column.name, column.name) for column in ORDERS]
        first, last = self.watermark(), self.newest()
        parameters = change_queries.closed_range(first, last)
        counted = self.connection.rows(change_queries.count_changes(self.instance.name), parameters)
        rows = sum(row["row_count"] for row in counted)
        seek = Seek((), str(first), str(last), rows)
        return ReadRange(
            change_queries.read_changes(
                change_queries.ChangeTable(self.instance.name), names, [seek]
            ),
            change_queries.parameters([seek]),
            (("_capture_instance", self.instance.name), ("_batch_id", "1")),
            guard=Guard(self.instance.name, first, self.instance.start_lsn),
            rows=rows,
        )

    def watermark(self) -> Lsn:
        asked = [self.instance.name, queries.change_table(self.instance.name)]
        row = self.connection.rows(queries.GUARD, asked)[0]
        return Lsn.parse(row["min_lsn"])

    def newest(self) -> Lsn:
        return Lsn.parse(self.connection.rows(queries.MAX_LSN)[0]["max_lsn"])

    def plan(self, ranges: tuple[ReadRange, ...], version: int = 1) -> AppendPlan:
        columns = bronze_columns(ORDERS)
        tag = CommitTag("orders#changes", version, f"batch {version}")
        return AppendPlan("orders", self.bronze, columns, ranges, tag)

    def served(self) -> tuple[int, int]:
        """Connections made and rows of dbo.orders sent, as the sandbox counted them."""
        counted = self.sandbox.engine.counters
        connections = dict(counted.logins())["reader"].connections
        return connections, sum(c.rows for login, _, c in counted.objects() if login == "reader")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        running.load_workload(0.02)
        running.execute(
            "UPDATE dbo.orders SET comment = N'näher' WHERE order_id <= 40;"
            " DELETE FROM dbo.orders WHERE order_id IN (2, 3)"
        )
        yield running


@pytest.fixture
def shop(sandbox: Sandbox, tmp_path: Path) -> Iterator[Shop]:
    source = SourceConnection("sales", sandbox.connection_string(), str(sandbox.ca_file))
    with connect(source) as connection:
        instance = capture_instances(connection)["dbo_orders"]
        bronze = str(tmp_path / "bronze")
        DeltaTable.create(bronze, delta_schema(bronze_columns(ORDERS)))
        yield Shop(sandbox, source, connection, instance, bronze)


@pytest.fixture
def spark(shop: Shop) -> SparkEngine:
    return SparkEngine(shop.source, LOCAL, {})


def rows(uri: str) -> list[str]:
    return sorted(map(str, DeltaTable(uri).to_pyarrow_table().to_pylist()))


def test_each_range_of_a_snapshot_is_read_on_a_connection_of_its_own(
    shop: Shop, spark: SparkEngine
) -> None:
    ranges = shop.snapshot(3)
    shop.sandbox.engine.counters.reset()

    result = spark.append(shop.plan(ranges))

    assert len(ranges) == 3
    assert (result.committed, result.rows) == (True, 998)
    assert shop.served() == (3, 998)
    assert result.read_mb > 0
    assert 0 < result.read_seconds < 120


def test_both_engines_read_the_same_rows(shop: Shop, spark: SparkEngine, tmp_path: Path) -> None:
    other = str(tmp_path / "arrow")
    DeltaTable.create(other, delta_schema(bronze_columns(ORDERS)))
    arrow = ArrowEngine(Connections(shop.source), {})
    for version, ranges in enumerate((shop.snapshot(2), (shop.changes(),)), start=1):
        plan = shop.plan(ranges, version)
        by_spark = spark.append(plan)
        by_arrow = arrow.append(replace(plan, uri=other))
        assert by_spark.rows == by_arrow.rows > 0
        assert by_spark.read_mb == pytest.approx(by_arrow.read_mb)
    assert rows(shop.bronze) == rows(other)


def test_a_repeated_tag_reads_nothing(shop: Shop, spark: SparkEngine) -> None:
    plan = shop.plan((shop.changes(),))
    assert spark.append(plan).committed
    shop.sandbox.engine.counters.reset()
    assert not spark.append(plan).committed
    assert shop.sandbox.engine.counters.logins() == []
    assert DeltaTable(shop.bronze).version() == 1


def test_a_range_that_gave_another_number_of_rows_is_data_loss(
    shop: Shop, spark: SparkEngine
) -> None:
    changes = shop.changes()
    assert changes.rows is not None
    short = replace(changes, rows=changes.rows + 1)
    with pytest.raises(DataLossError, match=f"a range of {short.rows} rows gave {changes.rows}"):
        spark.append(shop.plan((changes, short)))
    assert DeltaTable(shop.bronze).version() == 0


def test_a_purged_range_is_data_loss(shop: Shop, spark: SparkEngine) -> None:
    """A purged range reads as empty; the guard in the task notices: 15-ingest, point 3."""
    changes = shop.changes()
    needed = Lsn("0x" + "0" * 19 + "1")
    assert changes.guard is not None
    purged = replace(changes, guard=replace(changes.guard, first_lsn=needed))
    with pytest.raises(DataLossError) as caught:
        spark.append(shop.plan((purged,)))
    assert f"from {needed}" in caught.value.what
    assert caught.value.where == "sales"
    assert "Take a new snapshot" in caught.value.hint
    assert DeltaTable(shop.bronze).version() == 0


def test_a_refused_query_is_said_without_java(shop: Shop, spark: SparkEngine) -> None:
    wrong = ReadRange("SELECT * FROM dbo.nothing_here")
    with pytest.raises(SourceQueryError, match="nothing_here"):
        spark.append(shop.plan((wrong,)))


def test_a_dropped_connection_commits_nothing(shop: Shop, spark: SparkEngine) -> None:
    plan = shop.plan(shop.snapshot(1))
    shop.sandbox.execute("EXEC sandbox.fault @kind = 'drop', @table = 'dbo.orders', @rows = 100")
    with pytest.raises(SourceUnavailableError):
        spark.append(plan)
    assert DeltaTable(shop.bronze).version() == 0
    assert spark.append(plan).rows == 998
