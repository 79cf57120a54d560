"""Two runs of one table at once: the second replans or ends, and nothing is lost or doubled."""

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc_assets.engines import copies
from cdc_assets.errors import SeedOpenError, SeedRefusedError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest import batch as batch_module
from cdc_assets.ingest import changes as changes_module
from cdc_assets.ingest import snapshot as snapshot_module
from cdc_assets.ingest import sync as sync_module
from cdc_assets.ingest.seeding import seed
from cdc_assets.ingest.sync import sync
from cdc_assets.planning.snapshots import snapshots_of
from cdc_assets.silver import apply as apply_module
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.copying import begun
from cdc_assets_tests.path.helpers import (
    COLUMNS,
    change_items,
    create_items,
    load,
    once,
    run_sync,
    sync_unrecorded,
)
from cdc_assets_tests.path.killing import kill_case, stopped_at
from cdc_assets_tests.path.verdicts import assert_right
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE = "dbo_items"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])


def at_once(project: Project, runs: int = 3) -> None:
    databases = [project.database() for _ in range(runs)]
    with ThreadPoolExecutor(runs) as pool:
        reports = list(pool.map(sync, databases))
    errors = [o.error for report in reports for o in report.failed]
    assert errors == []


def test_first_syncs_at_once_take_one_snapshot(items: Project) -> None:
    """B162."""
    at_once(items)
    load(items)
    items.assert_each_change_once(TABLE)
    items.assert_identical(TABLE, COLUMNS)
    events = Counter(row.event for row in items.database().lake.facts.events())
    assert events == {"snapshot_open": 1, "bootstrap": 1}


@ARROW
def test_a_first_sync_that_lost_to_one_that_found_no_row(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other's high mark says that the snapshot shows nothing later: what came is a change."""
    empty_items(project)
    once(monkeypatch, sync_module, "open_snapshots", lambda: first_row_after_a_sync(project))
    assert run_sync(project).outcomes[TABLE].rows == 0
    assert project.bronze(TABLE) == []
    project.source.captured()
    load(project)
    assert [row["_operation"] for row in project.bronze(TABLE)] == [2]
    project.assert_identical(TABLE, COLUMNS)


@ARROW
def test_a_row_that_comes_while_another_sync_finds_none(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one snapshot's two reads the later one's high mark holds the verdict."""
    empty_items(project)
    once(monkeypatch, snapshot_module, "snapshot_ranges", lambda: first_row_after_a_sync(project))
    assert run_sync(project).outcomes[TABLE].rows == 1
    events = project.database().lake.facts.events()
    assert [row.event for row in events] == ["snapshot_open", "bootstrap", "bootstrap"]
    done = snapshots_of(events).complete
    project.source.captured()
    load(project)
    first, again = project.bronze(TABLE)
    assert (first["_operation"], again["_operation"]) == (0, 2)
    assert done is not None
    assert done.high_mark is not None
    assert done.high_mark >= again["_commit_ts"]
    project.assert_identical(TABLE, COLUMNS)


@ARROW
def test_a_first_sync_that_lost_to_a_copy_reads_nothing(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both found no snapshot; the rows of a read would stand in place of the copy's."""
    copy, started = begun(items)
    monkeypatch.setattr(copies, "TRIAL_ROWS_MAX", 1)
    late = pa.array([*copy["price"].to_pylist()[:-1], Decimal("0.12345")])

    def a_copy_first() -> None:
        with pytest.raises(SeedRefusedError, match="seed a mended copy"):
            seed(items.database(), TABLE, copy.set_column(2, "price", late), started)

    once(monkeypatch, sync_module, "open_snapshots", a_copy_first)
    (failed,) = sync(items.database()).failed
    assert isinstance(failed.error, SeedOpenError)
    assert items.bronze(TABLE) == []
    assert seed(items.database(), TABLE, copy, started).rows == copy.num_rows
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def empty_items(project: Project) -> None:
    create_items(project.source, rows=0)
    project.tables = {TABLE: None}


def first_row_after_a_sync(project: Project) -> None:
    assert run_sync(project).outcomes[TABLE].rows == 0
    project.source.execute("INSERT INTO dbo.items (id, name) VALUES (1, N'first')")


def test_later_syncs_at_once_append_each_change_once(items: Project) -> None:
    """B162: two runs of one range collide on its batch id instead of doubling it."""
    load(items)
    for base in (100, 300, 500):
        change_items(items.source, base)
        at_once(items)
    items.assert_each_change_once(TABLE)
    facts = [row for row in items.database().lake.facts.batches(f"bronze/{TABLE}") if row.rows]
    assert sorted(row.batch_id or 0 for row in facts) == list(range(1, len(facts) + 1))
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_a_sync_that_was_overtaken_while_it_planned_reads_nothing_twice(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other's batch, facts and all, stands between its look at bronze and its commit."""
    load(items)
    change_items(items.source)
    once(monkeypatch, batch_module, "_counted", lambda: run_sync(items))
    assert run_sync(items).outcomes[TABLE].error is None
    items.assert_each_change_once(TABLE)
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_the_facts_of_an_overtaking_sync_that_dies_are_written_by_the_other(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both plan one batch; who comes second finds its own words in bronze, and no facts of it."""
    load(items)
    change_items(items.source)
    once(monkeypatch, changes_module, "_append_next", lambda: sync_unrecorded(items, monkeypatch))
    outcome = run_sync(items).outcomes[TABLE]
    (batch,) = [r for r in items.database().lake.facts.batches(f"bronze/{TABLE}") if r.rows]
    assert (batch.batch_id, batch.rows) == (1, outcome.rows)


def test_limited_batches_of_two_syncs_all_have_facts(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one sync appends its batches, another appends one of them, and dies."""
    load(items)
    for base in (100, 300, 500):
        change_items(items.source, base)
    items.tables = {TABLE: {"max_commits_per_batch": 1}}
    append, turns, others = changes_module.append_batch, itertools.count(), itertools.count()

    def one_and_no_more(*arguments: Any) -> Any:
        assert next(others) == 0, "it dies"
        return append(*arguments)

    def another_first(*arguments: Any) -> Any:
        if next(turns) == 1:
            with monkeypatch.context() as own:
                own.setattr(changes_module, "append_batch", one_and_no_more)
                sync_unrecorded(items, monkeypatch)
        return append(*arguments)

    monkeypatch.setattr(changes_module, "append_batch", another_first)
    sync(items.database())
    monkeypatch.setattr(changes_module, "append_batch", append)
    load(items)
    items.assert_each_change_once(TABLE)
    items.assert_identical(TABLE, COLUMNS)
    batches = {row["_batch_id"] for row in items.bronze(TABLE)} - {None}
    facts = [row for row in items.database().lake.facts.batches(f"bronze/{TABLE}") if row.rows]
    assert sorted(row.batch_id or 0 for row in facts) == sorted(batches)
    assert len(batches) > 3


def test_an_apply_that_read_an_older_bronze_is_overtaken(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows would bring back a key that the newer call deleted: it must not be merged."""
    load(items)
    items.source.execute("UPDATE dbo.items SET name = N'older' WHERE id = 1")
    items.source.captured()
    run_sync(items)
    plan_of = apply_module.plan_apply

    def another_call_first(*arguments: Any) -> Any:
        monkeypatch.setattr(apply_module, "plan_apply", plan_of)
        work = plan_of(*arguments)
        items.source.execute("DELETE FROM dbo.items WHERE id = 1")
        items.source.captured()
        load(items)
        return work

    monkeypatch.setattr(apply_module, "plan_apply", another_call_first)
    assert apply_changes(items.database(), TABLE).overtaken
    items.assert_identical(TABLE, COLUMNS)


FIRST = (
    FaultPoint.SNAPSHOT_OPENED,
    FaultPoint.SNAPSHOT_APPENDED,
    FaultPoint.FACTS_WRITTEN,
    FaultPoint.SILVER_CREATED,
)
LATER = (FaultPoint.BRONZE_APPENDED, FaultPoint.FACTS_WRITTEN, FaultPoint.SILVER_MERGED)


@pytest.mark.parametrize(
    ("engine_name", "point", "is_first"),
    [kill_case("arrow", point, True, name="first") for point in FIRST]
    + [kill_case("arrow", point, False, name="later") for point in LATER],
    indirect=["engine_name"],
)
def test_one_of_two_syncs_is_killed(
    items: Project, point: FaultPoint, is_first: bool, tmp_path: Path
) -> None:
    """History 6: it stands between two writes while the other one passes it, and dies there."""
    if not is_first:
        load(items)
    change_items(items.source)
    with stopped_at(items, point, tmp_path / "reached"):
        load(items)
        change_items(items.source, base=300)
        load(items)
    change_items(items.source, base=500)
    load(items)
    assert_right(items, COLUMNS)
    facts = items.database().lake.facts
    assert Counter(row.event for row in facts.events()) == {"snapshot_open": 1, "bootstrap": 1}
    batches = [row.batch_id for row in facts.batches(f"bronze/{TABLE}") if row.rows]
    assert batches == list(range(1, len(batches) + 1))
