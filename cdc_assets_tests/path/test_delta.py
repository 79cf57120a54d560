"""What else happens to the Delta tables: a compaction in between, a column that needs a feature."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_assets.engines.arrow import appending, applying
from cdc_assets.lake import control as control_module
from cdc_assets.planning.verdict import Hold
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.source import Project

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"]),
]
TABLE = "dbo_items"


def before(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, do: Callable[[], None]) -> None:
    """Let something happen before the next call of a function, once."""
    function = getattr(place, name)

    def staged(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(place, name, function)
        do()
        return function(*arguments, **options)

    monkeypatch.setattr(place, name, staged)


def compact(uri: str, order: str = "") -> None:
    """Rewrite a table's files; in the order of a column also where there is but one."""
    table = DeltaTable(uri)
    version = table.version()
    if order:
        table.optimize.z_order([order])
    else:
        table.optimize.compact()
    assert table.version() > version, "nothing to compact: the test stages nothing"


def test_a_compaction_between_a_look_and_a_commit(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B160: an append is not disturbed, a MERGE starts over, and nothing is lost or doubled."""
    load(items)
    for base in (100, 300):
        change_items(items.source, base)
        load(items)
    change_items(items.source, base=500)
    name, table = items.database().name, items.database().table(TABLE)
    # Rows that control's update has read are elsewhere when it commits.
    before(monkeypatch, appending, "write_deltalake", lambda: compact(table.bronze_uri))
    order = "table_name"
    before(monkeypatch, control_module, "write_deltalake", lambda: compact(name.control_uri, order))
    assert run_sync(items).outcomes[TABLE].rows > 0
    assert items.database().lake.control.read()[f"bronze/{TABLE}"].end_lsn is not None
    compact(name.facts_uri)

    before(monkeypatch, applying._Apply, "_merge", lambda: compact(table.silver_uri, "id"))
    first = apply_changes(items.database(), TABLE)
    if first.overtaken:
        apply_changes(items.database(), TABLE)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)
    batches = [row.batch_id for row in items.database().lake.facts.batches(f"bronze/{TABLE}")]
    assert len(set(batches)) == len(batches)


def test_a_later_column_without_a_zone(items: Project) -> None:
    """B165: every table of ours can hold one from its first commit on."""
    items.tables = {TABLE: {"columns": ["id", "name"]}}
    load(items)
    database = items.database()
    table = database.table(TABLE)
    ours = (table.bronze_uri, table.silver_uri, database.name.facts_uri, database.name.control_uri)

    def features() -> list[set[str]]:
        found = [DeltaTable(uri).protocol() for uri in ours]
        assert all(p.min_reader_version == 3 and p.min_writer_version == 7 for p in found)
        return [set(p.reader_features or ()) & set(p.writer_features or ()) for p in found]

    assert all("timestampNtz" in kinds for kinds in features())
    items.tables = {TABLE: None}
    items.source.execute("UPDATE dbo.items SET at = '2026-11-30 12:34:56.789'")
    items.source.captured()
    load(items)
    assert all("timestampNtz" in kinds for kinds in features())
    items.assert_identical(TABLE, ["id", "name", "at"])


def test_a_commit_that_is_not_listed_yet_is_waited_for(items: Project, tmp_path: Path) -> None:
    """B026: an apply that does not see bronze's newest commit claims nothing of it, and goes on."""
    load(items)
    change_items(items.source)
    _, told = load(items)
    change_items(items.source, base=300)
    run_sync(items)
    uri = items.database().table(TABLE).bronze_uri
    newest = sorted((Path(uri) / "_delta_log").glob("*.json"))[-1]
    newest.rename(hidden := tmp_path / newest.name)
    applied = apply_changes(items.database(), TABLE)
    assert (applied.hold, applied.applied_lsn) == (Hold.BEHIND_BRONZE, told.applied_lsn)
    assert applied.finalized_until == told.finalized_until
    hidden.rename(newest)
    applied = apply_changes(items.database(), TABLE)
    assert applied.hold is not Hold.BEHIND_BRONZE
    assert applied.upserted > 0
    items.assert_identical(TABLE, COLUMNS)
