"""The password is nowhere that a stream's people look: plans, logs, progress, checkpoint, lake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc_assets.ingest.stream import planner_of, register
from cdc_assets.ingest.stream.planner import OffsetPlanning
from cdc_assets.planning.generations import Generation
from cdc_assets.sqlserver.connection_string import odbc_pairs
from cdc_assets_tests.path.helpers import change_items, run_sync
from cdc_assets_tests.path.streaming import NOW, TABLE, finish, options, session, stream
from cdc_assets_tests.source import Project

pytestmark = [pytest.mark.spark, pytest.mark.sqlserver]


@pytest.fixture
def engine_name() -> str:
    """The snapshot's; the streams read in Spark's tasks."""
    return "arrow"


def test_neither_stream_shows_the_password(items: Project, tmp_path: Path) -> None:
    """B188: searched for in all that Spark shows and in all that is written."""
    # Late: the fast tests must run where no PySpark is installed.
    from cdc_assets_tests.engines.spark.helpers import event_log  # noqa: PLC0415

    password = odbc_pairs(items.source.server.reader)["pwd"]
    run_sync(items)
    items.engine = "auto"
    change_items(items.source)
    spark, shown = session(), []
    register(spark)
    with event_log(spark, tmp_path / "events"):
        frame = spark.readStream.format("mssql_cdc").options(**options(items)).load()
        shown += [repr(frame), frame._jdf.queryExecution().toString()]
        writer = frame.writeStream.foreachBatch(lambda rows, _: shown.append(str(rows.count())))
        place = str(tmp_path / "plain")
        shown += _told(finish(writer.option("checkpointLocation", place).trigger(**NOW).start()))
        streamed = stream(items)
        shown += [repr(streamed), str(vars(streamed))]
        checkpoint = str(tmp_path / "ours")
        shown += _told(finish(streamed.to_delta(checkpoint=checkpoint, trigger=NOW)))
    assert "13" in shown
    assert any("dbo_items" in text for text in shown)
    assert [text for text in shown if password in text] == []
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".odbc"]
    assert {"canary", "0"} < {path.name for path in written}
    assert [path for path in written if password.encode() in path.read_bytes()] == []


def _told(query: Any) -> list[str]:
    """What a query says of itself, explained too."""
    return [str(query.lastProgress), str(query.status), query._jsq.explainInternal(True)]


def test_no_plan_of_a_stream_prints_the_password(items: Project) -> None:
    password = odbc_pairs(items.source.server.reader)["pwd"]
    planner = planner_of(options(items))
    assert password in planner.source.text
    database = items.database()
    generation = Generation(0, "x", 0, planner.initial())
    planning = OffsetPlanning(database.name, planner.database.settings, TABLE, generation)
    for shown in (planner, planner.source, planning, planning({})):
        assert password not in repr(shown)
