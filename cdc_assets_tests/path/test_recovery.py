"""What happens between two steps: cleanup, a crash, another run, a table taken away."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cdc_assets.errors import DataLossError, TableReplacedError, UnexpectedError
from cdc_assets.ingest import advance as advance_module
from cdc_assets.ingest import quiet as quiet_module
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.sync import sync
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.helpers import (
    COLUMNS,
    change_items,
    clean_up,
    load,
    run_sync,
    sync_unrecorded,
)
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE = "dbo_items"


@pytest.fixture
def engine_name() -> str:
    """All of this is decided before an engine is asked."""
    return "arrow"


def test_cleanup_between_the_poll_and_the_read_is_a_loss(
    items: Project, after_the_poll: Callable[[Callable[[], object]], None]
) -> None:
    """B007: a purged range counts as empty, and empty needs the same proof as a read."""
    load(items)
    change_items(items.source)
    newest = items.source.captured()
    items.source.execute("UPDATE dbo.items SET name = N'x' WHERE id = 1")
    items.source.captured(minimum=newest)
    before = items.database().lake.control.read()[f"bronze/{TABLE}"].end_lsn
    after_the_poll(lambda: clean_up(items.source))
    (failed,) = sync(items.database()).failed
    assert isinstance(failed.error, DataLossError)
    assert items.database().lake.control.read()[f"bronze/{TABLE}"].end_lsn == before


def test_a_sync_with_an_older_poll_does_not_cry_restore(
    items: Project, after_the_poll: Callable[[Callable[[], object]], None]
) -> None:
    load(items)
    change_items(items.source)

    def newer_sync() -> None:
        change_items(items.source, base=300)
        load(items)

    after_the_poll(newer_sync)
    assert sync(items.database()).failed == ()
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_two_tables_of_one_instance_are_both_read(items: Project) -> None:
    items.tables = {"aaa": {"capture_instance": TABLE}, "bbb": {"capture_instance": TABLE}}
    run_sync(items)
    change_items(items.source)
    sync(items.database(), ["bbb"])
    outcomes = run_sync(items).outcomes
    assert outcomes["aaa"].rows == 13
    assert outcomes["bbb"].rows == 0


def test_facts_of_a_crashed_batch_are_written_once_with_the_next(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches in one facts commit are one transaction at the later version."""
    load(items)
    change_items(items.source)
    sync_unrecorded(items, monkeypatch)
    for base in (300, 500, 700):
        change_items(items.source, base)
        run_sync(items)
    facts = [row for row in items.database().lake.facts.batches(f"bronze/{TABLE}") if row.rows]
    assert sorted(row.batch_id or 0 for row in facts) == [1, 2, 3, 4]
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_cleanup_after_a_crash_is_no_loss_when_bronze_has_the_rows(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(items)
    change_items(items.source)
    sync_unrecorded(items, monkeypatch)
    clean_up(items.source)
    run_sync(items)
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_an_unforeseen_failure_fails_its_table_alone(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    items.source.execute("CREATE TABLE dbo.other (id int NOT NULL PRIMARY KEY)")
    items.source.enable("other")
    items.tables = {TABLE: None, "dbo_other": None}
    read = advance_module.load_snapshot

    def fails_for_other(*arguments: Any) -> Any:
        if arguments[1].table.key == "dbo_other":
            raise RuntimeError("\x1b[31mnobody foresaw this\x1b[0m\nand more")
        return read(*arguments)

    monkeypatch.setattr(advance_module, "load_snapshot", fails_for_other)
    report = sync(items.database())
    assert report.outcomes[TABLE].work is Work.SNAPSHOT
    error = report.outcomes["dbo_other"].error
    assert isinstance(error, UnexpectedError)
    assert str(error).startswith("sales.dbo_other: RuntimeError: nobody foresaw this.")
    assert f"bronze/{TABLE}" in items.database().lake.control.read()


def test_an_unforeseen_failure_of_a_read_is_not_the_lakes(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sync(items)
    change_items(items.source)

    def fails(*_: Any, **__: Any) -> Any:
        raise OSError("No such file or directory")

    with monkeypatch.context() as broken:
        broken.setattr("cdc_assets.engines.arrow.reading.read_range", fails)
        error = sync(items.database()).outcomes[TABLE].error
    assert isinstance(error, UnexpectedError)
    run_sync(items)
    items.assert_each_change_once(TABLE)


def test_a_missing_silver_loses_its_verdict_on_a_quiet_day(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(items)
    change_items(items.source)
    load(items)
    monkeypatch.setattr(quiet_module, "QUIET_ROW_EVERY", timedelta(0))
    database = items.database()
    shutil.rmtree(database.table(TABLE).silver_uri)
    # Nor is there a history of this row.
    history = replace(
        database.lake.control.read()[f"silver/{TABLE}"], table_name=f"history/{TABLE}"
    )
    database.lake.control.update(lambda _: [history])
    run_sync(items)
    rows = database.lake.control.read()
    for row in (rows[f"silver/{TABLE}"], rows[f"history/{TABLE}"]):
        assert (row.finalized_until, row.applied_lsn, row.table_id) == (None, None, None)
    assert apply_changes(items.database(), TABLE).rebuilt
    items.assert_identical(TABLE, COLUMNS)


def test_a_missing_bronze_is_told_on_a_quiet_day(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(items)
    monkeypatch.setattr(quiet_module, "QUIET_ROW_EVERY", timedelta(0))
    database = items.database()
    shutil.rmtree(database.table(TABLE).bronze_uri)
    with pytest.raises(TableReplacedError, match="missing, or another one"):
        run_sync(items)


def test_missing_facts_are_told_before_anything_is_read(items: Project) -> None:
    load(items)
    database = items.database()
    shutil.rmtree(database.name.facts_uri)
    with pytest.raises(TableReplacedError, match="facts know no snapshot"):
        run_sync(items)


@pytest.mark.sandbox
@pytest.mark.parametrize("kind", ["drop", "deadlock", "lock_timeout"])
def test_a_transient_failure_of_a_read_is_tried_again(items: Project, kind: str) -> None:
    """B023: on fresh connections, and what was committed is found."""
    load(items)
    change_items(items.source)
    items.source.execute(f"EXEC sandbox.fault @kind = N'{kind}', @table = N'cdc.{TABLE}_CT'")
    outcome = run_sync(items).outcomes[TABLE]
    assert outcome.rows == 13
    load(items)
    items.assert_identical(TABLE, COLUMNS)
