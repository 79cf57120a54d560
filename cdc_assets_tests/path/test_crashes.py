"""SIGKILL at every named fault point, then a rerun: the same end, nothing twice.

The point within a loss has its histories in `test_histories`, that of a second capture instance in
`test_schema_changes`, that of a table's migration in `test_migrations`, those of a backfill in
`test_backfill_crashes`, those of a stream in `test_stream_crashes`, those of upkeep in
`test_upkeep`.
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
OF_UPKEEP = (FaultPoint.FACTS_TRIMMED, FaultPoint.UPKEEP_REWRITTEN, FaultPoint.UPKEEP_RECORDED)
ELSEWHERE = (
    FaultPoint.LOSS_RECORDED,
    FaultPoint.INSTANCE_SEEN,
    FaultPoint.TABLE_MIGRATED,
    FaultPoint.SILVER_RECORDED,
    *OF_BACKFILLS,
    *OF_STREAMS,
    *OF_UPKEEP,
)
IN_SNAPSHOT = (FaultPoint.SNAPSHOT_OPENED, FaultPoint.SNAPSHOT_APPENDED)
OF_ARROW = (FaultPoint.SILVER_RANGE_MERGED,)
ON_SPARK = tuple(point for point in FaultPoint if point not in (*ELSEWHERE, *OF_ARROW))


@pytest.mark.parametrize(
    ("engine_name", "point"),
    kill_cases((*ON_SPARK, *OF_ARROW), spark=ON_SPARK),
    indirect=["engine_name"],
)
def test_killed_and_run_again(project: Project, point: FaultPoint, tmp_path: Path) -> None:
    """B069: among them between a snapshot's data and the mark that it is complete."""
    create_items(project.source)
    project.tables = {TABLE: None}
    if point in OF_ARROW:
        # The first rebuild is of several ranges, and so is what follows.
        project.extra = {"arrow_rank_rows_max": 2}
    elif point not in IN_SNAPSHOT:
        load(project)
    change_items(project.source)
    if point is FaultPoint.RESET_RECORDED:
        kill_at(project, point, tmp_path / "reached", TABLE, command="reset")
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


def test_every_point_is_killed_on_every_engine() -> None:
    """A new point without a case, here or in another module of this room, is found here."""
    for module in sorted(Path(__file__).parent.glob("test_*.py")):
        importlib.import_module(f"{__package__}.{module.stem}")
    # What a stream alone writes is written before any engine is asked, or after; Spark ranks all at
    # once; and what an apply and upkeep record is read from the log and by delta-rs, whoever wrote
    # that.
    of_no_engine = (*OF_STREAMS, FaultPoint.SILVER_RECORDED)
    of_one = {("spark", point) for point in (*of_no_engine, *OF_ARROW, *OF_UPKEEP)}
    assert set(product(("arrow", "spark"), FaultPoint)) - KILLED == of_one
