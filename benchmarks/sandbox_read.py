"""How fast the sandbox serves: what every other figure against it is bounded by."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bare import read_bare
from benchmarks.harness import Benchmark, Comparison, Context, Figure, repeat, timed
from benchmarks.orders import COLUMNS, SELECT
from benchmarks.source import running_source

ROWS = 1_000_000


def run(context: Context) -> Sequence[Figure]:
    """Read the whole table, time after time."""
    rows = context.rows(ROWS)
    with running_source(context.folder / "sandbox") as source:
        source.load(rows, captured=False)
        seen: list[int] = []
        samples = repeat(timed(lambda: seen.append(read_bare(source, SELECT))))
    if set(seen) != {rows}:
        raise ValueError(f"the sandbox served {sorted(set(seen))} rows of {rows}")
    value = rows / samples.median / 1e6
    return [Figure(value, {"rows": rows, "columns": len(COLUMNS), "read": samples.described()})]


BENCHMARK = Benchmark(
    name="sandbox_read",
    what="a table of ten columns from the sandbox to one arrow-odbc reader",
    comparisons=(Comparison("a fixed rate", "M rows/s", target=0.4, at="least"),),
    run=run,
)
