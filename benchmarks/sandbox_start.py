"""How long the sandbox takes from the start of its process to an accepted login."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytds

from benchmarks.harness import Benchmark, Comparison, Context, Figure, Samples, alternate
from benchmarks.source import running_source
from cdc_assets.sandbox.state import LOCK_FILE
from cdc_assets.settings.load import SETTINGS_VARIABLE

_STOP_SECONDS_MAX = 30
_PORT = re.compile(r"tcp:127\.0\.0\.1,(\d+)")


@dataclass(slots=True)
class Starts:
    """How to start one server, and the processor time that each start took until the login."""

    command: Sequence[str]
    state: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    cpu: list[float] = field(default_factory=list)

    def once(self) -> float:
        """Start it, log in, and stop it; the seconds until the login."""
        started = time.perf_counter()
        with _started(self.command, self.environment) as port:
            _log_in(self.state, port)
            seconds = time.perf_counter() - started
            self.cpu.append(_cpu_seconds(self.state))
        return seconds

    def described(self, samples: Samples) -> dict[str, Any]:
        """The details of its figure; processor time does not mind who else is working."""
        cpu = round(statistics.median(self.cpu), 2)
        return {"start": samples.described(), "server_cpu_s": cpu}


def run(context: Context) -> Sequence[Figure]:
    """Start on nothing and on the demo's tables, by turns."""
    home = context.folder / "home"
    home.mkdir()
    settings = home / "tables.yaml"
    settings.touch()
    existing, fresh = home / ".cdc" / "sandbox", context.folder / "fresh"
    with running_source(existing, workload=context.scale):
        pass
    module = [sys.executable, "-m", "cdc_assets.sandbox", "--state", str(fresh)]
    cli = [str(Path(sys.executable).parent / "cdc-assets"), "sandbox"]
    first = Starts(module, fresh)
    again = Starts(cli, existing, {SETTINGS_VARIABLE: str(settings)})

    def emptied() -> float:
        shutil.rmtree(fresh, ignore_errors=True)
        return first.once()

    samples = alternate({"first": emptied, "again": again.once})
    return [
        Figure(samples["first"].median, first.described(samples["first"])),
        Figure(samples["again"].median, again.described(samples["again"])),
    ]


@contextlib.contextmanager
def _started(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[int]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        found = _PORT.search(ready)
        if found is None:
            raise ValueError(f"the sandbox said {ready!r} and not its port")
        yield int(found.group(1))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_STOP_SECONDS_MAX)


def _cpu_seconds(state: Path) -> float:
    """Processor time of the process that serves a state, so far."""
    process = (state / LOCK_FILE).read_text().strip()
    # After the name in parentheses: utime and stime are fields 14 and 15 of the line.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _log_in(state: Path, port: int) -> None:
    password = (state / "sa.password").read_text().strip()
    pytds.connect("127.0.0.1", port=port, user="sa", password=password, database="master").close()


BENCHMARK = Benchmark(
    name="sandbox_start",
    what="the sandbox from the start of its process to an accepted login",
    comparisons=(
        Comparison("a fixed time, on an empty directory", "s", target=2.0),
        Comparison("a fixed time, `cdc-assets sandbox` on the demo's tables", "s", target=2.0),
    ),
    run=run,
)
