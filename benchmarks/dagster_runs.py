"""Dagster runs from cold processes, in an environment that holds what a user installs and no more.

Spark's extra brings pandas, which pyarrow imports as soon as it sees a value of Python's: half a
second of a cold run. Who reads tables with the arrow engine has neither.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.harness import ROUNDS, Samples
from cdc_assets.settings import load_settings
from cdc_assets.settings.load import SETTINGS_VARIABLE

ENVIRONMENT = Path(".cdc/bench/base")

_PROJECT = Path(__file__).parent.parent
_LOCK = _PROJECT / "uv.lock"
_MARKER = "locked"
_RUN_SECONDS_MAX = 600


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a module, as `dagster job execute` takes it."""

    module: str
    name: str


@dataclass(slots=True)
class Home:
    """Dagster's home and a settings file, both fresh, and the runs that were started there."""

    python: Path
    settings_file: Path
    environment: Mapping[str, str]
    cpu: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, settings: Mapping[str, Any]) -> Home:
        """One in a folder. Raises where the settings are wrong or nothing can be installed."""
        home, settings_file = folder / "dagster", folder / "tables.yaml"
        home.mkdir()
        shutil.copyfile(_PROJECT / "dagster.yaml", home / "dagster.yaml")
        settings_file.write_text(yaml.safe_dump(settings), encoding="utf-8")
        load_settings(settings_file)
        environment = {
            "DAGSTER_HOME": str(home),
            SETTINGS_VARIABLE: str(settings_file),
            "PYTHONPATH": str(_PROJECT),
            # Set, each run would compile all that it imports, the empty one too.
            "PYTHONDONTWRITEBYTECODE": "",
        }
        return cls(_base_python(), settings_file, environment)

    def timed(self, job: Job) -> float:
        """Seconds of one run; its processor time goes into `cpu`."""
        before, started = _children_cpu(), time.perf_counter()
        self.execute(job)
        seconds = time.perf_counter() - started
        self.cpu.setdefault(job.name, []).append(_children_cpu() - before)
        return seconds

    def execute(self, job: Job) -> None:
        """Run it; raises with the end of what it said where it fails."""
        words = ["-m", "dagster", "job", "execute", "-m", job.module, "-j", job.name]
        done = _run([str(self.python), *words], {**os.environ, **self.environment})
        if done.returncode:
            said = (done.stderr + done.stdout).strip().splitlines()[-5:]
            raise RuntimeError(f"job {job.name} failed: {' | '.join(said)}")

    def cpu_of(self, job: Job) -> dict[str, Any]:
        """The processor time of its rounds."""
        return Samples(tuple(self.cpu[job.name][-ROUNDS:])).described()


def _base_python() -> Path:
    """The interpreter of an environment with the locked packages of no extra, made if missing."""
    folder = ENVIRONMENT.absolute()
    python, marker = folder / "bin" / "python", folder / _MARKER
    locked = _LOCK.read_text(encoding="utf-8")
    if python.exists() and marker.exists() and marker.read_text(encoding="utf-8") == locked:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    uv, wanted = str(Path(sys.executable).with_name("uv")), str(folder.with_suffix(".txt"))
    for words in (
        ["export", "--frozen", "--no-dev", "--no-emit-project", "--output-file", wanted],
        ["venv", "--python", sys.executable, str(folder)],
        ["pip", "install", "--compile-bytecode", "--python", str(python), "-r", wanted],
    ):
        done = _run([uv, *words, "--quiet"], dict(os.environ))
        if done.returncode:
            raise RuntimeError(f"`uv {' '.join(words)}` failed: {done.stderr.strip()}")
    # Written last: an environment that was interrupted is made anew.
    marker.write_text(locked, encoding="utf-8")
    return python


def _run(words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=_PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
