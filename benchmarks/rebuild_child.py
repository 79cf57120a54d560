"""A process of the product that applies one bronze, so that its memory is its own.

Told one JSON line of places, it answers how long the apply took and how much memory it has had.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.merges import Bronze, Ours, clustered
from benchmarks.processes import Process


def main() -> None:
    """Answer the line."""
    told = json.loads(sys.stdin.readline())
    ours = Ours(Bronze(told["bronze"], told["rows"], clustered), Path(told["folder"]))
    before = Process().peak_mb()
    seconds = ours.apply()
    peak = {"before_mb": before, "peak_mb": Process().peak_mb()}
    print(json.dumps({"seconds": seconds, **peak}), flush=True)


if __name__ == "__main__":
    main()
