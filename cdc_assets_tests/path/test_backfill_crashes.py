"""A chunked bootstrap of three waves, with syncs and silver in between, killed everywhere (4).

One table is killed at one place after the other, and goes on from each: what is in bronze is not
read again, what is told is not told again, and S stays.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_assets.contract import Event
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.outcome import BackfillState
from cdc_assets.planning.verdict import Hold
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.chunking import TABLE, chunked, events, run_backfill
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.path.killing import KILLED, kill_at
from cdc_assets_tests.path.test_quiet_week import forget_the_log
from cdc_assets_tests.path.verdicts import assert_right as assert_verdicts_right
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
ARROW = pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)
POINTS = (
    FaultPoint.PLAN_STORED,
    FaultPoint.PLAN_TOLD,
    FaultPoint.BOUND_STORED,
    FaultPoint.WAVE_APPENDED,
    FaultPoint.WAVE_TOLD,
    FaultPoint.BACKFILL_COMPLETED,
)
KILLED.update((engine, point) for engine in ("arrow", "spark") for point in POINTS)
# A minute of starting JVMs: what Spark itself does in a wave, `test_large_chunks` kills.
SPARK_IN_SOAK = pytest.param("spark", id="spark", marks=[pytest.mark.spark, pytest.mark.soak])


@pytest.mark.parametrize("engine_name", ["arrow", SPARK_IN_SOAK], indirect=True)
def test_killed_between_any_two_writes(project: Project, tmp_path: Path) -> None:
    """History 4; B069, B070, B072: S, plan and chunks are those of the run that died.

    It is cut on a text, whose last chunk is open until rows come above: what it ends before is
    recorded before it is read.
    """
    chunked(project, rows=12)
    project.tables[TABLE] = {"snapshot": "chunked", "chunk_rows": 2, "chunk_column": "name"}
    kill_at(project, FaultPoint.SNAPSHOT_OPENED, tmp_path / "opened")
    run_sync(project)
    project.source.execute("UPDATE dbo.items SET note = 'before the plan' WHERE id = 1")
    project.source.captured()
    for place, point in enumerate(POINTS):
        kill_at(project, point, tmp_path / point, TABLE, command="backfill")
        if point in (FaultPoint.WAVE_APPENDED, FaultPoint.WAVE_TOLD):
            # By the engine that is quick, whose the table is in between; a wave that is not told
            # of is none yet.
            applied = apply_changes(replace(project, engine="arrow").database(), TABLE)
            expected = (Hold.SNAPSHOT_OPEN, int(point is FaultPoint.WAVE_TOLD))
            assert (applied.hold, applied.waves) == expected
        if place % 2:
            change_items(project.source, base=200 + 100 * place)
            run_sync(project)
    done = run_backfill(project)
    assert (done.state, done.rows) == (BackfillState.DONE, 0)
    load(project)
    load(project)
    assert_right(project)
    assert done.snapshot is not None
    plan = project.database().lake.plans.plan(project.database().table(TABLE), done.snapshot)
    assert plan is not None
    assert plan.chunks[-1].upper == ("new",)
    read = {row["name"] for row in project.bronze(TABLE) if row["_operation"] == 0}
    assert read.isdisjoint({"new", "second"}), "the changes bring what is above"


@ARROW
def test_killed_in_syncs_and_applies_in_between(project: Project, tmp_path: Path) -> None:
    """History 4: what a sync or an apply leaves half done, no wave and no completion hides.

    Silver is killed with each wave, before and after its MERGE: it is then what the next call
    would have made of it, and that call brings back nothing.
    """
    chunked(project, rows=12)
    kill_at(project, FaultPoint.FACTS_WRITTEN, tmp_path / "opened")
    kill_at(project, FaultPoint.SILVER_CREATED, tmp_path / "created")
    for wave, point in enumerate((FaultPoint.BRONZE_APPENDED, FaultPoint.FACTS_WRITTEN)):
        change_items(project.source, base=200 + 100 * wave)
        kill_at(project, point, tmp_path / point)
        run_backfill(project, max_waves=1)
        kill_at(project, FaultPoint.SILVER_MERGED, tmp_path / f"merged{wave}")
        merged = project.silver(TABLE, COLUMNS)
        again = apply_changes(project.database(), TABLE)
        assert (again.hold, again.waves) == (Hold.SNAPSHOT_OPEN, 1)
        assert (again.upserted, again.deleted) == (0, 0)
        assert project.silver(TABLE, COLUMNS) == merged
    assert run_backfill(project).done
    for point in (FaultPoint.SILVER_CREATED, FaultPoint.SILVER_MERGED):
        kill_at(project, point, tmp_path / point)
    load(project)
    assert_right(project)


def assert_right(project: Project) -> None:
    """One snapshot, one plan, each chunk once in facts and in bronze, silver as the source."""
    assert_verdicts_right(project, COLUMNS)
    assert Counter(row.event for row in events(project) if row.event != Event.SNAPSHOT_CHUNK) == {
        Event.SNAPSHOT_OPEN: 1,
        Event.SNAPSHOT_PLAN: 1,
        Event.BOOTSTRAP: 1,
    }
    (plan,) = events(project, Event.SNAPSHOT_PLAN)
    told = events(project, Event.SNAPSHOT_CHUNK)
    assert [row.payload["chunk"] for row in told] == list(range(plan.payload["chunks"]))
    assert {row.payload["plan_id"] for row in told} == {plan.payload["plan_id"]}
    bronze = [row for row in project.bronze(TABLE) if row["_operation"] == 0]
    found = Counter((row["_chunk"], row["_start_lsn"]) for row in bronze)
    assert found == {(r.payload["chunk"], r.min_lsn): r.rows for r in told if r.rows}
    assert max(Counter(row["id"] for row in bronze).values()) == 1
    (done,) = events(project, Event.BOOTSTRAP)
    assert done.rows == len(bronze)
    assert {row["_snapshot"] for row in bronze} == {done.min_lsn}


@ARROW
@pytest.mark.sandbox
def test_the_log_of_an_untold_wave_is_gone(project: Project, tmp_path: Path) -> None:
    """Its rows are all that is left of it: the facts are made of them, and none is read again."""
    chunked(project, rows=12)
    run_sync(project)
    run_backfill(project, max_waves=1)
    kill_at(project, FaultPoint.WAVE_APPENDED, tmp_path / "reached", TABLE, command="backfill")
    uri = project.database().table(TABLE).bronze_uri
    forget_the_log(uri)
    assert run_backfill(project, max_waves=1).chunks_done == 6
    load(project)
    assert_right(project)
    waves = [row.payload["wave"] for row in events(project, Event.SNAPSHOT_CHUNK)]
    assert waves == [0, 0, 1, 1, 2, 2]


@ARROW
@pytest.mark.sandbox
def test_the_log_of_an_untold_empty_wave_is_gone(project: Project, tmp_path: Path) -> None:
    """Nothing is left of it, so its chunks are read again: they had no rows then."""
    chunked(project, rows=8)
    run_sync(project)
    run_backfill(project, max_waves=1)
    project.source.execute("DELETE FROM dbo.items WHERE id > 4")
    project.source.captured()
    kill_at(project, FaultPoint.WAVE_APPENDED, tmp_path / "reached", TABLE, command="backfill")
    forget_the_log(project.database().table(TABLE).bronze_uri)
    project.source.execute("INSERT INTO dbo.items (id, name) VALUES (5, N'again')")
    project.source.captured()
    assert run_backfill(project).done
    load(project)
    assert_right(project)
    waves = [row.payload["wave"] for row in events(project, Event.SNAPSHOT_CHUNK)]
    assert waves == [0, 0, 2, 2]
