"""Whole snapshots: interrupted, beside a writer, after a gap, and from a server in another zone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import DataLossError, SourceQueryError
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.sync import sync
from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.helpers import COLUMNS, create_items, load, run_sync
from cdc_assets_tests.source import Project, Server, Source

TABLE = "dbo_items"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])


def events(items: Project) -> list[str | None]:
    return [row.event for row in items.database().lake.facts.events()]


@ARROW
@pytest.mark.sandbox
def test_an_interrupted_snapshot_is_none(project: Project) -> None:
    """B069: rows of some of its ranges are no snapshot; the rerun has every row once.

    It keeps the LSN it was opened with, though more has happened since.
    """
    create_items(project.source, rows=9)
    project.tables = {TABLE: None}
    project.extra = {"num_partitions": 3}
    # The third look at the table is a read: the first asks for its extent.
    project.source.execute(
        "EXEC sandbox.fault @kind = N'error', @table = N'dbo.items', @rows = 1, @after = 1,"
        " @number = 50000, @text = N'interrupted'"
    )
    (failed,) = sync(project.database()).failed
    assert isinstance(failed.error, SourceQueryError)
    assert (project.bronze(TABLE), events(project)) == ([], [Event.SNAPSHOT_OPEN])
    assert apply_changes(project.database(), TABLE).hold is not None
    assert project.database().lake.silver(project.database().table(TABLE)) is None

    project.source.execute("UPDATE dbo.items SET name = N'later' WHERE id = 4")
    project.source.captured()
    outcome = run_sync(project).outcomes[TABLE]
    assert (outcome.work, outcome.rows) == (Work.SNAPSHOT, 9)
    opened, done = project.database().lake.facts.events()
    assert (opened.max_lsn, done.event) == (done.max_lsn, Event.BOOTSTRAP)
    assert run_sync(project).outcomes[TABLE].rows == 2
    apply_changes(project.database(), TABLE)
    project.assert_identical(TABLE, COLUMNS)
    project.assert_each_change_once(TABLE)


@ARROW
@pytest.mark.sandbox
def test_a_table_that_grows_at_its_end(project: Project) -> None:
    """B070: what is appended meanwhile is read at most once more, as changes, and it ends."""
    create_items(project.source, rows=8)
    project.tables = {TABLE: None}
    project.extra = {"num_partitions": 3}
    insert = (
        "INSERT INTO dbo.items (id, name) SELECT MAX(id) + 1, N''grown'' FROM dbo.items;"
        " INSERT INTO dbo.items (id, name) SELECT MAX(id) + 1, N''grown'' FROM dbo.items"
    )
    for after in range(4):
        project.source.execute(
            f"EXEC sandbox.fault @kind = N'execute', @table = N'dbo.items', @after = {after},"
            f" @login = N'{project.source.server.reader_login}', @rows = 1, @text = N'{insert}'"
        )
    load(project)
    ((rows,),) = project.source.rows("SELECT COUNT(*) FROM dbo.items")
    assert rows > 8
    snapshot = Counter(row["id"] for row in project.bronze(TABLE))
    assert set(snapshot.values()) == {1}
    assert set(range(1, 9)) <= set(snapshot)
    project.source.execute("EXEC sandbox.clear_faults")
    assert load(project)[0].rows == rows - 8
    project.assert_identical(TABLE, COLUMNS)


@ARROW
@pytest.mark.sqlserver
@pytest.mark.parametrize("kind", ["disabled", "truncated"])
def test_rows_that_left_in_a_gap(items: Project, kind: str) -> None:
    """B053, B075: no delete was captured; the new snapshot's silver has the source's rows alone."""
    load(items)
    change = (
        "DELETE FROM dbo.items WHERE id = 3" if kind == "disabled" else "TRUNCATE TABLE dbo.items"
    )
    items.source.execute(
        "EXEC sys.sp_cdc_disable_table N'dbo', N'items', N'all'",
        change,
        "INSERT INTO dbo.items (id, name) VALUES (9, N'in the gap')",
    )
    items.source.enable("items")
    items.source.execute("UPDATE dbo.items SET name = N'after' WHERE id = 9")
    items.source.captured()
    rows = len(items.bronze(TABLE))
    with pytest.raises(DataLossError, match="re-created"):
        run_sync(items)
    assert len(items.bronze(TABLE)) == rows
    assert {row[0] for row in items.silver(TABLE, ["id"])} == {1, 2, 3, 4, 5}
    assert sync(items.database(), resnapshot=True).failed == ()
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    kept = {1, 2, 4, 5, 9} if kind == "disabled" else {9}
    assert {row[0] for row in items.silver(TABLE, ["id"])} == kept
    assert {row["id"] for row in items.bronze(TABLE)} == {1, 2, 3, 4, 5, 9}


@ARROW
@pytest.mark.sandbox
def test_a_snapshots_time_is_utc(tmp_path: Path, engine_name: str) -> None:
    """B077: also where capture never ran and only the server's local clock tells."""
    state = tmp_path / "state"
    with Sandbox(state) as sandbox:
        sandbox.execute("EXEC sandbox.set_clock @zone = N'Eastern Standard Time'", "master")
        admin = (state / "sales.admin.odbc").read_text().strip()
        reader = (state / "sales.odbc").read_text().strip()
        source = Source.create(Server(admin, reader, str(state / "ca.pem"), is_sandbox=True))
        before = datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=1)
        create_items(source)
        project = Project(tmp_path, source, engine_name, tables={TABLE: None})
        run_sync(project)
        source.execute("UPDATE dbo.items SET name = N'x' WHERE id = 1")
        source.captured()
        run_sync(project)
        assert sync(project.database(), resnapshot=True).failed == ()
        now = datetime.now(UTC).replace(tzinfo=None)
        times = [row["_commit_ts"] for row in project.bronze(TABLE)]
        assert len(times) == 12
        assert all(before <= time <= now for time in times)
        for row in project.database().lake.facts.events():
            assert row.max_commit_ts is not None
            assert before <= row.max_commit_ts <= now
            high_mark = row.payload.get("high_mark")
            assert high_mark is None or datetime.fromisoformat(high_mark) <= now
