"""A process of the product that takes whole snapshots, so that its memory or its JVM is its own.

Told one JSON line of settings, then a folder a line; each becomes the lake of one snapshot, and the
answer says how long it took and how much memory the process has had at most.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from benchmarks.child import JsonChild
from benchmarks.processes import Process
from benchmarks.snapshots import chunked, take
from benchmarks.source import Source

_ANSWER_SECONDS_MAX = 900


def snapshot_child(
    state: Path, table: str, engine: str, log: Path, chunk_rows: int | None = None
) -> JsonChild:
    """Start one on a running sandbox's state; with `chunk_rows` it reads in chunks."""
    log.parent.mkdir(parents=True, exist_ok=True)
    child = JsonChild(
        [sys.executable, "-m", "benchmarks.snapshot_child"],
        log=log,
        answer_seconds_max=_ANSWER_SECONDS_MAX,
    )
    told = {"state": str(state), "table": table, "engine": engine, "chunk_rows": chunk_rows}
    child.tell(json.dumps(told))
    return child


def main(commands: TextIO, answers: TextIO) -> None:
    """Answer each line that names a folder."""
    settings = json.loads(commands.readline())
    source, table = Source(Path(settings["state"])), settings["table"]
    chunk_rows = settings["chunk_rows"]
    for line in commands:
        database = source.database(Path(line.strip()), settings["engine"], table)
        started = time.perf_counter()
        rows = take(database, table) if chunk_rows is None else chunked(database, table, chunk_rows)
        answer: dict[str, Any] = {
            "rows": rows,
            "seconds": time.perf_counter() - started,
            "peak_mb": Process().peak_mb(),
        }
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    # A JVM below prints to the real standard output; the answers keep it to themselves.
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main(sys.stdin, own)
