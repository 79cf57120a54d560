"""The connection string is in the pickled data source and nowhere that Spark shows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc_assets.engines.spark import files, sources
from cdc_assets.engines.spark.session import new_session
from cdc_assets.engines.spark.sources import SourceReader
from cdc_assets.lake.files import Place
from cdc_assets.lsn import Lsn
from cdc_assets.planning.plans import Guard, ReadRange
from cdc_assets.sqlserver.connection import SourceConnection
from cdc_assets_tests.engines.spark.helpers import BRONZE, CANARY, LiteralEngine, Tables, event_log

SOURCE = SourceConnection("shop", f"Server=nowhere;UID=reader;PWD={CANARY}")
LAKE = Place("s3://lake/t", {"secret_access_key": CANARY})


def rows_frame(session: SparkSession, guard: Guard | None) -> tuple[DataFrame, object]:
    ranges = (ReadRange("SELECT 1", guard=guard),)
    reader, counters = SourceReader(SOURCE, BRONZE), sources.ReadCounters.of(session)
    reads = sources.PlannedReads(BRONZE, ranges, reader, counters)
    return sources.load(session, reads), reads


def files_frame(session: SparkSession, guard: Guard | None) -> tuple[DataFrame, object]:
    ranges = (ReadRange("SELECT 1", guard=guard),)
    planned = files.PlannedFiles(LAKE, BRONZE, ranges, SourceReader(SOURCE, BRONZE), 1)
    return files.load(session, planned), planned


GUARD = Guard("dbo_t", Lsn("0x" + "0" * 20), None)


@pytest.mark.parametrize(
    ("load", "guard", "name"),
    [
        (rows_frame, None, sources.SNAPSHOT_FORMAT),
        (rows_frame, GUARD, sources.CHANGES_FORMAT),
        (files_frame, GUARD, files.FILES_FORMAT),
    ],
)
def test_no_plan_option_or_setting_shows_a_secret(
    engine: LiteralEngine, load: Callable[..., Any], guard: Guard | None, name: str
) -> None:
    session = new_session(engine._config)
    frame, planned = load(session, guard)

    execution = frame._jdf.queryExecution()
    explain = session._jvm.PythonSQLUtils.explainString
    shown = [
        repr(planned),
        repr(frame),
        *(explain(execution, mode) for mode in ("extended", "formatted", "cost", "codegen")),
        execution.logical().toJSON(),
        execution.executedPlan().toJSON(),
        str(session.sparkContext.getConf().getAll()),
        str(session.conf.getAll),
    ]
    assert name in execution.toString()
    assert [text for text in shown if CANARY in text or "PWD" in text] == []


def test_the_event_log_does_not_show_the_password(
    engine: LiteralEngine, tables: Tables, tmp_path: Path
) -> None:
    batch = tables.changes((1, 2, {"id": 1, "name": "a"}))
    engine.read = lambda source, planned, size: iter([batch] if CANARY in source.text else ())
    with event_log(new_session(engine._config), tmp_path / "events") as log:
        assert engine.append(tables.append_plan(1, ReadRange("SELECT 1"))).rows == 1
    written = log.read_text()
    assert files.FILES_FORMAT in written
    assert "SparkListenerTaskEnd" in written
    assert CANARY not in written


def test_a_format_is_registered_in_its_own_session_alone(engine: LiteralEngine) -> None:
    session, other = new_session(engine._config), new_session(engine._config)
    reader = sources.SourceReader(SourceConnection("shop", ""), BRONZE)
    counters = sources.ReadCounters.of(session)
    sources.load(session, sources.PlannedReads(BRONZE, (), reader, counters))
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        other.read.format(sources.SNAPSHOT_FORMAT).load()
