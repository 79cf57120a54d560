"""Each class of error is provoked through the product by a test that is named here."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cdc_assets.cli.children import ChildFailedError, refuse_running
from cdc_assets.cli.demo import DemoFailedError, _run_job, _Steps
from cdc_assets.errors import (
    CaptureNotEnabledError,
    CdcError,
    CommitConflictError,
    IsolationRefusedError,
    SilverKeyError,
    SourceBusyError,
    SourceQueryError,
)
from cdc_assets.ingest.resets import reset
from cdc_assets.lake.facts import Facts
from cdc_assets.sqlserver import connection
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.source import Project, Source

pytestmark = pytest.mark.sqlserver

TESTS = Path(__file__).parents[1]
TABLE = "dbo_items"
HERE = "path/test_each_error.py"
PROVOKED_BY = {
    "another_writer": "path/test_streams.py::test_a_sync_beside_a_running_stream_stops_it",
    "capture_instance_unknown": "cli/test_bad_input.py::test_unknown_capture_instance",
    "bookkeeping": "path/test_positions.py::test_a_position_that_is_no_lsn",
    "capture_not_enabled": f"{HERE}::test_a_database_without_cdc",
    "capture_not_ready": "path/test_opening.py"
    "::test_a_person_waits_for_a_new_snapshot_and_is_told_in_the_end",
    "checkpoint": "path/test_own_streams.py::test_a_table_that_no_settings_know",
    "child_failed": f"{HERE}::test_a_second_sandbox_on_one_state",
    "commit_conflict": f"{HERE}::test_two_resets_at_once",
    "data_loss": "path/test_losses.py::test_by_default_nothing_is_written",
    "database_refused": "path/test_connections.py::test_a_database_that_is_not_there_yet",
    "demo_failed": f"{HERE}::test_a_run_of_the_demo_that_fails",
    "extra_missing": "engines/spark/test_installed.py::test_the_extra_is_named_where_it_is_missing",
    "history_changed": "path/test_resets.py::test_a_position_that_the_source_does_not_know",
    "isolation_refused": f"{HERE}::test_snapshot_isolation_where_it_is_not_allowed",
    "java_missing": "cli/test_bad_input.py::test_no_java",
    "lake_damaged": "path/test_lake_failures.py::test_a_damaged_table_is_named_and_left_alone",
    "lake_unavailable": "path/test_lake_failures.py::test_a_full_disk",
    "login_refused": "cli/test_bad_input.py::test_wrong_password",
    "odbc_driver_missing": "cli/test_bad_input.py::test_no_odbc_driver",
    "paused": "path/test_lives.py::refused",
    "permission_missing": "path/test_privileges.py"
    "::test_a_missing_grant_is_named_and_nothing_written",
    "renamed": "path/test_lives.py::test_a_renamed_table_is_refused_and_nothing_is_written",
    "schema_changed": "path/test_schema_changes.py"
    "::test_a_type_that_bronze_cannot_hold_stops_before_reading",
    "seed_open": "path/test_seed.py::test_killed_and_run_again",
    "seed_refused": "path/test_seed.py::test_a_rerun_finds_what_is_there",
    "settings": "cli/test_bad_input.py::test_broken_settings",
    "silver_key": f"{HERE}::test_a_key_that_bronze_lacks",
    "snapshot_mode": "path/test_backfill.py::test_one_mode_at_a_time",
    "snapshot_waits": "path/test_opening.py"
    "::test_a_reset_on_an_idle_database_waits_for_the_next_sync",
    "source_behind": "path/test_backfill.py::test_a_server_that_has_not_reached_s",
    "source_busy": f"{HERE}::test_a_lock_that_stays",
    "source_query": f"{HERE}::test_an_error_of_the_servers_own",
    "source_unavailable": "cli/test_bad_input.py::test_source_down",
    "spark_unavailable": "engines/spark/test_connect.py"
    "::test_a_server_that_is_not_there_is_one_sentence_without_its_token",
    "table_feature": "engines/test_choice.py"
    "::test_what_is_beyond_arrow_is_refused_where_arrow_is_all_there_may_be",
    "table_newer": "lake/test_migrations.py::test_a_newer_table_is_refused_before_any_write",
    "table_replaced": "path/test_recovery.py::test_missing_facts_are_told_before_anything_is_read",
    "unexpected": "path/test_recovery.py::test_an_unforeseen_failure_fails_its_table_alone",
    "unsupported_column": "path/test_types.py::test_a_type_without_a_counterpart_names_its_column",
}
"""By code, the test that provokes it without raising it itself."""

ARROW = pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)


def kinds(kind: type[CdcError] = CdcError) -> Iterator[type[CdcError]]:
    for below in kind.__subclasses__():
        if below.__module__.startswith("cdc_assets."):
            yield below
        yield from kinds(below)


def test_each_class_has_a_test_that_provokes_it() -> None:
    found = {kind.code: kind.__name__ for kind in kinds()}
    assert sorted(found) == sorted(PROVOKED_BY)
    for code, place in PROVOKED_BY.items():
        file, _, name = place.partition("::")
        text = (TESTS / file).read_text()
        body = re.search(rf"^def {name}\(.*?(?=^(?!\) ->)\S|\Z)", text, re.DOTALL | re.MULTILINE)
        assert body is not None, place
        told = (found[code], f"[{code}]", "assert_refused", "Work.WAITING")
        assert any(word in body.group() for word in told), f"{place} does not look for {code}"


def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "retry_wait_seconds", lambda _: 0.0)


@ARROW
@pytest.mark.sandbox
@pytest.mark.parametrize("kind", ["deadlock", "lock_timeout"])
def test_a_lock_that_stays(items: Project, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """After the last try it is told, and the next sync goes on."""
    no_waits(monkeypatch)
    load(items)
    change_items(items.source)
    items.source.execute(
        f"EXEC sandbox.fault @kind = N'{kind}', @table = N'cdc.{TABLE}_CT',"
        f" @times = 99, @login = N'{items.source.server.reader_login}'"
    )
    with pytest.raises(SourceBusyError, match=r"Run it again\. \[source_busy\]"):
        run_sync(items)
    items.source.execute("EXEC sandbox.clear_faults")
    load(items)
    items.assert_identical(TABLE, COLUMNS)


@ARROW
@pytest.mark.sandbox
def test_an_error_of_the_servers_own(items: Project) -> None:
    """With its number, and nothing written."""
    load(items)
    rows = items.bronze(TABLE)
    change_items(items.source)
    items.source.execute(
        f"EXEC sandbox.fault @kind = N'error', @table = N'cdc.{TABLE}_CT', @number = 823,"
        f" @times = 9, @text = N'I/O error', @login = N'{items.source.server.reader_login}'"
    )
    with pytest.raises(SourceQueryError, match=r"I/O error \(Msg 823\)\. It is the server's own"):
        run_sync(items)
    assert items.bronze(TABLE) == rows


@ARROW
def test_snapshot_isolation_where_it_is_not_allowed(items: Project) -> None:
    items.extra = {"isolation": "snapshot"}
    with pytest.raises(IsolationRefusedError, match=r"SET ALLOW_SNAPSHOT_ISOLATION ON, or"):
        run_sync(items)
    items.source.execute("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
    load(items)
    items.assert_identical(TABLE, COLUMNS)


@ARROW
def test_a_database_without_cdc(items: Project, source: Source) -> None:
    source.execute("EXEC sys.sp_cdc_disable_db")
    with pytest.raises(CaptureNotEnabledError, match=r"sp_cdc_enable_db"):
        run_sync(items)


@ARROW
def test_two_resets_at_once(items: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second finds the first's event where it would write its own."""
    load(items)
    append = Facts.append

    def after_another(*arguments: Any) -> Any:
        monkeypatch.setattr(Facts, "append", append)
        reset(items.database(), TABLE)
        return append(*arguments)

    monkeypatch.setattr(Facts, "append", after_another)
    with pytest.raises(CommitConflictError, match="another reset came first"):
        reset(items.database(), TABLE)
    change_items(items.source)
    load(items)
    items.assert_identical(TABLE, COLUMNS)


@ARROW
def test_a_key_that_bronze_lacks(items: Project) -> None:
    items.tables = {TABLE: {"keys": ["nothing"]}}
    with pytest.raises(SilverKeyError, match=r"column nothing is not in bronze.*Bronze has: at"):
        load(items)


def test_a_second_sandbox_on_one_state(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        (tmp_path / "port").write_text(str(other.getsockname()[1]))
        with pytest.raises(ChildFailedError, match="a sandbox is running on"):
            refuse_running(tmp_path)


@ARROW
def test_a_run_of_the_demo_that_fails(items: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the failed step says is what the demo says."""
    home = items.folder / "dagster"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("CDC_TABLES", str(items.write()))
    (items.folder / "source.odbc").unlink()
    steps = _Steps(Console(quiet=True), 0.0)
    with pytest.raises(DemoFailedError, match=r"cannot read the connection string from .*source"):
        _run_job(steps, "first run")
