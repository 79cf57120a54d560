"""What a backfill meets that it must not pass by: lost rows, restored sources, gaps, resets."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets.contract import Event
from cdc_assets.errors import (
    BookkeepingError,
    CommitConflictError,
    HistoryChangedError,
    LakeUnavailableError,
    SchemaChangedError,
    TableReplacedError,
)
from cdc_assets.ingest import backfill as backfill_module
from cdc_assets.ingest import sync as sync_module
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.sync import sync
from cdc_assets.lake import facts as facts_module
from cdc_assets.planning.verdict import Hold
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.chunking import (
    TABLE,
    assert_complete,
    chunked,
    events,
    lost,
    run_backfill,
)
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, once, purge, run_sync
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver


@pytest.fixture
def engine_name() -> str:
    """What is read is decided before an engine is asked."""
    return "arrow"


class Bronze:
    """Bronze's folder, with its backups by name."""

    def __init__(self, project: Project, backups: Path) -> None:
        uri = project.database().table(TABLE).bronze_uri
        self._folder, self._backups = Path(uri.removeprefix("file://")), backups

    def back_up(self, name: str) -> None:
        shutil.copytree(self._folder, self._backups / name)

    def put_back(self, name: str) -> None:
        shutil.rmtree(self._folder)
        shutil.copytree(self._backups / name, self._folder)


def test_the_completion_is_lost_and_made_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a lake that is full, then to another call that makes it between our look and commit."""
    chunked(project, rows=3)
    run_sync(project)

    def at_its_commit(happening: Callable[[], object]) -> None:
        once(monkeypatch, backfill_module, "completion",
             lambda: once(monkeypatch, facts_module, "write_deltalake", happening))  # fmt: skip

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    at_its_commit(full)
    with pytest.raises(LakeUnavailableError):
        run_backfill(project)
    assert events(project, Event.BOOTSTRAP) == []
    assert apply_changes(project.database(), TABLE).hold is Hold.SNAPSHOT_OPEN
    others = []
    at_its_commit(lambda: others.append(run_backfill(project)))
    assert run_backfill(project).done
    assert [other.done for other in others] == [True]
    (done,) = events(project, Event.BOOTSTRAP)
    assert done.rows == 3
    assert_complete(project)


def assert_refused(project: Project, told: str) -> None:
    """By sync and apply, which write nothing."""
    (failed,) = sync(project.database()).failed
    assert isinstance(failed.error, TableReplacedError)
    assert told in str(failed.error)
    with pytest.raises(TableReplacedError, match=told):
        apply_changes(project.database(), TABLE)


def test_bronze_has_lost_rows_of_a_snapshot(project: Project, tmp_path: Path) -> None:
    """A backup of bronze alone is put back: nobody would read again what that lacks.

    It lacks a wave of an open snapshot, then one of a complete one, then all of a whole one.
    """
    chunked(project, rows=6)
    run_sync(project)
    bronze = Bronze(project, tmp_path)
    run_backfill(project, max_waves=1)
    bronze.back_up("one wave")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backfill_module, "_complete", killed)
        with pytest.raises(Killed):
            run_backfill(project)
    bronze.back_up("all waves")
    bronze.put_back("one wave")
    with pytest.raises(TableReplacedError, match=r"know commit 1 of .* bronze ends with 0"):
        run_backfill(project)
    assert_refused(project, "and bronze ends with 0")

    bronze.put_back("all waves")
    assert run_backfill(project).done
    bronze.put_back("one wave")
    assert_refused(project, "and bronze ends with 0")

    bronze.put_back("all waves")
    change_items(project.source)
    load(project)
    project.tables = {TABLE: {"snapshot": "full"}}
    bronze.back_up("no whole one")
    assert not sync(project.database(), resnapshot=True).failed
    bronze.put_back("no whole one")
    change_items(project.source, base=300)
    assert_refused(project, "and bronze has none")


@pytest.mark.sandbox
def test_the_source_is_restored(project: Project) -> None:
    """Its rows are of another history: none is read, whatever the newest LSN is by then."""
    source = project.source
    chunked(project, rows=6)
    run_sync(project)
    run_backfill(project, max_waves=1)
    source.execute("EXEC sandbox.backup_database @name = N'before'")
    change_items(source)
    run_sync(project)
    source.execute("EXEC sandbox.restore_database @name = N'before'")
    with pytest.raises(HistoryChangedError, match=r"the position .* is above the newest LSN"):
        run_backfill(project)
    for base in (300, 400, 500, 600):
        change_items(source, base)
    with pytest.raises(HistoryChangedError, match="is no commit of this database"):
        run_backfill(project)
    assert not events(project, Event.BOOTSTRAP)


@pytest.mark.sandbox
def test_a_loss_that_is_skipped_abandons_it_too(project: Project) -> None:
    """Chunks read before the gap are read again: no change comes that would correct them.

    A whole one may take its place, and its read may fail: the next sync reads it.
    """
    lost(project)
    project.extra["defaults"]["on_data_loss"] = "skip"
    opened = run_sync(project).outcomes[TABLE]
    assert (opened.work, opened.gap is not None) == (Work.OPENED, True)
    run_backfill(project, max_waves=1)

    # So that what is purged can be done again.
    project.source.execute(
        "DELETE FROM dbo.items WHERE id >= 900", "UPDATE dbo.items SET name = N'x' WHERE id = 1"
    )
    purge(project.source)
    project.tables = {TABLE: {"snapshot": "full"}}
    project.source.execute(
        "EXEC sandbox.fault @kind = N'error', @table = N'dbo.items', @rows = 1, @times = 9,"
        f" @number = 50000, @text = N'x', @login = N'{project.source.server.reader_login}'"
    )
    assert sync(project.database()).failed
    project.source.execute("EXEC sandbox.clear_faults")
    assert run_sync(project).outcomes[TABLE].work is Work.SNAPSHOT
    found = [row.event for row in events(project) if "chunk" not in row.payload]
    assert found == [
        *(Event.SNAPSHOT_OPEN, Event.SNAPSHOT_PLAN),
        *(Event.RECOVERING, Event.SNAPSHOT_OPEN, Event.SNAPSHOT_PLAN),
        *(Event.RECOVERING, Event.SNAPSHOT_OPEN, Event.BOOTSTRAP),
    ]
    assert_complete(project)


def test_a_reset_just_before_it_is_opened(project: Project) -> None:
    """It is opened for a bronze that nobody reads: the next sync opens another."""
    chunked(project)
    with pytest.MonkeyPatch.context() as patch:
        once(patch, sync_module, "open_snapshots", lambda: reset(project.database(), TABLE))
        (failed,) = sync(project.database()).failed
    assert isinstance(failed.error, CommitConflictError)
    change_items(project.source)
    assert run_sync(project).outcomes[TABLE].work is Work.OPENED
    assert run_backfill(project).done
    assert_complete(project)


def test_a_column_that_it_is_cut_on_is_dropped(project: Project) -> None:
    """It cannot be read on, so a person may have another; the changes go on where they were.

    Nor can one whose plan has lost a chunk.
    """
    source = project.source
    chunked(project, rows=6)
    cut = {TABLE: {"snapshot": "chunked", "chunk_rows": 2, "chunk_column": "note"}}
    project.tables, plain = cut, project.tables
    source.execute("UPDATE dbo.items SET note = CONCAT('n', id)")
    run_sync(project)
    run_backfill(project, max_waves=1)
    change_items(source)
    run_sync(project)
    source.execute(
        "ALTER TABLE dbo.items DROP COLUMN note", "UPDATE dbo.items SET name = N'y' WHERE id > 4"
    )
    source.captured()
    with pytest.raises(
        SchemaChangedError, match=r"Take a new snapshot of it .*cdc-assets snapshot"
    ):
        run_backfill(project)
    (failed,) = sync(project.database(), resnapshot=True).failed
    assert "Name another one as `chunk_column`" in str(failed.error)
    project.tables = plain
    opened = sync(project.database(), resnapshot=True).outcomes[TABLE]
    assert (opened.work, opened.gap) == (Work.OPENED, None)

    run_backfill(project, max_waves=1)
    DeltaTable(project.database().name.plans_uri).delete("chunk = 1")
    with pytest.raises(BookkeepingError, match="not whole"):
        run_backfill(project)
    source.execute("UPDATE dbo.items SET name = N'z' WHERE id > 4")
    source.captured()
    assert sync(project.database(), resnapshot=True).outcomes[TABLE].work is Work.OPENED
    assert run_backfill(project).done
    load(project)
    project.assert_identical(TABLE, [name for name in COLUMNS if name != "note"])
    project.assert_each_change_once(TABLE)


class Killed(BaseException):
    """The end of a run."""


def killed(*_: object) -> None:
    raise Killed
