"""What a switch tells holds from the moment that it is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import DataLossError
from cdc_assets.ingest.sync import known_tables, sync
from cdc_assets.lake.control import Control
from cdc_assets_tests.path.changing import NEW, TABLE, clean, commit, disable, enable, events
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver


@pytest.fixture
def engine_name() -> str:
    """No engine is asked who reads a table."""
    return "arrow"


def switch_without_control(items: Project, monkeypatch: pytest.MonkeyPatch, rows: bool) -> None:
    """A sync that tells of a switch and dies; the old instance is disabled by that.

    With `rows` it has read some, all of them from the old one.
    """
    source = items.source
    load(items)
    if rows:
        change_items(source)
    enable(source, NEW)
    source.execute("CREATE TABLE dbo.other (id int NOT NULL PRIMARY KEY)")
    source.enable("other")
    commit(source, "INSERT dbo.other VALUES (1)")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as crash:
        crash.setattr(Control, "update", die)
        with pytest.raises(KeyboardInterrupt):
            sync(items.database())
    assert len(events(items, Event.CAPTURE_INSTANCE_SWITCHED)) == 1
    disable(source)


@pytest.mark.parametrize("rows", [False, True], ids=["quiet", "rows"])
def test_an_instance_said_to_be_needed_no_more_is_not(
    items: Project, monkeypatch: pytest.MonkeyPatch, rows: bool
) -> None:
    switch_without_control(items, monkeypatch, rows)
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    change_items(items.source, base=300)
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)
    assert len(events(items, Event.CAPTURE_INSTANCE_SWITCHED)) == 1


def test_what_is_lost_after_a_switch_is_lost(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event says how far the table was read, and no further."""
    switch_without_control(items, monkeypatch, rows=False)
    commit(items.source, "DELETE dbo.items WHERE id = 2")
    clean(items.source, NEW)
    commit(items.source, "UPDATE dbo.items SET name = N'kept' WHERE id = 1")
    with pytest.raises(DataLossError, match="removed by cleanup"):
        run_sync(items)


def test_a_switch_of_a_bronze_that_was_given_up_tells_nothing(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run from before a reset may tell of it afterwards: the new bronze was not read so far."""
    switch_without_control(items, monkeypatch, rows=False)
    database = items.database()
    (known,) = known_tables(database, [TABLE], database.lake.facts.newest_rows)
    control = known.control
    assert control is not None
    assert known.switch is not None
    other = replace(known, control=replace(control, table_id="another"))
    assert known.position_after(None) == known.switch.end
    assert other.position_after(None) == control.end
    assert other.identity == control.identity != known.identity
