"""The source table is changed while it is captured: columns, types, a second capture instance."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import DataLossError, SchemaChangedError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.sync import sync
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
    instances_read,
)
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.path.killing import kill_at, kill_cases
from cdc_assets_tests.path.verdicts import assert_right
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])


@ARROW
def test_a_column_added_is_told_and_not_read(items: Project) -> None:
    """B140: the old instance does not capture it; also where quiet syncs passed the DDL by."""
    load(items)
    commit(items.source, "UPDATE dbo.items SET name = N'a' WHERE id = 1")
    load(items)
    items.source.execute("ALTER TABLE dbo.items ADD colour varchar(9) NULL DEFAULT 'red'")
    items.source.captured()
    assert load(items)[0].work is Work.QUIET
    assert events(items, Event.SCHEMA_CHANGE) == []
    commit(items.source, "UPDATE dbo.items SET name = N'b', colour = 'blue' WHERE id = 1")
    outcome, _ = load(items)
    (warning,) = outcome.warnings
    assert "ADD colour" in warning
    (told,) = events(items, Event.SCHEMA_CHANGE)
    assert (told.batch_id, told.rows, told.payload["column_update"]) == (2, 0, False)
    assert "colour" not in items.bronze(TABLE)[0]
    commit(items.source, "UPDATE dbo.items SET name = N'c' WHERE id = 1")
    assert load(items)[0].warnings == ()
    items.assert_identical(TABLE, COLUMNS)


@ARROW
def test_a_column_dropped_is_null_from_then_on(items: Project) -> None:
    load(items)
    commit(items.source, "UPDATE dbo.items SET note = 'last' WHERE id = 1")
    commit(
        items.source,
        "ALTER TABLE dbo.items DROP COLUMN note",
        "INSERT dbo.items (id, name) VALUES (9, N'x')",
    )
    outcome, _ = load(items)
    assert "DROP COLUMN note" in outcome.warnings[0]
    assert dict(items.silver(TABLE, ["id", "note"]))[9] is None
    items.assert_identical(TABLE, COLUMNS[:-1])


CASTS = {
    "narrower": "price decimal(10,2) NULL",
    "integer": "price smallint NULL",
    "longer_text": "name nvarchar(80) NOT NULL",
    "nullable": "name nvarchar(40) NULL",
    "date": "at date NULL",
}


@pytest.mark.parametrize(
    ("engine_name", "column"),
    [
        *(pytest.param("arrow", column, id=f"arrow-{name}") for name, column in CASTS.items()),
        pytest.param("spark", CASTS["integer"], id="spark-integer", marks=pytest.mark.spark),
    ],
    indirect=["engine_name"],
)
def test_a_type_that_bronze_holds_is_cast(items: Project, column: str) -> None:
    """B144 and the holding half of B143."""
    items.source.execute("UPDATE dbo.items SET price = id, at = '2026-01-01'")
    load(items)
    before = bronze_type(items, "price"), bronze_type(items, "at")
    commit(
        items.source,
        f"ALTER TABLE dbo.items ALTER COLUMN {column}",
        "UPDATE dbo.items SET price = 7 WHERE id = 1",
    )
    outcome, _ = load(items)
    assert (outcome.work, len(outcome.warnings)) == (Work.CHANGES, 1)
    assert (bronze_type(items, "price"), bronze_type(items, "at")) == before
    assert dict(items.silver(TABLE, ["id", "price"]))[1] == Decimal("7.0000")
    items.assert_each_change_once(TABLE)


@ARROW
@pytest.mark.parametrize(
    ("ddl", "value", "column"),
    [
        ("price decimal(18,4) NULL", "price = 12345678901.5", "price"),
        ("price decimal(14,6) NULL", "price = 1.123456", "price"),
    ],
    ids=["digits", "scale"],
)
def test_a_type_that_bronze_cannot_hold_stops_before_reading(
    items: Project, ddl: str, value: str, column: str
) -> None:
    """B143: with a value that needs the new type in the same batch."""
    load(items)
    change_items(items.source)
    rows = len(items.bronze(TABLE))
    commit(
        items.source,
        f"ALTER TABLE dbo.items ALTER COLUMN {ddl}",
        f"UPDATE dbo.items SET {value} WHERE id = 1",
    )
    with pytest.raises(SchemaChangedError, match=rf"column {column} is .* cannot hold") as stopped:
        run_sync(items)
    assert "delta.enableTypeWidening" in str(stopped.value)
    assert "only Spark reads and writes what was widened, for good" in str(stopped.value)
    assert len(items.bronze(TABLE)) == rows


@ARROW
def test_the_policy_fail_stops_at_any_change(items: Project) -> None:
    load(items)
    commit(
        items.source, "ALTER TABLE dbo.items ADD colour int NULL", "UPDATE dbo.items SET price = 3"
    )
    items.extra = {"defaults": {"engine": "arrow", "schema_change_policy": "fail"}}
    with pytest.raises(SchemaChangedError, match="ADD colour"):
        run_sync(items)
    items.tables = {TABLE: {"schema_change_policy": "continue"}}
    assert load(items)[0].work is Work.CHANGES
    items.tables = {TABLE: None}
    commit(items.source, "UPDATE dbo.items SET price = 4")
    assert load(items)[0].work is Work.CHANGES
    items.assert_identical(TABLE, COLUMNS)


def test_a_second_instance_is_read_from_its_start(items: Project) -> None:
    """B140, B142, B048: one batch crosses; the old instance may go afterwards."""
    source = items.source
    load(items)
    commit(source, "UPDATE dbo.items SET name = N'old' WHERE id = 1")
    source.execute("ALTER TABLE dbo.items ADD colour varchar(9) NULL")
    enable(source, NEW)
    commit(source, "UPDATE dbo.items SET colour = 'blue' WHERE id = 2")
    outcome, _ = load(items)
    assert instances_read(items) == [OLD, NEW]
    assert [r.payload["name"] for r in events(items, Event.CAPTURE_INSTANCE_SEEN)] == [NEW]
    (switched,) = events(items, Event.CAPTURE_INSTANCE_SWITCHED)
    assert (switched.payload["name"], switched.payload["before"]) == (NEW, OLD)
    assert any("ADD colour" in w for w in outcome.warnings)
    assert items.database().lake.control.read()[f"bronze/{TABLE}"].instance_name == NEW
    disable(source)
    change_items(source)
    assert load(items)[0].work is Work.CHANGES
    items.assert_identical(TABLE, (*COLUMNS, "colour"))
    items.assert_each_change_once(TABLE)
    assert len(events(items, Event.CAPTURE_INSTANCE_SEEN)) == 1
    assert len(events(items, Event.CAPTURE_INSTANCE_SWITCHED)) == 1


@ARROW
def test_a_quiet_table_switches_too(items: Project) -> None:
    """And tells of the DDL that no batch would tell of any more."""
    source = items.source
    load(items)
    source.execute("ALTER TABLE dbo.items ADD colour varchar(9) NULL")
    enable(source, NEW)
    source.execute("CREATE TABLE dbo.other (id int PRIMARY KEY)")
    source.enable("other")
    commit(source, "INSERT dbo.other VALUES (1)")
    assert load(items)[0].work is Work.QUIET
    assert len(events(items, Event.CAPTURE_INSTANCE_SWITCHED)) == 1
    (told,) = events(items, Event.SCHEMA_CHANGE)
    assert (told.batch_id, "ADD colour" in told.payload["command"]) == (None, True)
    disable(source)
    commit(source, "UPDATE dbo.items SET colour = 'red' WHERE id = 3")
    assert load(items)[0].warnings == ()
    assert instances_read(items) == [NEW]
    items.assert_identical(TABLE, (*COLUMNS, "colour"))


@ARROW
def test_an_instance_with_fewer_columns(items: Project) -> None:
    """B142: what it lacks is NULL in the rows that it gives."""
    source = items.source
    items.tables = {TABLE: {"columns": ["id", "name", "note"]}}
    load(items)
    enable(source, NEW, "[id], [name]")
    commit(source, "UPDATE dbo.items SET name = N'few', note = 'unseen' WHERE id = 1")
    load(items)
    row = items.bronze(TABLE)[-1]
    assert (row["_capture_instance"], row["name"], row["note"]) == (NEW, "few", None)
    assert items.silver(TABLE, ["id", "name", "note"])[0] == (1, "few", None)


@ARROW
def test_a_column_whose_case_changed_is_the_same(items: Project) -> None:
    """B146: made anew, since a captured column cannot be renamed."""
    source = items.source
    load(items)
    source.execute(
        "ALTER TABLE dbo.items DROP COLUMN note", "ALTER TABLE dbo.items ADD Note varchar(60)"
    )
    enable(source, NEW)
    commit(source, "UPDATE dbo.items SET Note = 'here' WHERE id = 1")
    load(items)
    assert [n for n in items.bronze(TABLE)[0] if n.lower() == "note"] == ["note"]
    assert dict(items.silver(TABLE, ["id", "note"]))[1] == "here"


@ARROW
def test_types_of_two_instances(items: Project) -> None:
    """B111: stopped before any row of the wider one is read, with the batch that crosses."""
    source = items.source
    load(items)
    commit(source, "UPDATE dbo.items SET name = N'old' WHERE id = 1")
    rows = len(items.bronze(TABLE))
    source.execute("ALTER TABLE dbo.items ALTER COLUMN price decimal(20,4) NULL")
    enable(source, NEW)
    commit(source, "UPDATE dbo.items SET price = 1234567890123 WHERE id = 2")
    with pytest.raises(SchemaChangedError, match="price"):
        run_sync(items)
    assert len(items.bronze(TABLE)) == rows


@ARROW
def test_an_old_instance_gone_too_early_is_a_loss(items: Project) -> None:
    """What it captured below the newer one's start was not read yet."""
    source = items.source
    load(items)
    commit(source, "UPDATE dbo.items SET name = N'unread' WHERE id = 1")
    enable(source, NEW)
    disable(source)
    commit(source, "UPDATE dbo.items SET name = N'read' WHERE id = 2")
    with pytest.raises(DataLossError, match="dbo_items is not there any more"):
        run_sync(items)
    items.extra = {"defaults": {"engine": "arrow", "on_data_loss": "resnapshot"}}
    load(items)
    change_items(source)
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    assert instances_read(items) == [NEW]


@ARROW
def test_a_seen_instance_recreated_is_seen_again(items: Project) -> None:
    """History 14: the one recorded is gone before its turn; the old one is still there."""
    source = items.source
    load(items)
    enable(source, NEW)
    run_sync(items)
    seen = len(events(items, Event.CAPTURE_INSTANCE_SEEN))
    assert seen == 1
    assert events(items, Event.CAPTURE_INSTANCE_SWITCHED) == []
    disable(source, NEW)
    enable(source, NEW)
    change_items(source)
    load(items)
    load(items)
    assert len(events(items, Event.CAPTURE_INSTANCE_SEEN)) == 2
    assert_right(items, COLUMNS)


@pytest.mark.parametrize(
    ("engine_name", "point"),
    kill_cases(
        [
            FaultPoint.INSTANCE_SEEN,
            FaultPoint.BRONZE_APPENDED,
            FaultPoint.FACTS_WRITTEN,
            FaultPoint.SILVER_MERGED,
        ],
        soak=[FaultPoint.INSTANCE_SEEN],
    ),
    indirect=["engine_name"],
)
def test_killed_between_seen_and_switched(
    items: Project, point: FaultPoint, tmp_path: Path
) -> None:
    """History 9: cleanup before and after; the old one goes as soon as its rows are in bronze."""
    source = items.source
    load(items)
    change_items(source)
    load(items)
    clean(source, OLD)
    change_items(source, base=300)
    source.execute("ALTER TABLE dbo.items ADD colour varchar(9) NULL")
    enable(source, NEW)
    commit(source, "UPDATE dbo.items SET colour = 'blue' WHERE id = 2")
    kill_at(items, point, tmp_path / "reached")
    if point is FaultPoint.INSTANCE_SEEN:
        load(items)
    disable(source)
    clean(source, NEW)
    commit(source, "UPDATE dbo.items SET colour = 'red' WHERE id = 1")
    load(items)
    assert_right(items, (*COLUMNS, "colour"), instance=NEW)
    assert instances_read(items) == [OLD, NEW]
    for event in (Event.CAPTURE_INSTANCE_SEEN, Event.CAPTURE_INSTANCE_SWITCHED):
        assert len(events(items, event)) == 1
    assert len(events(items, Event.SCHEMA_CHANGE)) == 1


@ARROW
def test_cleanup_moves_the_start_that_was_recorded(items: Project) -> None:
    """History 9: what the server says later would cut the older instance's rows off too late."""
    source = items.source
    load(items)
    enable(source, NEW)
    run_sync(items)
    change_items(source)
    load(items)
    (seen,) = events(items, Event.CAPTURE_INSTANCE_SEEN)
    clean(source, NEW)
    change_items(source, base=300)
    load(items)
    assert events(items, Event.CAPTURE_INSTANCE_SEEN) == [seen]
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)


@ARROW
def test_the_payload_names_the_identity(items: Project) -> None:
    load(items)
    enable(items.source, NEW)
    run_sync(items)
    (seen,) = events(items, Event.CAPTURE_INSTANCE_SEEN)
    detail: dict[str, Any] = seen.payload
    assert detail["identity"]["instance_name"] == NEW
    assert detail["start_lsn"] == seen.min_lsn


@ARROW
def test_the_history_of_an_instance_that_is_gone(items: Project) -> None:
    """B020: its DDL is not told again, and nothing is ever done at the source for it."""
    source = items.source
    items.extra = {"defaults": {"engine": "arrow", "on_data_loss": "resnapshot"}}
    load(items)
    commit(source, "ALTER TABLE dbo.items ADD colour int", "UPDATE dbo.items SET price = 1")
    load(items)
    disable(source)
    source.enable("items")
    commit(source, "UPDATE dbo.items SET price = 2")
    instances = source.rows("EXEC sys.sp_cdc_help_change_data_capture")
    for price in (3, 4):
        load(items)
        commit(source, f"UPDATE dbo.items SET price = {price}")
    assert load(items)[0].work is Work.CHANGES
    assert len(events(items, Event.SCHEMA_CHANGE)) == 1
    assert source.rows("EXEC sys.sp_cdc_help_change_data_capture") == instances


@ARROW
def test_a_renamed_table_goes_on(items: Project) -> None:
    """B054: its object id decides, for changes and for snapshots; the lake keeps its name.

    The rename is an event of its own, told once, also where the table is quiet.
    """
    source = items.source
    load(items)
    source.execute("EXEC sp_rename 'dbo.items', 'things'")
    for expected in (("The source table dbo.items is called dbo.things now",), ()):
        outcome = run_sync(items).outcomes[TABLE]
        assert outcome.work is Work.QUIET
        assert all(a.startswith(b) for a, b in zip(outcome.warnings, expected, strict=True))
    (renamed,) = events(items, Event.SCHEMA_CHANGE)
    assert renamed.payload["source"] == {"schema": "dbo", "table": "things"}
    assert renamed.payload["renamed_from"] == {"schema": "dbo", "table": "items"}
    commit(source, "INSERT dbo.things (id, name) VALUES (70, N'renamed')")
    assert load(items)[0].rows == 1
    commit(source, "UPDATE dbo.things SET name = N'again' WHERE id = 70")
    (outcome,) = sync(items.database(), resnapshot=True).outcomes.values()
    assert (outcome.error, outcome.work, outcome.rows) == (None, Work.SNAPSHOT, 6)
    commit(source, "DELETE dbo.things WHERE id = 1")
    load(items)
    names = sorted(source.rows("SELECT id, name FROM dbo.things"), key=repr)
    assert items.silver(TABLE, ["id", "name"]) == names
    # A table that takes the old name is another one.
    source.execute("CREATE TABLE dbo.items (id int PRIMARY KEY)", "INSERT dbo.items VALUES (99)")
    commit(source, "INSERT dbo.things (id, name) VALUES (71, N'still')")
    assert load(items)[0].rows == 1
