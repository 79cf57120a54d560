"""Where a table goes on: NULL and zero LSNs, positions at the edges, restores, quiet tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from cdc_assets.contract import Operation
from cdc_assets.errors import (
    BookkeepingError,
    CaptureInstanceUnknownError,
    DataLossError,
    HistoryChangedError,
)
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.sync import sync
from cdc_assets.lsn import Lsn
from cdc_assets.planning.plans import Guard
from cdc_assets.sqlserver.read import check_guard
from cdc_assets_tests.path.helpers import COLUMNS, change_items, clean_up, load, run_sync
from cdc_assets_tests.source import Project, Source

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"]),  # All of it is decided before an engine.
]
TABLE = "dbo_items"
NEVER_RAN = "capture has never run"


def create(source: Source, *tables: str) -> None:
    """Captured tables with an integer key alone."""
    for table in tables:
        source.execute(f"CREATE TABLE dbo.{table} (id int NOT NULL PRIMARY KEY)")
        source.enable(table)


def position(project: Project, table: str = TABLE) -> str:
    """Bronze's end_lsn."""
    return str(project.database().lake.control.read()[f"bronze/{table}"].end_lsn)


def move(project: Project, lsn: str, table: str = TABLE) -> None:
    """Write another position into control."""
    project.database().lake.control.update(
        lambda rows: [replace(rows[f"bronze/{table}"], end_lsn=lsn)]
    )


def commit(items: Project, key: int) -> Lsn:
    """One insert into dbo.items; gives its LSN."""
    items.source.execute(f"INSERT INTO dbo.items (id, name) VALUES ({key}, N'n')")
    items.source.captured()
    (row,) = items.source.rows(
        "SELECT CONVERT(varchar(22), __$start_lsn, 1) FROM cdc.dbo_items_CT"
        f" WHERE id = {key} AND __$operation = 2"
    )
    return Lsn.parse(row[0])


def clean_up_to(source: Source, lsn: Lsn, instance: str = TABLE) -> None:
    """Let cleanup remove what lies below an LSN."""
    source.execute(
        f"DECLARE @to binary(10); SET @to = CONVERT(binary(10), '{lsn}', 1);"
        f" EXEC sys.sp_cdc_cleanup_change_table N'{instance}', @to"
    )


def test_a_quiet_table_outlives_cleanup(project: Project, source: Source) -> None:
    """B001: the position moves with max_lsn though no row was read, so nothing ages out."""
    create(source, "q", "busy")
    source.execute("INSERT INTO dbo.q (id) VALUES (1)")
    source.captured()
    project.tables = {"dbo_q": None}
    run_sync(project)
    stamped = position(project, "dbo_q")
    for key in range(2):
        source.execute(f"INSERT INTO dbo.busy (id) VALUES ({key})")
        newest = source.captured()
        outcome = run_sync(project).outcomes["dbo_q"]
        assert (outcome.work, outcome.rows) == (Work.QUIET, 0)
        assert position(project, "dbo_q") == newest
        clean_up_to(source, Lsn.parse(newest), "dbo_q")
    assert (source.lsn("sys.fn_cdc_get_min_lsn('dbo_q')") or "") > stamped
    assert run_sync(project).outcomes["dbo_q"].gap is None
    source.execute("INSERT INTO dbo.q (id) VALUES (2)")
    source.captured()
    assert run_sync(project).outcomes["dbo_q"].rows == 1


@pytest.mark.sandbox
def test_a_busy_database_keeps_no_quiet_table_waiting(project: Project, source: Source) -> None:
    """B015: "all up to max_lsn is read" is true of an empty range too; one look is enough."""
    create(source, "a", "b")
    source.execute("INSERT INTO dbo.a (id) VALUES (1)")
    source.captured()
    project.tables = {"dbo_a": None}
    run_sync(project)
    source.execute(
        "SET NOCOUNT ON; DECLARE @i int = 0; WHILE @i < 100 BEGIN"
        " INSERT INTO dbo.b (id) VALUES (@i); SET @i = @i + 1 END"
    )
    newest = source.captured()
    source.trace()
    outcome = run_sync(project).outcomes["dbo_a"]
    assert (outcome.work, outcome.rows, position(project, "dbo_a")) == (Work.QUIET, 0, newest)
    assert sum("fn_cdc_get_max_lsn" in text for text in source.traced()) == 1


def test_a_position_at_the_low_watermark_is_no_loss(items: Project) -> None:
    """B003: equal to it, and the next needed equal to it; one commit further is lost."""
    load(items)
    first = commit(items, 100)
    run_sync(items)
    assert position(items) == str(first)
    clean_up_to(items.source, first)
    assert run_sync(items).failed == ()

    second = commit(items, 101)
    clean_up_to(items.source, second)
    move(items, str(second.previous()))
    assert run_sync(items).outcomes[TABLE].rows == 1

    third, fourth = commit(items, 102), commit(items, 103)
    clean_up_to(items.source, fourth)
    with pytest.raises(DataLossError) as caught:
        run_sync(items)
    assert f"changes from {second.next()} to {fourth} were removed" in str(caught.value)
    assert fourth > third > second


def test_capture_that_never_ran_is_waited_for(project: Project, source: Source) -> None:
    """B004, B011, B013: a snapshot below the instance's start, then one warning a run."""
    source.execute("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)")
    source.execute("INSERT INTO dbo.t (id) VALUES (1)")
    source.enable("t")
    source.stop_capture()
    source.execute("INSERT INTO dbo.t (id) VALUES (2)")
    if source.lsn("sys.fn_cdc_get_max_lsn()") is not None:
        pytest.skip("this server's capture ran before it could be stopped")
    assert source.lsn("sys.fn_cdc_get_min_lsn('dbo_t')") in (None, "0x" + "0" * 20)
    (start,) = source.rows(
        "SELECT CONVERT(varchar(22), start_lsn, 1) FROM cdc.change_tables"
        " WHERE capture_instance = N'dbo_t'"
    )[0]
    project.tables = {"dbo_t": None}
    for work in (Work.SNAPSHOT, Work.QUIET, Work.QUIET):
        report = run_sync(project)
        assert report.outcomes["dbo_t"].work is work
        assert len([text for text in report.warnings if NEVER_RAN in text]) == 1
        assert position(project, "dbo_t") == str(Lsn.parse(start).previous())
    source.start_capture()
    source.captured()
    report = run_sync(project)
    assert report.outcomes["dbo_t"].rows == 1
    assert not any(NEVER_RAN in text for text in report.warnings)
    load(project, "dbo_t")
    project.assert_identical("dbo_t", ["id"])


def test_a_new_instance_above_max_lsn(project: Project, source: Source) -> None:
    """B011, B012: its snapshot is stamped at its start less one, once; the rest are changes."""
    create(source, "old")
    source.execute("INSERT INTO dbo.old (id) VALUES (1)")
    source.captured()
    source.stop_capture()
    source.execute("CREATE TABLE dbo.new (id int NOT NULL PRIMARY KEY)")
    source.execute("INSERT INTO dbo.new (id) VALUES (1)")
    source.enable("new")
    newest = source.lsn("sys.fn_cdc_get_max_lsn()") or ""
    project.tables = {"dbo_new": None}
    for work in (Work.SNAPSHOT, Work.QUIET, Work.QUIET):
        assert run_sync(project).outcomes["dbo_new"].work is work
        assert position(project, "dbo_new") > newest
    source.execute("INSERT INTO dbo.new (id) VALUES (2)")
    source.start_capture()
    source.captured()
    assert run_sync(project).outcomes["dbo_new"].rows == 1
    events = [row.event for row in project.database().lake.facts.events()]
    assert events == ["snapshot_open", "bootstrap"]


def test_an_unknown_instance_is_an_error_that_names_it(items: Project) -> None:
    """B004: a zero min_lsn is never "everything available"; the other table goes on."""
    items.tables = {TABLE: None, "dbo_nothing": None}
    report = sync(items.database())
    (failed,) = report.failed
    assert isinstance(failed.error, CaptureInstanceUnknownError)
    assert "no capture instance dbo_nothing" in str(failed.error)
    assert f"It sees: {TABLE}" in str(failed.error)
    assert report.outcomes[TABLE].work is Work.SNAPSHOT


@pytest.mark.parametrize("reached", [False, True], ids=["no watermark", "a watermark"])
def test_the_start_stands_in_after_the_read_too(items: Project, reached: bool) -> None:
    """B004: NULL for an instance that capture has not reached, zero for one that is not there."""
    if reached:
        commit(items, 100)
    minimum = Lsn.parse_optional(items.source.lsn(f"sys.fn_cdc_get_min_lsn('{TABLE}')"))
    assert (minimum is not None) == reached or not items.source.server.is_sandbox
    start = minimum or Lsn.of_int(50)
    with items.database().connections.lend() as connection:
        for instance in (TABLE, "not there"):
            check_guard(connection, Guard(instance, start, start), where="t")
            with pytest.raises(DataLossError, match="cleanup removed changes"):
                check_guard(connection, Guard(instance, start.previous(), start), where="t")


@pytest.mark.sandbox
def test_only_the_change_tables_watermark_decides(items: Project) -> None:
    """B005, B022: the log, its jobs and the server's views are never asked.

    Nor do a polling interval of 0 and missing jobs matter, as on Azure.
    """
    items.source.execute("EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 0")
    items.source.trace()
    load(items)
    change_items(items.source)
    items.source.execute("EXEC sys.sp_cdc_drop_job @job_type = N'cleanup'")
    load(items)
    load(items)
    texts = items.source.traced()
    assert len(texts) > 10
    views = ("sys.dm_", "msdb", "fn_dblog", "sp_cdc_help_jobs", "cdc_jobs", "sys.databases")
    asked = {view for view in views for text in texts if view in text.lower()}
    assert asked <= {"sys.dm_"}
    assert all("dm_exec_session_wait_stats" in text for text in texts if "sys.dm_" in text)
    items.assert_identical(TABLE, COLUMNS)


@pytest.mark.parametrize("text", ["", "\x00*\x80\x81\x00ÿ"])
def test_a_position_that_is_no_lsn(items: Project, text: str) -> None:
    """B009: an error of that table alone, and never the beginning."""
    create(items.source, "other")
    items.tables = {TABLE: None, "dbo_other": None}
    run_sync(items)
    rows = len(items.bronze(TABLE))
    move(items, text)
    items.source.execute("INSERT INTO dbo.other (id) VALUES (1)")
    commit(items, 100)
    report = sync(items.database())
    (failed,) = report.failed
    assert isinstance(failed.error, BookkeepingError)
    assert f"{text!r}, which is no LSN" in str(failed.error)
    assert report.outcomes["dbo_other"].rows == 1
    assert (len(items.bronze(TABLE)), position(items)) == (rows, text)


@pytest.mark.sandbox
@pytest.mark.parametrize("forked", [False, True], ids=["backwards", "forked"])
def test_a_restored_database_is_another_history(items: Project, forked: bool) -> None:
    """B017: max_lsn below the position, and above it again with other commits."""
    run_sync(items)
    change_items(items.source)
    items.source.execute("EXEC sandbox.backup_database @name = N'earlier'")
    change_items(items.source, 300)
    run_sync(items)
    rows = len(items.bronze(TABLE))
    items.source.execute("EXEC sandbox.restore_database @name = N'earlier'")
    if forked:
        items.source.transaction(
            *(f"INSERT INTO dbo.items (id, name) VALUES ({n}, N'fork')" for n in range(900, 907))
        )
        for key in range(920, 940):
            commit(items, key)
        assert items.source.captured() > position(items)
    said = "is no commit of this database" if forked else "is above the newest LSN"
    with pytest.raises(HistoryChangedError, match=f"{said}.*restored or failed over"):
        run_sync(items)
    assert len(items.bronze(TABLE)) == rows


def test_old_changes_are_not_read_again(items: Project) -> None:
    """B051: the snapshot holds them; one new change is one row, and each says what it is."""
    for key in range(100, 105):
        commit(items, key)
    first, _ = load(items)
    assert (first.work, first.rows) == (Work.SNAPSHOT, 10)
    commit(items, 200)
    second, _ = load(items)
    assert (second.work, second.rows) == (Work.CHANGES, 1)
    rows = items.bronze(TABLE)
    kinds = Counter((Operation(r["_operation"]).name, r["_snapshot"] is None) for r in rows)
    assert kinds == {("SNAPSHOT", False): 10, ("INSERT", True): 1}


def test_from_after_to_is_nothing_new(
    items: Project, after_the_poll: Callable[[Callable[[], object]], None]
) -> None:
    """B015: a poll older than the position plans no range at all."""
    load(items)
    commit(items, 100)

    def newer_sync() -> None:
        commit(items, 101)
        run_sync(items)

    after_the_poll(newer_sync)
    assert sync(items.database()).failed == ()
    assert Counter(r["id"] for r in items.bronze(TABLE) if r["_operation"] == 2) == {100: 1, 101: 1}


def test_a_purged_table_fails_alone(items: Project) -> None:
    """B016: a typed loss with the range and the way out; the others go on."""
    create(items.source, "other")
    items.tables = {TABLE: None, "dbo_other": None}
    run_sync(items)
    change_items(items.source)
    items.source.execute("INSERT INTO dbo.other (id) VALUES (1)")
    newest = items.source.captured()
    clean_up(items.source)
    report = sync(items.database())
    (failed,) = report.failed
    assert isinstance(failed.error, DataLossError)
    assert (failed.table, newest in str(failed.error)) == (TABLE, True)
    assert "Take a new snapshot" in failed.error.hint
    assert report.outcomes["dbo_other"].rows == 1
