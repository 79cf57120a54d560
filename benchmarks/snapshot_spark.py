"""A whole snapshot with the Spark engine, next to the package that others would use."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from benchmarks.child import JsonChild
from benchmarks.harness import Action, Benchmark, Comparison, Context, Figure, alternate, ratio
from benchmarks.orders import COLUMNS, INSTANCE
from benchmarks.peer.environment import PEER, TUNING
from benchmarks.peer.snapshot import BATCH_ROWS, DRIVER, peer_snapshots
from benchmarks.snapshot_child import snapshot_child
from benchmarks.snapshots import CONNECTIONS, into_folders
from benchmarks.source import running_source

ROWS = 2_000_000


def run(context: Context) -> Sequence[Figure]:
    """Both with a warm session of their own, by turns, on the same server."""
    rows = context.rows(ROWS)
    folder = context.folder
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(running_source(folder / "sandbox"))
        source.load(rows, captured=False)
        ours = stack.enter_context(
            snapshot_child(source.state, INSTANCE, "spark", folder / "ours.log")
        )
        theirs = stack.enter_context(peer_snapshots(folder / "peer", source, INSTANCE, CONNECTIONS))
        samples = alternate(
            {
                "ours": _asked(ours, folder / "ours", rows),
                "peer": _asked(theirs, folder / "lake", rows),
            }
        )
    details = {
        "rows": rows,
        "columns": len(COLUMNS),
        "connections": CONNECTIONS,
        "ours_is": "a whole sync into an empty lake: poll, snapshot, bronze, facts, control",
        "peer": f"{PEER}: its snapshot() to Delta, without its facts",
        "peer_driver": DRIVER,
        "peer_batch_rows": BATCH_ROWS,
        "peer_tuning": TUNING,
        "sessions": "warm, a process each; both and the server share the cores",
        "ours_rows_per_s": round(rows / samples["ours"].median),
        "peer_rows_per_s": round(rows / samples["peer"].median),
        **{name: taken.described() for name, taken in samples.items()},
    }
    return [Figure(ratio(samples["peer"], samples["ours"]), details)]


def _asked(child: JsonChild, folder: Path, rows: int) -> Action:
    """A child's own seconds; what it starts before them, it would start once a day."""
    seconds = 0.0

    def ask(place: Path) -> int:
        nonlocal seconds
        child.tell(str(place))
        answer = child.answer()
        seconds = float(answer["seconds"])
        return int(answer["rows"])

    write = into_folders(folder, rows, ask)

    def action() -> float:
        write()
        return seconds

    return action


BENCHMARK = Benchmark(
    name="snapshot_spark",
    what="a whole snapshot of a table of ten columns to bronze, Spark engine",
    comparisons=(Comparison(PEER, "of its rows/s", target=1.5, at="least"),),
    run=run,
)
