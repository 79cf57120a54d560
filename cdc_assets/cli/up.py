"""`cdc-assets up`: Dagster's page, and the sandbox where the settings use it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from cdc_assets.cli.children import (
    Child,
    child,
    is_running,
    require_sandbox,
    running_sandbox,
    wait_for_stop,
)
from cdc_assets.cli.home import Home, free_port
from cdc_assets.settings import load_settings


def run_up(port: int) -> int:
    """Run it until Ctrl-C; prints the page's address."""
    home = Home.here()
    home.use_dagster()
    console = Console(highlight=False)
    port = port or free_port()
    dagster = Path(sys.executable).with_name("dagster")
    command = [
        *(str(dagster), "dev", "-w", str(home.project / "workspace.yaml")),
        *("-h", "127.0.0.1", "-p", str(port)),
    ]
    log = home.state / "dagster-dev.log"
    with (
        sandbox_where_used(home, console) as sandbox,
        log.open("w") as out,
        child(command, environment=os.environ, output=out) as process,
    ):
        console.print(f"Dagster: http://127.0.0.1:{port} (a few seconds; log: {log})")
        console.print("Ctrl-C ends it all.")
        page = Child("Dagster", process, f"Its log says why: {log}")
        wait_for_stop(page, *([sandbox] if sandbox else []))
    return 0


@contextlib.contextmanager
def sandbox_where_used(home: Home, console: Console) -> Iterator[Child | None]:
    """The sandbox, where a database of the settings is in it; its first start loads rows.

    One that runs already, by `cdc-assets sandbox`, is used, and goes on afterwards: None.
    """
    if not any(home.uses_sandbox(database) for database in load_settings().databases.values()):
        yield None
        return
    if is_running(home.sandbox):
        console.print("The sandbox runs already.")
        yield None
        return
    require_sandbox()
    empty = not home.sandbox.exists()
    with running_sandbox(home.sandbox, scale=1.0 if empty else None) as sandbox:
        console.print(sandbox.ready, markup=False)
        yield sandbox
