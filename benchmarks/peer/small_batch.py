"""The peer's side of `small_batch`: its process, its rounds, and what it says of itself."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.child import JsonChild
from benchmarks.peer.environment import PEER, TUNING, peer_child

SOURCE = "its own in-memory source (its module `fake`): no server, no driver, no network"

_STEPS = ("to_delta", "advance", "apply_changes")


class PeerError(Exception):
    """The peer's silver is not what its source holds: its time would mean nothing."""


class PeerSmallBatch:
    """The peer, warm: a session and a pipeline with a bootstrapped table."""

    def __init__(self, child: JsonChild, rows: int) -> None:
        self._child = child
        self._rows = rows
        self._steps: list[dict[str, float]] = []
        self.bootstrap_seconds = float(child.answer()["bootstrap"]["seconds"])

    def round(self) -> float:
        """Commit a batch (untimed), work it off, and give the seconds of that."""
        self._child.tell("go")
        answer = self._child.answer()
        self._steps.append(answer)
        return float(answer["seconds"])

    def finish(self) -> None:
        """End it; raises `PeerError` where silver lacks rows or has too many."""
        self._child.tell("stop")
        answer = self._child.answer()
        if answer["silver_rows"] != answer["source_rows"]:
            raise PeerError(f"its silver and its source differ: {answer}")

    def described(self) -> dict[str, Any]:
        """What the row says of the peer."""
        steps = {step: round(statistics.median(s[step] for s in self._steps), 3) for step in _STEPS}
        return {
            "peer": PEER,
            "peer_source": SOURCE,
            "peer_tuning": TUNING,
            "peer_table_rows": self._rows,
            "peer_steps_s": steps,
            "peer_bootstrap_s": round(self.bootstrap_seconds, 1),
        }


@contextlib.contextmanager
def warm_peer(folder: Path, rows: int, changes: int) -> Iterator[PeerSmallBatch]:
    """Start the peer in its own environment and bootstrap its table.

    Raises `PeerUnavailableError` and `ChildError`.
    """
    settings = {
        "folder": str(folder),
        "cores": len(os.sched_getaffinity(0)),
        "rows": rows,
        "changes": changes,
    }
    with peer_child("small_batch_child.py", folder) as child:
        child.tell(json.dumps(settings))
        yield PeerSmallBatch(child, rows)
