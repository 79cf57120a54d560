"""Bad input: one clear sentence that says what to do, exit status 1, nothing written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_assets_tests.source import Project

TABLE = "dbo_items"


@pytest.fixture
def engine_name() -> str:
    """The engine is named where it matters."""
    return "arrow"


MAIN = "from cdc_assets.cli import main; main()"
NO_JVM_FOLDERS = "import cdc_assets.engines.spark.installed as i; i._JAVA_FOLDERS = (); "


def run(
    settings: Path, *arguments: str, code: str = MAIN, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "CDC_TABLES": str(settings), **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 1
    said = done.stderr.strip()
    assert [word for word in words if word not in said] == []
    assert len(said.splitlines()) == 1, said
    assert "Traceback" not in said


def assert_nothing_written(project: Project) -> None:
    assert not (project.folder / "lake").exists()


def test_good_input_is_exit_status_0(items: Project) -> None:
    assert run(items.write(), "sync", "sales").returncode == 0


def test_unknown_capture_instance(items: Project) -> None:
    items.tables = {"dbo_itmes": None}
    done = run(items.write(), "sync", "sales")
    assert_refused(done, "no capture instance dbo_itmes", "dbo_items", "[capture_instance_unknown]")
    assert_nothing_written(items)


def test_unknown_database_and_table(items: Project) -> None:
    assert_refused(run(items.write(), "sync", "sale"), "no database sale", "sales")
    assert_refused(run(items.write(), "sync", "sales", "x"), "no table x", TABLE)


def test_no_odbc_driver(items: Project) -> None:
    done = run(items.write(), "sync", "sales", CDC_ODBC_DRIVER="/nowhere/libmsodbcsql.so")
    assert_refused(done, "libmsodbcsql.so", "CDC_ODBC_DRIVER", "[odbc_driver_missing]")
    assert_nothing_written(items)


@pytest.mark.spark
def test_no_java(items: Project, tmp_path: Path) -> None:
    """Only where the engine is Spark; the arrow engine never asks."""
    items.engine = "spark"
    empty = {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    done = run(items.write(), "sync", "sales", code=NO_JVM_FOLDERS + MAIN, **empty)
    assert_refused(done, "Java", "17", "[java_missing]")
    items.engine = "arrow"
    assert run(items.write(), "sync", "sales", **empty).returncode == 0


def test_source_down(items: Project) -> None:
    items.extra = {"connect_timeout_seconds": 1}
    settings = items.write()
    text = (items.folder / "source.odbc").read_text()
    pairs = [p for p in text.split(";") if not p.lower().startswith("server=")]
    (items.folder / "source.odbc").write_text(";".join(["Server=tcp:127.0.0.1,9", *pairs]))
    done = run(settings, "sync", "sales")
    assert_refused(done, "sales:", "Is the server up", "[source_unavailable]")
    assert_nothing_written(items)


def test_wrong_password(items: Project) -> None:
    settings = items.write()
    text = (items.folder / "source.odbc").read_text()
    pairs = [p for p in text.split(";") if not p.lower().startswith("pwd=")]
    (items.folder / "source.odbc").write_text(";".join([*pairs, "PWD=canary-11d"]))
    done = run(settings, "sync", "sales")
    assert_refused(done, "Login failed", "Check the user", "[login_refused]")
    assert "canary" not in done.stderr + done.stdout
    assert_nothing_written(items)


def test_no_connection_file(items: Project) -> None:
    settings = items.write()
    (items.folder / "source.odbc").unlink()
    assert_refused(run(settings, "sync", "sales"), "source.odbc", "cdc-assets sandbox")


def test_broken_settings(items: Project) -> None:
    settings = items.write()
    settings.write_text(settings.read_text().replace("lake:", "lakes:"))
    assert_refused(run(settings, "sync", "sales"), "unknown key", "Did you mean lake?")
    settings.write_text("databases: [")
    assert_refused(run(settings, "sync", "sales"), "tables.yaml:")
    settings.unlink()
    assert_refused(run(settings, "sync", "sales"), "cannot read", "CDC_TABLES")
