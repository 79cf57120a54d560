"""A run, the daemon and the sandbox are killed; what a person starts again puts all right.

`cdc-assets up` runs for real: Dagster's page, its daemon, its code servers, and the sandbox.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import psutil
import pytest

from cdc_assets import faults
from cdc_assets.cli.compare import compare
from cdc_assets.cli.wire import wire
from cdc_assets.engines.database import Database
from cdc_assets.faults import FaultPoint
from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.sandbox.workload.tables import DATABASE
from cdc_assets.settings import load_settings
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items
from cdc_assets_tests.serving import (
    COMMAND,
    ROOT,
    Served,
    clean_environment,
    new_home,
    until,
    up,
)
from cdc_assets_tests.source import Project, Source

pytestmark = pytest.mark.slow

TABLE = "dbo_items"
SCALE = 0.01
HANG_SECONDS = 300
APART_SECONDS = 3
"""How far apart two processes that were started together may come to their first read."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project folder whose sandbox holds a few hundred rows."""
    new_home(tmp_path)
    with Sandbox(tmp_path / ".cdc" / "sandbox") as sandbox:
        sandbox.load_workload(SCALE)
    return tmp_path


def administrator(home: Path) -> Path:
    return home / ".cdc" / "sandbox" / f"{DATABASE}.admin.odbc"


def execute(home: Path, *texts: str) -> None:
    with wire(administrator(home).read_text()) as cursor:
        for text in texts:
            cursor.execute(text)


def waiting_faults(home: Path) -> int:
    with wire(administrator(home).read_text()) as cursor:
        cursor.execute("EXEC sandbox.faults")
        return len(cursor.fetchall())


def is_identical(home: Path) -> bool:
    """Whether silver holds the source's rows, all of all tables."""
    database = Database.of(DATABASE, load_settings(home / "tables.yaml").databases[DATABASE])
    return all(
        compare(database, table, "dbo", table.removeprefix("dbo_"), administrator(home)).identical
        for table in database.settings.tables
    )


def victim(reached: Path) -> psutil.Process:
    """The run's process, which stands at its fault point."""
    pid = until(lambda: reached.exists() and reached.read_text(), "a run at its fault point")
    return psutil.Process(int(pid))


def kill(process: psutil.Process) -> None:
    os.kill(process.pid, signal.SIGKILL)
    until(
        lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE,
        f"the end of process {process.pid}",
    )


def started(page: Served, job: str) -> str:
    """The one run of a job that is going on; a database's runs have one pool."""
    (found,) = [run["runId"] for run in page.unfinished("STARTED") if job in run["jobName"]]
    return found


def heals(page: Served, home: Path) -> None:
    """Silver becomes the source, and no run that is there now is left: others are asked for."""
    here = {run["runId"] for run in page.unfinished()}
    until(lambda: is_identical(home), "silver equal to the source")
    until(
        lambda: not here & {run["runId"] for run in page.unfinished()},
        "the end of the runs that were there",
    )


@pytest.mark.timeout(900)  # all is started twice, on a machine that may do other work
def test_each_is_killed_in_the_middle_and_all_heals(home: Path, tmp_path: Path) -> None:
    """B177, B178: a killed run frees its pool; one that died together with its code server is found
    by the next daemon."""
    reached = tmp_path / "reached"
    armed = {
        faults.POINT_VARIABLE: FaultPoint.SILVER_MERGED.value,
        faults.FILE_VARIABLE: str(reached),
    }
    with up(home, clean_environment(home, **armed)) as page:
        page.launch("sales_sync")
        first = victim(reached)
        killed = started(page, "silver_waves")
        kill(first)
        reached.unlink()
        # The run fails, its pool is free, and the same work is begun again by itself.
        second = victim(reached)
        assert page.status(killed) == "FAILURE"
        lost = started(page, "silver_waves")
        kill(page.process_of("dagster._daemon"))
        assert page.process.wait(60) == 1, "up says that Dagster ended"
        until(lambda: not second.is_running(), "the end of what up has started")
    with serving(home) as sandbox, up(home, clean_environment(home)) as page:
        page.start_sensor("sales_source_moved")
        heals(page, home)
        assert page.status(lost) == "FAILURE"
        the_sandbox_dies_in_the_middle_of_a_sync(page, home, sandbox)
        failed = [t for ticks in page.ticks().values() for t in ticks if t["status"] == "FAILURE"]
        assert failed == []


def the_sandbox_dies_in_the_middle_of_a_sync(
    page: Served, home: Path, sandbox: subprocess.Popen[str]
) -> None:
    """The page goes on meanwhile: as the one of `up` it would have ended `up` with it."""
    execute(
        home,
        f"EXEC sandbox.fault @kind = N'delay', @table = N'cdc.dbo_orders_CT',"
        f" @seconds = {HANG_SECONDS}, @login = N'reader'",
        "UPDATE dbo.orders SET clerk = N'before' WHERE order_id = 1",
    )
    until(lambda: waiting_faults(home) == 0, "a sync that reads the change")
    hanging = started(page, "sales_sync")
    (server,) = psutil.Process(sandbox.pid).children()
    kill(server)
    assert sandbox.wait(60) == 1, "the command says that its sandbox ended"
    with serving(home):
        execute(home, "UPDATE dbo.orders SET clerk = N'after' WHERE order_id = 2")
        heals(page, home)
        assert page.status(hanging) in ("FAILURE", "SUCCESS")
        assert page.process.poll() is None


@contextmanager
def serving(home: Path) -> Iterator[subprocess.Popen[str]]:
    """`cdc-assets sandbox`, ready, until the block ends."""
    process = subprocess.Popen(
        [*COMMAND, "sandbox"],
        env=clean_environment(home),
        cwd=home,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "sandbox ready" in process.stdout.readline()
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def test_two_runs_of_one_job_at_once(project: Project, tmp_path: Path) -> None:
    """Started by hand they know no pool: both read and both write, and each row is there once."""
    source = project.source
    create_items(source, rows=50)
    project.tables = {TABLE: None}
    project.write()
    home = tmp_path / "dagster"
    home.mkdir()
    shutil.copyfile(ROOT / "dagster.yaml", home / "dagster.yaml")
    with dg.DagsterInstance.from_config(str(home)):
        pass  # Dagster itself cannot make its tables twice at once.
    wait_in(source, "dbo.items")
    at_once(project, home)
    change_items(source)
    wait_in(source, "cdc.dbo_items_CT")
    at_once(project, home)
    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, COLUMNS)


def wait_in(source: Source, table: str) -> None:
    """The first of two processes waits in its read until the other one reads, too."""
    source.execute(
        f"EXEC sandbox.fault @kind = N'delay', @table = N'{table}', @seconds = {APART_SECONDS},"
        " @times = 2, @login = N'reader'"
    )


def at_once(project: Project, home: Path) -> None:
    """Two processes run the same job at the same time, and neither fails."""
    dagster = Path(sys.executable).with_name("dagster")
    job = ["-m", "cdc_assets.definitions", "-j", "sales_sync_and_apply"]
    started = [
        subprocess.Popen(
            [str(dagster), "job", "execute", *job],
            env=clean_environment(project.folder, DAGSTER_HOME=str(home)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], "\n".join(said)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        newest = instance.get_run_records(limit=2)
    assert max(r.start_time or 0 for r in newest) < min(r.end_time or 0 for r in newest)
