"""SIGKILL at every named fault point, then a rerun: the same end, nothing twice.

The process under test is the command line in a process group of its own; it stops at the point
and says so in a file, and the whole group (a JVM too) is killed.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from cdc_assets import faults
from cdc_assets.faults import FaultPoint
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items, load
from cdc_assets_tests.source import Project

TABLE = "dbo_items"
REACH_SECONDS_MAX = 120.0
IN_SNAPSHOT = (FaultPoint.SNAPSHOT_OPENED, FaultPoint.SNAPSHOT_APPENDED)


def kill_at(project: Project, point: FaultPoint, file: Path) -> None:
    """Run a sync and an apply in another process and kill it at a point."""
    environment = {
        **os.environ,
        "CDC_TABLES": str(project.write()),
        faults.POINT_VARIABLE: point,
        faults.FILE_VARIABLE: str(file),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", "from cdc_assets.cli import main; main()", "sync", project.key],
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + REACH_SECONDS_MAX
    while not file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"{point} was not reached:\n{process.communicate()[0]}")
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("point", list(FaultPoint))
def test_killed_and_run_again(project: Project, point: FaultPoint, tmp_path: Path) -> None:
    create_items(project.source)
    project.tables = {TABLE: None}
    if point not in IN_SNAPSHOT:
        load(project)
    change_items(project.source)
    kill_at(project, point, tmp_path / "reached")
    load(project)
    load(project)
    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, COLUMNS)
    facts = project.database().lake.facts
    batches = [row for row in facts.batches(f"bronze/{TABLE}") if row.rows]
    assert len({row.batch_id for row in batches}) == len(batches)
    events = Counter(row.event for row in facts.events())
    assert events == {"snapshot_open": 1, "bootstrap": 1}
