"""`cdc-assets doctor`: with two grants a table, and with each thing wrong that it finds."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from cdc_assets.engines.spark import installed
from cdc_assets.lake import probing
from cdc_assets.planning.checkup import Finding
from cdc_assets.sqlserver import connection
from cdc_assets_tests.cli.conftest import Commands
from cdc_assets_tests.path.helpers import HOUR, change_items, load, purge, set_clock
from cdc_assets_tests.source import Project

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"], indirect=True),
]

Found = dict[tuple[str, str], dict[str, str]]


@pytest.fixture
def captured(items: Project) -> Project:
    """A project whose source capture has processed."""
    change_items(items.source)
    return items


def findings(commands: Commands, project: Project) -> Found:
    """The findings by check and level; the exit status goes with them."""
    ended = commands.of(project).run("doctor", "sales", "--json")
    found = ended.document["findings"]
    assert ended.code == int(any(one["level"] == "fail" for one in found)), ended.out
    return {(one["check"], one["level"]): one for one in found}


def failing(found: Found) -> set[str]:
    return {check for check, level in found if level == "fail"}


def test_two_grants_a_table_are_enough(captured: Project, commands: Commands) -> None:
    """Before a first load and after; it leaves nothing in the lake."""
    before = findings(commands, captured)
    assert failing(before) == set()
    assert all(list(one) == [f.name for f in fields(Finding)] for one in before.values())
    assert not (captured.folder / "lake").exists()
    load(captured)
    change_items(captured.source, base=300)
    load(captured)
    files = set((captured.folder / "lake").rglob("*"))
    assert failing(findings(commands, captured)) == set()
    assert set((captured.folder / "lake").rglob("*")) == files
    shown = commands.run("doctor")
    assert shown.code == 0
    assert "0 of" in shown.out.splitlines()[-1]


@pytest.mark.parametrize("missing", ["[dbo].[items]", "cdc.[dbo_items_CT]"])
def test_a_missing_grant_is_the_statement_to_run(
    captured: Project, commands: Commands, missing: str
) -> None:
    """B192: and that statement heals it."""
    server = captured.source.server
    if server.reader == server.admin:
        pytest.skip("the product's login is the administrator's: it needs no grant")
    captured.source.execute(f"REVOKE SELECT ON {missing} FROM [{server.reader_login}]")
    found = findings(commands, captured)
    assert failing(found) == {"table"}
    step = found["table", "fail"]["next_step"]
    grant = f"GRANT SELECT ON {missing} TO [{server.reader_login}]"
    assert grant in step
    captured.source.execute(grant)
    assert failing(findings(commands, captured)) == set()


def test_a_paused_table_and_one_that_only_its_name_is_new_of(
    captured: Project, commands: Commands
) -> None:
    load(captured)
    captured.tables = {"dbo_items": {"paused": True}}
    found = findings(commands, captured)
    assert failing(found) == set()
    assert "stands still" in found["paused", "warn"]["text"]
    captured.tables = {"things": {"capture_instance": "dbo_items"}}
    found = findings(commands, captured)
    assert failing(found) == {"table"}
    assert "[renamed]" in found["table", "fail"]["text"]
    assert "call it dbo_items again" in found["table", "fail"]["next_step"]


@pytest.mark.sandbox
def test_an_administrator_has_too_much_and_sees_more(captured: Project, commands: Commands) -> None:
    captured.write()
    server = captured.source.server
    text = server.admin.replace("Database=sales", f"Database={captured.source.name}")
    (captured.folder / "admin.odbc").write_text(text)
    captured.extra = {"connection": "file:admin.odbc"}
    found = findings(commands, captured)
    assert "sysadmin" in found["grants", "warn"]["text"]
    assert "72.0 h" in found["cleanup job", "ok"]["text"]


@pytest.mark.sandbox
def test_capture_stopped_and_a_clock_that_is_off(captured: Project, commands: Commands) -> None:
    """B014: nothing is wrong with the tables, and nothing comes any more."""
    captured.source.stop_capture()
    try:
        set_clock(captured, HOUR)
        found = findings(commands, captured)
    finally:
        set_clock(captured, 0)  # It is the server's, and so the next test's.
    assert failing(found) == {"capture"}
    assert "sp_cdc_start_job" in found["capture", "fail"]["next_step"]
    assert "ahead of ours" in found["clock", "warn"]["text"]


def test_changes_that_cleanup_took(captured: Project, commands: Commands) -> None:
    load(captured)
    purge(captured.source)
    found = findings(commands, captured)
    assert failing(found) == {"retention"}
    assert "[data_loss]" in found["retention", "fail"]["text"]


@pytest.mark.sandbox
def test_a_database_that_was_restored(captured: Project, commands: Commands) -> None:
    name = captured.source.name
    captured.source.execute(f"EXEC sandbox.backup_database @name = N'{name}'")
    change_items(captured.source, base=300)
    load(captured)
    captured.source.execute(f"EXEC sandbox.restore_database @name = N'{name}'")
    found = findings(commands, captured)
    assert failing(found) == {"retention"}
    assert "cdc-assets reset sales dbo_items" in found["retention", "fail"]["next_step"]


def test_an_instance_that_is_not_there_and_capture_that_is_off(
    captured: Project, commands: Commands
) -> None:
    captured.tables = {"dbo_items": None, "dbo_itmes": None}
    found = findings(commands, captured)
    assert found["table", "fail"]["about"] == "sales.dbo_itmes"
    assert "[capture_instance_unknown]" in found["table", "fail"]["text"]
    assert found["table", "ok"]["about"] == "sales.dbo_items"
    captured.source.execute("EXEC sys.sp_cdc_disable_db")
    assert failing(findings(commands, captured)) == {"cdc"}


def test_a_server_that_is_down_and_a_password_that_is_wrong(
    captured: Project, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else is looked at all the same; no secret is shown."""
    monkeypatch.setattr(connection, "retry_wait_seconds", lambda _: 0.0)
    captured.write()
    text = captured.source.server.text(captured.source.name)
    other = "PWD=C4nary"
    for code, changed in {
        "source_unavailable": ";".join(
            "Server=tcp:127.0.0.1,9" if p.lower().startswith("server=") else p
            for p in text.split(";")
        ),
        "login_refused": ";".join(
            other if p.lower().startswith("pwd=") else p for p in text.split(";")
        ),
    }.items():
        (captured.folder / "other.odbc").write_text(changed)
        captured.extra = {"connection": "file:other.odbc", "connect_timeout_seconds": 1}
        found = findings(commands, captured)
        assert failing(found) == {"login"}
        assert f"[{code}]" in found["login", "fail"]["text"]
        assert ("lake", "ok") in found
        assert "C4nary" not in str(found)


def test_a_lake_that_is_a_file(captured: Project, commands: Commands) -> None:
    (captured.folder / "lake").write_text("no folder")
    found = findings(commands, captured)
    assert {"lake"} <= failing(found) <= {"lake", "bookkeeping"}
    assert "[lake_unavailable]" in found["lake", "fail"]["text"]
    assert ("table", "ok") in found


def test_a_store_that_lets_two_writers_make_one_commit(
    captured: Project, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The late one of the probe's commits is let through: as a new version, here."""
    monkeypatch.setattr(probing, "_ONCE", None)
    found = findings(commands, captured)
    assert failing(found) == {"lake"}
    assert "two writers" in found["lake", "fail"]["text"]
    assert not (captured.folder / "lake").exists()


def test_spark_without_java(
    captured: Project, commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Asked for where a table's engine is Spark, and nowhere else."""
    monkeypatch.setattr(installed, "_JAVA_FOLDERS", ())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not any(check == "spark" for check, _ in findings(commands, captured))
    captured.engine = "spark"
    found = findings(commands, captured)
    assert failing(found) == {"spark"}
    text = found["spark", "fail"]["text"]
    assert "[java_missing]" in text or "[extra_missing]" in text


def test_no_driver(captured: Project, commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """B189."""
    monkeypatch.setenv("CDC_ODBC_DRIVER", "/nowhere/libmsodbcsql.so")
    connection.find_driver.cache_clear()
    try:
        found = findings(commands, captured)
    finally:
        connection.find_driver.cache_clear()
    assert "[odbc_driver_missing]" in found["login", "fail"]["text"]
