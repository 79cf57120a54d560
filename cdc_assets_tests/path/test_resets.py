"""A table that cannot go on says so, names `reset`, and starts anew with it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import HistoryChangedError, TableReplacedError
from cdc_assets.ingest import batch as batch_module
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


def test_rows_planned_before_a_reset_never_reach_the_table_after_it(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync may stall between its plan and its append for as long as the reset takes."""
    load(items)
    change_items(items.source)
    fitted = batch_module.fitted_columns

    def a_reset_first(*arguments: Any) -> Any:
        monkeypatch.setattr(batch_module, "fitted_columns", fitted)
        found = fitted(*arguments)
        reset(items.database(), TABLE)
        items.source.execute("UPDATE dbo.items SET name = N'later' WHERE id = 1")
        items.source.captured()
        run_sync(items)
        return found

    monkeypatch.setattr(batch_module, "fitted_columns", a_reset_first)
    with pytest.raises(TableReplacedError, match="another table has taken its place"):
        run_sync(items)
    assert {row["_operation"] for row in items.bronze(TABLE)} == {0}
    load(items)
    items.assert_identical(TABLE, COLUMNS)


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
