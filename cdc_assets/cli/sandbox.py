"""`cdc-assets sandbox`: the SQL Server stand-in in the foreground."""

from __future__ import annotations

import signal
import subprocess
import threading

from rich.console import Console

from cdc_assets.cli.children import ChildFailedError, require_sandbox, running_sandbox
from cdc_assets.cli.home import Home

LOOK_SECONDS = 0.5


def run_sandbox(*, port: int, fresh: bool, rate: float = 0.0) -> int:
    """Run it until Ctrl-C; the first start loads the workload.

    `rate` lets it change, so many transactions a second.
    """
    require_sandbox()
    home = Home.here()
    console = Console(highlight=False)
    empty = fresh or not home.sandbox.exists()
    with running_sandbox(
        home.sandbox, port=port, fresh=fresh, scale=1.0 if empty else None, rate=rate
    ) as ready:
        console.print(ready, markup=False)
        console.print("Ctrl-C stops it; its data stays in", str(home.sandbox), markup=False)
        wait_for_stop()
    return 0


def wait_for_stop(process: subprocess.Popen[str] | None = None) -> None:
    """Wait for Ctrl-C or SIGTERM, or for a child to end by itself."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    while not stopped.wait(LOOK_SECONDS):
        if process is not None and process.poll() is not None:
            raise ChildFailedError("Dagster ended by itself", hint="Its log says why.")
