"""A MERGE of changes to keys that follow each other: its cost is the change's, not the table's."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.child import ChildError
from benchmarks.harness import Benchmark, Comparison, Context, Figure, alternate, ratio
from benchmarks.merges import CHANGES, Ours, Peer, clustered, in_rounds, warm_peer
from benchmarks.peer.environment import PEER, PeerUnavailableError

FEW, MANY = 1_000_000, 10_000_000


def run(context: Context) -> Sequence[Figure]:
    """Ours into few rows and into many, and the peer's into as many, by turns."""
    few, many = (
        Ours.of(context.folder / name, context.rows(rows), clustered)
        for name, rows in (("few", FEW), ("many", MANY))
    )
    for ours in (few, many):
        ours.rebuild()
    try:
        with warm_peer(context.folder / "peer", many) as peer:
            return _measured(few, many, peer)
    except (PeerUnavailableError, ChildError) as error:
        reason = f"the peer: {type(error).__name__}: {error}"
        return [*_measured(few, many), Figure(None, error=reason)]


def _measured(few: Ours, many: Ours, peer: Peer | None = None) -> list[Figure]:
    applies = {"few": few.apply, "many": many.apply}
    if peer is not None:
        applies["peer"] = peer.apply
    bronzes = (few.bronze, many.bronze)
    samples = alternate(in_rounds(bronzes, applies))
    details = {"changes": CHANGES, "few": few.described(samples["few"])}
    details["many"] = many.described(samples["many"])
    found = [Figure(ratio(samples["many"], samples["few"]), details)]
    if peer is not None:
        told = {**details, "peer": peer.described(samples["peer"])}
        found.append(Figure(ratio(samples["many"], samples["peer"]), told))
    return found


BENCHMARK = Benchmark(
    name="merge_clustered",
    what="apply of 10,000 changes with keys in a row into 10 M rows of silver; warm, arrow engine",
    comparisons=(
        Comparison("the same into 1 M rows", "of its time", target=1.5),
        Comparison(f"apply_changes of {PEER}, the same bronze", "of its time", target=0.1),
    ),
    run=run,
)
