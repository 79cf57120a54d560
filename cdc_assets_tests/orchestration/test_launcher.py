"""A run without a process is told to run monitoring, and no other."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.launcher.base import WorkerStatus
from dagster._core.storage.tags import GRPC_INFO_TAG

from cdc_assets.cli.home import free_port
from cdc_assets.orchestration.launcher import WatchedRunLauncher, lives
from cdc_assets_tests.serving import until

HERE = {GRPC_INFO_TAG: json.dumps({"host": "localhost", "socket": "/tmp/none"})}
LAUNCHER = {"module": "cdc_assets.orchestration.launcher", "class": "WatchedRunLauncher"}


@dg.job
def nothing() -> None:
    pass


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test(overrides={"run_launcher": LAUNCHER}) as made:
        yield made


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """What stands for a run's process: it lives until it is killed."""
    waiting = [sys.executable, "-c", "input()"]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def started_run(
    instance: dg.DagsterInstance, tags: dict[str, str], pid: int | None = None
) -> dg.DagsterRun:
    run = instance.create_run_for_job(nothing, tags=tags, status=dg.DagsterRunStatus.STARTED)
    if pid is not None:
        message = f"Started process for run (pid: {pid})."
        instance.report_engine_event(message, run, EngineEventData.in_process(pid))
    return run


def health(instance: dg.DagsterInstance, run: dg.DagsterRun) -> WorkerStatus:
    launcher = instance.run_launcher
    assert isinstance(launcher, WatchedRunLauncher)
    assert launcher.supports_check_run_worker_health
    return launcher.check_run_worker_health(run).status


def test_a_killed_process_is_told(
    instance: dg.DagsterInstance, process: subprocess.Popen[bytes]
) -> None:
    run = started_run(instance, HERE, process.pid)
    assert health(instance, run) is WorkerStatus.RUNNING
    process.kill()
    process.wait()
    assert health(instance, run) is WorkerStatus.NOT_FOUND


def test_a_process_that_nobody_has_buried_is_gone_too(
    instance: dg.DagsterInstance, process: subprocess.Popen[bytes]
) -> None:
    """Its code server has not looked yet, or hangs."""
    run = started_run(instance, HERE, process.pid)
    assert process.stdin is not None
    process.stdin.close()
    deadline = time.monotonic() + 30
    while health(instance, run) is WorkerStatus.RUNNING:
        assert time.monotonic() < deadline, "a zombie counts as a process"
    assert process.returncode is None


def test_a_step_may_have_processes_of_its_own(
    instance: dg.DagsterInstance, process: subprocess.Popen[bytes]
) -> None:
    run = started_run(instance, HERE, process.pid)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    data = EngineEventData.in_process(ended.pid)
    instance.report_engine_event(f"Executing steps in process (pid: {ended.pid})", run, data)
    assert health(instance, run) is WorkerStatus.RUNNING


def test_what_nobody_can_know_counts_as_running(instance: dg.DagsterInstance) -> None:
    """A run that has told of no process, and another launcher's."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert health(instance, started_run(instance, {}, ended.pid)) is WorkerStatus.RUNNING
    assert health(instance, started_run(instance, HERE)) is WorkerStatus.RUNNING


def test_a_code_server_that_was_started_anew_knows_no_run_of_its_past(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    """In another container its processes are not seen: it is asked, and may be on its way up."""
    port = free_port()
    place = {"host": "127.0.0.1", "port": port}
    run = started_run(instance, {GRPC_INFO_TAG: json.dumps(place)}, pid=1)
    assert health(instance, run) is WorkerStatus.RUNNING
    definitions = tmp_path / "definitions.py"
    definitions.write_text("import dagster as dg\n\ndefs = dg.Definitions()\n")
    command = ["-m", "dagster", "api", "grpc", "-f", str(definitions), "-p", str(port)]
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL) as server:
        try:
            until(lambda: health(instance, run) is WorkerStatus.NOT_FOUND, "its answer")
        finally:
            server.kill()


def test_an_id_that_was_given_away_again_is_another_process(
    process: subprocess.Popen[bytes],
) -> None:
    """After a restart of a container ids begin anew."""
    assert lives(process.pid, time.time())
    assert not lives(process.pid, time.time() - 60)
