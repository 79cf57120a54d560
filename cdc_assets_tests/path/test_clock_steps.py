"""The server's clock is set back (history 13): no time, and no verdict, goes back with it.

The sandbox's clock is set: no real server's can be, so these run on the sandbox alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from cdc_assets.contract import Event
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.sync import sync
from cdc_assets.planning.verdict import Hold
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.chunking import chunked, events, run_backfill
from cdc_assets_tests.path.helpers import (
    COLUMNS,
    HOUR,
    change_items,
    clean_up,
    load,
    run_sync,
    set_clock,
)
from cdc_assets_tests.path.killing import kill_at, kill_cases
from cdc_assets_tests.path.verdicts import assert_right as assert_verdicts_right
from cdc_assets_tests.source import Project, Server

pytestmark = pytest.mark.sandbox
TABLE = "dbo_items"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])


@pytest.fixture
def stepping(items: Project, server: Server) -> Iterator[Project]:
    """A project whose server's clock is an hour ahead, and is put right in the end."""
    set_clock(items, HOUR)
    items.source.execute("UPDATE dbo.items SET note = 'an hour ahead' WHERE id = 5")
    items.source.captured()
    yield items
    set_clock(items, 0)


def verdict(project: Project, layer: str = "bronze") -> datetime:
    found = project.database().lake.control.read()[f"{layer}/{TABLE}"].finalized_until
    assert found is not None
    return found


def assert_times(project: Project) -> None:
    """Along the log they never go back, snapshots' rows and the facts' bounds included."""
    rows = project.bronze(TABLE)
    assert all(a["_commit_ts"] <= b["_commit_ts"] for a, b in pairwise(rows))
    for fact in project.database().lake.facts.batches(f"bronze/{TABLE}"):
        own = [r["_commit_ts"] for r in rows if r["_batch_id"] == fact.batch_id]
        if fact.rows:
            assert (fact.min_commit_ts, fact.max_commit_ts) == (min(own), max(own))


def assert_right(project: Project) -> None:
    assert_verdicts_right(project, COLUMNS)
    assert_times(project)


POINTS = (FaultPoint.BRONZE_APPENDED, FaultPoint.FACTS_WRITTEN, FaultPoint.SILVER_MERGED)
IN_SNAPSHOT = (FaultPoint.SNAPSHOT_OPENED, FaultPoint.SNAPSHOT_APPENDED)


@pytest.mark.parametrize(
    ("engine_name", "point"), kill_cases([*POINTS, *IN_SNAPSHOT]), indirect=["engine_name"]
)
def test_killed_after_the_clock_went_back(
    stepping: Project, point: FaultPoint, tmp_path: Path
) -> None:
    load(stepping)
    change_items(stepping.source)
    load(stepping)
    before = verdict(stepping)
    change_items(stepping.source, base=300)
    set_clock(stepping, 0)
    change_items(stepping.source, base=500)
    options = ("--resnapshot",) if point in IN_SNAPSHOT else ()
    kill_at(stepping, point, tmp_path / "reached", *options)
    change_items(stepping.source, base=700)
    load(stepping)
    load(stepping)
    assert_right(stepping)
    rows = [r for r in stepping.bronze(TABLE) if r["id"] >= 500]
    assert rows
    assert all(row["_commit_ts"] >= before for row in rows)
    assert verdict(stepping) >= before


def test_a_batch_in_which_the_clock_goes_back(stepping: Project) -> None:
    load(stepping)
    change_items(stepping.source)
    set_clock(stepping, 0)
    change_items(stepping.source, base=300)
    load(stepping)
    assert_right(stepping)


@ARROW
def test_a_snapshot_for_a_loss_comes_after_the_verdicts_before_it(stepping: Project) -> None:
    """Without control, too: bronze and the events say the same times."""
    load(stepping)
    change_items(stepping.source)
    load(stepping)
    before = verdict(stepping)
    set_clock(stepping, 0)
    change_items(stepping.source, base=300)
    newest = stepping.source.captured()
    clean_up(stepping.source)
    stepping.source.execute("UPDATE dbo.items SET name = N'kept' WHERE id = 1")
    stepping.source.captured(minimum=newest)
    defaults = {"engine": stepping.engine, "finality": stepping.finality}
    stepping.extra = {"defaults": {**defaults, "on_data_loss": "resnapshot"}}
    outcome, _ = load(stepping)
    assert outcome.gap is not None
    assert outcome.gap.start <= outcome.gap.end
    shutil.rmtree(stepping.database().name.control_uri)
    change_items(stepping.source, base=500)
    load(stepping)
    load(stepping)
    assert_right(stepping)
    assert verdict(stepping) >= before


@ARROW
def test_a_row_that_a_snapshot_shows_early_holds_the_verdict(stepping: Project) -> None:
    """The clock goes back between such a commit and the end of the read.

    After the read it is earlier than the verdict that the first commit alone would give.
    """
    load_at = "EXEC sandbox.set_clock @shift_seconds = {}"
    stepping.source.execute(load_at.format(2 * HOUR))
    text = (
        "INSERT INTO dbo.items (id, name) VALUES (90, N'first');"
        " EXEC sys.sp_cdc_stop_job @job_type = N'capture';"
        " UPDATE dbo.items SET name = N'early' WHERE id = 1;"
        f" {load_at.format(0)}"
    ).replace("'", "''")
    stepping.source.execute(
        f"EXEC sandbox.fault @kind = N'execute', @table = N'dbo.items', @text = N'{text}',"
        f" @login = N'{stepping.source.server.reader_login}'"
    )
    load(stepping)
    assert stepping.source.rows("EXEC sandbox.faults") == []
    _, applied = load(stepping)
    assert (1, "early") in stepping.silver(TABLE, ["id", "name"])
    assert (applied.hold, applied.finalized_until) == (Hold.SNAPSHOT_SETTLING, None)
    stepping.source.start_capture()
    stepping.source.execute(load_at.format(3 * HOUR))
    change_items(stepping.source, base=300)
    assert sync(stepping.database()).failed == ()
    assert apply_changes(stepping.database(), TABLE).hold is None
    assert_right(stepping)
    assert run_sync(stepping).failed == ()


@ARROW
def test_the_clock_goes_back_between_two_waves(project: Project) -> None:
    """What a wave saw is early until bronze is complete to there, whatever the clock says later."""
    set_clock(project, HOUR)
    try:
        chunked(project)
        run_sync(project)
        run_backfill(project, max_waves=1)
        marks = [row.payload["high_mark"] for row in events(project, Event.SNAPSHOT_CHUNK)]
        set_clock(project, 0)
        assert run_backfill(project).done
        (done,) = events(project, Event.BOOTSTRAP)
        assert done.payload["high_mark"] >= max(marks)
        assert load(project)[1].hold is Hold.SNAPSHOT_SETTLING
        project.assert_identical(TABLE, COLUMNS)
    finally:
        set_clock(project, 0)
