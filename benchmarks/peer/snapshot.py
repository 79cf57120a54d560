"""The peer's side of `snapshot_spark`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks.child import JsonChild
from benchmarks.peer.environment import peer_child
from benchmarks.source import Source
from cdc_assets.sqlserver.driver import find_driver

DRIVER = "arrow-odbc"
"""What ours reads with too. Its default, mssql-python, took as much: reading a million rows through
the peer's own classes took 0.89 to 0.99 s of CPU with either, in three turns."""
BATCH_ROWS = 65_536
"""Its arrowBatchSize, 10,000 by default; as many as ours fetches at a time."""


def peer_snapshots(folder: Path, source: Source, table: str, connections: int) -> JsonChild:
    """Start the peer in its own environment; told a folder, it takes a snapshot into it.

    Raises `PeerUnavailableError`.
    """
    child = peer_child("snapshot_child.py", folder)
    options = {
        # By its place: the peer's own choice is the name of a registered driver.
        "connectionString": f"Driver={find_driver()};{source.reader.text}",
        "backend": DRIVER,
        "captureInstance": table,
        "numPartitions": str(connections),
        "arrowBatchSize": str(BATCH_ROWS),
    }
    child.tell(json.dumps({"cores": len(os.sched_getaffinity(0)), "options": options}))
    return child
