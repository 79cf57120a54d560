"""What a sync costs while nothing happens to its tables, which is most of the time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from benchmarks.harness import Action, Benchmark, Comparison, Context, Figure, alternate, ratio
from benchmarks.source import CAPTURE_NOW, Source, running_source
from cdc_assets.engines.database import Database
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.sync import sync
from cdc_assets.sqlserver.queries import MAX_LSN

TABLES = 100
WARMUPS = 2
_OTHER = "bench_other"
"""A captured table that is not synced: it moves max_lsn, so that there is something to ask."""


def run(context: Context) -> Sequence[Figure]:
    """All of them in one sync, and one of them, by turns; each time max_lsn has moved."""
    with running_source(context.folder / "sandbox") as source:
        source.execute(*_statements(source))
        names = [f"dbo_q{number}" for number in range(TABLES)]
        one = source.database(context.folder / "one", "arrow", *names[:1])
        every = source.database(context.folder / "every", "arrow", *names)
        _settle(source, one, every)
        asked = {"one": _asked(source, one), "every": _asked(source, every)}
        samples = alternate(
            {"one": _synced(source, one), "every": _synced(source, every)}, warmups=WARMUPS
        )
    details = {
        "tables": TABLES,
        "captured_tables_of_the_source": TABLES + 1,
        "batches_sent": {name: len(texts) for name, texts in asked.items()},
        **{name: taken.described() for name, taken in samples.items()},
    }
    return [
        Figure(ratio(samples["every"], samples["one"]), details),
        Figure(sum(MAX_LSN in text for text in asked["every"]), details),
    ]


def _statements(source: Source) -> Iterator[str]:
    for table in (*(f"q{number}" for number in range(TABLES)), _OTHER):
        yield f"CREATE TABLE dbo.{table} (id int NOT NULL IDENTITY PRIMARY KEY, v int NULL)"
        yield from source.captured(table)
        yield f"INSERT INTO dbo.{table} (v) VALUES (1)"
    yield CAPTURE_NOW


def _settle(source: Source, *databases: Database) -> None:
    """Take the snapshots, and read what came meanwhile: from then on all are quiet."""
    for database in databases:
        for _ in range(2):
            _move(source)
            failed = sync(database).failed
            if failed:
                raise failed[0].error or ValueError(failed[0].table)


def _asked(source: Source, database: Database) -> list[str]:
    """What the source is sent by one sync."""
    _move(source)
    return source.traced(lambda: _sync(database))


def _synced(source: Source, database: Database) -> Action:
    def action() -> float:
        _move(source)
        started = time.perf_counter()
        _sync(database)
        return time.perf_counter() - started

    return action


def _sync(database: Database) -> None:
    found = {outcome.work for outcome in sync(database).outcomes.values()}
    if found != {Work.QUIET}:
        raise ValueError(f"the tables are not quiet: {found}")


def _move(source: Source) -> None:
    source.execute(f"INSERT INTO dbo.{_OTHER} (v) VALUES (1)", CAPTURE_NOW)


BENCHMARK = Benchmark(
    name="quiet_tables",
    what="100 captured tables without changes in one sync, while max_lsn moves; warm process",
    comparisons=(
        Comparison("one quiet table", "of its time", target=2),
        Comparison("how often max_lsn is asked for, by the source's own trace", "polls", target=1),
    ),
    run=run,
)
