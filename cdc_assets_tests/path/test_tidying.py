"""Small files are put together on the way: a sync costs the same on Friday as on Monday."""

from typing import NoReturn

import pytest
from deltalake import DeltaTable

from cdc_assets.errors import CommitConflictError
from cdc_assets.ingest import tidying
from cdc_assets.lake.facts import Facts
from cdc_assets.lake.tables import StorageOptions
from cdc_assets.planning.plans import MaintainPlan
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])
TABLE = "dbo_items"
SYNCS = 8


def files(uri: str) -> int:
    return len(DeltaTable(uri).file_uris())


@ARROW
def test_files_stay_few_and_rows_what_they_were(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidying, "SMALL_FILES_MAX", 3)
    load(items)
    for number in range(SYNCS):
        change_items(items.source, base=100 * (number + 1))
        assert run_sync(items).failed == ()
    database = items.database()
    table = database.table(TABLE)
    assert files(table.bronze_uri) <= 4, "the one of before, and the batches since"
    assert files(database.name.facts_uri) <= 4
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)
    batches = [row.batch_id for row in database.lake.facts.batches(table.bronze) if row.rows]
    assert batches == list(range(1, len(batches) + 1))


@ARROW
def test_a_sync_is_done_where_tidying_fails(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: Facts) -> NoReturn:
        asked.append("files")
        raise CommitConflictError("another writer committed first", where="facts")

    def fails(plan: MaintainPlan, _: StorageOptions) -> NoReturn:
        asked.append(plan.table)
        raise CommitConflictError("another writer committed first", where=plan.table)

    asked: list[str] = []
    monkeypatch.setattr(tidying, "SMALL_FILES_MAX", 1)
    monkeypatch.setattr(tidying, "maintain", fails)
    load(items)
    change_items(items.source)
    load(items)
    assert {"facts", f"sales.{TABLE}"} <= set(asked)
    items.assert_identical(TABLE, COLUMNS)
    monkeypatch.setattr(Facts, "files", unreadable)
    assert run_sync(items).failed == ()
    assert "files" in asked


def test_tables_of_one_sync_take_turns() -> None:
    turns = [tidying.is_turn(f"dbo_t{number}", 7) for number in range(1_000)]
    assert 0 < sum(turns) < 50
    assert all(
        sum(tidying.is_turn("dbo_t", batch) for batch in range(start, start + 100)) == 1
        for start in (0, 37)
    )
