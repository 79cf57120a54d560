"""A table that cannot go on says so, names `reset`, and starts anew with it."""

from dataclasses import replace
from pathlib import Path

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import HistoryChangedError, TableReplacedError
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.resets import reset
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.source import Project

TABLE = "dbo_items"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])
COMMAND = "cdc-assets reset sales dbo_items"


@ARROW
def test_a_reset_starts_the_table_anew(items: Project) -> None:
    load(items)
    change_items(items.source)
    load(items)
    lake = items.database().lake
    ahead = "0xFFFFFFFF000000000001"
    lake.control.merge(lambda rows: [replace(rows[f"bronze/{TABLE}"], end_lsn=ahead)])
    with pytest.raises(HistoryChangedError, match=COMMAND):
        run_sync(items)
    assert reset(items.database(), TABLE).event == Event.RESET
    assert lake.control.read()[f"bronze/{TABLE}"].end_lsn is None
    assert lake.facts.newest_changes() == {}
    change_items(items.source, base=500)
    outcome, applied = load(items)
    assert (outcome.work, applied.rebuilt) == (Work.SNAPSHOT, True)
    items.assert_identical(TABLE, COLUMNS)
    assert {row["_operation"] for row in items.bronze(TABLE)} == {0}
    change_items(items.source, base=700)
    assert load(items)[0].work is Work.CHANGES
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)
    batches = [row.batch_id for row in lake.facts.batches(f"bronze/{TABLE}") if row.rows]
    assert batches == [1, 2], "batch ids go on"


@ARROW
def test_a_position_that_the_source_does_not_know(items: Project) -> None:
    """A restored database has other commits: one that a poll gave is gone, and older ones stand."""
    load(items)
    change_items(items.source)
    load(items)
    control = items.database().lake.control
    row = control.read()[f"bronze/{TABLE}"]
    assert row.end is not None
    gone = str(row.end.lsn.previous())
    control.merge(lambda rows: [replace(rows[f"bronze/{TABLE}"], end_lsn=gone)])
    with pytest.raises(HistoryChangedError, match=f"is no commit of this database.*{COMMAND}"):
        run_sync(items)


@ARROW
def test_bronze_that_lost_a_batch_is_an_error(items: Project) -> None:
    load(items)
    change_items(items.source)
    run_sync(items)
    log = Path(items.database().table(TABLE).bronze_uri) / "_delta_log"
    max(log.glob("*.json")).unlink()
    change_items(items.source, base=500)
    with pytest.raises(TableReplacedError, match=COMMAND):
        run_sync(items)
    reset(items.database(), TABLE)
    load(items)
    change_items(items.source, base=700)
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)
