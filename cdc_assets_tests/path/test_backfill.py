"""Chunked snapshots: opened by a sync, read in waves beside the changes, complete at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import SettingsError, SnapshotModeError, SourceBehindError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest import planned as planned_module
from cdc_assets.ingest import sizing as sizing_module
from cdc_assets.ingest import sync as sync_module
from cdc_assets.ingest.outcome import BackfillState, Work
from cdc_assets.ingest.sync import sync
from cdc_assets.lake.facts import Facts
from cdc_assets.planning import sizing as planned_sizing
from cdc_assets.planning.records import FactsRow
from cdc_assets.planning.verdict import Hold
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.changing import NEW, commit, disable, enable, instances_read
from cdc_assets_tests.path.chunking import TABLE, chunked, events, run_backfill
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, once, run_sync
from cdc_assets_tests.path.killing import kill_at
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
ARROW = pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)


def test_a_chunked_bootstrap(project: Project) -> None:
    """The changes start at S at once; its rows come in waves, and silver when all are there.

    A wave whose rows are all gone is a commit as well: its chunks are read.
    """
    chunked(project, rows=12)
    opened = run_sync(project).outcomes[TABLE]
    assert (opened.work, opened.rows) == (Work.OPENED, 0)
    assert opened.end is not None
    s = str(opened.end.lsn)
    assert project.bronze(TABLE) == []
    change_items(project.source)
    changed = run_sync(project).outcomes[TABLE]
    assert (changed.work, changed.rows, changed.start) == (Work.CHANGES, 13, opened.end)
    assert apply_changes(project.database(), TABLE).hold is Hold.SNAPSHOT_OPEN

    first = run_backfill(project, max_waves=1)
    assert (first.state, first.done, first.paused) == (BackfillState.RUNNING, False, False)
    assert (str(first.snapshot), first.chunks_done) == (s, 2)
    project.source.execute("DELETE FROM dbo.items WHERE id BETWEEN 6 AND 9")
    project.source.captured()
    last = run_backfill(project)
    assert (last.state, last.done, last.chunks_done) == (BackfillState.DONE, True, 6)
    assert run_backfill(project).reason == "it is complete"

    table = project.database().lake.bronze(project.database().table(TABLE))
    assert table is not None
    assert table.transaction_version(f"{TABLE}#snap.{s}") == 2
    told = [(row.payload["wave"], row.payload["chunk"], row.rows) for row in chunks(project)]
    assert told == [(0, 0, 2), (0, 1, 2), (1, 2, 0), (1, 3, 0), (2, 4, 2), (2, 5, 1)]
    rows = [row for row in project.bronze(TABLE) if row["_operation"] == 0]
    assert {(row["_chunk"], row["_start_lsn"]) for row in rows} == {
        (row.payload["chunk"], row.min_lsn) for row in chunks(project) if row.rows
    }
    assert {(row["_snapshot"], row["_batch_id"], row["_seqval"]) for row in rows} == {
        (s, None, None)
    }
    (done,) = events(project, Event.BOOTSTRAP)
    assert (done.min_lsn, done.rows) == (s, 7)
    assert load(project)[1].rebuilt
    project.assert_identical(TABLE, COLUMNS)
    project.assert_each_change_once(TABLE)


def chunks(project: Project) -> list[FactsRow]:
    return events(project, Event.SNAPSHOT_CHUNK)


@ARROW
def test_one_mode_at_a_time(project: Project) -> None:
    """The other mode is refused while one is open, by an error that says how to finish it."""
    chunked(project)
    s = run_sync(project).outcomes[TABLE].end
    project.tables = {TABLE: {"snapshot": "full"}}
    (failed,) = sync(project.database(), resnapshot=True).failed
    assert isinstance(failed.error, SnapshotModeError)
    assert "set `snapshot: chunked` and run cdc-assets backfill sales dbo_items" in str(
        failed.error
    )
    project.source.execute("UPDATE dbo.items SET name = N'x' WHERE id = 1")
    project.source.captured()
    assert run_sync(project).outcomes[TABLE].work is Work.CHANGES, "its changes go on"
    assert len(events(project, Event.SNAPSHOT_OPEN)) == 1

    project.tables = {TABLE: {"snapshot": "chunked"}}
    again = sync(project.database(), resnapshot=True).outcomes[TABLE]
    assert (again.error, len(again.warnings)) == (None, 1), "never a newer LSN"
    assert s is not None
    assert run_backfill(project).snapshot == s.lsn
    load(project)
    project.assert_identical(TABLE, COLUMNS)


@ARROW
def test_no_wave_reads_what_is_known_of_those_before(project: Project) -> None:
    """Facts of chunks are read once each, and by no sync: a large snapshot has a hundred thousand.

    Rows of one moment may come twice.
    """
    chunked(project, rows=12)
    project.extra["num_partitions"] = 1
    run_sync(project)
    read: list[FactsRow] = []
    waves = Facts.waves

    def counted(*arguments: Any) -> list[FactsRow]:
        found = waves(*arguments)
        read.extend(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Facts, "waves", counted)
        assert run_backfill(project).chunks_done == 6
    told = [row.payload["chunk"] for row in read if row.event == Event.SNAPSHOT_CHUNK]
    assert set(told) <= set(range(6))
    assert len(told) <= 2 * 6 + 1
    assert chunks(project)
    every = project.database().lake.facts.events()
    assert [row.event for row in every] == ["snapshot_open", "snapshot_plan", "bootstrap"]


@ARROW
def test_chunks_without_a_size_are_sized_by_the_last_waves(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The plan says how, also where the run that made it died before it told."""

    def opens(**settings: Any) -> None:
        project.tables = {TABLE: {"snapshot": "chunked", **settings}}
        commit(project.source, "UPDATE dbo.items SET price = price + 1 WHERE id = 1")
        sync(project.database(), resnapshot=True)

    monkeypatch.setattr(sizing_module, "MEASURED_ROWS_MIN", 1)
    monkeypatch.setattr(planned_sizing, "SIZED_ROWS_MIN", 1)
    chunked(project, rows=12)
    project.tables = {TABLE: {"snapshot": "chunked"}}
    run_sync(project)
    kill_at(project, FaultPoint.PLAN_STORED, tmp_path / "reached", TABLE, command="backfill")
    assert run_backfill(project).chunks_done == 1, "12 rows are few"
    opens(wave_seconds=3600)
    assert run_backfill(project).chunks_done == 2, "one for each connection"
    opens(wave_seconds=3600, chunk_rows=3)
    assert run_backfill(project).chunks_done == 4
    first, second, third = (row.payload for row in events(project, Event.SNAPSHOT_PLAN))
    assert (first["chunk_rows"], second["chunk_rows"], third["chunk_rows"]) == (10_000, 6, 3)
    assert "20 MB/s: nothing was measured yet" in first["chunk_rows_why"]
    assert "as bronze/dbo_items's 12 rows of " in second["chunk_rows_why"]
    assert third["chunk_rows_why"] == "`chunk_rows` of the settings"
    sizes = [row.rows for row in chunks(project)]
    assert sizes == [12, 6, 6, 3, 3, 3, 3]


@ARROW
@pytest.mark.sandbox
def test_a_plan_takes_long_and_the_connection_drops(project: Project) -> None:
    """A wave's stamp is from after it was planned; what was read by then is asked again."""
    chunked(project, rows=4)
    run_sync(project)
    newest: list[str] = []

    def meanwhile() -> None:
        change_items(project.source)
        newest.append(project.source.captured())
        project.source.execute(
            "EXEC sandbox.fault @kind = N'drop', @table = N'dbo.items',"
            f" @login = N'{project.source.server.reader_login}'"
        )

    with pytest.MonkeyPatch.context() as patch:
        once(patch, planned_module, "plan_chunks", meanwhile)
        assert run_backfill(project, max_waves=1).chunks_done
    assert all((row.min_lsn or "") >= newest[0] for row in chunks(project))


@ARROW
def test_a_limit_that_is_none(project: Project) -> None:
    """0 waves would be none, and not as many as there are."""
    chunked(project)
    for limit in ({"max_waves": 0}, {"max_seconds": 0}, {"min_headroom_hours": -1}):
        with pytest.raises(SettingsError, match=f"{next(iter(limit))} is"):
            run_backfill(project, **limit)


@ARROW
@pytest.mark.sandbox
def test_a_server_that_has_not_reached_s(project: Project) -> None:
    """P2: a stamp below S is refused; the server is a copy of the one it was opened on."""
    chunked(project)
    change_items(project.source, base=300)
    project.source.execute("EXEC sandbox.backup_database @name = N'secondary'")
    change_items(project.source)
    run_sync(project)
    project.source.execute("EXEC sandbox.restore_database @name = N'secondary'")
    with pytest.raises(SourceBehindError, match="Is it a readable secondary"):
        run_backfill(project)
    assert project.bronze(TABLE) == []


@ARROW
@pytest.mark.sandbox
def test_capture_that_has_given_no_lsn_yet_is_waited_for(project: Project) -> None:
    """Not yet is not below: nothing is read, and the next call looks again."""
    chunked(project)
    project.source.execute("EXEC sandbox.backup_database @name = N'before_capture'")
    change_items(project.source)
    run_sync(project)
    project.source.execute("EXEC sandbox.restore_database @name = N'before_capture'")
    waits = run_backfill(project)
    assert (waits.state, waits.paused) == (BackfillState.WAITING_CAPTURE, True)
    assert project.bronze(TABLE) == []


@ARROW
def test_two_syncs_open_one(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second takes the first's S, and not its own look at the keys: that one is older."""
    chunked(project)

    def another_opens_it_and_dies() -> None:
        project.source.execute("INSERT INTO dbo.items (id, name) VALUES (50, N'before S')")
        project.source.captured()
        kill_at(project, FaultPoint.SNAPSHOT_OPENED, tmp_path / "opened")

    once(monkeypatch, sync_module, "open_snapshots", another_opens_it_and_dies)
    outcome = run_sync(project).outcomes[TABLE]
    (opened,) = events(project, Event.SNAPSHOT_OPEN)
    assert outcome.end is not None
    assert (outcome.work, str(outcome.end.lsn)) == (Work.OPENED, opened.max_lsn)
    assert run_backfill(project).done
    assert 50 in {row["id"] for row in project.bronze(TABLE) if row["_operation"] == 0}
    load(project)
    project.assert_identical(TABLE, COLUMNS)


@pytest.mark.spark
@ARROW
def test_engine_and_capture_instance_change_between_waves(project: Project) -> None:
    """Each wave is read by what there is then, and the changes by the instance in turn."""
    source = project.source
    chunked(project, rows=12)
    run_sync(project)
    run_backfill(project, max_waves=1)
    source.execute("ALTER TABLE dbo.items ADD more int NULL")
    enable(source, NEW)
    commit(source, "UPDATE dbo.items SET more = id WHERE id IN (1, 5)")
    run_sync(project)
    disable(source)
    project.engine = "spark"
    assert run_backfill(project, max_waves=1).chunks_done == 4
    project.engine = "arrow"
    commit(source, "UPDATE dbo.items SET more = id WHERE id IN (2, 6, 12)")
    run_sync(project)
    assert run_backfill(project).done
    engines = [str(row.engine).split(" ")[0] for row in chunks(project)]
    assert engines == ["arrow", "arrow", "spark", "spark", "arrow", "arrow"]
    assert instances_read(project)[-1] == NEW
    load(project)
    project.assert_identical(TABLE, (*COLUMNS, "more"))
    project.assert_each_change_once(TABLE)


@ARROW
def test_a_wave_has_the_columns_of_the_changes_below_its_stamp(project: Project) -> None:
    """A second instance that no sync has seen: its changes are in bronze below the wave's rows."""
    source = chunked(project).source
    run_sync(project)
    source.execute("ALTER TABLE dbo.items ADD extra int NULL")
    enable(source, NEW)
    commit(source, "UPDATE dbo.items SET extra = 7 WHERE id < 4")
    commit(source, "UPDATE dbo.items SET name = N'above' WHERE id = 5")
    assert run_backfill(project).done
    load(project)
    project.assert_identical(TABLE, (*COLUMNS, "extra"))
