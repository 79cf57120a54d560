"""A table with `scd: 2` from SQL Server to its history, beside silver, on both engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from cdc_assets.contract import Event
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.resets import reset
from cdc_assets.lake.tables import query
from cdc_assets.planning.records import FactsRow
from cdc_assets.silver import history as history_module
from cdc_assets.silver.history import apply_history
from cdc_assets.silver.places import table_of
from cdc_assets_tests.path.chunking import chunked, events, run_backfill
from cdc_assets_tests.path.helpers import (
    COLUMNS,
    change_items,
    clean_up,
    load,
    run_sync,
    set_clock,
)
from cdc_assets_tests.path.killing import crashing
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sandbox
TABLE = "dbo_items"


def versions(items: Project) -> list[dict[str, Any]]:
    database = items.database()
    history = database.lake.history(database.table(TABLE))
    if history is None:
        return []
    found = query("SELECT * FROM h ORDER BY `id`, `_valid_from_lsn`", h=history)
    return list(found.to_pylist())


def current(items: Project) -> list[tuple[Any, ...]]:
    """The states that no commit has ended."""
    there = [v for v in versions(items) if v["_valid_to_lsn"] is None]
    return sorted((tuple(v[name] for name in COLUMNS) for v in there), key=repr)


def test_history_beside_silver(items: Project) -> None:
    """Its current rows are silver's, and a reset begins it anew."""
    items.tables = {TABLE: {"scd": 2}}
    load(items)
    assert versions(items) == []  # The snapshot may have seen commits that are not in bronze yet.
    set_clock(items, 60)
    try:
        change_items(items.source)
        _, outcome = load(items)
    finally:
        set_clock(items, 0)
    assert outcome.versions > 0
    assert current(items) == items.silver(TABLE, COLUMNS)
    # 1 was updated; 2 twice in one transaction, which is one state; 3 has another key now.
    ended = {v["id"]: v["name"] for v in versions(items) if v["_valid_to_lsn"] is not None}
    assert ended == {1: "näme 1", 2: "näme 2", 3: "näme 3", 4: "näme 4", 101: "gone"}
    row = items.database().lake.control.read()[f"history/{TABLE}"]
    assert row.finalized_until == outcome.finalized_until
    before = versions(items)
    assert apply_history(table_of(items.database(), TABLE)).written == 0
    assert versions(items) == before
    if items.engine == "arrow":
        reset(items.database(), TABLE)
        items.source.execute("DELETE FROM dbo.items WHERE id = 1")
        items.source.captured()
        load(items)
        set_clock(items, 60)
        try:
            items.source.execute("UPDATE dbo.items SET note = N'x' WHERE id = 2")
            items.source.captured()
            load(items)
        finally:
            set_clock(items, 0)
        assert {v["id"] for v in versions(items)} == {2, 4, 5, 100, 150}


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_history_beside_an_open_chunked_snapshot(project: Project) -> None:
    """It waits at its LSN, and takes it in once it is complete: rows that a gap took end there."""
    chunked(project, rows=8)
    own = {"scd": 2, "chunk_rows": 2}
    project.tables = {TABLE: {**own, "snapshot": "full"}}
    project.extra["defaults"] = {"on_data_loss": "resnapshot", "min_headroom_hours": 0}
    load(project)
    source = project.source
    set_clock(project, 60)
    try:
        source.execute("UPDATE dbo.items SET note = N'x' WHERE id = 8")
        source.captured()
        assert load(project)[1].versions == 9
        source.execute("DELETE FROM dbo.items WHERE id = 2")
        clean_up(source, source.captured())
        source.execute("UPDATE dbo.items SET name = N'kept' WHERE id = 6")
        clean_up(source, source.captured())
        project.tables = {TABLE: {**own, "snapshot": "chunked"}}
        run_sync(project)
        (opened,) = events(project, Event.SNAPSHOT_OPEN)[1:]
        run_backfill(project, max_waves=1)
        source.execute(
            "UPDATE dbo.items SET note = N'open' WHERE id IN (1, 7)",
            "DELETE FROM dbo.items WHERE id = 8",
        )
        source.captured()
        assert load(project)[1].waves == 1
        assert max(v["_valid_from_lsn"] for v in versions(project)) < str(opened.newest_lsn)
        while not run_backfill(project, max_waves=1).done:
            pass
        set_clock(project, 120)
        source.execute("UPDATE dbo.items SET note = N'last' WHERE id = 3")
        source.captured()
        load(project)
    finally:
        set_clock(project, 0)
    assert current(project) == project.silver(TABLE, COLUMNS)
    ended = {(v["id"], v["note"]): v for v in versions(project) if v["_valid_to_lsn"] is not None}
    assert set(ended) == {
        (1, None),
        (2, None),
        (3, None),
        (6, None),
        (7, None),
        (8, None),
        (8, "x"),
    }
    healed = {key for key, v in ended.items() if v["_valid_to_lsn"] == str(opened.newest_lsn)}
    assert healed == {(2, None), (6, None)}
    row = project.database().lake.control.read()[f"history/{TABLE}"]
    assert row.snapshot_lsn == str(opened.newest_lsn)


@pytest.mark.parametrize("engine_name", ["arrow"])
@pytest.mark.parametrize("point", [FaultPoint.HISTORY_FORGOTTEN, FaultPoint.HISTORY_CREATED])
def test_a_snapshot_for_a_gap_that_was_told_of_too_late(
    items: Project, monkeypatch: pytest.MonkeyPatch, point: FaultPoint
) -> None:
    """The history that went on without it begins anew, and what the gap took ends at it."""
    items.tables = {TABLE: {"scd": 2}}
    load(items)
    source = items.source
    set_clock(items, 60)
    try:
        source.execute("UPDATE dbo.items SET note = N'x' WHERE id = 1")
        source.captured()
        load(items)
        source.execute("DELETE FROM dbo.items WHERE id = 2")
        clean_up(source, source.captured())
        source.execute("UPDATE dbo.items SET name = N'kept' WHERE id = 1")
        clean_up(source, source.captured())
        own = {"finality": items.finality, "min_headroom_hours": 0}
        items.extra["defaults"] = {"on_data_loss": "resnapshot", **own}
        run_sync(items)
        set_clock(items, 120)
        source.execute("UPDATE dbo.items SET note = N'later' WHERE id = 1")
        source.captured()
        run_sync(items)
        closing = events(items, Event.RESNAPSHOT)[0].max_lsn or ""
        with monkeypatch.context() as patch:
            without(closing, patch)
            load(items)
        assert current(items) != items.silver(TABLE, COLUMNS)
        before = items.database().lake.control.read()[f"history/{TABLE}"]
        with crashing(point):
            apply_history(table_of(items.database(), TABLE))
        assert items.database().lake.control.read()[f"history/{TABLE}"].finalized_until is None
        load(items)
    finally:
        set_clock(items, 0)
    assert current(items) == items.silver(TABLE, COLUMNS)
    (gone,) = (v for v in versions(items) if v["id"] == 2)
    assert gone["_valid_to_lsn"] == closing
    row = items.database().lake.control.read()[f"history/{TABLE}"]
    assert row.table_id != before.table_id
    assert row.finalized_until is not None


def without(closing: str, patch: pytest.MonkeyPatch) -> None:
    """Let histories not see the events of a snapshot."""
    right = history_module.by_target

    def by_target(rows: Iterable[FactsRow]) -> Mapping[str, list[FactsRow]]:
        kinds = (Event.SNAPSHOT_OPEN, Event.RESNAPSHOT)
        return right(r for r in rows if r.max_lsn != closing or r.event not in kinds)

    patch.setattr(history_module, "by_target", by_target)
