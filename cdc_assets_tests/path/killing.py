"""The command line in a process group of its own, killed at a named fault point.

It stops at the point and says so in a file; then the whole group is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from cdc_assets import faults
from cdc_assets.faults import FaultPoint
from cdc_assets_tests.source import Project

REACH_SECONDS_MAX = 240.0


KILLED: set[tuple[str, FaultPoint]] = set()
"""Engine and point of every case that `kill_cases` gave."""


def kill_cases(
    points: Iterable[FaultPoint], *, spark: Iterable[FaultPoint] = ()
) -> list[ParameterSet]:
    """Parameters `engine_name` (indirect) and `point`: all on the arrow engine, some on Spark."""
    cases = [("arrow", point) for point in points] + [("spark", point) for point in spark]
    KILLED.update(cases)
    return [kill_case(engine, point) for engine, point in cases]


def kill_case(engine: str, point: FaultPoint, *more: object, name: str = "") -> ParameterSet:
    """One case, and `more` parameters after the point."""
    KILLED.add((engine, point))
    marks = [pytest.mark.spark] if engine == "spark" else []
    words = [engine, *([name] if name else []), point]
    return pytest.param(engine, point, *more, marks=marks, id="-".join(words))


COMMAND_LINE = "from cdc_assets.cli import main; main()"
"""What is run of Python: its arguments are a command, a database and options."""


def kill_at(
    project: Project,
    point: FaultPoint,
    file: Path,
    *options: str,
    command: str = "sync",
    program: str = COMMAND_LINE,
) -> None:
    """Run `cdc-assets` in another process and kill it at a point, its JVM too."""
    with stopped_at(project, point, file, *options, command=command, program=program):
        pass


@contextmanager
def stopped_at(
    project: Project,
    point: FaultPoint,
    file: Path,
    *options: str,
    command: str = "sync",
    program: str = COMMAND_LINE,
) -> Iterator[None]:
    """The same process, which stands at the point meanwhile and is killed in the end."""
    environment = {
        **os.environ,
        "CDC_TABLES": str(project.write()),
        faults.POINT_VARIABLE: point,
        faults.FILE_VARIABLE: str(file),
    }
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            program,
            command,
            project.key,
            *options,
        ],
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + REACH_SECONDS_MAX
    while not file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"{point} was not reached:\n{process.communicate()[0]}")
        time.sleep(0.05)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
