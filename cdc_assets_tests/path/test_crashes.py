"""SIGKILL at every named fault point, then a rerun: the same end, nothing twice.

The point within a loss has its histories in `test_histories`, that of a second capture instance in
`test_schema_changes`, that of a table's migration in `test_migrations`, those of a backfill in
`test_backfill_crashes`, those of a stream in `test_stream_crashes`, those of silver and its history
in `test_silver_crashes`, those of upkeep in `test_upkeep`.
"""

import importlib
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from cdc_assets.faults import FaultPoint
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items, load
from cdc_assets_tests.path.killing import KILLED, kill_at, kill_cases
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE = "dbo_items"
OF_STREAMS = (FaultPoint.GENERATION_WRITTEN, FaultPoint.STREAM_RECORDED)
OF_BACKFILLS = (
    FaultPoint.PLAN_STORED,
    FaultPoint.PLAN_TOLD,
    FaultPoint.BOUND_STORED,
    FaultPoint.WAVE_APPENDED,
    FaultPoint.WAVE_TOLD,
    FaultPoint.BACKFILL_COMPLETED,
)
OF_APPLIES = {point for point in FaultPoint if point.startswith(("silver.", "history."))}
OF_UPKEEP = {
    FaultPoint.FACTS_TRIMMED,
    *(point for point in FaultPoint if point.startswith(("bookkeeping.", "upkeep."))),
}
ELSEWHERE = {
    FaultPoint.LOSS_RECORDED,
    FaultPoint.INSTANCE_SEEN,
    FaultPoint.TABLE_CREATED,
    FaultPoint.TABLE_ALTERED,
    FaultPoint.TABLE_MIGRATED,
    *OF_BACKFILLS,
    *OF_STREAMS,
    *OF_APPLIES,
    *OF_UPKEEP,
}
IN_SNAPSHOT = (FaultPoint.SNAPSHOT_OPENED, FaultPoint.SNAPSHOT_APPENDED)
OF_SYNCS = tuple(point for point in FaultPoint if point not in ELSEWHERE)
ENGINES = ("arrow", "spark")
TABLES = 5
"""Facts, bronze, control, silver, history."""
KILLED.add(("arrow", FaultPoint.TABLE_CREATED))


@pytest.mark.parametrize(
    ("engine_name", "point"),
    kill_cases(OF_SYNCS, spark=OF_SYNCS),
    indirect=["engine_name"],
)
def test_killed_and_run_again(project: Project, point: FaultPoint, tmp_path: Path) -> None:
    """B069: among them between a snapshot's data and the mark that it is complete."""
    create_items(project.source)
    project.tables = {TABLE: None}
    if point not in IN_SNAPSHOT:
        load(project)
    change_items(project.source)
    if point is FaultPoint.RESET_RECORDED:
        kill_at(project, point, tmp_path / "reached", TABLE, "--yes", command="reset")
    else:
        kill_at(project, point, tmp_path / "reached")
    load(project)
    load(project)
    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, COLUMNS)
    facts = project.database().lake.facts
    batches = [row for row in facts.batches(f"bronze/{TABLE}") if row.rows]
    assert len({row.batch_id for row in batches}) == len(batches)
    events = Counter(row.event for row in facts.events())
    resets = int(point is FaultPoint.RESET_RECORDED)
    assert events == Counter(snapshot_open=1 + resets, bootstrap=1 + resets, reset=resets)


@pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)
def test_killed_when_each_table_is_there_and_empty(project: Project, tmp_path: Path) -> None:
    """Facts, bronze and control are made one after the other, silver and its history after them."""
    create_items(project.source)
    project.tables = {TABLE: {"scd": 2}}
    for number in range(TABLES):
        kill_at(project, FaultPoint.TABLE_CREATED, tmp_path / str(number))
        change_items(project.source, base=100 + 200 * number)
    load(project)
    load(project)
    made = Path(project.database().name.control_uri).parents[1].rglob("_delta_log")
    assert len(list(made)) == TABLES
    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, COLUMNS)
    events = Counter(row.event for row in project.database().lake.facts.events())
    assert events == Counter(snapshot_open=1, bootstrap=1)


def test_every_point_is_killed_on_every_engine() -> None:
    """A new point without a case, here or in another module of this room, is found here."""
    for module in sorted(Path(__file__).parent.glob("test_*.py")):
        importlib.import_module(f"{__package__}.{module.stem}")
    # What a stream alone writes is written before any engine is asked, or after, and so is what
    # upkeep records of an engine's commit.
    of_arrow = {
        *OF_STREAMS,
        *(OF_UPKEEP - {FaultPoint.UPKEEP_REWRITTEN}),
        # Spark ranks all at once.
        FaultPoint.SILVER_RANGE_MERGED,
    }
    # Delta's library alone marks rows.
    of_one = {("spark", point) for point in of_arrow} | {("arrow", FaultPoint.SILVER_PREPARED)}
    assert set(product(ENGINES, FaultPoint)) - KILLED == of_one
