"""Each key of silver is there once: counted in bounded memory, and found where it is not."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cdc_assets.lake.tables import query
from cdc_assets.planning import uniqueness as planning
from cdc_assets.planning.uniqueness import Uniqueness
from cdc_assets.planning.verdict import Reason
from cdc_assets.quality import uniqueness
from cdc_assets.quality.uniqueness import unique_keys
from cdc_assets_tests.path.helpers import change_items, load
from cdc_assets_tests.source import Project

TABLE = "dbo_items"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)
pytestmark = pytest.mark.sqlserver


def counted(project: Project, checked: str = "") -> Uniqueness:
    return unique_keys(project.database(), TABLE, checked)


def again(project: Project, where: str, layer: str = "silver", **changed: Any) -> None:
    """Rows of a table once more, as something else than an apply may have written them."""
    database = project.database()
    table = getattr(database.lake, layer)(database.table(TABLE))
    assert table is not None
    rows: pa.Table = query(f"SELECT * FROM t WHERE {where}", t=table)
    for name, value in changed.items():
        field = rows.schema.field(name)
        column = pa.array([value] * rows.num_rows, field.type)
        rows = rows.set_column(rows.schema.get_field_index(name), field, column)
    write_deltalake(table, rows, mode="append")


@ARROW
def test_a_key_that_is_there_twice(items: Project) -> None:
    assert counted(items).reason is Reason.NEVER_LOADED
    load(items)
    fine = counted(items)
    assert (fine.passed, fine.reason, fine.keys) == (True, Reason.ON_TIME, 0)
    again(items, "id IN (2, 3)")
    found = counted(items, fine.checked)
    assert (found.passed, found.reason, found.keys) == (False, Reason.KEY_REPEATED, 2)
    items.tables = {TABLE: {"paused": True}}
    assert counted(items).reason is Reason.PAUSED


@ARROW
def test_range_by_range_where_memory_holds_no_more(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each key is in one range; of many ranges some are counted a day, and that is said."""
    items.extra = {"arrow_rank_rows_max": 3}
    items.source.execute(
        "INSERT dbo.items (id, name) VALUES "
        + ", ".join(f"({number}, N'x')" for number in range(10, 40))
    )
    load(items)
    fine = counted(items)
    assert (fine.passed, bool(fine.checked)) == (True, True)
    again(items, "id IN (1, 25, 39)")
    assert counted(items).keys == 3
    monkeypatch.setattr(planning, "KEY_RANGES_AT_ONCE_MAX", 2)
    part = counted(items)
    assert "2 of" in part.text
    assert part.checked == ""


@ARROW
def test_what_is_as_it_was_is_not_read_again(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(items)
    fine = counted(items)
    with monkeypatch.context() as unread:
        unread.setattr(uniqueness, "query", pytest.fail)
        assert counted(items, fine.checked) == fine
    change_items(items.source)
    load(items)
    assert counted(items, fine.checked).checked not in ("", fine.checked)


@ARROW
def test_deleted_rows_that_are_kept_and_past_states_do_not_count(items: Project) -> None:
    items.tables = {TABLE: {"deletes": "soft", "scd": 2}}
    load(items)
    change_items(items.source)
    load(items)
    assert counted(items).passed
    again(items, "id = 1", _deleted_at=datetime(2026, 1, 1))
    assert counted(items).passed, "the second is a deleted one"
    again(items, "id = 1 AND `_valid_to_lsn` IS NULL", "history")
    found = counted(items)
    assert (found.passed, found.keys) == (False, 1)


@ARROW
def test_a_key_that_cannot_be_cut(items: Project) -> None:
    """Counted while memory holds it; else it is said that nobody has."""
    source = items.source
    source.execute("CREATE TABLE dbo.blobs (id binary(4) NOT NULL PRIMARY KEY)")
    source.enable("blobs")
    source.execute("INSERT dbo.blobs (id) VALUES (0x01), (0x02), (0x03)")
    source.captured()
    items.tables = {"dbo_blobs": None}
    load(items, "dbo_blobs")
    assert unique_keys(items.database(), "dbo_blobs").passed
    items.extra = {"arrow_rank_rows_max": 2}
    found = unique_keys(items.database(), "dbo_blobs")
    assert (found.passed, found.reason) == (False, Reason.KEYS_UNCOUNTED)
    assert "arrow_rank_rows_max" in found.text


@pytest.mark.spark
@pytest.mark.parametrize("engine_name", ["spark"], indirect=True)
def test_spark_counts_what_it_alone_can_read(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(items)
    monkeypatch.setattr(uniqueness, "beyond_reading", lambda _: "read it")
    monkeypatch.setattr(uniqueness, "query", pytest.fail)
    assert counted(items).passed
    again(items, "id IN (2, 3)")
    assert counted(items).keys == 2
