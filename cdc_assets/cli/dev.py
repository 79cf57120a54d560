"""`cdc-assets dev`: the sandbox and Dagster's page, ended together."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console

from cdc_assets.cli.children import child, require_sandbox, running_sandbox
from cdc_assets.cli.home import Home, free_port
from cdc_assets.cli.sandbox import wait_for_stop


def run_dev(port: int) -> int:
    """Run both until Ctrl-C; prints the page's address."""
    require_sandbox()
    home = Home.here()
    home.use_dagster()
    console = Console(highlight=False)
    empty = not home.sandbox.exists()
    port = port or free_port()
    dagster = Path(sys.executable).with_name("dagster")
    command = [
        *(str(dagster), "dev", "-w", str(home.project / "workspace.yaml")),
        *("-h", "127.0.0.1", "-p", str(port)),
    ]
    log = home.state / "dagster-dev.log"
    with running_sandbox(home.sandbox, scale=1.0 if empty else None) as ready:
        console.print(ready, markup=False)
        with log.open("w") as out, child(command, environment=os.environ, output=out) as process:
            console.print(f"Dagster: http://127.0.0.1:{port} (a few seconds; log: {log})")
            console.print("Ctrl-C ends both.")
            wait_for_stop(process)
    return 0
