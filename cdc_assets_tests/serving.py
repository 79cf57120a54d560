"""`cdc-assets up` as a person starts it in a project's folder, and what Dagster's page answers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from cdc_assets.cli.home import free_port

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-c", "from cdc_assets.cli import main; main()"]
FILES = ("tables.yaml", "dagster.yaml", "workspace.yaml")
STOP_SECONDS_MAX = 60.0
LOOK_SECONDS = 0.2
WAIT_SECONDS_MAX = 180.0
"""Nothing takes so long but what never comes, also where the machine does other work."""
LOCATION = {"repositoryName": "__repository__", "repositoryLocationName": "cdc_assets"}

_LOADED = """query { workspaceOrError { ... on Workspace { locationEntries { loadStatus
    locationOrLoadError { __typename ... on PythonError { message } } } } } }"""
_LAUNCH = """mutation($given: ExecutionParams!) { launchRun(executionParams: $given) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
_RUNS = """query($filter: RunsFilter) { runsOrError(filter: $filter) {
    ... on Runs { results { runId status jobName } } } }"""
_START = """mutation($sensor: SensorSelector!) { startSensor(sensorSelector: $sensor) {
    __typename ... on Sensor { sensorState { status } } } }"""
_TICKS = """query($of: RepositorySelector!) { sensorsOrError(repositorySelector: $of) {
    ... on Sensors { results { name sensorState { status ticks(limit: 50) {
    status skipReason error { message } } } } } } }"""
_CHECK = """query($key: AssetKeyInput!, $name: String!) {
    assetCheckExecutions(assetKey: $key, checkName: $name, limit: 1) { status evaluation {
    success severity description
    metadataEntries { label ... on TextMetadataEntry { text } } } } }"""
UNFINISHED = ["QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING"]

Found = TypeVar("Found")


def new_home(folder: Path) -> Path:
    """A project folder with the files of this one and no state."""
    for name in FILES:
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """This process's environment without what points it at another project."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CDC_", "DAGSTER_"))}
    return {**kept, "CDC_TABLES": str(home / "tables.yaml"), "PYTHONPATH": str(ROOT), **more}


def until(look: Callable[[], Found], what: str, seconds: float = WAIT_SECONDS_MAX) -> Found:
    """What `look` finds as soon as it is true; the test fails where that takes too long."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not within {seconds:g} s")
        time.sleep(LOOK_SECONDS)
    return found


@dataclass(frozen=True)
class Served:
    """A page that answers."""

    address: str
    process: subprocess.Popen[str]
    log: Path
    """What Dagster prints."""

    def ask(self, text: str, **variables: object) -> Any:
        """The data of a GraphQL query; `OSError` while nobody answers."""
        body = json.dumps({"query": text, "variables": variables}).encode()
        request = urllib.request.Request(
            f"{self.address}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer["errors"]
        return answer["data"]

    def is_loaded(self) -> bool:
        """Whether the definitions are there; the test fails where they have an error."""
        try:
            workspace = self.ask(_LOADED)["workspaceOrError"]
        except OSError:
            assert self.process.poll() is None, self.log.read_text()
            return False
        entries = workspace["locationEntries"]
        loaded = [e["locationOrLoadError"] for e in entries if e["loadStatus"] == "LOADED"]
        assert all("message" not in (one or {}) for one in loaded), loaded
        return bool(loaded) and len(loaded) == len(entries)

    def launch(self, job: str) -> str:
        """Launch a job, as the page's button does; the run's id."""
        given = {"selector": {**LOCATION, "jobName": job}, "mode": "default"}
        answer = self.ask(_LAUNCH, given=given)["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def runs(self, **wanted: object) -> list[dict[str, str]]:
        """Runs by a filter of GraphQL's, newest first."""
        return list(self.ask(_RUNS, filter=wanted)["runsOrError"]["results"])

    def unfinished(self, *statuses: str) -> list[dict[str, str]]:
        """Runs that are queued or not over, or in one of these states."""
        return self.runs(statuses=statuses or UNFINISHED)

    def status(self, run: str) -> str:
        """How a run stands."""
        return self.runs(runIds=[run])[0]["status"]

    def start_sensor(self, name: str) -> None:
        """Turn a sensor on."""
        answer = self.ask(_START, sensor={**LOCATION, "sensorName": name})["startSensor"]
        assert answer["sensorState"]["status"] == "RUNNING", answer

    def ticks(self) -> dict[str, list[dict[str, Any]]]:
        """The newest ticks of each sensor that is on."""
        sensors = self.ask(_TICKS, of=LOCATION)["sensorsOrError"]["results"]
        states = {sensor["name"]: sensor["sensorState"] for sensor in sensors}
        return {n: state["ticks"] for n, state in states.items() if state["status"] == "RUNNING"}

    def check(self, asset: str, name: str) -> dict[str, Any] | None:
        """The last evaluation of a check; None where there is none."""
        key = {"path": asset.split("/")}
        found = self.ask(_CHECK, key=key, name=name)["assetCheckExecutions"]
        return found[0]["evaluation"] if found else None

    def process_of(self, words: str) -> psutil.Process:
        """The one process of it whose command line holds these words."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        (found,) = [one for one in children if words in " ".join(one.cmdline())]
        return found


@contextmanager
def up(home: Path, environment: Mapping[str, str]) -> Iterator[Served]:
    """Run `cdc-assets up` in a folder until the block ends; its definitions are loaded."""
    process = subprocess.Popen(
        [*COMMAND, "up"], env=environment, stdout=subprocess.PIPE, text=True, cwd=home
    )
    assert process.stdout is not None
    try:
        said: list[str] = []
        while not said or "http://" not in said[-1]:
            said.append(process.stdout.readline())
            assert said[-1], f"cdc-assets up ended: {''.join(said)}"
        address = said[-1].split()[1]
        served = Served(address, process, home / ".cdc" / "dagster-dev.log")
        until(served.is_loaded, "the page's definitions")
        yield served
    finally:
        _end(process)
        process.stdout.close()


@contextmanager
def dagster_dev(dagster: Path, home: Path, environment: Mapping[str, str]) -> Iterator[Served]:
    """Run `dagster dev` on a folder's files, with that folder as Dagster's home."""
    port, log = free_port(), home / "dagster-dev.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [
                *(str(dagster), "dev", "-w", "workspace.yaml"),
                *("-h", "127.0.0.1", "-p", str(port)),
            ],
            env={**environment, "DAGSTER_HOME": str(home)},
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=home,
            start_new_session=True,
        )
    try:
        served = Served(f"http://127.0.0.1:{port}", process, log)
        until(served.is_loaded, "the page's definitions")
        yield served
    finally:
        # How Dagster itself ends, after which of its processes, is not for a test of ours to say.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_SECONDS_MAX)
    finally:
        process.kill()
