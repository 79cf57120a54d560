"""SIGKILL of a stream, its JVM too, at every point that it passes; then the next start.

A table is killed at one point after the other, since each costs a JVM, and changes between any two:
it goes on from wherever the last one died.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets.contract import SCHEMA_VERSION_PROPERTY, Event
from cdc_assets.errors import DataLossError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.stream import NewGenerationWarning
from cdc_assets_tests.path.changing import NEW, commit, enable
from cdc_assets_tests.path.chunking import chunked
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, purge, run_sync
from cdc_assets_tests.path.killing import COMMAND_LINE, KILLED, kill_at
from cdc_assets_tests.path.streaming import (
    BACKFILL,
    PROGRAM,
    TABLE,
    in_order,
    run_stream,
    stream,
)
from cdc_assets_tests.path.test_backfill_crashes import POINTS as OF_BACKFILLS
from cdc_assets_tests.path.test_crashes import OF_APPLIES, OF_UPKEEP
from cdc_assets_tests.path.verdicts import assert_right
from cdc_assets_tests.source import Project

KILL_SECONDS_MAX = 100
"""A process with a JVM of its own, on a machine that does other work."""
TARGET = f"bronze/{TABLE}"
NOT_OF_STREAMS = {
    *OF_APPLIES,
    *OF_UPKEEP,
    FaultPoint.TABLE_CREATED,
    FaultPoint.TABLE_ALTERED,
    FaultPoint.RESET_RECORDED,
}
"""What ingests knows neither silver nor upkeep, and a reset is a person's command.

Its tables are made as a sync makes them, which is killed at each of them (`test_crashes`).
"""


@pytest.fixture
def engine_name() -> str:
    """Where a history starts; some of its batches are another engine's."""
    return "arrow"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def nothing(_: Project) -> None:
    """Changes alone."""


def second_instance(items: Project) -> None:
    enable(items.source, NEW)


def older_facts(items: Project) -> None:
    """As whoever died between a migration's columns and its number has left them."""
    facts = DeltaTable(items.database().name.facts_uri)
    older = {SCHEMA_VERSION_PROPERTY: "0"}
    facts.alter.set_table_properties(older, raise_if_not_exists=False)


@dataclass(frozen=True)
class Kill:
    """A process, where it dies, which engine its batch is, and what has happened before."""

    program: str
    point: FaultPoint
    engine: str = "arrow"
    before: Callable[[Project], None] = nothing


HISTORY = (
    Kill(PROGRAM, FaultPoint.SNAPSHOT_OPENED),
    Kill(PROGRAM, FaultPoint.SNAPSHOT_APPENDED),
    # It completes the snapshot first.
    Kill(COMMAND_LINE, FaultPoint.FACTS_WRITTEN),
    Kill(COMMAND_LINE, FaultPoint.BRONZE_APPENDED),
    Kill(PROGRAM, FaultPoint.GENERATION_WRITTEN),
    Kill(PROGRAM, FaultPoint.INSTANCE_SEEN, before=second_instance),
    Kill(PROGRAM, FaultPoint.BRONZE_APPENDED, "spark"),
    Kill(PROGRAM, FaultPoint.FACTS_WRITTEN, "spark"),
    Kill(PROGRAM, FaultPoint.STREAM_RECORDED),
    Kill(COMMAND_LINE, FaultPoint.BRONZE_APPENDED),
    Kill(COMMAND_LINE, FaultPoint.FACTS_WRITTEN),
    Kill(PROGRAM, FaultPoint.TABLE_MIGRATED, before=older_facts),
)
"""History 7, from the stream's own first snapshot on: a sync, a stream, a sync, a stream."""
HEALING = (FaultPoint.LOSS_RECORDED, FaultPoint.SNAPSHOT_OPENED, FaultPoint.SNAPSHOT_APPENDED)
OF_STREAMS = {kill.point for kill in HISTORY if kill.program == PROGRAM}
KILLED.update((kill.engine, kill.point) for kill in HISTORY)
pytestmark = [
    *(pytest.mark.spark, pytest.mark.slow, pytest.mark.sqlserver),
    pytest.mark.timeout(KILL_SECONDS_MAX * len(HISTORY)),
]


def test_every_point_of_a_stream_is_killed() -> None:
    """A new point is killed here, or named as one that no stream can pass."""
    assert set(FaultPoint) - NOT_OF_STREAMS == OF_STREAMS | {*HEALING, *OF_BACKFILLS}


def test_killed_at_every_point(items: Project, tmp_path: Path, checkpoint: Path) -> None:
    """History 7; B024, B025: bronze ends as the sync's, and each batch is told once."""
    (folder := tmp_path / "synced").mkdir()
    synced = Project(folder, items.source, "arrow", tables=items.tables)
    run_sync(synced)
    for number, kill in enumerate(HISTORY):
        kill.before(items)
        change_items(items.source, 100 * (number + 1))
        items.engine = kill.engine
        command = str(checkpoint) if kill.program == PROGRAM else "sync"
        kill_at(items, kill.point, tmp_path / str(number), command=command, program=kill.program)
    assert generations(checkpoint) == ["0.json"]
    with pytest.warns(NewGenerationWarning, match="another writer has appended"):
        assert run_stream(items, checkpoint).generation.number == 1
    run_sync(items)
    run_sync(synced)
    items.assert_each_change_once(TABLE)
    ours, theirs = ([r for r in p.bronze(TABLE) if r["_operation"]] for p in (items, synced))
    first = ours[0]["_start_lsn"]
    assert in_order(ours) == in_order([r for r in theirs if r["_start_lsn"] >= first])
    batches = [r for r in items.database().lake.facts.batches(TARGET) if r.rows]
    assert [row.batch_id for row in batches] == list(range(1, len(batches) + 1))
    assert sum(row.rows or 0 for row in batches) == len(ours)
    assert_right(items, COLUMNS)
    assert [row.event for row in items.database().lake.facts.events()] == [
        Event.SNAPSHOT_OPEN,
        Event.BOOTSTRAP,
        Event.CAPTURE_INSTANCE_SEEN,
        Event.CAPTURE_INSTANCE_SWITCHED,
    ]


def generations(checkpoint: Path) -> list[str]:
    """The generations that have begun."""
    return sorted(path.name for path in (checkpoint / "_generations").glob("*.json"))


def test_a_loss_is_healed_before_the_query_runs(
    items: Project, tmp_path: Path, checkpoint: Path
) -> None:
    """Also where a start that heals it is killed: the next one goes on with the same loss."""
    load(items)
    change_items(items.source)
    run_stream(items, checkpoint)
    purge(items.source)
    with pytest.raises(DataLossError):
        run_stream(items, checkpoint)
    items.tables = {TABLE: {"on_data_loss": "resnapshot"}}
    for point in HEALING:
        kill_at(items, point, tmp_path / point, command=str(checkpoint), program=PROGRAM)
    with pytest.warns(NewGenerationWarning, match="changes that were lost"):
        assert run_stream(items, checkpoint).generation.number == 1
    commit(items.source, "UPDATE dbo.items SET name = N'after' WHERE id = 1")
    assert run_stream(items, checkpoint).generation.number == 1
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    events = [row.event for row in items.database().lake.facts.events()]
    assert events == ["snapshot_open", "bootstrap", "recovering", "snapshot_open", "resnapshot"]
    purge(items.source, 1100)
    with pytest.raises(DataLossError, match="a second loss within 7 days"):
        run_stream(items, checkpoint)
    with pytest.warns(NewGenerationWarning, match="changes that were lost"):
        run_stream(items, checkpoint, resnapshot_interval_days=0)


def test_a_backfill_killed_beside_its_stream(
    project: Project, tmp_path: Path, checkpoint: Path
) -> None:
    """B024: the stream opens the snapshot and goes on; a backfill reads it, and dies everywhere.

    Its key is a text, whose last chunk is open until rows come above.
    """
    chunked(project, rows=12)
    project.tables[TABLE] = {"snapshot": "chunked", "chunk_rows": 2, "chunk_column": "name"}
    project.source.execute("UPDATE dbo.items SET note = 'x' WHERE id = 1")
    project.source.captured()
    run_stream(project, checkpoint, bootstrap=True)
    for number, point in enumerate(OF_BACKFILLS):
        kill_at(project, point, tmp_path / point, command="backfill", program=BACKFILL)
        change_items(project.source, 100 * (number + 1))
        if point is FaultPoint.WAVE_APPENDED:
            run_stream(project, checkpoint)
    assert stream(project).backfill().done
    assert run_stream(project, checkpoint).generation.number == 0
    load(project)
    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, COLUMNS)
