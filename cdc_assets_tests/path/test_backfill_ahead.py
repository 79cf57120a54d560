"""The next wave is read ahead, while the one before is told of."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cdc_assets.contract import Event
from cdc_assets.engines.database import Database
from cdc_assets.errors import LakeUnavailableError
from cdc_assets.ingest import backfill as backfill_module
from cdc_assets.ingest import telling as telling_module
from cdc_assets.ingest.looking import Look
from cdc_assets.ingest.telling import WaveMeasure
from cdc_assets_tests.path.chunking import TABLE, assert_complete, chunked, events, run_backfill
from cdc_assets_tests.path.helpers import run_sync
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
READ_SECONDS_MAX = 60.0


@pytest.fixture
def engine_name() -> str:
    """Spark's tasks write files as well, and wait at the same place."""
    return "arrow"


def test_the_next_wave_is_read_while_one_is_told(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is appended only then."""
    chunked(project, rows=8)
    run_sync(project)
    read, versions = threading.Event(), []
    tell, append = telling_module.tell_wave, backfill_module.append_wave

    def late(database: Database, look: Look, measure: WaveMeasure | None = None) -> object:
        assert look.next_wave > 0 or read.wait(READ_SECONDS_MAX), "nothing was read meanwhile"
        told = tell(database, look, measure)
        versions.append(newest_wave(project))
        return told

    def seen(database: Database, look: Look, *more: Any) -> object:
        *most, ready = more
        is_next = look.next_wave == 1

        def all_read() -> None:
            if is_next:
                read.set()
            ready()

        return append(database, look, *most, all_read)

    monkeypatch.setattr(telling_module, "tell_wave", late)
    monkeypatch.setattr(backfill_module, "append_wave", seen)
    assert run_backfill(project).done
    assert versions == [0, 1]
    monkeypatch.undo()
    assert_complete(project)


def test_a_wave_that_cannot_be_told_of_stops_the_next(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunked(project, rows=12)
    run_sync(project)

    def full(*_: object) -> None:
        raise LakeUnavailableError("there is no space left for the facts")

    with monkeypatch.context() as patch:
        patch.setattr(telling_module, "tell_wave", full)
        with pytest.raises(LakeUnavailableError):
            run_backfill(project)
    assert (newest_wave(project), events(project, Event.SNAPSHOT_CHUNK)) == (0, [])
    assert run_backfill(project).done
    assert_complete(project)


def newest_wave(project: Project) -> int | None:
    """The last wave in bronze."""
    (opened,) = events(project, Event.SNAPSHOT_OPEN)
    database = project.database()
    bronze = database.lake.bronze(database.table(TABLE))
    return bronze.transaction_version(f"{TABLE}#snap.{opened.max_lsn}") if bronze else None
