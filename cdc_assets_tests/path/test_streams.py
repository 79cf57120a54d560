"""`CdcStream`: the stream writes the sync's bronze, and a table moves from one to the other.

The fault points that a stream passes are also in `test_stream_crashes`, with SIGKILL.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc_assets import faults
from cdc_assets.errors import (
    AnotherWriterError,
    CheckpointError,
    DataLossError,
    SettingsError,
    UnexpectedError,
)
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.stream import NewGenerationWarning, sink
from cdc_assets_tests.path.changing import commit
from cdc_assets_tests.path.helpers import COLUMNS, change_items, clean_up, load, once, run_sync
from cdc_assets_tests.path.streaming import (
    NOW,
    TABLE,
    finish,
    in_order,
    options,
    run_stream,
    stream,
)
from cdc_assets_tests.source import Project

pytestmark = [pytest.mark.spark, pytest.mark.sqlserver]
TARGET = f"bronze/{TABLE}"


@pytest.fixture
def engine_name() -> str:
    """A micro-batch is appended by an engine as a sync's batch is; one test asks Spark."""
    return "arrow"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def another(items: Project, folder: Path, engine: str) -> Project:
    """A second project of the same source, with a lake of its own."""
    folder.mkdir()
    return Project(folder, items.source, engine, tables=items.tables)


def told(project: Project) -> list[tuple[Any, ...]]:
    """What the facts say of each batch with rows, but for how long it took and what read it."""
    rows = [row for row in project.database().lake.facts.batches(TARGET) if row.rows]
    found = [
        (r.batch_id, r.rows, r.min_lsn, r.max_lsn, r.inserts, r.updates, r.deletes, r.end_lsn)
        for r in rows
    ]
    return sorted(found)


def test_the_stream_is_the_sync(items: Project, tmp_path: Path, checkpoint: Path) -> None:
    """The same rows, facts and verdict; the stream reads in Spark's tasks, commit by commit."""
    streamed = another(items, tmp_path / "streamed", "auto")
    streamed.tables = items.tables = {TABLE: {"max_commits_per_batch": 2}}
    run_sync(items)
    with pytest.raises(SettingsError, match="no snapshot yet"):
        run_stream(streamed, checkpoint)
    run_stream(streamed, checkpoint, bootstrap=True)
    change_items(items.source)
    run_sync(items)
    query = run_stream(streamed, checkpoint, bootstrap=True)
    assert query.lastProgress["batchId"] == 2
    assert in_order(streamed.bronze(TABLE)) == in_order(items.bronze(TABLE))
    assert told(streamed) == told(items)
    assert len(told(streamed)) == 2
    control = streamed.database().lake.control.read()[TARGET]
    assert control.end_lsn == items.source.captured()
    engines = {row.engine for row in streamed.database().lake.facts.batches(TARGET)}
    assert engines == {"spark (settings)"}
    load(streamed)
    streamed.assert_identical(TABLE, COLUMNS)


def test_from_sync_to_stream_and_back(items: Project, checkpoint: Path) -> None:
    """History 7; B025: a checkpoint that is gone, or set back, drops no batch and repeats none."""
    load(items)
    change_items(items.source, 100)
    assert run_stream(items, checkpoint).generation.number == 0
    shutil.copytree(checkpoint, older := checkpoint.with_name("older"))
    change_items(items.source, 200)
    run_sync(items)
    change_items(items.source, 300)
    with pytest.warns(NewGenerationWarning, match="another writer has appended batch 2"):
        assert run_stream(items, checkpoint).generation.number == 1
    change_items(items.source, 400)
    shutil.rmtree(checkpoint)
    with pytest.warns(NewGenerationWarning, match="the checkpoint is not there"):
        assert run_stream(items, checkpoint).generation.number == 2
    change_items(items.source, 500)
    shutil.rmtree(checkpoint)
    older.rename(checkpoint)
    with pytest.warns(NewGenerationWarning, match="another writer has appended batch 4"):
        assert run_stream(items, checkpoint).generation.number == 3
    change_items(items.source, 600)
    run_sync(items)
    load(items)
    items.assert_each_change_once(TABLE)
    items.assert_identical(TABLE, COLUMNS)
    assert [row[0] for row in told(items)] == [1, 2, 3, 4, 5, 6]


def test_a_sync_beside_a_running_stream_stops_it(
    items: Project, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B162, B186: nothing doubles, and the query's error is the one that was raised."""
    load(items)
    change_items(items.source)
    once(monkeypatch, sink, "poll_tables", lambda: run_sync(items))
    query = stream(items).to_delta(checkpoint=str(checkpoint), trigger=NOW)
    with pytest.raises(AnotherWriterError, match=r"batch 1 .*not of this stream"):
        finish(query)
    assert isinstance(query.exception(), AnotherWriterError)
    change_items(items.source, 300)
    with pytest.warns(NewGenerationWarning):
        run_stream(items, checkpoint)
    items.assert_each_change_once(TABLE)
    load(items)
    items.assert_identical(TABLE, COLUMNS)


STOPS = (
    FaultPoint.SNAPSHOT_OPENED,
    FaultPoint.SNAPSHOT_APPENDED,
    FaultPoint.GENERATION_WRITTEN,
    FaultPoint.BRONZE_APPENDED,
    FaultPoint.FACTS_WRITTEN,
    FaultPoint.STREAM_RECORDED,
)


def test_stopped_at_every_point(
    items: Project,
    tmp_path: Path,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B024: it starts again where it was stopped, each time, and ends with the sync's bronze."""
    synced = another(items, tmp_path / "synced", "arrow")
    load(synced)
    for place, point in enumerate(STOPS):
        with monkeypatch.context() as stopping:
            stopping.setattr(faults, "reach", stop_at(point))
            with pytest.raises((UnexpectedError, RuntimeError, Exception), match=r"stopped"):
                run_stream(items, checkpoint, bootstrap=True)
        change_items(items.source, 100 * (place + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", NewGenerationWarning)
        run_stream(items, checkpoint, bootstrap=True)
    run_sync(synced)
    items.assert_each_change_once(TABLE)
    ours, theirs = ([r for r in p.bronze(TABLE) if r["_operation"]] for p in (items, synced))
    first = ours[0]["_start_lsn"]
    assert in_order(ours) == in_order([r for r in theirs if r["_start_lsn"] >= first])
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def stop_at(point: FaultPoint) -> Callable[[FaultPoint], None]:
    """In place of a kill: what comes after the point does not happen."""

    def reach(reached: FaultPoint) -> None:
        if reached is point:
            raise RuntimeError("stopped")

    return reach


def test_a_table_that_no_settings_know(items: Project, tmp_path: Path, checkpoint: Path) -> None:
    """B025: a checkpoint that is lost, or set back, is an error that says what to do."""
    target = str(tmp_path / "own" / "items")

    def run(**more: Any) -> Any:
        own = stream(items, **options(items))
        named = {"app_id": "items-stream", "checkpoint": str(checkpoint), "trigger": NOW}
        return finish(own.to_delta(target, **named, **more))

    run(bootstrap=True)
    change_items(items.source)
    query = run(bootstrap=True)
    shutil.copytree(checkpoint, older := checkpoint.with_name("older"))
    own = stream(items, **options(items))
    assert own.snapshot(target, "items-stream").lsn < query.generation.start.lsn.next()
    change_items(items.source, 300)
    run()
    database = own._place(own._settings, target, "items-stream", None).database
    assert [row.rows for row in database.lake.facts.batches(target) if row.rows] == [13, 11]
    assert database.lake.control.read()[target].end_lsn == items.source.captured()
    shutil.rmtree(checkpoint)
    with pytest.raises(CheckpointError, match=r"not there.*Restore the checkpoint"):
        run()
    older.rename(checkpoint)
    with pytest.raises(CheckpointError, match=r"set back.*Restore the checkpoint"):
        run()
    with pytest.raises(SettingsError, match="bronze of the table"):
        load(items)
        change_items(items.source, 500)
        run_sync(items)
        bronze = items.database().table(TABLE).bronze_uri
        own.to_delta(bronze, "items-stream", str(checkpoint), trigger=NOW)


def test_a_loss_is_healed_before_the_query_runs(items: Project, checkpoint: Path) -> None:
    load(items)
    change_items(items.source)
    run_stream(items, checkpoint)
    change_items(items.source, 300)
    clean_up(items.source)
    commit(items.source, "UPDATE dbo.items SET name = N'kept' WHERE id = 1")
    with pytest.raises(DataLossError):
        run_stream(items, checkpoint)
    with pytest.warns(NewGenerationWarning, match="changes that were lost"):
        query = run_stream(items, checkpoint, on_data_loss="resnapshot")
    assert query.generation.number == 1
    commit(items.source, "UPDATE dbo.items SET name = N'after' WHERE id = 1")
    assert run_stream(items, checkpoint).generation.number == 1
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    events = [row.event for row in items.database().lake.facts.events()]
    assert events == ["snapshot_open", "bootstrap", "recovering", "snapshot_open", "resnapshot"]
