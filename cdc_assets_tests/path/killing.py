"""The command line in a process group of its own, killed at a named fault point.

It stops at the point and says so in a file; then the whole group is killed. Where a JVM is to
serve what comes next, `crashing` ends a run in the tests' own process instead.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
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
    points: Iterable[FaultPoint],
    *,
    spark: Iterable[FaultPoint] = (),
    soak: Iterable[FaultPoint] = (),
) -> list[ParameterSet]:
    """Parameters `engine_name` (indirect) and `point`: all on the arrow engine, some on Spark.

    Those of `soak` run on Spark in `make soak`: no code of Spark's engine is passed there that
    another kill does not pass.
    """
    cases = [kill_case("arrow", point) for point in points]
    cases += [kill_case("spark", point) for point in spark]
    rare = [kill_case("spark", point) for point in soak]
    return cases + [
        pytest.param(*case.values, marks=[*case.marks, pytest.mark.soak], id=case.id)
        for case in rare
    ]


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
    armed = {
        "CDC_TABLES": str(project.write()),
        faults.POINT_VARIABLE: point,
        faults.FILE_VARIABLE: str(file),
    }
    output = file.with_name(f"{file.name}.output")
    process = started([command, project.key, *options], armed, output, program)
    deadline = time.monotonic() + REACH_SECONDS_MAX
    try:
        while not file.exists():
            if not process.is_alive() or time.monotonic() > deadline:
                pytest.fail(f"{point} was not reached:\n{output.read_text()}")
            time.sleep(0.02)
        yield
    finally:
        kill(process)


def started(
    arguments: list[str], armed: dict[str, str], output: Path, program: str = COMMAND_LINE
) -> BaseProcess:
    """Another process that runs the command line, in a group of its own."""
    given = (program, ["-c", *arguments], armed, str(output))
    process = _PROCESSES.Process(target=run, args=given)
    process.start()
    return process


def kill(process: BaseProcess) -> None:
    """End it with its group, its JVM too."""
    assert process.pid is not None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join()


class CrashError(BaseException):
    """The end of a run at a point in this process; no handler of errors catches it."""


@contextmanager
def crashing(point: FaultPoint) -> Iterator[None]:
    """Let what is run within end at a point, in this process; it must come there."""
    reached: list[object] = []

    def here(at: object) -> None:
        if at == point:
            reached.append(at)
            raise CrashError(point)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "reach", here)
        try:
            yield
        except BaseException:
            # One that crosses delta-rs comes back as another.
            if not reached:
                raise
    assert reached, f"{point} was not reached"


_PROCESSES = multiprocessing.get_context("forkserver")
"""Each killed process is forked from one that has imported what all need, and done nothing."""
_PROCESSES.set_forkserver_preload(["cdc_assets.cli.sync", "cdc_assets_tests.path.applying"])


def run(program: str, arguments: list[str], armed: dict[str, str], output: str) -> None:
    """What such a process does, in a group of its own that its JVM is in, too."""
    os.setsid()
    to = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(to, stream)
    os.environ.update(armed)
    sys.argv[:] = arguments
    exec(program, {"__name__": "__main__"})
