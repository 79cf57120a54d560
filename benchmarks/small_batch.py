"""From a commit on the server to a verdict in silver: what most runs of a day are."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.harness import (
    Action,
    Benchmark,
    Comparison,
    Context,
    Figure,
    Samples,
    alternate,
    ratio,
    repeat,
)
from benchmarks.orders import INSTANCE
from benchmarks.peer.environment import PEER
from benchmarks.peer.small_batch import PeerSmallBatch, warm_peer
from benchmarks.source import Source, running_source
from cdc_assets.engines.database import Database
from cdc_assets.ingest.sync import sync
from cdc_assets.silver.apply import apply_changes
from cdc_assets.silver.outcome import ApplyOutcome

ROWS = 100_000
CHANGES = 1_000
STEPS = ("sync", "apply", "cpu")
"""Parts of a round; `cpu` is our process's processor time, which other work disturbs least."""
WARMUPS = 2
"""Rounds before the first that counts: imports, statement caches, the JVM's compiler."""
SETTLE_ROUNDS_MAX = 10
SETTLE_SECONDS = 1.1
"""A verdict is held until changes after the snapshot's end are in; the periods are seconds."""


class SmallBatch:
    """Our side: one database with a bootstrapped table, in a warm process."""

    def __init__(self, source: Source, database: Database) -> None:
        self._source = source
        self._database = database
        self.steps: list[dict[str, float]] = []

    def bootstrap(self) -> None:
        """Take the snapshot, build silver, and go on until no verdict is held."""
        _, _, applied = self._work_off()
        for _ in range(SETTLE_ROUNDS_MAX):
            time.sleep(SETTLE_SECONDS)
            self._source.commit_changes(CHANGES)
            _, _, applied = self._work_off()
            if applied.hold is None and applied.finalized_until is not None:
                return
        raise ValueError(f"silver has no verdict: {applied}")

    def round(self) -> float:
        """Commit a batch (untimed), bring it to silver, and give the seconds of that."""
        self._source.commit_changes(CHANGES)
        started, cpu = time.perf_counter(), time.process_time()
        synced, rows, applied = self._work_off()
        ended, cpu = time.perf_counter(), time.process_time() - cpu
        if rows < CHANGES or applied.hold is not None or applied.finalized_until is None:
            raise ValueError(f"{rows} change rows of {CHANGES} changes, and silver: {applied}")
        self.steps.append({"sync": synced - started, "apply": ended - synced, "cpu": cpu})
        return ended - started

    def check(self) -> None:
        """Raise where silver has not as many rows as the source."""
        silver = self._database.lake.silver(self._database.table(INSTANCE))
        found = silver.count() if silver is not None else 0
        if found != self._source.orders.rows:
            raise ValueError(f"silver has {found} rows and the source {self._source.orders.rows}")

    def _work_off(self) -> tuple[float, int, ApplyOutcome]:
        outcome = sync(self._database).outcomes[INSTANCE]
        if outcome.error is not None:
            raise outcome.error
        synced = time.perf_counter()
        return synced, outcome.rows, apply_changes(self._database, INSTANCE)


def run(context: Context) -> Sequence[Figure]:
    """Ours and the peer's by turns; ours alone where the peer cannot be run."""
    rows = context.rows(ROWS)
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(running_source(context.folder / "sandbox"))
        source.load(rows, captured=False)
        ours = SmallBatch(source, source.database(context.folder / "lake"))
        ours.bootstrap()
        try:
            peer = stack.enter_context(warm_peer(context.folder / "peer", rows, CHANGES))
        except Exception as error:  # noqa: BLE001 - its row says why, ours has its figure
            samples = repeat(ours.round, warmups=WARMUPS)
            ours.check()
            reason = f"the peer: {type(error).__name__}: {error}"
            return [Figure(samples.median, _details(ours, samples)), Figure(None, error=reason)]
        return _both(ours, peer)


def _both(ours: SmallBatch, peer: PeerSmallBatch) -> Sequence[Figure]:
    actions: dict[str, Action] = {"ours": ours.round, "peer": peer.round}
    samples = alternate(actions, warmups=WARMUPS)
    ours.check()
    peer.finish()
    details = _details(ours, samples["ours"])
    against = {**details, "peer_time": samples["peer"].described(), **peer.described()}
    return [
        Figure(samples["ours"].median, details),
        Figure(ratio(samples["ours"], samples["peer"]), against),
    ]


def _details(ours: SmallBatch, samples: Samples) -> dict[str, Any]:
    steps = ours.steps[-len(samples.seconds) :]
    return {
        "changes": CHANGES,
        "table_rows": ours._source.orders.rows,
        "ours": samples.described(),
        **{name: Samples(tuple(s[name] for s in steps)).described() for name in STEPS},
    }


BENCHMARK = Benchmark(
    name="small_batch",
    what="1,000 changes: commit, bronze, silver, verdict; warm process, capture at commit, arrow",
    comparisons=(
        Comparison("the time aimed at", "s", target=0.35),
        Comparison(f"to_delta + advance + apply_changes of {PEER}", "of its time", target=0.02),
    ),
    run=run,
)
