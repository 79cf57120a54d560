"""Opening snapshots: one table that cannot yet, or not at all, holds no other table."""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_assets.errors import CaptureNotReadyError, SnapshotWaitsError, TableReplacedError
from cdc_assets.ingest import snapshot as snapshot_module
from cdc_assets.ingest import waiting as waiting_module
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.sync import sync
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.source import Project

TABLE, OTHER = "dbo_items", "dbo_other"


@pytest.fixture
def engine_name() -> str:
    """All of this is decided before an engine is asked."""
    return "arrow"


def add_other(items: Project) -> None:
    """A second table that was never loaded."""
    items.source.execute("CREATE TABLE dbo.other (id int NOT NULL PRIMARY KEY)")
    items.source.enable("other")
    items.tables = {TABLE: None, OTHER: None}


@pytest.fixture
def idle(items: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A database with nothing new since its table was loaded, and nobody who waits."""

    def nobody_waits(_: float) -> None:
        pytest.fail("a sync waited")

    change_items(items.source)
    load(items)
    monkeypatch.setattr(waiting_module.time, "sleep", nobody_waits)
    return items


def test_a_reset_on_an_idle_database_waits_for_the_next_sync(idle: Project) -> None:
    add_other(idle)
    reset(idle.database(), TABLE)
    for other in (Work.SNAPSHOT, Work.QUIET):
        report = sync(idle.database())
        assert report.failed == ()
        assert {key: o.work for key, o in report.outcomes.items()} == {
            TABLE: Work.WAITING,
            OTHER: other,
        }
        (told,) = report.warnings
        assert told.startswith(f"{TABLE}: its snapshot needs an LSN above 0x")
        assert "the next sync looks again" in told
    change_items(idle.source, base=300)
    assert load(idle)[0].work is Work.SNAPSHOT
    idle.assert_identical(TABLE, COLUMNS)


def test_an_lsn_that_does_not_come_is_an_error(
    idle: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Capture has given nothing for longer than an idle database takes for an entry."""
    add_other(idle)
    reset(idle.database(), TABLE)
    monkeypatch.setattr(waiting_module, "NEXT_LSN_SECONDS_MAX", 0.0)
    report = sync(idle.database())
    (failed,) = report.failed
    assert isinstance(failed.error, CaptureNotReadyError)
    assert "Is the capture job running?" in str(failed.error)
    assert report.outcomes[OTHER].work is Work.SNAPSHOT


def test_a_person_waits_for_a_new_snapshot_and_is_told_in_the_end(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(items)
    waits: list[float] = []
    monkeypatch.setattr(waiting_module.time, "sleep", waits.append)
    monkeypatch.setattr(waiting_module, "NEXT_LSN_SECONDS_MAX", 0.2)
    (failed,) = sync(items.database(), resnapshot=True).failed
    assert isinstance(failed.error, CaptureNotReadyError)
    assert str(failed.error).startswith(f"sales.{TABLE}: its snapshot needs an LSN above 0x")
    assert waits
    assert run_sync(items).outcomes[TABLE].work is Work.QUIET


def test_a_gap_that_waits_for_its_snapshot_is_told(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance created anew right after a snapshot: no commit is newer."""
    load(items)
    change_items(items.source)
    load(items)
    items.extra = {"defaults": {"engine": items.engine, "on_data_loss": "resnapshot"}}
    items.source.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'items', N'all'")
    items.source.enable("items")

    def none_yet(*_: Any, **__: Any) -> Any:
        raise SnapshotWaitsError("none yet", hint="Later.")

    with monkeypatch.context() as idle:
        idle.setattr(snapshot_module, "_planned", none_yet)
        outcome = run_sync(items).outcomes[TABLE]
    assert (outcome.work, outcome.warnings) == (Work.WAITING, ("none yet. Later.",))
    assert outcome.gap is not None
    change_items(items.source, base=500)
    assert load(items)[0].work is Work.SNAPSHOT
    items.assert_identical(TABLE, COLUMNS)


def test_an_open_that_was_removed_by_hand_fails_its_table_alone(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = items.database()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as crashing:
        crashing.setattr(snapshot_module, "snapshot_ranges", crash)
        with pytest.raises(KeyboardInterrupt):
            sync(database)
    assert [row.event for row in database.lake.facts.events()] == ["snapshot_open"]
    DeltaTable(database.name.facts_uri).delete("event = 'snapshot_open'")
    add_other(items)
    report = sync(items.database())
    (failed,) = report.failed
    assert failed.table == TABLE
    assert isinstance(failed.error, TableReplacedError)
    assert "lack the event of a snapshot that was opened" in str(failed.error)
    assert report.outcomes[OTHER].work is Work.SNAPSHOT
