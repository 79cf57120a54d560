"""A database restored below its tables' positions and snapshots (history 12), then `reset`.

LSNs begin again lower, and some come a second time for other commits. What is left of the other
history, in bronze, silver, facts or control, must not be taken for this one's.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cdc_assets.errors import HistoryChangedError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.sync import sync
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.path.killing import kill_at, kill_cases
from cdc_assets_tests.path.verdicts import assert_right as assert_verdicts_right
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sandbox
TABLE = "dbo_items"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])
POINTS = (
    FaultPoint.RESET_RECORDED,
    FaultPoint.SNAPSHOT_OPENED,
    FaultPoint.SNAPSHOT_APPENDED,
    FaultPoint.FACTS_WRITTEN,
    FaultPoint.SILVER_CREATED,
    FaultPoint.SILVER_MERGED,
)


def restored(items: Project) -> None:
    """A table whose position, newest snapshot and silver are ahead of its database."""
    change_items(items.source)
    load(items)
    items.source.execute("EXEC sandbox.backup_database @name = N'yesterday'")
    change_items(items.source, base=300)
    load(items)
    items.source.execute("UPDATE dbo.items SET name = N'of a lost day', price = 9 WHERE id <> 2")
    items.source.captured()
    assert sync(items.database(), resnapshot=True).failed == ()
    apply_changes(items.database(), TABLE)
    items.source.execute("EXEC sandbox.restore_database @name = N'yesterday'")


def assert_right(items: Project, resets: int = 1) -> None:
    assert_verdicts_right(items, COLUMNS)
    facts = items.database().lake.facts
    events = Counter(row.event for row in facts.events())
    assert (events["bootstrap"], events["reset"]) == (1 + resets, resets)
    batches = [row.batch_id for row in facts.batches(f"bronze/{TABLE}") if row.rows]
    assert len(set(batches)) == len(batches), "batch ids go on"


@pytest.mark.parametrize(
    ("engine_name", "point"),
    kill_cases(POINTS, soak=[FaultPoint.SILVER_CREATED]),
    indirect=["engine_name"],
)
def test_killed_on_the_way_back(items: Project, point: FaultPoint, tmp_path: Path) -> None:
    restored(items)
    with pytest.raises(HistoryChangedError, match=f"cdc-assets reset sales {TABLE}"):
        run_sync(items)
    change_items(items.source, base=500)
    if point is FaultPoint.RESET_RECORDED:
        kill_at(items, point, tmp_path / "reached", TABLE, "--yes", command="reset")
    else:
        reset(items.database(), TABLE)
        kill_at(items, point, tmp_path / "reached")
    load(items)
    change_items(items.source, base=700)
    load(items)
    load(items)
    assert_right(items)


@ARROW
def test_an_apply_after_a_reset_brings_nothing_back(items: Project) -> None:
    """Bronze still holds what was given up, until the next sync."""
    restored(items)
    reset(items.database(), TABLE)
    assert not apply_changes(items.database(), TABLE).bronze_found
    control = items.database().lake.control.read()
    assert control[f"silver/{TABLE}"].applied_lsn is None
    change_items(items.source, base=500)
    load(items)
    assert_right(items)
    row = items.database().lake.control.read()[f"silver/{TABLE}"]
    assert row.snapshot_lsn is not None
    opened = [r.max_lsn for r in items.database().lake.facts.events() if r.event == "snapshot_open"]
    assert row.snapshot_lsn == opened[-1] < opened[-2], "the new snapshot is below the old one"


@ARROW
def test_a_restored_database_with_nothing_new_waits(items: Project) -> None:
    """Its newest LSN is one that an earlier snapshot had: there is no LSN for the next one yet."""
    load(items)
    items.source.execute("EXEC sandbox.backup_database @name = N'yesterday'")
    change_items(items.source)
    load(items)
    items.source.execute("EXEC sandbox.restore_database @name = N'yesterday'")
    reset(items.database(), TABLE)
    outcome = run_sync(items).outcomes[TABLE]
    assert (outcome.work, len(outcome.warnings)) == (Work.WAITING, 1)
    change_items(items.source, base=300)
    assert load(items)[0].work is Work.SNAPSHOT
    assert_right(items)


@ARROW
def test_a_restore_above_the_position_and_below_the_last_snapshot(items: Project) -> None:
    """A re-snapshot moves no position: only its own LSN tells that the history is another."""
    load(items)
    items.source.execute("EXEC sandbox.backup_database @name = N'yesterday'")
    change_items(items.source)
    assert sync(items.database(), resnapshot=True).failed == ()
    apply_changes(items.database(), TABLE)
    items.source.execute("EXEC sandbox.restore_database @name = N'yesterday'")
    for again in (False, True):
        (failed,) = sync(items.database(), resnapshot=again).failed
        assert isinstance(failed.error, HistoryChangedError)
        assert "the snapshot 0x" in failed.error.what
        assert f"cdc-assets reset sales {TABLE}" in failed.error.hint
    reset(items.database(), TABLE)
    change_items(items.source, base=300)
    # Its LSN may be the one that the lost snapshot had: then the next one is taken.
    assert run_sync(items).outcomes[TABLE].work in (Work.WAITING, Work.SNAPSHOT)
    change_items(items.source, base=500)
    load(items)
    assert_right(items)
