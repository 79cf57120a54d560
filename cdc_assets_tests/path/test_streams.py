"""`CdcStream`: the stream writes the sync's bronze, and a table moves from one to the other.

The fault points that a stream passes are also in `test_stream_crashes`, with SIGKILL.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc_assets import faults
from cdc_assets.errors import (
    AnotherWriterError,
    CheckpointError,
    DataLossError,
    SeedRefusedError,
    SettingsError,
)
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.stream import CdcStream, NewGenerationWarning, sink
from cdc_assets_tests.path.changing import commit
from cdc_assets_tests.path.chunking import chunked
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, once, purge, run_sync
from cdc_assets_tests.path.streaming import (
    NOW,
    TABLE,
    finish,
    in_order,
    named,
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
            with pytest.raises(Exception, match="stopped"):
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


def own_stream(items: Project, target: Path, checkpoint: Path, **more: Any) -> Any:
    """A stream of a table that is in no settings, until all is read."""
    given = more.pop("given", {})
    own = stream(items, **options(items, **given))
    return finish(own.to_delta(str(target), "items-stream", str(checkpoint), trigger=NOW, **more))


def own_lake(items: Project, target: Path) -> Any:
    """Its bookkeeping."""
    own = stream(items, **options(items))
    return own._place(own._settings, str(target), "items-stream", None).database.lake


def test_a_table_that_no_settings_know(items: Project, tmp_path: Path, checkpoint: Path) -> None:
    """B025: a checkpoint that is lost, or set back, is an error that says what to do."""
    target = tmp_path / "own" / "items"
    first = own_stream(items, target, checkpoint, bootstrap=True).generation
    change_items(items.source)
    own_stream(items, target, checkpoint)
    shutil.copytree(checkpoint, older := checkpoint.with_name("older"))
    own = stream(items, **options(items))
    assert own.snapshot(str(target), "items-stream") == first.start
    change_items(items.source, 300)
    own_stream(items, target, checkpoint)
    lake = own_lake(items, target)
    assert [row.rows for row in lake.facts.batches(str(target)) if row.rows] == [13, 11]
    assert lake.control.read()[str(target)].end_lsn == items.source.captured()
    checkpoint.rename(newest := checkpoint.with_name("newest"))
    with pytest.raises(CheckpointError, match=r"not there.*Restore the checkpoint"):
        own_stream(items, target, checkpoint)
    older.rename(checkpoint)
    with pytest.raises(CheckpointError, match=r"set back.*Restore the checkpoint"):
        own_stream(items, target, checkpoint)
    shutil.rmtree(checkpoint)
    newest.rename(checkpoint)
    purge(items.source)
    with pytest.warns(NewGenerationWarning, match="lost"):
        query = own_stream(items, target, checkpoint, bootstrap=True, on_data_loss="resnapshot")
    assert query.generation.number == 1
    change_items(items.source, 500)
    assert own_stream(items, target, checkpoint).generation.number == 1
    apps = [row.app_id for row in lake.facts.batches(str(target)) if row.rows]
    assert apps == ["items-stream", "items-stream", "items-stream.g1"]


def test_an_own_stream_without_a_snapshot_skips_what_is_lost(
    items: Project, tmp_path: Path, checkpoint: Path
) -> None:
    """B051: from the latest on; a gap is in the facts, and the stream goes on past it."""
    target = tmp_path / "items"
    change_items(items.source)
    given = {"startingLsn": "latest", "failOnDataLoss": "no"}
    own_stream(items, target, checkpoint, given=given)
    lake = own_lake(items, target)
    assert [row for row in lake.facts.batches(str(target)) if row.rows] == []
    purge(items.source)
    assert own_stream(items, target, checkpoint, given=given).generation.number == 0
    left = items.source.rows("SELECT COUNT(*) FROM cdc.dbo_items_CT")[0][0]
    assert [row.rows for row in lake.facts.batches(str(target)) if row.rows] == [left]
    assert [row.event for row in lake.facts.events()] == ["data_skipped"]
    with pytest.raises(SettingsError, match="began with a snapshot"):
        own_stream(items, target, checkpoint, on_data_loss="resnapshot")


def test_a_checkpoint_of_another_program_is_left_alone(items: Project, checkpoint: Path) -> None:
    """B025: neither what it holds nor a place that cannot be written is taken for a new one."""
    load(items)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text("v1\n{}\n{}")
    with pytest.raises(CheckpointError, match="nothing that says whose"):
        run_stream(items, checkpoint)
    (file := checkpoint.with_name("file")).write_text("no folder")
    with pytest.raises(CheckpointError, match="cannot be read or written"):
        run_stream(items, file / "checkpoint")


def test_the_bronze_of_a_sync_is_no_target_of_an_own_stream(
    items: Project, checkpoint: Path
) -> None:
    load(items)
    change_items(items.source)
    load(items)
    bronze = items.database().table(TABLE).bronze_uri
    with pytest.raises(SettingsError, match="bronze of the table dbo_items"):
        own_stream(items, Path(bronze), checkpoint)
    with pytest.raises(SettingsError, match="not where the settings have it"):
        run_stream(items, checkpoint, target="elsewhere")


HEALING = (FaultPoint.LOSS_RECORDED, FaultPoint.SNAPSHOT_OPENED, FaultPoint.SNAPSHOT_APPENDED)


def test_a_loss_is_healed_before_the_query_runs(
    items: Project, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a stop at each point that a start passes."""
    load(items)
    change_items(items.source)
    run_stream(items, checkpoint)
    purge(items.source)
    with pytest.raises(DataLossError):
        run_stream(items, checkpoint)
    for point in HEALING:
        with monkeypatch.context() as stopping:
            stopping.setattr(faults, "reach", stop_at(point))
            with pytest.raises(Exception, match="stopped"):
                run_stream(items, checkpoint, on_data_loss="resnapshot")
    with pytest.warns(NewGenerationWarning, match="changes that were lost"):
        query = run_stream(items, checkpoint, on_data_loss="resnapshot")
    assert query.generation.number == 1
    commit(items.source, "UPDATE dbo.items SET name = N'after' WHERE id = 1")
    assert run_stream(items, checkpoint).generation.number == 1
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    events = [row.event for row in items.database().lake.facts.events()]
    assert events == ["snapshot_open", "bootstrap", "recovering", "snapshot_open", "resnapshot"]


def test_a_stream_beside_a_chunked_snapshot(project: Project, checkpoint: Path) -> None:
    """The stream opens it and goes on with the changes; a backfill reads it in waves."""
    chunked(project)
    run_stream(project, checkpoint, bootstrap=True)
    change_items(project.source)
    assert stream(project).backfill(max_waves=1).done is False
    run_stream(project, checkpoint)
    assert stream(project).backfill().done
    load(project)
    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, COLUMNS)


def test_an_open_chunked_snapshot_is_the_one_that_is_asked_for(project: Project) -> None:
    """No newer LSN; and no change is read, since an own stream's are its generation's."""
    chunked(project)
    project.write()
    beside = CdcStream(None, named(project))
    opened = beside.snapshot()
    change_items(project.source)
    assert beside.snapshot(resnapshot=True) == opened
    assert [row for row in project.bronze(TABLE) if row["_operation"]] == []


def test_snapshot_and_seed_without_a_query(items: Project) -> None:
    """Neither needs a session; each gives the LSN that the changes go on from."""
    own = CdcStream(None, named(items))
    taken = own.snapshot()
    change_items(items.source)
    assert own.snapshot() == taken
    anew = own.snapshot(resnapshot=True)
    assert anew.lsn > taken.lsn
    with pytest.raises(SeedRefusedError, match="has a snapshot"):
        own.seed(pa.table({"id": [1]}), str(taken.lsn))
    with pytest.raises(SettingsError, match="Spark Connect"):
        own.to_delta(checkpoint="x")
    with pytest.raises(SettingsError, match="one of: fail, resnapshot, skip"):
        own.to_delta(checkpoint="x", on_data_loss="ignore")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="needs a checkpoint"):
        own.to_delta()
