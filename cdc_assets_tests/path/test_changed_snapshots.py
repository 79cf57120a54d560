"""Snapshots of a table whose columns are not those that were captured, and those of a switch."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import DataLossError, SchemaChangedError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest import snapshot as snapshot_module
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.seeding import seed
from cdc_assets.ingest.sync import sync
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.changing import (
    NEW,
    OLD,
    TABLE,
    bronze_type,
    clean,
    commit,
    disable,
    enable,
    events,
)
from cdc_assets_tests.path.copying import copy_of
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, once, run_sync
from cdc_assets_tests.path.killing import kill_at
from cdc_assets_tests.source import Project

pytestmark = [pytest.mark.sqlserver]
READD = (
    "ALTER TABLE dbo.items DROP COLUMN note",
    "ALTER TABLE dbo.items ADD note varchar(60) NULL",
    "UPDATE dbo.items SET note = 'another', name = N'again' WHERE id = 2",
)
ADD = "ALTER TABLE dbo.items ADD d int NOT NULL DEFAULT 7"


@pytest.fixture
def engine_name() -> str:
    """What is read is decided before an engine is asked."""
    return "arrow"


def read_anew(items: Project) -> TableOutcome:
    """A re-snapshot that a person asks for, and silver's rebuild; raises its error."""
    outcome = sync(items.database(), resnapshot=True).outcomes[TABLE]
    if outcome.error is not None:
        raise outcome.error
    assert outcome.work is Work.SNAPSHOT
    assert apply_changes(items.database(), TABLE).rebuilt
    return outcome


def snapshot_notes(items: Project) -> dict[int, Any]:
    """`note` by id, as the newest snapshot has it."""
    rows = [r for r in items.bronze(TABLE) if r["_operation"] == 0]
    newest = max(r["_snapshot"] for r in rows)
    return {r["id"]: r["note"] for r in rows if r["_snapshot"] == newest}


def test_a_dropped_column_is_null_in_a_snapshot(items: Project) -> None:
    items.source.execute("UPDATE dbo.items SET note = 'before'")
    load(items)
    commit(items.source, "ALTER TABLE dbo.items DROP COLUMN note", "DELETE dbo.items WHERE id = 5")
    read_anew(items)
    assert snapshot_notes(items) == dict.fromkeys(range(1, 5))
    assert bronze_type(items, "note") == "string"
    items.assert_identical(TABLE, COLUMNS[:-1])


def test_a_column_dropped_before_the_first_snapshot(items: Project) -> None:
    items.source.execute("ALTER TABLE dbo.items DROP COLUMN at")
    load(items)
    assert bronze_type(items, "at") == "timestamp_ntz"
    items.assert_identical(TABLE, ("id", "name", "price", "note"))


def test_a_type_is_fitted_before_a_snapshot_is_opened(items: Project) -> None:
    """B143: and a narrower one is cast."""
    load(items)
    items.source.execute("ALTER TABLE dbo.items ALTER COLUMN price decimal(9,2) NULL")
    read_anew_after_a_commit(items)
    assert bronze_type(items, "price") == "decimal(12,4)"
    before = items.bronze(TABLE)
    commit(
        items.source,
        "ALTER TABLE dbo.items ALTER COLUMN price decimal(18,6) NULL",
        "UPDATE dbo.items SET price = 123456789012.123456 WHERE id = 1",
    )
    with pytest.raises(SchemaChangedError, match=r"price is DECIMAL\(18,6\) at the source now"):
        read_anew(items)
    assert items.bronze(TABLE) == before
    assert len(events(items, Event.SNAPSHOT_OPEN)) == 2
    # The other way out that the error names: bronze and silver get the new type.
    reset(items.database(), TABLE)
    load(items)
    assert dict(items.silver(TABLE, ["id", "price"]))[1] == Decimal("123456789012.123456")
    items.assert_identical(TABLE, COLUMNS)
    change_items(items.source)
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_a_column_added_again_is_another_one(items: Project) -> None:
    """A snapshot has what the instance captures: by the column's id, not by its name."""
    items.source.execute("UPDATE dbo.items SET note = 'captured'")
    load(items)
    commit(items.source, *READD)
    load(items)
    assert dict(items.silver(TABLE, ["id", "note"]))[2] is None, "captured as NULL"
    read_anew_after_a_commit(items)
    assert snapshot_notes(items) == dict.fromkeys(range(1, 6))
    enable(items.source, NEW)
    # Its columns are read by the very snapshot that meets it first.
    read_anew_after_a_commit(items)
    assert snapshot_notes(items)[2] == "another"
    items.assert_identical(TABLE, COLUMNS)
    load(items)
    disable(items.source)
    change_items(items.source)
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)


def read_anew_after_a_commit(items: Project) -> None:
    """A snapshot needs an LSN of its own."""
    commit(items.source, "UPDATE dbo.items SET name = name + N'!' WHERE id = 1")
    read_anew(items)


def test_a_column_added_again_with_another_type(items: Project) -> None:
    """Bronze has one column of a name, so the second instance's stops the table."""
    load(items)
    items.source.execute(
        "ALTER TABLE dbo.items DROP COLUMN note", "ALTER TABLE dbo.items ADD note int NULL"
    )
    enable(items.source, NEW)
    commit(items.source, "UPDATE dbo.items SET note = 5 WHERE id = 1")
    with pytest.raises(SchemaChangedError, match="note is INT") as stopped:
        run_sync(items)
    assert "widen bronze's type to none" in stopped.value.hint


def with_new_column(items: Project) -> None:
    """B140's input: a column with a default, set before and after an instance captures it."""
    load(items)
    items.source.execute(ADD, "UPDATE dbo.items SET d = 8 WHERE id = 3")
    load(items)
    enable(items.source, NEW)
    commit(items.source, "UPDATE dbo.items SET name = N'other' WHERE id = 1")


def fill(items: Project, **more: Any) -> None:
    items.tables = {TABLE: {"snapshot_on_switch": True, **more}}


def test_a_new_column_is_null_in_rows_that_do_not_change(items: Project) -> None:
    """B140: without a snapshot."""
    with_new_column(items)
    load(items)
    assert dict(items.silver(TABLE, ["id", "d"])) == {1: 7, 2: None, 3: None, 4: None, 5: None}
    assert load(items)[0].work is Work.QUIET
    assert events(items, Event.RESNAPSHOT) == []


def test_a_switch_fills_its_new_columns(items: Project) -> None:
    """B140: once, without a gap, by the sync after the one that switched."""
    fill(items)
    with_new_column(items)
    load(items)
    (seen,) = events(items, Event.CAPTURE_INSTANCE_SEEN)
    assert seen.payload["new_columns"] == ["d"]
    assert len(events(items, Event.CAPTURE_INSTANCE_SWITCHED)) == 1
    outcome, applied = load(items)
    assert (outcome.work, applied.rebuilt) == (Work.SNAPSHOT, True)
    (done,) = events(items, Event.RESNAPSHOT)
    assert (done.lost_from_ts, done.rows) == (None, 5)
    items.assert_identical(TABLE, (*COLUMNS, "d"))
    change_items(items.source)
    assert load(items)[0].work is Work.CHANGES
    assert load(items)[0].work is Work.QUIET
    assert len(events(items, Event.RESNAPSHOT)) == 1
    items.assert_identical(TABLE, (*COLUMNS, "d"))
    items.assert_each_change_once(TABLE)


@pytest.mark.parametrize("begin", ["first", "reset", "seed"])
def test_a_first_snapshot_has_the_columns_of_its_changes(items: Project, begin: str) -> None:
    """The old instance is still there, and every change comes from the new one.

    Nothing would fill the new columns later: the snapshot is above the switch.
    """
    if begin == "reset":
        load(items)
    enabled_before(items)
    if begin == "reset":
        load(items)
        reset(items.database(), TABLE)
    if begin == "seed":
        at = items.source.captured()
        values = [row[0] for row in items.source.rows("SELECT d FROM dbo.items")]
        copy = copy_of(items.source).append_column("d", pa.array(values, pa.int32()))
        seed(items.database(), TABLE, copy, at)
    commit(items.source, "UPDATE dbo.items SET name = N'x' WHERE id = 2")
    load(items)
    change_items(items.source)
    load(items)
    items.assert_identical(TABLE, (*COLUMNS, "d"))
    assert len(events(items, Event.CAPTURE_INSTANCE_SEEN)) == 1
    disable(items.source)
    change_items(items.source, base=300)
    load(items)
    items.assert_identical(TABLE, (*COLUMNS, "d"))
    items.assert_each_change_once(TABLE)


@pytest.mark.parametrize("point", [FaultPoint.INSTANCE_SEEN, FaultPoint.SNAPSHOT_OPENED])
def test_killed_in_a_first_snapshot_of_two_instances(
    items: Project, point: FaultPoint, tmp_path: Path
) -> None:
    enabled_before(items)
    kill_at(items, point, tmp_path / "reached")
    change_items(items.source)
    load(items)
    load(items)
    items.assert_identical(TABLE, (*COLUMNS, "d"))
    assert len(events(items, Event.SNAPSHOT_OPEN)) == 1


def test_a_snapshot_that_waits_for_its_lsn_may_pass_a_switch(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies above the switch then, and has the columns of before."""
    fill(items)
    load(items)
    once(monkeypatch, snapshot_module, "next_lsn", lambda: enabled_before(items))
    sync(items.database(), resnapshot=True)
    (_, waited) = events(items, Event.SNAPSHOT_OPEN)
    assert waited.payload["reader"]["instance_name"] == OLD
    commit(items.source, "UPDATE dbo.items SET name = N'x' WHERE id = 2")
    load(items)
    (seen,) = events(items, Event.CAPTURE_INSTANCE_SEEN)
    assert waited.max_lsn >= seen.payload["start_lsn"]
    load(items)
    items.assert_identical(TABLE, (*COLUMNS, "d"))
    assert load(items)[0].work is Work.QUIET
    assert len(events(items, Event.SNAPSHOT_OPEN)) == 3


def test_a_copy_from_before_an_instance_has_the_older_columns(items: Project) -> None:
    """Who reads the changes after S decides, and not who reads them now."""
    fill(items)
    change_items(items.source)
    copy, at = copy_of(items.source), items.source.captured()
    enabled_before(items)
    seed(items.database(), TABLE, copy, at)
    load(items)
    assert load(items)[0].work is Work.SNAPSHOT
    items.assert_identical(TABLE, (*COLUMNS, "d"))


def enabled_before(items: Project) -> None:
    """A column with values, and an instance that captures it, before the table is read."""
    items.source.execute(ADD, "UPDATE dbo.items SET d = 8 WHERE id = 3")
    enable(items.source, NEW)
    commit(items.source, "UPDATE dbo.items SET name = N'other' WHERE id = 1")


@pytest.mark.parametrize("name", ["fail", "skip", "resnapshot"])
def test_a_loss_before_the_snapshot_of_a_switch_is_the_settings(items: Project, name: str) -> None:
    """It would close the gap unasked: a loss is told and healed, or not, as without a switch."""
    items.extra = losing(name)
    fill(items)
    with_new_column(items)
    load(items)
    opened = len(events(items, Event.SNAPSHOT_OPEN))
    lose(items)
    if name == "fail":
        with pytest.raises(DataLossError):
            run_sync(items)
        assert len(events(items, Event.SNAPSHOT_OPEN)) == opened
        return
    load(items)
    load(items)
    told = Event.RECOVERING if name == "resnapshot" else Event.DATA_SKIPPED
    assert len(events(items, told)) == 1
    assert len(events(items, Event.RESNAPSHOT)) == 1
    items.assert_identical(TABLE, (*COLUMNS, "d"))
    items.assert_each_change_once(TABLE)


def test_a_loss_under_an_open_snapshot_is_the_settings(items: Project, tmp_path: Path) -> None:
    """A snapshot that only repeats was opened before the gap, and does not close it."""
    items.extra = losing("fail")
    fill(items)
    with_new_column(items)
    load(items)
    kill_at(items, FaultPoint.SNAPSHOT_OPENED, tmp_path / "reached")
    lose(items)
    with pytest.raises(DataLossError):
        run_sync(items)


def losing(policy: str) -> dict[str, Any]:
    """Settings for what a loss leads to."""
    return {"defaults": {"engine": "arrow", "on_data_loss": policy}}


def lose(items: Project) -> None:
    """Changes of the new instance are purged unread."""
    commit(items.source, "DELETE FROM dbo.items WHERE id = 2")
    clean(items.source, NEW)
    commit(items.source, "UPDATE dbo.items SET name = N'kept' WHERE id = 1")


def test_columns_that_are_not_loaded_are_none_to_fill(items: Project) -> None:
    fill(items, columns=list(COLUMNS))
    with_new_column(items)
    load(items)
    assert load(items)[0].work is Work.QUIET
    assert events(items, Event.RESNAPSHOT) == []


def test_an_instance_without_new_columns_is_followed_alone(items: Project) -> None:
    fill(items)
    load(items)
    enable(items.source, NEW)
    change_items(items.source)
    load(items)
    assert events(items, Event.CAPTURE_INSTANCE_SEEN)[0].payload["new_columns"] == []
    assert load(items)[0].work is Work.QUIET
    assert events(items, Event.RESNAPSHOT) == []


@pytest.mark.parametrize("point", [FaultPoint.SNAPSHOT_OPENED, FaultPoint.SNAPSHOT_APPENDED])
def test_killed_in_the_snapshot_of_a_switch(
    items: Project, point: FaultPoint, tmp_path: Path
) -> None:
    fill(items)
    with_new_column(items)
    load(items)
    kill_at(items, point, tmp_path / "reached")
    change_items(items.source)
    load(items)
    load(items)
    assert len(events(items, Event.SNAPSHOT_OPEN)) == 2
    assert len(events(items, Event.RESNAPSHOT)) == 1
    items.assert_identical(TABLE, (*COLUMNS, "d"))
    items.assert_each_change_once(TABLE)
