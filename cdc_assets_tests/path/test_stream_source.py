"""`spark.readStream.format("mssql_cdc")`: the changes as the sync reads them, into any sink."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path

import pytest

from cdc_assets.errors import DataLossError, HistoryChangedError, UnsupportedColumnError
from cdc_assets.ingest.stream import error_of, planner_of, register, track
from cdc_assets.lake.control import Control
from cdc_assets_tests.path.changing import commit
from cdc_assets_tests.path.helpers import change_items, load, purge
from cdc_assets_tests.path.streaming import (
    QUERY_SECONDS_MAX,
    TABLE,
    in_order,
    options,
    read_stream,
    session,
)
from cdc_assets_tests.source import Project

pytestmark = [pytest.mark.spark, pytest.mark.sqlserver]
LARGE = 100_000


@pytest.fixture
def engine_name() -> str:
    """What the rows are compared with is the arrow engine's."""
    return "arrow"


def test_the_stream_gives_what_the_sync_gives(items: Project, tmp_path: Path) -> None:
    """B185: admission control; each micro-batch has so many commits, and all of them come.

    B186: what ends a query is the error that was raised.
    """
    load(items)
    for base in (100, 300, 500):
        change_items(items.source, base)
    load(items)
    given = options(items, maxCommitsPerBatch="5")
    batches = read_stream(given, tmp_path / "checkpoint")
    assert [len({r["_start_lsn"] for r in batch}) for batch in batches] == [5, 5, 2]
    rows = [row for batch in batches for row in batch]
    synced = [row for row in items.bronze(TABLE) if row["_operation"] != 0]
    assert in_order(rows) == in_order(synced)
    assert len({row["_start_lsn"] for row in rows}) == 12
    _, _, offset = (tmp_path / "checkpoint" / "offsets" / "2").read_text().splitlines()
    newest = items.database().lake.control.read()[f"bronze/{TABLE}"].end
    assert newest is not None
    assert json.loads(offset) == {
        "lsn": items.source.captured(),
        "commit_ts": newest.commit_ts.isoformat(timespec="milliseconds"),
    }
    change_items(items.source, 700)
    (more,) = [batch for batch in read_stream(options(items), tmp_path / "checkpoint") if batch]
    assert {row["_start_lsn"] for row in more} & {row["_start_lsn"] for row in rows} == set()
    assert len(more) == 11
    purge(items.source)
    with pytest.raises(Exception, match="removed by cleanup") as failed:
        read_stream(options(items), tmp_path / "checkpoint")
    assert isinstance(error_of(failed.value), DataLossError)


def test_a_query_that_keeps_running_has_a_verdict(items: Project, tmp_path: Path) -> None:
    """Its row moves with what it has written, also where that was nothing."""
    change_items(items.source)
    spark = session()
    register(spark)
    writer = (
        spark.readStream.format("mssql_cdc")
        .options(**options(items))
        .load()
        .writeStream.foreachBatch(lambda rows, _: rows.count())
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query = writer.trigger(processingTime="200 milliseconds").start()
    control = Control(str(tmp_path / "control"), {})
    tracking = track(spark, query, str(tmp_path / "control"), "items", granularity="second")
    try:
        assert reaches(control, items.source.captured())
        change_items(items.source, 300)
        assert reaches(control, items.source.captured())
    finally:
        query.stop()
        tracking.close()
    row = control.read()["items"]
    assert row.finalized_until is not None
    assert row.end_commit_ts is not None
    assert row.end_commit_ts - timedelta(seconds=1) < row.finalized_until <= row.end_commit_ts


def reaches(control: Control, lsn: str) -> bool:
    deadline = time.monotonic() + QUERY_SECONDS_MAX
    while time.monotonic() < deadline:
        row = control.read().get("items")
        if row is not None and (row.end_lsn or "") >= lsn:
            return True
        time.sleep(0.1)
    return False


def test_the_table_as_it_is_now(items: Project) -> None:
    """B051: rows of a snapshot are no changes, and the changes go on after its LSN."""
    load(items)
    change_items(items.source)
    spark = session()
    register(spark)
    start = planner_of(options(items, startingLsn="latest")).initial()
    given = options(items, snapshotLsn=str(start.lsn), columns="id,name")
    rows = [
        row.asDict() for row in spark.read.format("mssql_cdc").options(**given).load().collect()
    ]
    assert sorted((row["id"], row["name"]) for row in rows) == sorted(
        items.source.rows("SELECT id, name FROM dbo.items")
    )
    assert {(r["_operation"], r["_start_lsn"], r["_seqval"]) for r in rows} == {
        (0, str(start.lsn), None)
    }
    with pytest.raises(HistoryChangedError, match="snapshotLsn"):
        planner_of(options(items, snapshotLsn="0x" + "F" * 20)).snapshot()


def test_a_value_that_outgrows_its_buffer_comes_once(items: Project) -> None:
    """What a task gave before it is not given again."""
    # Late: the fast tests must run where no PySpark is installed.
    from cdc_assets.engines.spark.streaming import TaskReader  # noqa: PLC0415

    items.source.execute("CREATE TABLE dbo.large (id int NOT NULL PRIMARY KEY, text nvarchar(max))")
    items.source.enable("large")
    given = options(items, captureInstance="dbo_large", arrowBatchSize="2")
    planner = planner_of(given)
    columns, start = planner.columns(), planner.initial()
    small = ", ".join(f"({number}, N'small')" for number in range(5))
    commit(
        items.source,
        f"INSERT INTO dbo.large VALUES {small}",
        f"INSERT INTO dbo.large VALUES (9, REPLICATE(CAST(N'x' AS nvarchar(max)), {LARGE}))",
    )
    end = planner.latest(start, limited=False, until=None)
    (planned,) = planner.ranges(start, end, columns)
    read = TaskReader(planner.source, columns, planner.value_bytes_max).batches(planned)
    rows = [row for batch in read for row in batch.to_pylist()]
    assert [row["id"] for row in rows] == [0, 1, 2, 3, 4, 9]
    assert rows[-1]["text"] == "x" * LARGE
    with pytest.raises(UnsupportedColumnError, match="maxValueBytes: 50,000"):
        list(TaskReader(planner.source, columns, 50_000).batches(planned))
