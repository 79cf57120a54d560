"""How long the sandbox takes from the start of its process to an accepted login."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytds

from benchmarks.harness import Action, Benchmark, Comparison, Context, Figure, alternate
from benchmarks.source import running_source
from cdc_assets.settings.load import SETTINGS_VARIABLE

_STOP_SECONDS_MAX = 30
_PORT = re.compile(r"tcp:127\.0\.0\.1,(\d+)")


def run(context: Context) -> Sequence[Figure]:
    """Start on nothing and on the demo's tables, by turns."""
    home = context.folder / "home"
    home.mkdir()
    settings = home / "tables.yaml"
    settings.touch()
    existing, fresh = home / ".cdc" / "sandbox", context.folder / "fresh"
    with running_source(existing, workload=context.scale):
        pass
    from_nothing = _action(
        [sys.executable, "-m", "cdc_assets.sandbox", "--state", str(fresh)], fresh
    )
    again = _action(
        [str(Path(sys.executable).parent / "cdc-assets"), "sandbox"],
        existing,
        {SETTINGS_VARIABLE: str(settings)},
    )

    def emptied() -> float:
        shutil.rmtree(fresh, ignore_errors=True)
        return from_nothing()

    samples = alternate({"fresh": emptied, "existing": again})
    return [
        Figure(samples[name].median, {"start": samples[name].described()})
        for name in ("fresh", "existing")
    ]


def _action(
    command: Sequence[str], state: Path, environment: Mapping[str, str] | None = None
) -> Action:
    """Start a command that serves a state, log in, and stop it; the seconds until the login."""

    def action() -> float:
        started = time.perf_counter()
        with _started(command, environment or {}) as port:
            _log_in(state, port)
            return time.perf_counter() - started

    return action


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
