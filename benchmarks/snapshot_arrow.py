"""What a whole snapshot costs on top of the driver and of Parquet, with the arrow engine."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bare import write_bare
from benchmarks.harness import Benchmark, Comparison, Context, Figure, alternate, ratio
from benchmarks.orders import COLUMNS, INSTANCE
from benchmarks.snapshots import CONNECTIONS, into_folders, planned_queries, take
from benchmarks.source import running_source

ROWS = 4_000_000


def run(context: Context) -> Sequence[Figure]:
    """The same queries on as many connections, by turns to Delta and to bare Parquet files."""
    rows = context.rows(ROWS)
    folder = context.folder
    with running_source(folder / "sandbox") as source:
        source.load(rows, captured=False)
        queries = planned_queries(source, INSTANCE, folder / "none")
        samples = alternate(
            {
                "bare": into_folders(
                    folder / "bare", rows, lambda place: write_bare(source, queries, place)
                ),
                "ours": into_folders(
                    folder / "ours", rows, lambda place: take(source.database(place), INSTANCE)
                ),
            }
        )
    details = {
        "rows": rows,
        "columns": len(COLUMNS),
        "connections": CONNECTIONS,
        "ours_is": "a whole sync into an empty lake: poll, snapshot, bronze, facts, control",
        "bare_is": "the same queries through arrow-odbc, a Parquet file for each connection",
        "ours_rows_per_s": round(rows / samples["ours"].median),
        "bare_rows_per_s": round(rows / samples["bare"].median),
        **{name: taken.described() for name, taken in samples.items()},
    }
    return [Figure(ratio(samples["bare"], samples["ours"]), details)]


BENCHMARK = Benchmark(
    name="snapshot_arrow",
    what="a whole snapshot of a table of ten columns to bronze, arrow engine",
    comparisons=(
        Comparison(
            "bare arrow-odbc to Parquet, same connections", "of its rows/s", target=0.8, at="least"
        ),
    ),
    run=run,
)
