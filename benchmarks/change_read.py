"""What our read of changes costs on top of the driver: casts, constants, commit times, guard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.bare import read_bare
from benchmarks.harness import Benchmark, Comparison, Context, Figure, alternate, ratio, timed
from benchmarks.orders import INSTANCE
from benchmarks.source import Source, reading, running_source
from cdc_assets.contract import Column, bronze_columns
from cdc_assets.ingest.columns import columns_to_load
from cdc_assets.ingest.poll import poll_database
from cdc_assets.planning.plans import Guard, ReadRange
from cdc_assets.planning.ranges import Seek
from cdc_assets.sqlserver import change_queries as queries
from cdc_assets.sqlserver.catalog import capture_instances
from cdc_assets.sqlserver.read import read_range

ROWS = 500_000


def run(context: Context) -> Sequence[Figure]:
    """Read the same range of change rows through both, by turns."""
    rows = context.rows(ROWS)
    with running_source(context.folder / "sandbox") as source:
        source.load(rows, captured=True)
        planned, columns = _plan(source, rows, context.folder / "lake")
        seen: list[int] = []

        def ours() -> None:
            batches = read_range(source.reader, planned, columns)
            seen.append(sum(batch.num_rows for batch in batches))

        def bare() -> None:
            seen.append(read_bare(source, planned.text, planned.parameters))

        samples = alternate({"bare": timed(bare), "ours": timed(ours)})
    if set(seen) != {rows}:
        raise ValueError(f"{sorted(set(seen))} change rows were read of {rows}")
    details = {
        "change_rows": rows,
        "ours_rows_per_s": round(rows / samples["ours"].median),
        "bare_rows_per_s": round(rows / samples["bare"].median),
        "ours": samples["ours"].described(),
        "bare": samples["bare"].described(),
    }
    return [Figure(ratio(samples["bare"], samples["ours"]), details)]


def _plan(source: Source, rows: int, lake: Path) -> tuple[ReadRange, tuple[Column, ...]]:
    """The range as a sync would plan it, on one connection."""
    database = source.database(lake)
    with reading(source) as connection:
        instance = capture_instances(connection)[INSTANCE]
        captured = columns_to_load(database, database.table(INSTANCE), connection, instance, None)
        poll = poll_database(connection, {INSTANCE: instance}, {})
    if poll.max is None:
        raise ValueError("the sandbox has captured nothing")
    seek = Seek((), str(instance.start_lsn), str(poll.max.lsn), rows)
    planned = ReadRange(
        text=queries.read_changes(queries.ChangeTable(INSTANCE), captured.selected, [seek]),
        names=(*queries.CHANGE_NAMES, *captured.names),
        parameters=queries.parameters([seek]),
        constants=(("_capture_instance", INSTANCE), ("_batch_id", "1")),
        utc_offsets=poll.clock.steps,
        guard=Guard(INSTANCE, instance.start_lsn, instance.start_lsn),
        rows=rows,
    )
    return planned, bronze_columns(captured.declared)


BENCHMARK = Benchmark(
    name="change_read",
    what="change rows of one range over one connection, as bronze's Arrow batches",
    comparisons=(
        Comparison(
            "the same query through bare arrow-odbc", "of its rows/s", target=0.85, at="least"
        ),
    ),
    run=run,
)
