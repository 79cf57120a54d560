"""What an apply refuses: clear words, and nothing written."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_assets.clock import utc_now
from cdc_assets.contract import Event
from cdc_assets.errors import CaptureInstanceUnknownError, SettingsError, SilverKeyError
from cdc_assets.ingest.sync import sync
from cdc_assets.lake.bronze import Select, first_row
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lsn import Lsn
from cdc_assets.planning.records import FactsRow, Identity
from cdc_assets.silver import checks
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.helpers import load, once, run_sync
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
TABLE = "dbo_items"


@pytest.fixture
def engine_name() -> str:
    """What is refused is decided before an engine is asked."""
    return "arrow"


def append(project: Project, **columns: object) -> None:
    """A row of bronze by another tool."""
    database = project.database()
    bronze = database.lake.bronze(database.table(TABLE))
    assert bronze is not None
    schema = pa.schema(bronze.schema().to_arrow())
    row = {**dict.fromkeys(schema.names), "_capture_instance": TABLE, "id": 77, **columns}
    properties = CommitProperties(app_transactions=[Transaction("another#tool", 1)])
    rows = pa.Table.from_pylist([row], schema=schema)
    write_deltalake(bronze, rows, mode="append", commit_properties=properties)


def silver_version(project: Project) -> int:
    return DeltaTable(project.database().table(TABLE).silver_uri).version()


def above(project: Project) -> str:
    """An LSN that silver has not applied."""
    row = project.database().lake.control.read()[f"silver/{TABLE}"]
    return str(Lsn.parse(row.applied_lsn or "").next())


def test_a_row_of_another_table(items: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is of an instance that was first seen after the facts were read."""
    load(items)
    version, at = silver_version(items), above(items)
    append(items, _capture_instance="dbo_OTHER", _start_lsn=at, _seqval=at, _operation=2)
    with pytest.raises(CaptureInstanceUnknownError, match="capture instance dbo_OTHER"):
        apply_changes(items.database(), TABLE)
    assert silver_version(items) == version
    (opened,) = (r for r in items.database().lake.facts.events() if r.event == Event.SNAPSHOT_OPEN)
    identity = Identity.from_dict(opened.payload["identity"])
    assert identity is not None

    def happens() -> None:
        seen = replace(identity, instance_name="dbo_other").to_dict()
        row = FactsRow(
            target=f"bronze/{TABLE}",
            event=str(Event.CAPTURE_INSTANCE_SEEN),
            detail=json.dumps({"identity": seen, "start_lsn": at}),
            written_at=utc_now(),
        )
        items.database().lake.facts.append([FactsEntry((row,))])

    once(monkeypatch, checks, "instances_of_rows", happens)
    assert apply_changes(items.database(), TABLE).upserted == 1


def test_rows_of_a_chunked_snapshot_that_no_facts_tell_of(items: Project) -> None:
    load(items)
    version, at = silver_version(items), above(items)
    append(items, _start_lsn=at, _operation=0, _snapshot=at, _chunk=0)
    with pytest.raises(SettingsError, match="the facts know none of bronze/dbo_items"):
        apply_changes(items.database(), TABLE)
    assert silver_version(items) == version


def test_a_key_is_the_columns_of_a_unique_index(project: Project) -> None:
    """B038: one of NULL-able columns admits one NULL, which is a key; any other is refused."""
    source = project.source
    source.execute(
        "CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, code int NULL, v int NULL)",
        "INSERT INTO dbo.items VALUES (1, 1, 10), (2, NULL, 20)",
    )
    source.enable("items")
    project.tables = {TABLE: {"keys": ["CODE"]}}
    with pytest.raises(
        SilverKeyError, match=r"\(CODE\) is not the columns of .* Unique are: \(id\)"
    ):
        run_sync(project)
    assert not DeltaTable.is_deltatable(project.database().table(TABLE).silver_uri)
    source.execute("CREATE UNIQUE INDEX ux ON dbo.items (code)")
    load(project)
    source.execute("UPDATE dbo.items SET v = 21 WHERE id = 2")
    source.captured()
    load(project)
    project.assert_identical(TABLE, ("id", "code", "v"))


def noted(looked: list[str], select: Select, sql: str) -> dict[str, Any] | None:
    """`first_row`, and what it was asked."""
    looked.append(sql)
    return first_row(select, sql)


@pytest.mark.parametrize("is_unique", [True, False])
def test_a_key_that_two_rows_pass_on_in_one_commit(
    project: Project, monkeypatch: pytest.MonkeyPatch, *, is_unique: bool
) -> None:
    """No order tells the row that got it from the one that left it, so that one would be lost.

    A unique index that is not the capture instance's has that too: a swap in one statement is 3 and
    4 of one row, then of the other. One row that passes through a key has not.
    """
    source = project.source
    source.execute(
        f"CREATE TABLE dbo.items (id int PRIMARY KEY, code int NOT NULL{' UNIQUE' * is_unique})",
        "INSERT INTO dbo.items VALUES (1, 1), (2, 2), (3, 3)",
    )
    source.enable("items")
    project.tables = {TABLE: {"keys": ["code"], "keys_unchecked": not is_unique}}
    load(project)
    source.transaction(
        "UPDATE dbo.items SET code = 4 WHERE id = 3",
        "UPDATE dbo.items SET code = 5 WHERE id = 3",
    )
    source.captured()
    load(project)
    assert project.silver(TABLE, ["id", "code"]) == [(1, 1), (2, 2), (3, 5)]
    source.execute("UPDATE dbo.items SET code = 6 WHERE id = 3")
    source.execute("UPDATE dbo.items SET code = 5 WHERE id = 3")
    source.execute("UPDATE dbo.items SET code = 3 - code WHERE id < 3")
    newest = source.captured()
    run_sync(project)
    with pytest.raises(SilverKeyError, match=f"in the commit {newest} .*another row"):
        apply_changes(project.database(), TABLE)
    # And commit range by commit range, where so many rows are not ranked at once.
    project.extra = {"arrow_rank_rows_max": 2}
    looked: list[str] = []
    monkeypatch.setattr(checks, "first_row", lambda select, sql: noted(looked, select, sql))
    with pytest.raises(SilverKeyError, match=f"in the commit {newest} .*another row"):
        apply_changes(project.database(), TABLE)
    assert len(looked) > 1
    assert project.silver(TABLE, ["id", "code"]) == [(1, 1), (2, 2), (3, 5)]
    # Both of its ways out.
    project.tables = {TABLE: {"keys": ["id"]}}
    assert apply_changes(project.database(), TABLE).rebuilt
    assert project.silver(TABLE, ["id", "code"]) == [(1, 2), (2, 1), (3, 5)]
    project.tables = {TABLE: {"keys": ["code"], "keys_unchecked": not is_unique}}
    assert not sync(project.database(), resnapshot=True).failed
    assert apply_changes(project.database(), TABLE).rebuilt
    project.assert_identical(TABLE, ("id", "code"))


def test_a_key_finer_than_the_lake_is_told(project: Project) -> None:
    """Seven digits of a second come as six."""
    source = project.source
    source.execute("CREATE TABLE dbo.items (at datetime2(7) NOT NULL PRIMARY KEY, v int)")
    source.enable("items")
    project.tables = {TABLE: None}
    (warning,) = run_sync(project).outcomes[TABLE].warnings
    assert "two keys of one microsecond become one row" in warning
    assert "at (datetime2(7))" in warning
