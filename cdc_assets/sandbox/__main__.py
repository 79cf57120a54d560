"""`python -m cdc_assets.sandbox`: the stand-in in the foreground until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

import duckdb

from cdc_assets.sandbox.handle import HOST, Sandbox
from cdc_assets.sandbox.state import StateInUseError
from cdc_assets.sandbox.workload.tables import DATABASE


def main(arguments: list[str] | None = None) -> int:
    """Start, print one ready line, wait for a signal, stop."""
    parser = argparse.ArgumentParser(prog="python -m cdc_assets.sandbox", description=__doc__)
    parser.add_argument("--state", required=True, help="directory that holds everything")
    parser.add_argument("--port", type=int, default=0, help="0: the last one, else a free one")
    parser.add_argument(
        "--capture-interval", type=float, default=0.0, help="seconds; 0: with each commit"
    )
    parser.add_argument("--workload", type=float, help="load the workload at this scale")
    parser.add_argument("--seed", type=int, default=0, help="the workload's seed")
    parser.add_argument(
        "--rate", type=float, help="change the workload's rows: so many transactions a second"
    )
    parser.add_argument("--fresh", action="store_true", help="begin with nothing")
    given = parser.parse_args(arguments)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        sandbox = Sandbox(
            given.state,
            capture_interval_seconds=given.capture_interval,
            port=given.port,
            fresh=given.fresh,
        ).start()
    except (StateInUseError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    except (duckdb.Error, OSError) as error:
        print(f"the sandbox on {given.state} cannot start: {error}", file=sys.stderr)
        return 1
    try:
        if given.workload is not None:
            sandbox.load_workload(given.workload, seed=given.seed)
        print(
            f"sandbox ready: server tcp:{HOST},{sandbox.port} ca {sandbox.ca_file} "
            f"reader {sandbox.connection_file(DATABASE)} "
            f"admin {sandbox.connection_file(DATABASE, admin=True)}",
            flush=True,
        )
        if given.rate:
            sandbox.run_workload(seed=given.seed, per_second=given.rate, stop=stopped)
        stopped.wait()
    finally:
        sandbox.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
