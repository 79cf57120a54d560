"""Runs inside the peer's environment: its apply_changes on a bronze that stands already.

Imports nothing of ours. Reads one JSON line of settings, then applies once for each line.
"""

from __future__ import annotations

import json
import time
from typing import TextIO

from mssql_cdc import apply_changes
from peer_session import serve, start_spark  # type: ignore[import-not-found]


def main(commands: TextIO, answers: TextIO) -> None:
    settings = json.loads(commands.readline())
    session = start_spark(settings["cores"])
    session.sparkContext.setLogLevel("ERROR")
    silver = f"{settings['folder']}/silver"
    for line in commands:
        if line.strip() != "go":
            break
        started = time.perf_counter()
        apply_changes(
            session,
            settings["bronze"],
            silver,
            capture_instance=settings["instance"],
            keys=settings["keys"],
            control_table=f"{settings['folder']}/control",
        )
        seconds = time.perf_counter() - started
        # Untimed: what it has made of it, as two numbers that depend on every key and image.
        found = session.read.format("delta").load(silver).selectExpr(*settings["check"]).first()
        print(json.dumps({"seconds": seconds, "found": list(found)}), file=answers, flush=True)
    session.stop()


if __name__ == "__main__":
    serve(main)
