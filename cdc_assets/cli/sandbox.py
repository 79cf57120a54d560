"""`cdc-assets sandbox`: the SQL Server stand-in in the foreground."""

from __future__ import annotations

from rich.console import Console

from cdc_assets.cli.children import require_sandbox, running_sandbox, wait_for_stop
from cdc_assets.cli.home import Home


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
    ) as sandbox:
        console.print(sandbox.ready, markup=False)
        console.print("Ctrl-C stops it; its data stays in", str(home.sandbox), markup=False)
        wait_for_stop(sandbox)
    return 0
