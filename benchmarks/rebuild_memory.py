"""The most memory that a rebuild of silver takes: into nothing, and over a silver that is there."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.child import JsonChild
from benchmarks.harness import Benchmark, Comparison, Context, Figure
from benchmarks.merges import Ours, clustered
from cdc_assets.settings.model import ARROW_RANK_ROWS_MAX

ROWS = 20_000_000
REBUILD_MB_MAX = 3_000
"""Megabytes of a process that rebuilds a silver of ten columns, however many rows it has."""
_ANSWER_SECONDS_MAX = 900


def run(context: Context) -> Sequence[Figure]:
    """A first snapshot, then another one of the same keys, each by a process of its own."""
    ours = Ours.of(context.folder, context.rows(ROWS), clustered)
    into_nothing = _applied(ours, context, "first")
    ours.bronze.write()
    over_it = _applied(ours, context, "second")
    found = ours.found()[0]
    if found != ours.bronze.rows:
        raise ValueError(f"silver has {found} rows, and the snapshot {ours.bronze.rows}")
    details = {
        "rows": ours.bronze.rows,
        "rank_rows_max": ARROW_RANK_ROWS_MAX,
        "first": into_nothing,
        "second": over_it,
        "measured": "VmHWM of the product's own process after one apply, arrow engine",
    }
    return [Figure(max(into_nothing["peak_mb"], over_it["peak_mb"]), details)]


def _applied(ours: Ours, context: Context, name: str) -> dict[str, Any]:
    child = JsonChild(
        [sys.executable, "-m", "benchmarks.rebuild_child"],
        log=context.folder / f"{name}.log",
        answer_seconds_max=_ANSWER_SECONDS_MAX,
    )
    told = {"bronze": ours.bronze.uri, "rows": ours.bronze.rows, "folder": str(ours.folder)}
    with child:
        child.tell(json.dumps(told))
        return {key: round(float(value), 1) for key, value in child.answer().items()}


BENCHMARK = Benchmark(
    name="rebuild_memory",
    what="rebuild of a silver of 20 M rows from a whole snapshot, and from another one over it",
    comparisons=(Comparison("the limit of memory", "MB", target=REBUILD_MB_MAX),),
    run=run,
)
