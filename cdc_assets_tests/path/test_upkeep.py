"""Upkeep beside syncs and applies: files in order, old ones gone, and nothing that is needed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.sync import sync
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import query
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.quality import maintenance
from cdc_assets.quality.maintenance import Upkept, maintain_tables
from cdc_assets.silver.apply import apply_changes, apply_tables
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load
from cdc_assets_tests.path.killing import KILLED, kill_at
from cdc_assets_tests.path.test_delta import before
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
TABLE = "dbo_items"
ON_ARROW = pytest.mark.parametrize("engine_name", ["arrow"])
POINTS = (
    FaultPoint.FACTS_TRIMMED,
    FaultPoint.BOOKKEEPING_REWRITTEN,
    FaultPoint.UPKEEP_VACUUMED,
    FaultPoint.UPKEEP_CHECKPOINTED,
    FaultPoint.UPKEEP_REWRITTEN,
    FaultPoint.UPKEEP_RECORDED,
)
KILLED.update((("spark", FaultPoint.UPKEEP_REWRITTEN), *(("arrow", point) for point in POINTS)))
LONG_AGO = timedelta(days=60)


def maintain(project: Project) -> dict[str, Upkept]:
    found = {told.name: told for told in maintain_tables(project.database(), [TABLE])}
    assert {name: told.error for name, told in found.items() if told.error} == {}
    return found


def silver_of(project: Project) -> tuple[Path, DeltaTable, ControlRow]:
    """Silver's folder, the table, and its row in control."""
    database = project.database()
    name = database.table(TABLE)
    return (
        Path(name.silver_uri),
        DeltaTable(name.silver_uri),
        database.lake.control.read()[name.silver],
    )


def loaded_twice(project: Project) -> None:
    """Several files in each table, and a verdict."""
    load(project)
    for base in (100, 300):
        change_items(project.source, base)
        load(project)


@ON_ARROW
def test_small_files_become_one_and_the_verdict_follows(items: Project) -> None:
    items.tables = {TABLE: {"scd": 2}}
    loaded_twice(items)
    folder, silver, row = silver_of(items)
    assert row.verdict_version == silver.version()
    held = items.silver(TABLE, COLUMNS)
    orphan = folder / "part-of-a-commit-that-failed.parquet"
    orphan.write_bytes(b"")
    os.utime(orphan, (0, 0))

    found = maintain(items)

    assert found[f"bronze/{TABLE}"].result.files_removed > 1
    assert f"history/{TABLE}" in found
    assert found["facts"].result.files_removed > 1
    assert not orphan.exists()
    _, silver, row = silver_of(items)
    assert len(silver.file_uris()) == 1
    at_verdict = DeltaTable(str(folder), version=row.verdict_version)
    assert at_verdict.file_uris() == silver.file_uris()
    assert items.silver(TABLE, COLUMNS) == held
    again = maintain(items)
    assert {told.result.files_added for told in again.values()} == {0}
    change_items(items.source, 500)
    load(items)
    items.assert_each_change_once(TABLE)
    items.assert_identical(TABLE, COLUMNS)


@ON_ARROW
def test_a_verdict_whose_files_would_go_is_given_up_first(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded_twice(items)
    _, _, told = silver_of(items)
    change_items(items.source, 500)
    sync(items.database())
    # The verdict stays where it is, and silver's next version takes its files.
    with monkeypatch.context() as held:
        held.setattr("cdc_assets.silver.apply.follow_bronze", lambda row, *_: row)
        apply_changes(items.database(), TABLE)
    folder, silver, row = silver_of(items)
    assert row.verdict_version == told.verdict_version
    assert silver.version() > (row.verdict_version or 0)

    maintain(items)
    assert silver_of(items)[2].verdict_version == told.verdict_version, "its files stay"
    assert query("SELECT * FROM s", s=DeltaTable(str(folder), version=told.verdict_version))

    later = utc_now() + LONG_AGO
    monkeypatch.setattr(maintenance, "utc_now", lambda: later)
    maintain(items)
    _, _, row = silver_of(items)
    assert (row.verdict_version, row.finalized_until) == (None, told.finalized_until)
    load(items)
    assert silver_of(items)[2].verdict_version is not None
    items.assert_identical(TABLE, COLUMNS)


@ON_ARROW
def test_facts_of_long_ago_go_but_not_the_newest(items: Project) -> None:
    loaded_twice(items)
    facts = items.database().lake.facts
    kept = facts.batches(f"bronze/{TABLE}")[-1]
    old = utc_now() - timedelta(days=400)
    lone = [
        FactsRow(target="bronze/quiet", rows=rows, end_lsn=f"0x{at:020X}", written_at=old + step)
        for at, (rows, step) in enumerate(
            ((5, timedelta(0)), (7, timedelta(1)), (0, timedelta(2)), (0, timedelta(3)))
        )
    ]
    ours = [replace(kept, batch_id=-1, end_lsn=f"0x{0:020X}", written_at=old)]
    event = FactsRow(target="bronze/quiet", event="gap_acknowledged", written_at=old)
    facts.append([FactsEntry((*lone, *ours, event))])
    events = facts.events()
    assert maintain(items)["facts"].rows_removed == 3
    assert facts.batches("bronze/quiet") == [lone[1], lone[3]]
    assert facts.batches(f"bronze/{TABLE}")[-1] == kept
    assert facts.events() == events
    assert maintain(items)["facts"].rows_removed == 0


@ON_ARROW
def test_beside_syncs_and_applies(items: Project) -> None:
    """B160, at once: an append is not disturbed, and what loses is done by the next call."""
    loaded_twice(items)

    def changes(database: Database) -> None:
        for base in (500, 700, 900):
            change_items(items.source, base)
            outcomes = (
                *sync(database).outcomes.values(),
                *apply_tables(database, [TABLE]).values(),
            )
            for error in (outcome.error for outcome in outcomes):
                assert error is None or error.transient, error

    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(changes, items.database())
        while not running.done():
            for told in maintain_tables(items.database(), [TABLE]):
                assert told.error is None or told.error.transient, told.error
        running.result()
    load(items)
    maintain(items)
    items.assert_each_change_once(TABLE)
    items.assert_identical(TABLE, COLUMNS)


@ON_ARROW
def test_an_apply_that_comes_first_lets_the_rewrite_begin_again(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded_twice(items)
    change_items(items.source, 500)
    sync(items.database())
    from_upkeep: list[Any] = []
    before(
        monkeypatch,
        maintenance.DeltaTable,
        "is_deltatable",
        lambda: from_upkeep.append(apply_changes(items.database(), TABLE)),
    )
    maintain(items)
    assert from_upkeep
    items.assert_identical(TABLE, COLUMNS)


@ON_ARROW
def test_names_that_are_mapped_are_not_rewritten_by_delta_rs(project: Project) -> None:
    project.source.execute(
        "CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, [a name] nvarchar(40))",
        "INSERT INTO dbo.items VALUES (1, N'x')",
    )
    project.source.enable("items")
    project.tables = {TABLE: None}
    load(project)
    for number in (2, 3):
        project.source.execute(f"INSERT INTO dbo.items VALUES ({number}, N'x')")
        project.source.captured()
        load(project)
    told = maintain(project)[f"silver/{TABLE}"]
    assert "maps columns by name" in told.skipped
    assert told.result.files_added == 0
    project.assert_identical(TABLE, ["id", "a name"])


@ON_ARROW
def test_killed_and_run_again(items: Project, tmp_path: Path) -> None:
    """At one point after the other, with files that are due at each of them."""
    loaded_twice(items)
    for number, point in enumerate(POINTS):
        kill_at(items, point, tmp_path / point, command="maintain")
        change_items(items.source, 500 + 200 * number)
        load(items)
    maintain(items)
    assert_kept(items)


@pytest.mark.spark
@pytest.mark.parametrize("engine_name", ["spark"])
def test_spark_is_killed_when_it_has_rewritten(items: Project, tmp_path: Path) -> None:
    loaded_twice(replace(items, engine="arrow"))
    kill_at(items, FaultPoint.UPKEEP_REWRITTEN, tmp_path / "reached", command="maintain")
    of_arrow = replace(items, engine="arrow")
    change_items(items.source, 500)
    load(of_arrow)
    maintain(of_arrow)
    assert_kept(of_arrow)


def assert_kept(items: Project) -> None:
    _, silver, row = silver_of(items)
    assert row.verdict_version == silver.version()
    items.assert_each_change_once(TABLE)
    items.assert_identical(TABLE, COLUMNS)
