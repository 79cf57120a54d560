"""Plans of chunked snapshots: each written once, read back as it was, and never half."""

import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets.contract import PLANS, SCHEMA_VERSION_PROPERTY
from cdc_assets.errors import BookkeepingError
from cdc_assets.lake import plans as plans_module
from cdc_assets.lake.lake import Lake
from cdc_assets.lake.tables import columns_of
from cdc_assets.lsn import Lsn
from cdc_assets.names import DatabaseName, TableName, kind_of
from cdc_assets.planning.chunks import Chunk, ChunkPlan, Extent, Sizing
from cdc_assets.planning.keysets import KeyType

S = Lsn.of_int(7)
TYPES = (KeyType("int"), KeyType("varchar(9)", "Greek_CI_AS"))
EXTENT = Extent(("a", 'b "]; Ж'), ("9", None), TYPES)
CHUNKS = (
    Chunk(0, None, ("1", None), 3),
    Chunk(1, ("1", None), ("é'\"\\", ""), 2),
    Chunk(2, ("é'\"\\", ""), None, 1),
)
PLAN = ChunkPlan(
    "one", S, EXTENT.keys, CHUNKS, EXTENT.largest, TYPES, Sizing(3, "'x' of the settings")
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(DatabaseName("sales", str(tmp_path)), {})


@pytest.fixture
def table(tmp_path: Path) -> TableName:
    """A name that would not survive being put into a text."""
    return DatabaseName("sales", str(tmp_path)).table("my.table 'x'")


def test_a_plan_is_read_back_as_it_was(lake: Lake, table: TableName) -> None:
    """B072: whatever the table and its columns are called."""
    assert lake.plans.plan(table, S) is None
    assert lake.plans.extent(table, S) is None
    assert lake.plans.store_extent(table, S, EXTENT) == EXTENT
    assert lake.plans.plan(table, S) is None
    assert lake.plans.store(table, PLAN) == PLAN
    assert lake.plans.plan(table, S, "one") == PLAN
    assert lake.plans.extent(table, S) == EXTENT
    other = replace(table, key="other")
    assert lake.plans.plan(other, S) is None
    assert lake.plans.plan(table, S.next()) is None
    found = DeltaTable(table.database.plans_uri)
    assert columns_of(found) == PLANS.columns
    assert found.metadata().configuration[SCHEMA_VERSION_PROPERTY] == str(PLANS.version)
    assert kind_of(table.database.plans_uri) == PLANS.kind


def test_what_is_written_stays(lake: Lake, table: TableName) -> None:
    """B079: a later call never changes a plan, whatever was added or asked for since."""
    lake.plans.store_extent(table, S, EXTENT)
    lake.plans.store(table, PLAN)
    assert lake.plans.store_extent(table, S, Extent(("z",), ("0",), TYPES[:1])) == EXTENT
    later = replace(PLAN, plan_id="two", chunks=(Chunk(0, None, None, 6),))
    assert lake.plans.store(table, later) == PLAN
    other = replace(table, key="other")
    assert lake.plans.store(other, later) == later
    assert lake.plans.plan(table, S) == PLAN


def test_of_two_planners_the_loser_takes_the_winners(lake: Lake, table: TableName) -> None:
    lake.plans.store_extent(table, S, EXTENT)
    together = threading.Barrier(4)
    found: list[ChunkPlan] = []

    def store(name: str) -> None:
        together.wait()
        found.append(lake.plans.store(table, replace(PLAN, plan_id=name)))

    threads = [threading.Thread(target=store, args=[name]) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert set(found) == {found[0]}
    assert found[0].chunks == CHUNKS


def test_the_bound_of_an_open_last_chunk_is_what_was_recorded_first(
    lake: Lake, table: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the plan is read back with it, though the clock was behind when it was written."""
    lake.plans.store(table, PLAN)
    monkeypatch.setattr(plans_module, "utc_now", lambda: datetime(2001, 1, 1))
    closed = replace(PLAN, chunks=(*CHUNKS[:2], replace(CHUNKS[2], upper=("x", None))))
    assert lake.plans.close(table, closed) == closed
    later = replace(PLAN, chunks=(*CHUNKS[:2], replace(CHUNKS[2], upper=("y", None))))
    assert lake.plans.close(table, later) == closed
    assert lake.plans.plan(table, S, "one") == lake.plans.plan(table, S) == closed
    assert lake.plans.store(table, PLAN) == closed


def test_a_plan_whose_bound_is_all_that_is_left_is_refused(lake: Lake, table: TableName) -> None:
    lake.plans.store(table, PLAN)
    lake.plans.close(table, replace(PLAN, chunks=(*CHUNKS[:2], replace(CHUNKS[2], upper=("x",)))))
    DeltaTable(table.database.plans_uri).delete("chunk IS NOT NULL")
    with pytest.raises(BookkeepingError, match=r"the plan one .*is not whole.*If a newer snapshot"):
        lake.plans.plan(table, S)


def test_a_plan_takes_the_place_of_the_tables_earlier_ones(lake: Lake, table: TableName) -> None:
    """Whose snapshots are complete or given up; those of other tables, and a later open, stay."""
    other = replace(table, key="other")
    later, latest = S.next(), S.next().next()
    for of, plan in ((table, PLAN), (other, PLAN)):
        lake.plans.store_extent(of, S, EXTENT)
        lake.plans.store(of, plan)
    lake.plans.close(table, replace(PLAN, chunks=(*CHUNKS[:2], replace(CHUNKS[2], upper=("x",)))))
    lake.plans.store_extent(table, later, EXTENT)
    assert lake.plans.plan(table, S) is not None, "its successor is not planned yet"
    lake.plans.store_extent(table, latest, EXTENT)
    stored = lake.plans.store(table, replace(PLAN, plan_id="two", snapshot=later))
    assert stored == lake.plans.plan(table, later)
    assert (lake.plans.plan(table, S), lake.plans.extent(table, S)) == (None, None)
    assert (lake.plans.extent(table, later), lake.plans.extent(table, latest)) == (EXTENT, EXTENT)
    assert lake.plans.plan(other, S) == PLAN
    left = DeltaTable(table.database.plans_uri).to_pyarrow_table()
    assert left.num_rows == (1 + len(CHUNKS)) * 2 + 1


@pytest.mark.parametrize("gone", ["chunk = 0", "chunk = 1", "chunk IS NOT NULL"])
def test_a_plan_that_is_not_whole_is_refused(lake: Lake, table: TableName, gone: str) -> None:
    """It would leave rows out, and nobody would see it."""
    lake.plans.store(table, PLAN)
    DeltaTable(table.database.plans_uri).delete(gone)
    with pytest.raises(BookkeepingError, match=r"the plan one .*is not whole.*Restore"):
        lake.plans.plan(table, S, "one")


def test_another_plan_than_the_facts_name_is_refused(lake: Lake, table: TableName) -> None:
    lake.plans.store(table, PLAN)
    with pytest.raises(BookkeepingError, match="the plan two"):
        lake.plans.plan(table, S, "two")
