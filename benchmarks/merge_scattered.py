"""A MERGE of changes to keys from all over the table: nearly every file has some of them."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness import Benchmark, Comparison, Context, Figure, alternate, ratio
from benchmarks.merges import CHANGES, Ours, in_rounds, scattered, warm_peer
from benchmarks.peer.environment import PEER

ROWS = 10_000_000


def run(context: Context) -> Sequence[Figure]:
    """Ours and the peer's by turns."""
    ours = Ours.of(context.folder / "ours", context.rows(ROWS), scattered)
    ours.rebuild()
    with warm_peer(context.folder / "peer", ours) as peer:
        applies = {"ours": ours.apply, "peer": peer.apply}
        samples = alternate(in_rounds([ours.bronze], applies))
        details = {
            "changes": CHANGES,
            "ours": ours.described(samples["ours"]),
            "peer": peer.described(samples["peer"]),
        }
    return [Figure(ratio(samples["ours"], samples["peer"]), details)]


BENCHMARK = Benchmark(
    name="merge_scattered",
    what="apply of 10,000 changes with scattered keys into 10 M rows of silver; warm, arrow engine",
    comparisons=(
        Comparison(f"apply_changes of {PEER}, the same bronze", "of its time", target=0.2),
    ),
    run=run,
)
