"""The demo as a person runs it, small; and its comparison, which must be able to fail."""

import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable
from rich.console import Console

from cdc_assets.cli.children import is_running
from cdc_assets.cli.demo import DATABASE, DemoRun, show_comparison
from cdc_assets.cli.home import Home
from cdc_assets.cli.up import sandbox_where_used
from cdc_assets.engines.database import Database
from cdc_assets.ingest.sync import sync
from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.settings import load_settings
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.serving import COMMAND, clean_environment, new_home

DEV_SECONDS_MAX = 120.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project folder with the files of this one and no state."""
    return new_home(tmp_path)


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    return clean_environment(home, COLUMNS="80")


def test_the_demo_twice(home: Path, environment: dict[str, str]) -> None:
    for expected in (None, "starting from empty"):
        done = subprocess.run(
            [*COMMAND, "demo", "--scale", "0.02"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("identical") == 4
        assert done.stdout.strip().splitlines()[-1].endswith("make dev")
        assert expected is None or expected in done.stdout
        assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert (home / ".cdc" / "dagster").exists()


def test_the_demo_never_touches_another_source(environment: dict[str, str], home: Path) -> None:
    environment["CDC_SALES_CONNECTION"] = "Server=tcp:192.0.2.1;Database=sales;UID=x;PWD=x"
    done = subprocess.run(
        [*COMMAND, "demo"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "names another source" in done.stderr
    assert not (home / ".cdc").exists()


@pytest.fixture
def loaded(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Database, Path]]:
    monkeypatch.setenv("CDC_TABLES", str(home / "tables.yaml"))
    state = home / ".cdc" / "sandbox"
    with Sandbox(state) as sandbox:
        sandbox.load_workload(0.01)
        database = Database.of(DATABASE, load_settings().databases[DATABASE])
        sync(database)
        for table in database.settings.tables:
            apply_changes(database, table)
        yield database, sandbox.connection_file(DATABASE, admin=True)


def test_one_flipped_value_is_exit_status_1(loaded: tuple[Database, Path]) -> None:
    database, source = loaded
    run = DemoRun({}, {}, 1.0)
    console = Console(record=True, width=80)
    assert show_comparison(console, database, source, (run, run)) == 0
    silver = DeltaTable(database.table("dbo_orders").silver_uri)
    silver.update(updates={"clerk": "'flipped'"}, predicate="order_id = 7")
    assert show_comparison(console, database, source, (run, run)) == 1
    said = console.export_text()
    assert "dbo_orders differs" in said
    assert "'order_id': 7" in said


def test_up_takes_a_sandbox_that_runs_already(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `cdc-assets sandbox` does in another terminal; it is there afterwards, too."""
    monkeypatch.setenv("CDC_TABLES", str(home / "tables.yaml"))
    with Sandbox(home / ".cdc" / "sandbox") as sandbox:
        console = Console(record=True)
        with sandbox_where_used(Home.here(), console):
            assert "The sandbox runs already." in console.export_text()
        assert is_running(sandbox.state_dir)
    assert not is_running(sandbox.state_dir)


def test_up_serves_the_page_and_ends_with_ctrl_c(home: Path, environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [*COMMAND, "up"], env=environment, stdout=subprocess.PIPE, text=True, cwd=home
    )
    assert process.stdout is not None
    try:
        address = next(line for line in process.stdout if "http://" in line).split()[1]
        assert _answers(address) == 200
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert process.returncode == 0
    left = [
        p.info["pid"]
        for p in psutil.process_iter(["pid", "cmdline", "environ"])
        if (p.info["environ"] or {}).get("CDC_TABLES") == environment["CDC_TABLES"]
    ]
    assert left == []
    with pytest.raises(OSError):
        urllib.request.urlopen(address, timeout=5)


@pytest.mark.parametrize("command", ["sandbox", "up"])
def test_a_sandbox_that_dies_ends_what_has_started_it(
    home: Path, environment: dict[str, str], command: str
) -> None:
    process = subprocess.Popen(
        [*COMMAND, command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=home,
    )
    assert process.stdout is not None
    next(line for line in process.stdout if "Ctrl-C" in line)
    children = psutil.Process(process.pid).children()
    (sandbox,) = (one for one in children if "cdc_assets.sandbox" in one.cmdline())
    sandbox.kill()
    said = process.stdout.read()
    assert process.wait(60) == 1
    assert "the sandbox ended by itself, with status -9" in said
    assert "[child_failed]" in said


def _answers(address: str) -> int:
    deadline = time.monotonic() + DEV_SECONDS_MAX
    while True:
        try:
            with urllib.request.urlopen(f"{address}/server_info", timeout=5) as response:
                return int(response.status)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
