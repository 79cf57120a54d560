"""A cold run over a hundred tables with a few changes each: what a wide database costs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.dagster_runs import Home, Job
from benchmarks.harness import ROUNDS, Benchmark, Comparison, Context, Figure, Samples, repeat
from benchmarks.peer.environment import PEER
from benchmarks.peer.small_batch import warm_peer
from benchmarks.source import CA_FILE, CAPTURE_NOW, NAME, READER_FILE, Source, running_source
from cdc_assets.engines.database import Database
from cdc_assets.settings import load_settings

TABLES = 100
CHANGES = 100
JOB = Job("cdc_assets.definitions", f"{NAME}_sync_and_apply")


def run(context: Context) -> Sequence[Figure]:
    """Ours: each round changes all tables and runs the job. Then the peer's calls, one by one."""
    tables = [f"h{number}" for number in range(max(2, round(TABLES * min(context.scale, 1))))]
    with running_source(context.folder / "sandbox") as source:
        source.execute(*_created(source, tables))
        home = Home.of(context.folder, _settings(context.folder, source, tables))
        home.execute(JOB)  # the snapshots

        def ours() -> float:
            source.execute(*(f"UPDATE dbo.{t} SET v = v + 1" for t in tables), CAPTURE_NOW)
            return home.timed(JOB)

        samples = repeat(ours)
    _check(home.settings_file, tables)
    details = {
        "tables": len(tables),
        "changes_per_table": CHANGES,
        "ours": samples.described(),
        "ours_cpu": home.cpu_of(JOB),
    }
    return [Figure(samples.median, details), _against_peer(context.folder, samples, details)]


def _against_peer(folder: Path, ours: Samples, details: dict[str, Any]) -> Figure:
    """Ours over as many calls of the peer's as there are tables, of which a few are measured."""
    try:
        with contextlib.ExitStack() as stack:
            peer = stack.enter_context(warm_peer(folder / "peer", CHANGES, CHANGES))
            calls = repeat(peer.round)
            peer.finish()
    except Exception as error:  # noqa: BLE001 - its row says why, ours has its figure
        return Figure(None, error=f"the peer: {type(error).__name__}: {error}")
    scaled = {"peer_call": calls.described(), "peer_calls": details["tables"], **peer.described()}
    return Figure(ours.median / (calls.median * details["tables"]), {**details, **scaled})


def _created(source: Source, tables: Sequence[str]) -> Iterator[str]:
    rows = ", ".join(f"({key}, 0)" for key in range(1, CHANGES + 1))
    for table in tables:
        yield f"CREATE TABLE dbo.{table} (id int NOT NULL PRIMARY KEY, v int NOT NULL)"
        yield from source.captured(table)
        yield f"INSERT INTO dbo.{table} (id, v) VALUES {rows}"
    yield CAPTURE_NOW


def _settings(folder: Path, source: Source, tables: Sequence[str]) -> dict[str, Any]:
    database = {
        "connection": f"file:{source.state / READER_FILE}",
        "ca_file": str(source.state / CA_FILE),
        "lake": str(folder / "lake"),
        "tables": {f"dbo_{table}": {} for table in tables},
    }
    return {"databases": {NAME: database}}


def _check(settings_file: Path, tables: Sequence[str]) -> None:
    """Raise where a table lacks a batch of a round, or silver is behind."""
    database = Database.of(NAME, load_settings(settings_file).databases[NAME])
    control = database.lake.control.read()
    for key in (f"dbo_{table}" for table in tables):
        name = database.table(key)
        found = sum(1 for batch in database.lake.facts.batches(name.bronze) if batch.rows)
        if found <= ROUNDS:
            raise ValueError(f"{key} has {found} batches with rows after more than {ROUNDS} runs")
        if control[name.silver].applied_lsn != control[name.bronze].changed_lsn:
            raise ValueError(f"{key}: silver is behind bronze")


BENCHMARK = Benchmark(
    name="hundred_tables",
    what="100 tables, 100 changes each, to silver, as a whole Dagster run from a cold process",
    comparisons=(
        Comparison("a fixed time", "s", target=30),
        Comparison(f"as many calls of {PEER}, warm, one by one", "of their time", target=0.02),
    ),
    run=run,
)
