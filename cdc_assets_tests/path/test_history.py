"""A table with `scd: 2` from SQL Server to its history, beside silver, on both engines."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets.ingest.resets import reset
from cdc_assets.lake.tables import query
from cdc_assets.silver.history import apply_history
from cdc_assets.silver.places import table_of
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, set_clock
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
    current = [v for v in versions(items) if v["_valid_to_lsn"] is None]
    rows = sorted((tuple(v[name] for name in COLUMNS) for v in current), key=repr)
    assert rows == items.silver(TABLE, COLUMNS)
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
