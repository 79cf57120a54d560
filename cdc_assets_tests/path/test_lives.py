"""The life of a table in `tables.yaml`: paused, taken out and put back, under another name."""

from __future__ import annotations

import pytest

from cdc_assets.engines.database import Database
from cdc_assets.errors import TablePausedError, TableRenamedError
from cdc_assets.ingest.backfill import backfill
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.seeding import seed
from cdc_assets.ingest.stream.places import settings_of
from cdc_assets.ingest.sync import sync
from cdc_assets.quality.backfills import open_backfills
from cdc_assets.settings.options import read_options
from cdc_assets.silver.apply import apply_tables
from cdc_assets.sqlserver.connection import Connections
from cdc_assets_tests.path.chunking import chunked
from cdc_assets_tests.path.copying import copy_of
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.source import Project

TABLE, OTHER = "dbo_items", "dbo_others"
pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"], indirect=True),
]


@pytest.fixture
def two(items: Project) -> Project:
    """dbo.items, and another table beside it."""
    items.source.execute("CREATE TABLE dbo.others (id int NOT NULL PRIMARY KEY)")
    items.source.enable("others")
    items.tables = {TABLE: None, OTHER: None}
    return items


def test_a_paused_table_stands_still_and_then_goes_on(
    two: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All others go on; whoever names it is told so, before anything connects."""
    load(two)
    two.tables[TABLE] = {"paused": True}
    change_items(two.source)
    rows = two.bronze(TABLE)
    assert set(run_sync(two).outcomes) == {OTHER}
    two.tables[OTHER] = {"paused": True}
    with monkeypatch.context() as nowhere:
        nowhere.setattr(Connections, "lend", pytest.fail)
        refused(two.database(), str(two.settings_file))
    assert two.bronze(TABLE) == rows
    two.tables = {TABLE: None, OTHER: None}
    assert load(two)[0].work is Work.CHANGES
    two.assert_identical(TABLE, COLUMNS)
    two.assert_each_change_once(TABLE)


def refused(database: Database, settings_file: str) -> None:
    options = {"table": f"sales.{TABLE}", "settings": settings_file}
    for call in (
        lambda: sync(database),
        lambda: sync(database, [TABLE]),
        lambda: sync(database, [TABLE], resnapshot=True),
        lambda: apply_tables(database, [TABLE]),
        lambda: backfill(database, TABLE),
        lambda: seed(database, TABLE, None, "2026-01-01"),
        # Streams and `apply_changes` ask for their settings here.
        lambda: settings_of(read_options(options)),
    ):
        with pytest.raises(TablePausedError, match=r"sales\.dbo_items.*Take that out.*\[paused\]"):
            call()


def test_an_open_snapshot_waits_with_its_table(project: Project) -> None:
    chunked(project)
    run_sync(project)
    assert [one.table for one in open_backfills(project.database())] == [TABLE]
    project.tables[TABLE] = {**(project.tables[TABLE] or {}), "paused": True}
    assert open_backfills(project.database()) == []


def test_a_table_that_was_taken_out_goes_on_when_it_is_put_back(two: Project) -> None:
    load(two)
    two.tables = {OTHER: None}
    change_items(two.source)
    run_sync(two)
    two.tables = {OTHER: None, TABLE: None}
    assert load(two)[0].work is Work.CHANGES
    two.assert_identical(TABLE, COLUMNS)


def test_a_renamed_table_is_refused_and_nothing_is_written(two: Project) -> None:
    """Others of the same sync go on; under its old name so does it."""
    load(two)
    facts = two.database().lake.facts
    events = facts.events()
    two.tables = {"things": {"capture_instance": TABLE}, OTHER: None}
    found = sync(two.database())
    assert found.outcomes[OTHER].error is None
    again = sync(two.database(), ["things"], resnapshot=True)
    for error in (found.outcomes["things"].error, again.outcomes["things"].error):
        assert isinstance(error, TableRenamedError)
        assert "source table dbo.items" in str(error)
        assert f"call it {TABLE} again" in str(error)
        assert "[renamed]" in str(error)
    assert [row for row in facts.events() if "others" not in (row.target or "")] == [
        row for row in events if "others" not in (row.target or "")
    ]
    assert not (two.folder / "lake" / "sales" / "bronze" / "things").exists()
    with pytest.raises(TableRenamedError):
        seed(two.database(), "things", copy_of(two.source), "2026-01-01")
    two.tables = {TABLE: None, OTHER: None}
    change_items(two.source)
    load(two)
    two.assert_identical(TABLE, COLUMNS)


def test_a_renamed_table_is_loaded_anew_where_both_names_are_there(two: Project) -> None:
    """And its old name may go once the new one is loaded; so it may after a reset."""
    load(two)
    two.tables = {TABLE: {"paused": True}, "things": {"capture_instance": TABLE}}
    assert load(two, "things")[0].work is Work.SNAPSHOT
    two.tables = {"things": {"capture_instance": TABLE}}
    change_items(two.source)
    assert load(two, "things")[0].work is Work.CHANGES
    assert two.silver("things", COLUMNS) == sorted(
        two.source.rows(f"SELECT {', '.join(COLUMNS)} FROM dbo.items"), key=repr
    )
    reset(two.database(), "things")
    two.tables = {TABLE: None}
    assert load(two)[0].work is Work.CHANGES


def test_two_tables_may_share_a_source(two: Project) -> None:
    load(two)
    two.tables = {TABLE: None, "things": {"capture_instance": TABLE}}
    assert load(two, "things")[0].work is Work.SNAPSHOT
