"""`CdcStream`: the stream writes the sync's bronze, and a table moves from one to the other.

The fault points that a stream passes are in `test_stream_crashes`; a stream of a table that no
settings know is in `test_own_streams`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import (
    AnotherWriterError,
    CheckpointError,
    DataLossError,
    SeedRefusedError,
    SettingsError,
)
from cdc_assets.ingest.stream import CdcStream, NewGenerationWarning, sink
from cdc_assets_tests.path.chunking import chunked
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, once, purge, run_sync
from cdc_assets_tests.path.streaming import (
    NOW,
    TABLE,
    finish,
    in_order,
    named,
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


def test_a_checkpoint_of_another_program_is_left_alone(items: Project, checkpoint: Path) -> None:
    """B025: neither what it holds nor a place that cannot be written is taken for a new one."""
    load(items)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text("v1\n{}\n{}")
    with pytest.raises(CheckpointError, match="nothing that says whose"):
        run_stream(items, checkpoint)
    run_stream(items, ours := checkpoint.with_name("ours"))
    (ours / "offsets" / "0").write_text("v2\n{}\n{}")
    with pytest.raises(CheckpointError, match="offsets/0 is no offset of ours"):
        run_stream(items, ours)
    (file := checkpoint.with_name("file")).write_text("no folder")
    with pytest.raises(CheckpointError, match="cannot be read or written"):
        run_stream(items, file / "checkpoint")


def test_a_loss_beside_a_chunked_snapshot_is_not_skipped(
    project: Project, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks from before the gap would stay as they were: the next start opens another snapshot.

    Under `skip` too, whether the loss is there at the start or comes while the query runs.
    """
    chunked(project)
    project.tables = {TABLE: {"snapshot": "chunked", "chunk_rows": 2, "on_data_loss": "skip"}}
    run_stream(project, checkpoint, bootstrap=True)
    assert not stream(project).backfill(max_waves=1).done
    change_items(project.source)
    once(monkeypatch, sink, "poll_tables", lambda: purge(project.source))
    with pytest.raises(DataLossError, match="removed by cleanup"):
        run_stream(project, checkpoint)
    with pytest.warns(NewGenerationWarning, match="changes that were lost"):
        assert run_stream(project, checkpoint).generation.number == 1
    change_items(project.source, 300)
    run_stream(project, checkpoint)
    assert_opened_anew(project)


def assert_opened_anew(project: Project) -> None:
    """The first snapshot was given up for one that is read to its end, and silver is the source."""
    assert stream(project).backfill().done
    load(project)
    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, COLUMNS)
    opened, plan, done = Event.SNAPSHOT_OPEN, Event.SNAPSHOT_PLAN, Event.BOOTSTRAP
    told = [row.event for row in project.database().lake.facts.events()]
    assert told == [opened, plan, Event.RECOVERING, opened, plan, done], "it had no other before"


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
    assert len(items.bronze(TABLE)) == 5, "nothing was read for it"
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
