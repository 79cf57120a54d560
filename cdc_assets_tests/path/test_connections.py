"""Connections that break and servers that go: tried again where that helps, and only there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tenacity import RetryCallState

from cdc_assets.errors import (
    DatabaseRefusedError,
    DataLossError,
    SourceBusyError,
    SourceQueryError,
    SourceUnavailableError,
)
from cdc_assets.ingest import recording
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.sync import sync
from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.silver.apply import apply_changes
from cdc_assets.sqlserver import connection as connection_module
from cdc_assets.sqlserver.connection import Connection
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items, load, run_sync
from cdc_assets_tests.source import Project, Server, Source

pytestmark = pytest.mark.sandbox
TABLE = "dbo_items"
CHANGES = f"cdc.{TABLE}_CT"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])


@pytest.fixture(autouse=True)
def tries(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Nobody waits between tries; gives the numbers of those that failed."""
    made: list[int] = []

    def at_once(state: Any) -> float:
        made.append(state.attempt_number)
        return 0.0

    monkeypatch.setattr(connection_module, "retry_wait_seconds", at_once)
    return made


def fault(source: Source, kind: str, table: str = CHANGES, **more: object) -> None:
    """Plant a fault in the reads of a table."""
    options = "".join(f", @{name} = {value}" for name, value in more.items())
    source.execute(
        f"EXEC sandbox.fault @kind = N'{kind}', @table = N'{table}',"
        f" @login = N'{source.server.reader_login}'{options}"
    )


def assert_loaded(items: Project) -> None:
    assert items.source.rows("EXEC sandbox.faults") == []
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)


@pytest.fixture
def loaded(items: Project) -> Project:
    """Thirteen changes wait."""
    load(items)
    change_items(items.source)
    return items


def test_a_connection_that_drops_in_the_middle_of_the_rows(
    loaded: Project, tries: list[int]
) -> None:
    """B023: on either engine the whole piece of work is done again, and its rows are there once."""
    fault(loaded.source, "drop", rows=7)
    assert run_sync(loaded).outcomes[TABLE].rows == 13
    assert tries == [1]
    assert_loaded(loaded)


@ARROW
@pytest.mark.parametrize(("kind", "number"), [("deadlock", 0), ("error", 40197)])
def test_what_passes_is_tried_again(
    loaded: Project, tries: list[int], kind: str, number: int
) -> None:
    more = {"number": number, "text": "N'busy'"} if number else {}
    fault(loaded.source, kind, rows=7, times=2, **more)
    assert run_sync(loaded).outcomes[TABLE].rows == 13
    assert tries == [1, 2]
    assert_loaded(loaded)


@ARROW
def test_what_does_not_pass_ends_after_three_tries_more(loaded: Project, tries: list[int]) -> None:
    fault(loaded.source, "drop", times=50)
    with pytest.raises(SourceUnavailableError):
        sync(loaded.database())
    assert tries == [1, 2, 3, 4]
    loaded.source.execute("EXEC sandbox.clear_faults")
    assert_loaded(loaded)


@ARROW
def test_a_locked_change_table_fails_its_own_table(loaded: Project, tries: list[int]) -> None:
    loaded.source.execute("CREATE TABLE dbo.other (id int NOT NULL PRIMARY KEY)")
    loaded.source.enable("other")
    loaded.source.execute("INSERT INTO dbo.other (id) VALUES (1)")
    loaded.source.captured()
    loaded.tables = {TABLE: None, "dbo_other": None}
    sync(loaded.database(), ["dbo_other"])
    loaded.source.execute("INSERT INTO dbo.other (id) VALUES (2)")
    loaded.source.captured()
    fault(loaded.source, "lock_timeout", times=50)
    report = sync(loaded.database())
    (failed,) = report.failed
    assert isinstance(failed.error, SourceBusyError)
    assert (failed.table, report.outcomes["dbo_other"].rows) == (TABLE, 1)
    assert tries == [1, 2, 3, 4]
    loaded.source.execute("EXEC sandbox.clear_faults")
    assert_loaded(loaded)


@ARROW
@pytest.mark.parametrize("number", [50000, 229])
def test_what_stays_is_not_tried_again(loaded: Project, tries: list[int], number: int) -> None:
    fault(loaded.source, "error", after=2, number=number, text="N'no'", times=50)
    (failed,) = sync(loaded.database()).failed
    assert failed.error is not None
    assert not failed.error.transient
    assert isinstance(failed.error, SourceQueryError) or number == 229
    assert tries == []
    loaded.source.execute("EXEC sandbox.clear_faults")
    assert_loaded(loaded)


@ARROW
def test_a_connection_that_drops_while_the_facts_are_measured(
    loaded: Project, tries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B023: what is committed is recorded by the same run, on another connection."""
    measured = recording.first_commit_times

    def dropped(*arguments: Any) -> Any:
        monkeypatch.setattr(recording, "first_commit_times", measured)
        fault(loaded.source, "drop", "cdc.lsn_time_mapping")
        return measured(*arguments)

    monkeypatch.setattr(recording, "first_commit_times", dropped)
    report = sync(loaded.database())
    assert (report.failed, report.outcomes[TABLE].rows, tries) == ((), 13, [1])
    (facts,) = loaded.database().lake.facts.batches(f"bronze/{TABLE}")
    assert facts.retention_watermark_ts is not None
    assert_loaded(loaded)


@ARROW
def test_what_cannot_be_measured_is_recorded_all_the_same(
    loaded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> Any:
        raise SourceQueryError("it cannot say")

    monkeypatch.setattr(recording, "first_commit_times", refused)
    report = sync(loaded.database())
    assert (report.failed, report.outcomes[TABLE].rows) == ((), 13)
    (facts,) = loaded.database().lake.facts.batches(f"bronze/{TABLE}")
    assert (facts.rows, facts.retention_watermark_ts) == (13, None)
    assert facts.retention_headroom_hours is None
    assert_loaded(loaded)


@ARROW
def test_a_row_that_is_lost_on_the_way_is_a_loss(
    loaded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B191: the last row of each batch is dropped, and the count that came first says so.

    Where nothing counted, the comparison of all rows and keys that these tests end with does.
    """
    batches = Connection._batches

    def short(self: Connection, text: str, *arguments: Any) -> Iterator[pa.RecordBatch]:
        reads = f"FROM cdc.[{TABLE}_CT] AS ct" in text or "SELECT [id], [name]" in text
        for batch in batches(self, text, *arguments):
            yield batch.slice(0, batch.num_rows - 1) if reads else batch

    with monkeypatch.context() as planted:
        planted.setattr(Connection, "_batches", short)
        (failed,) = sync(loaded.database()).failed
        assert isinstance(failed.error, DataLossError)
        assert "a range of 13 rows gave 12" in str(failed.error)
    load(loaded)
    loaded.assert_identical(TABLE, COLUMNS)
    change_items(loaded.source, base=500)
    with monkeypatch.context() as planted:
        planted.setattr(Connection, "_batches", short)
        (outcome,) = sync(loaded.database(), resnapshot=True).outcomes.values()
    ((rows,),) = loaded.source.rows("SELECT COUNT(*) FROM dbo.items")
    assert outcome.error is None
    assert outcome.rows < rows
    apply_changes(loaded.database(), TABLE)
    with pytest.raises(AssertionError):
        loaded.assert_identical(TABLE, COLUMNS)


@pytest.fixture
def own(tmp_path: Path, engine_name: str) -> Iterator[tuple[Sandbox, Project]]:
    """A sandbox of the test's own, and a loaded project on it."""
    state = tmp_path / "state"
    with Sandbox(state) as sandbox:
        admin = (state / "sales.admin.odbc").read_text().strip()
        reader = (state / "sales.odbc").read_text().strip()
        source = Source.create(Server(admin, reader, str(state / "ca.pem"), is_sandbox=True))
        create_items(source)
        project = Project(tmp_path, source, engine_name, tables={TABLE: None})
        project.extra = {"connect_timeout_seconds": 1}
        load(project)
        yield sandbox, project


@ARROW
def test_a_server_that_restarts(
    own: tuple[Sandbox, Project],
    after_the_poll: Callable[[Callable[[], object]], None],
    tries: list[int],
) -> None:
    """B023: between two runs, and between a run's poll and its work; down, it is told."""
    sandbox, project = own
    change_items(project.source)
    sandbox.restart()
    assert run_sync(project).outcomes[TABLE].rows == 13
    assert tries == []

    change_items(project.source, base=300)
    after_the_poll(sandbox.restart)
    assert run_sync(project).outcomes[TABLE].work is Work.CHANGES
    assert tries == [1]

    change_items(project.source, base=500)
    sandbox.restart()
    sandbox.stop()
    with pytest.raises(SourceUnavailableError, match="Is the server up"):
        sync(project.database())
    sandbox.start()
    assert load(project)[0].work is Work.CHANGES
    project.assert_identical(TABLE, COLUMNS)
    project.assert_each_change_once(TABLE)


@ARROW
@pytest.mark.parametrize("comes", [True, False], ids=["recovered", "gone"])
def test_a_database_that_is_not_there_yet(
    loaded: Project, monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    """B023: of a database that still recovers a login is told what it is of a wrong name.

    So it is tried once more, and then ends.
    """
    source, login, waits = loaded.source, loaded.source.server.reader_login, []

    def wait(state: RetryCallState) -> float:
        waits.append(state.attempt_number)
        if comes:
            grants = (f"GRANT SELECT ON {name} TO [{login}]" for name in ("dbo.items", CHANGES))
            source.execute(f"CREATE USER [{login}] FOR LOGIN [{login}]", *grants)
        return 0.0

    monkeypatch.setattr(connection_module, "retry_wait_seconds", wait)
    source.execute(f"DROP USER [{login}]")
    if comes:
        assert run_sync(loaded).outcomes[TABLE].rows == 13
    else:
        with pytest.raises(DatabaseRefusedError, match="Check the database's name"):
            sync(loaded.database())
    assert waits == [1]


@ARROW
def test_recording_asks_the_source_nothing(
    own: tuple[Sandbox, Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers may hold every connection for hours, and the source may go when all is committed."""
    sandbox, project = own
    change_items(project.source)
    record = recording.Recorder.record

    def without_source(self: recording.Recorder, outcomes: Any) -> None:
        if outcomes:
            sandbox.stop()
            self.database.connections.close()
        record(self, outcomes)

    with monkeypatch.context() as gone:
        gone.setattr(recording.Recorder, "record", without_source)
        report = sync(project.database())
    assert (report.failed, report.outcomes[TABLE].rows) == ((), 13)
    (facts,) = project.database().lake.facts.batches(f"bronze/{TABLE}")
    assert facts.retention_watermark_ts is not None
    assert report.control[f"bronze/{TABLE}"].end_lsn == facts.end_lsn
