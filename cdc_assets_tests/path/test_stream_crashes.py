"""SIGKILL, the JVM too, where a stream alone has two durable writes; then the next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.faults import FaultPoint
from cdc_assets_tests.path.helpers import change_items, run_sync
from cdc_assets_tests.path.killing import KILLED, kill_at
from cdc_assets_tests.path.streaming import PROGRAM, TABLE, run_stream
from cdc_assets_tests.source import Project

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.sqlserver]
POINTS = {
    "arrow": (FaultPoint.GENERATION_WRITTEN, FaultPoint.STREAM_RECORDED),
    # Before a generation is written no engine is asked.
    "spark": (FaultPoint.STREAM_RECORDED,),
}
KILLED.update((engine, point) for engine, points in POINTS.items() for point in points)


@pytest.mark.parametrize("engine_name", POINTS, indirect=True)
def test_killed_and_started_again(items: Project, tmp_path: Path) -> None:
    """B024, B025: between a generation's file and its query, and a batch and Spark's own commit."""
    run_sync(items)
    change_items(items.source)
    checkpoint = tmp_path / "checkpoint"
    for point in POINTS[items.engine]:
        kill_at(items, point, tmp_path / point, command=str(checkpoint), program=PROGRAM)
    query = run_stream(items, checkpoint)
    assert query.generation.number == 0
    items.assert_each_change_once(TABLE)
    assert len(items.bronze(TABLE)) == 18
    batches = [r for r in items.database().lake.facts.batches(f"bronze/{TABLE}") if r.rows]
    assert [(row.batch_id, row.rows) for row in batches] == [(1, 13)]
