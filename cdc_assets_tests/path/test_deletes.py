"""What becomes of deleted rows: `deletes: soft`, there and back, and silver's change data feed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_assets import apply_changes
from cdc_assets.contract import CHANGE_FEED_PROPERTY
from cdc_assets.lake.tables import query
from cdc_assets_tests.path.chunking import chunked, run_backfill
from cdc_assets_tests.path.helpers import COLUMNS, change_items, clean_up, load, run_sync
from cdc_assets_tests.source import Project

TABLE = "dbo_items"
pytestmark = [pytest.mark.sandbox, pytest.mark.parametrize("engine_name", ["arrow"])]


def silver(project: Project) -> DeltaTable:
    database = project.database()
    found = database.lake.silver(database.table(TABLE))
    assert found is not None
    return found


def rows(project: Project, condition: str) -> list[dict[str, Any]]:
    return query(f"SELECT * FROM s WHERE {condition} ORDER BY `id`", s=silver(project)).to_pylist()


def marked(project: Project) -> dict[int, dict[str, Any]]:
    """The deleted rows; what is there is the source."""
    there = [tuple(row[c] for c in COLUMNS) for row in rows(project, "`_deleted_at` IS NULL")]
    source = project.source.rows(f"SELECT {', '.join(COLUMNS)} FROM dbo.items")
    assert sorted(there, key=repr) == sorted(source, key=repr)
    return {row["id"]: row for row in rows(project, "`_deleted_at` IS NOT NULL")}


def columns(project: Project) -> set[str]:
    return {field.name for field in silver(project).schema().fields}


def test_deleted_rows_stay_and_go_again(items: Project) -> None:
    """B036: with their last image, until they come again, or `deletes: hard` has them removed."""
    items.tables = {TABLE: {"deletes": "soft", "change_data_feed": True}}
    load(items)
    assert marked(items) == {}
    change_items(items.source)
    load(items)
    gone = marked(items)
    # 3 has another key now, 101 came and went in one call, 4 is back.
    assert {key: row["name"] for key, row in gone.items()} == {3: "näme 3", 101: "gone"}
    deletes = {r["id"]: r for r in items.bronze(TABLE) if r["_operation"] == 1 and r["id"] in gone}
    for key, row in gone.items():
        assert (row["_start_lsn"], row["_deleted_at"]) == (
            deletes[key]["_start_lsn"],
            deletes[key]["_commit_ts"],
        )
    fed = pa.table(silver(items).load_cdf(starting_version=0).read_all()).to_pylist()
    ended = [r for r in fed if r["_change_type"] == "update_postimage" and r["_deleted_at"]]
    assert {row["id"] for row in ended} == {3}
    items.source.execute("INSERT INTO dbo.items (id, name) VALUES (3, N'back')")
    items.source.captured()
    load(items)
    assert set(marked(items)) == {101}

    # The delete of 5 is lost: the snapshot that heals the loss finds it gone.
    items.source.execute("DELETE FROM dbo.items WHERE id = 5")
    clean_up(items.source, items.source.captured())
    items.source.execute("UPDATE dbo.items SET note = N'x' WHERE id = 1")
    clean_up(items.source, items.source.captured())
    items.extra["defaults"] = {"on_data_loss": "resnapshot"}
    assert load(items)[1].rebuilt
    row = marked(items)[5]
    control = items.database().lake.control.read()[f"silver/{TABLE}"]
    assert (row["_start_lsn"], row["name"]) == (control.snapshot_lsn, "näme 5")
    assert row["_deleted_at"] == row["_commit_ts"]

    items.tables = {TABLE: None}
    items.source.execute("DELETE FROM dbo.items WHERE id = 100")
    items.source.captured()
    assert load(items)[1].rebuilt
    assert "_deleted_at" not in columns(items)
    items.assert_identical(TABLE, COLUMNS)
    items.tables = {TABLE: {"deletes": "soft"}}
    items.source.execute("DELETE FROM dbo.items WHERE id = 1")
    items.source.captured()
    assert not load(items)[1].rebuilt
    assert set(marked(items)) == {1}


def test_a_change_data_feed_is_turned_on_later(items: Project) -> None:
    """B166: a key that has several rows in bronze is told of once."""
    load(items)
    assert CHANGE_FEED_PROPERTY not in silver(items).metadata().configuration
    items.tables = {TABLE: {"change_data_feed": True}}
    items.source.execute(
        "UPDATE dbo.items SET note = 'x' WHERE id = 2", "DELETE FROM dbo.items WHERE id = 2"
    )
    items.source.captured()
    load(items)
    assert silver(items).metadata().configuration[CHANGE_FEED_PROPERTY] == "true"
    version = silver(items).version()
    fed = pa.table(silver(items).load_cdf(starting_version=version).read_all()).to_pylist()
    assert [(row["_change_type"], row["id"]) for row in fed] == [("delete", 2)]
    items.assert_identical(TABLE, COLUMNS)
    # What a call does not say stays, and so does what nobody sets any more.
    items.tables = {TABLE: None}
    change_items(items.source)
    load(items)
    assert silver(items).metadata().configuration[CHANGE_FEED_PROPERTY] == "true"


def test_waves_mark_what_they_find_gone(project: Project) -> None:
    """At their stamps, and no key of a wave that is not read yet; the verdict waits as ever."""
    chunked(project, rows=8)
    soft = {"snapshot": "chunked", "chunk_rows": 2, "deletes": "soft"}
    project.tables = {TABLE: {**soft, "snapshot": "full"}}
    load(project)
    source = project.source
    source.execute("DELETE FROM dbo.items WHERE id IN (2, 7)")
    clean_up(source, source.captured())
    source.execute("UPDATE dbo.items SET name = N'kept' WHERE id = 6")
    clean_up(source, source.captured())
    project.tables = {TABLE: soft}
    project.extra["defaults"] = {"on_data_loss": "resnapshot", "min_headroom_hours": 0}
    run_sync(project)
    run_backfill(project, max_waves=1)
    assert load(project)[1].waves == 1
    first = rows(project, "`_deleted_at` IS NOT NULL")
    assert [row["id"] for row in first] == [2]
    assert first[0]["_deleted_at"] == first[0]["_commit_ts"]
    while not run_backfill(project, max_waves=1).done:
        pass
    assert load(project)[1].rebuilt
    assert set(marked(project)) == {2, 7}
    assert marked(project)[2] == first[0]


def test_a_named_silver_as_its_options_say(items: Project) -> None:
    """A call that says nothing of it leaves silver as another has made it."""
    run_sync(items)
    lake = items.folder / "lake" / "sales"
    given: dict[str, Any] = {
        "control_table": f"{lake}/_cdc/control",
        "facts_table": f"{lake}/_cdc/facts",
        "keys": ["id"],
    }
    told = {"connection": f"file:{items.folder / 'source.odbc'}", "captureInstance": TABLE}
    bronze, target = f"{lake}/bronze/{TABLE}", f"{lake}/silver/{TABLE}"
    options = {**told, "deletes": "Soft", "changeDataFeed": "true"}
    apply_changes(None, bronze, target, options=options, **given)
    assert silver(items).metadata().configuration[CHANGE_FEED_PROPERTY] == "true"
    for number, more in ((1, {}), (2, {"options": told})):
        items.source.execute(f"DELETE FROM dbo.items WHERE id = {number}")
        items.source.captured()
        run_sync(items)
        done = apply_changes(None, bronze, target, **given, **more)
        assert not done["rebuilt"]
        assert number in marked(items)
    done = apply_changes(None, bronze, target, options={**told, "deletes": "hard"}, **given)
    assert done["rebuilt"]
    assert "_deleted_at" not in columns(items)


def test_keys_of_the_settings_that_change(project: Project) -> None:
    """Silver was made with others, so it begins anew: a MERGE by these would miss its rows."""
    project.source.execute(
        "CREATE TABLE dbo.codes (id int NOT NULL PRIMARY KEY, code int NOT NULL UNIQUE)",
        "INSERT INTO dbo.codes (id, code) VALUES (1, 5), (2, 6)",
    )
    project.source.enable("codes")
    project.tables = {"dbo_codes": None}
    first = load(project, "dbo_codes")[1]
    assert first.rebuilt
    project.tables = {"dbo_codes": {"keys": ["code"]}}
    project.source.execute("DELETE FROM dbo.codes WHERE id = 1")
    project.source.execute("INSERT INTO dbo.codes (id, code) VALUES (9, 5)")
    project.source.captured()
    second = load(project, "dbo_codes")[1]
    assert (second.rebuilt, project.silver("dbo_codes", ["id", "code"])) == (True, [(2, 6), (9, 5)])
    assert not load(project, "dbo_codes")[1].rebuilt
    project.tables = {"dbo_codes": {"keys": ["CODE"]}}
    assert not load(project, "dbo_codes")[1].rebuilt
    project.tables = {"dbo_codes": None}
    assert load(project, "dbo_codes")[1].rebuilt
    assert project.silver("dbo_codes", ["id", "code"]) == [(2, 6), (9, 5)]
