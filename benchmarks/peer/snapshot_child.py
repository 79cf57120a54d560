"""Runs inside the peer's environment: whole snapshots with its snapshot(), one a line.

Imports nothing of ours. Reads one JSON line of settings, then a folder a line.
"""

from __future__ import annotations

import json
import time
from typing import TextIO

from mssql_cdc import stream
from peer_session import serve, start_spark  # type: ignore[import-not-found]


def main(commands: TextIO, answers: TextIO) -> None:
    settings = json.loads(commands.readline())
    session = start_spark(settings["cores"])
    session.sparkContext.setLogLevel("ERROR")
    for line in commands:
        bronze = f"{line.strip()}/bronze"
        started = time.perf_counter()
        stream(session, settings["options"]).snapshot(bronze)
        seconds = time.perf_counter() - started
        rows = session.read.format("delta").load(bronze).count()
        print(json.dumps({"rows": rows, "seconds": seconds}), file=answers, flush=True)
    session.stop()


if __name__ == "__main__":
    serve(main)
