"""What a backfill meets that it must not pass by: lost rows, restored sources, gaps, resets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import HistoryChangedError, TableReplacedError
from cdc_assets.ingest import backfill as backfill_module
from cdc_assets.ingest.sync import sync
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.chunking import TABLE, chunked, events, run_backfill
from cdc_assets_tests.path.helpers import change_items, load, run_sync
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


class Killed(BaseException):
    """The end of a run."""


def killed(*_: object) -> None:
    raise Killed
