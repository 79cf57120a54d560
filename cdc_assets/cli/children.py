"""Child processes that end with us, whatever ends us."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cdc_assets.errors import CdcError, ExtraMissingError

LOOK_SECONDS = 0.5
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 15


class ChildFailedError(CdcError):
    """A process we started ended by itself."""

    code = "child_failed"


@dataclass(frozen=True, slots=True)
class Child:
    """A process that serves as long as we do; `ready` is what it said once it did."""

    name: str
    process: subprocess.Popen[str]
    hint: str
    ready: str = ""


def wait_for_stop(*children: Child) -> None:
    """Wait for Ctrl-C or SIGTERM; raises `ChildFailedError` for a child that ends by itself."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    while not stopped.wait(LOOK_SECONDS):
        for one in children:
            if (status := one.process.poll()) is not None:
                raise ChildFailedError(
                    f"{one.name} ended by itself, with status {status}", hint=one.hint
                )


@contextlib.contextmanager
def child(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    output: IO[str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run a command for a block; it is asked to stop at the end, and killed if it will not."""
    process = subprocess.Popen(  # noqa: S603 - our own commands
        command,
        stdout=output or subprocess.PIPE,
        stderr=subprocess.STDOUT if output else None,
        text=True,
        env=environment,
        # A Ctrl-C reaches only us; children are stopped in order, below.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Ask it to stop as Ctrl-C does, then end what is left of its group: its own children too."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS_MAX)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def running_sandbox(
    state: Path,
    *,
    scale: float | None = None,
    port: int = 0,
    fresh: bool = False,
    rate: float | None = None,
    capture_interval_seconds: float = 0.2,
) -> Iterator[Child]:
    """The sandbox in a process of its own, ready.

    `rate` lets it change the workload's rows, so many transactions a second.
    """
    refuse_running(state)
    command = [
        *(sys.executable, "-m", "cdc_assets.sandbox", "--state", str(state)),
        *("--port", str(port), "--capture-interval", str(capture_interval_seconds)),
        *(["--workload", str(scale)] if scale is not None else []),
        *(["--fresh"] if fresh else []),
        *(["--rate", str(rate)] if rate else []),
    ]
    with child(command) as process:
        assert process.stdout is not None  # noqa: S101 - asked for above
        hung = threading.Timer(READY_SECONDS_MAX, process.kill)
        hung.start()
        ready = process.stdout.readline().strip()
        hung.cancel()
        if not ready:
            process.wait(STOP_SECONDS_MAX)
            raise ChildFailedError(
                "the sandbox did not start", hint="What it printed above says why."
            )
        # The rest of the line names the files it wrote.
        hint = "Start it again: its data is there."
        yield Child("the sandbox", process, hint, ready.partition(" ca ")[0])


def is_running(state: Path) -> bool:
    """Whether a sandbox is serving this state already."""
    remembered = state / "port"
    if not remembered.exists():
        return False
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", int(remembered.read_text()))) == 0


def refuse_running(state: Path) -> None:
    """Raise where a sandbox is serving this state already."""
    if is_running(state):
        raise ChildFailedError(
            f"a sandbox is running on {state}",
            hint="Stop it first: it is `make dev`, `make demo` or `cdc-assets sandbox`.",
        )


def require_sandbox() -> None:
    """Raise where the sandbox's packages are not installed."""
    missing = [m for m in ("duckdb", "pytds") if importlib.util.find_spec(m) is None]
    if missing:
        raise ExtraMissingError(
            f"the sandbox needs {', '.join(missing)}",
            hint="Run `make setup`, or `pip install 'cdc-assets[sandbox]'`.",
        )
