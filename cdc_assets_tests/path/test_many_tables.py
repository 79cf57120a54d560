"""A hundred tables in one sync: one poll, one facts commit, one MERGE; each fails alone."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets.contract import Event
from cdc_assets.engines.database import Database
from cdc_assets.errors import DataLossError, HistoryChangedError, PermissionMissingError
from cdc_assets.ingest import advance as advance_module
from cdc_assets.ingest import recording
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.prepared import PreparedSnapshot
from cdc_assets.ingest.sync import SyncReport, sync
from cdc_assets_tests.path.helpers import run_sync
from cdc_assets_tests.source import Project, Source

pytestmark = pytest.mark.parametrize("engine_name", ["arrow"])  # What is counted is no engine's.
TABLES = 100


def for_each(source: Source, text: str) -> None:
    """One batch with a statement for every table."""
    source.execute(";".join(text.replace("#", str(i)) for i in range(TABLES)))


@pytest.fixture
def hundred(project: Project) -> Project:
    """A hundred captured tables, each with one row in bronze and one change that waits."""
    source, login = project.source, project.source.server.reader_login
    for_each(source, "CREATE TABLE dbo.t# (id int NOT NULL PRIMARY KEY, v int NULL)")
    for_each(
        source,
        "EXEC sys.sp_cdc_enable_table N'dbo', N't#', NULL, @supports_net_changes = 0"
        + (
            f"; GRANT SELECT ON dbo.t# TO [{login}]; GRANT SELECT ON cdc.dbo_t#_CT TO [{login}]"
            if source.server.reader != source.server.admin
            else ""
        ),
    )
    change(source, "INSERT INTO dbo.t# (id, v) VALUES (1, 1)")
    project.tables = {f"dbo_t{i}": None for i in range(TABLES)}
    return project


def change(source: Source, text: str) -> None:
    """One transaction with a statement for every table, captured."""
    source.transaction(*(text.replace("#", str(i)) for i in range(TABLES)))
    source.captured()


def versions(project: Project) -> tuple[int, int]:
    """The Delta versions of the facts and of control."""
    name = project.database().name
    return DeltaTable(name.facts_uri).version(), DeltaTable(name.control_uri).version()


def errors(report: SyncReport) -> dict[str, type]:
    return {o.table: type(o.error) for o in report.failed}


def test_a_hundred_tables_in_one_sync(hundred: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """B016: three fail for reasons of their own, and 97 are done."""
    # One commit of facts, however slow the machine is: a long run makes more.
    monkeypatch.setattr(recording, "RECORD_EVERY_SECONDS", 3600.0)
    source = hundred.source
    if not source.server.is_sandbox:
        pytest.skip("only the sandbox counts statements, restores a database and hides a grant")
    assert sync(hundred.database()).failed == ()
    facts, control = versions(hundred)
    assert (facts, control) == (2, 1), "the opens, and what was read"
    bootstraps = [r for r in hundred.database().lake.facts.events() if r.event == Event.BOOTSTRAP]
    assert len(bootstraps) == TABLES

    # Nothing new: what is left is the poll itself. The first look reads what bronze lacks.
    assert sync(hundred.database()).failed == ()
    bronze = Path(hundred.database().table("dbo_t0").bronze_uri).parent
    away = bronze.rename(bronze.with_name("away"))
    source.counters()
    quiet = sync(hundred.database())
    assert {o.work for o in quiet.outcomes.values()} == {Work.QUIET}, "bronze is not looked at"
    alone = source.counters()
    away.rename(bronze)
    assert alone.connections == 1
    source.counters()
    sync(hundred.database(), ["dbo_t0"])
    assert source.counters().statements == alone.statements, "one poll, whatever the tables"

    _break_three(hundred)
    facts, control = versions(hundred)
    report = sync(hundred.database())
    assert errors(report) == {
        "dbo_t3": PermissionMissingError,
        "dbo_t4": DataLossError,
        "dbo_t5": HistoryChangedError,
    }
    assert versions(hundred) == (facts + 1, control + 1)
    done = [o for o in report.outcomes.values() if o.error is None]
    assert {(o.work, o.rows) for o in done} == {(Work.CHANGES, 2)}
    assert len(done) == TABLES - 3


def test_a_long_run_does_not_keep_its_facts_to_the_end(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One table waits for what only the recording of the other can bring about."""
    for name in ("a", "b"):
        project.source.execute(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY)")
        project.source.enable(name)
    project.tables = {"dbo_a": None, "dbo_b": None}
    read, recorded = advance_module.load_snapshot, threading.Event()
    record = recording.Recorder.record

    def waits(database: Database, prepared: PreparedSnapshot) -> TableOutcome:
        if prepared.table.key == "dbo_b":
            assert recorded.wait(60), "a's facts wait for b"
        return read(database, prepared)

    def tells(self: recording.Recorder, outcomes: Sequence[TableOutcome]) -> None:
        record(self, outcomes)
        if outcomes:
            recorded.set()

    monkeypatch.setattr(recording, "RECORD_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(advance_module, "load_snapshot", waits)
    monkeypatch.setattr(recording.Recorder, "record", tells)
    run_sync(project)
    assert set(project.database().lake.control.read()) == {"bronze/dbo_a", "bronze/dbo_b"}


def test_no_more_connections_than_allowed(project: Project) -> None:
    if not project.source.server.is_sandbox:
        pytest.skip("only the sandbox counts connections")
    for name in ("a", "b", "c"):
        project.source.execute(
            f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY)",
            f"INSERT INTO dbo.{name} (id) VALUES (1), (2), (3)",
        )
        project.source.enable(name)
    project.tables = {"dbo_a": None, "dbo_b": None, "dbo_c": None}
    project.extra = {"max_connections": 1, "num_partitions": 3}
    project.source.counters()
    run_sync(project)
    assert project.source.counters().connections == 1
    project.source.transaction(*(f"INSERT INTO dbo.{name} (id) VALUES (4)" for name in "abc"))
    project.source.captured()
    run_sync(project)
    assert [len(project.bronze(table)) for table in project.tables] == [4, 4, 4]


def _break_three(project: Project) -> None:
    """Changes for all; one table loses a grant, one its changes, one has a position too high."""
    source = project.source
    login = source.server.reader_login
    change(source, "UPDATE dbo.t# SET v = v + 1")
    source.execute(
        f"REVOKE SELECT ON cdc.dbo_t3_CT FROM [{login}]",
        "DECLARE @to binary(10); SET @to = sys.fn_cdc_get_max_lsn();"
        " EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_t4',"
        " @low_water_mark = @to",
    )
    source.captured()
    project.database().lake.control.update(
        lambda rows: [replace(rows["bronze/dbo_t5"], end_lsn="0xFFFFFFFF000000000001")]
    )
