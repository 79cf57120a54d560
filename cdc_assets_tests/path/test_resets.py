"""A table that cannot go on says so, names `reset`, and starts anew with it."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import CommitConflictError, HistoryChangedError, TableReplacedError
from cdc_assets.ingest import batch as batch_module
from cdc_assets.ingest import snapshot as snapshot_module
from cdc_assets.ingest import sync as sync_module
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.seeding import seed
from cdc_assets.ingest.sync import sync
from cdc_assets.lake import lake as lake_module
from cdc_assets.lake.opening import create_table
from cdc_assets.lsn import Lsn
from cdc_assets_tests.path.copying import copy_of
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, once, run_sync
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
    lake.control.update(lambda rows: [replace(rows[f"bronze/{TABLE}"], end_lsn=ahead)])
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

    def a_reset_and_a_sync() -> None:
        reset(items.database(), TABLE)
        items.source.execute("UPDATE dbo.items SET name = N'later' WHERE id = 1")
        items.source.captured()
        run_sync(items)

    once(monkeypatch, batch_module, "beyond_arrow", a_reset_and_a_sync)
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
    control.update(lambda rows: [replace(rows[f"bronze/{TABLE}"], end_lsn=gone)])
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


@ARROW
@pytest.mark.parametrize("way", ["sync", "seed"])
def test_a_reset_while_a_snapshot_is_read(
    items: Project, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Its event stands after the reset's, and its rows in what was given up."""
    change_items(items.source)
    at, copy = Lsn(items.source.captured()), copy_of(items.source)
    once(monkeypatch, snapshot_module, "read_high_mark", lambda: reset(items.database(), TABLE))
    if way == "sync":
        run_sync(items)
    else:
        seed(items.database(), TABLE, copy, at)
    assert _events(items) == [Event.SNAPSHOT_OPEN, Event.RESET, Event.BOOTSTRAP]
    _assert_starts_anew(items)


@ARROW
@pytest.mark.parametrize("is_further", [False, True])
def test_a_reset_before_a_planned_snapshot_is_opened(
    items: Project, monkeypatch: pytest.MonkeyPatch, is_further: bool
) -> None:
    """Then the event that it is open stands after the reset's too: nothing is read."""
    if is_further:
        load(items)
        change_items(items.source)
    opening = snapshot_module if is_further else sync_module
    once(monkeypatch, opening, "open_snapshots", lambda: reset(items.database(), TABLE))
    (failed,) = sync(items.database(), resnapshot=is_further).failed
    assert isinstance(failed.error, CommitConflictError)
    assert "reset while its snapshot was opened" in str(failed.error)
    assert _events(items)[-2:] == [Event.RESET, Event.SNAPSHOT_OPEN]
    _assert_starts_anew(items)


@ARROW
def test_a_commit_to_what_a_reset_gave_up(items: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come just before the table is emptied, which is then tried again."""
    load(items)
    reset(items.database(), TABLE)
    database = items.database()
    log = Path(database.table(TABLE).bronze_uri) / "_delta_log"
    taken = log / f"{len(list(log.glob('*.json'))):020}.json"
    taken.mkdir()  # Where the next commit's file would be.
    (failed,) = sync(database).failed
    assert isinstance(failed.error, CommitConflictError)
    assert "others commit to it" in str(failed.error)
    assert _events(items)[-1] == Event.RESET
    taken.rmdir()

    def overtaken(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(lake_module, "create_table", create_table)
        taken.mkdir()
        try:
            return create_table(*arguments, **options)
        finally:
            taken.rmdir()

    monkeypatch.setattr(lake_module, "create_table", overtaken)
    _assert_starts_anew(items)


@ARROW
def test_a_bronze_that_was_given_up_and_put_back(items: Project, tmp_path: Path) -> None:
    """Without control's row nothing else tells it from the one that took its place."""
    load(items)
    lake, bronze = items.database().lake, Path(items.database().table(TABLE).bronze_uri)
    shutil.copytree(bronze, tmp_path / "old")
    reset(items.database(), TABLE)
    change_items(items.source)
    assert load(items)[0].work is Work.SNAPSHOT
    shutil.rmtree(bronze)
    shutil.move(tmp_path / "old", bronze)
    lake.control.update(lambda rows: [row.without_position() for row in rows.values()])
    change_items(items.source, base=500)
    with pytest.raises(TableReplacedError, match=f"another one stands in its place.*{COMMAND}"):
        run_sync(items)


def _events(items: Project) -> list[str | None]:
    return [row.event for row in items.database().lake.facts.events()]


def _assert_starts_anew(items: Project) -> None:
    change_items(items.source, base=500)
    outcome, applied = load(items)
    assert (outcome.work, applied.bronze_found) == (Work.SNAPSHOT, True)
    change_items(items.source, base=700)
    assert load(items)[0].work is Work.CHANGES
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)
