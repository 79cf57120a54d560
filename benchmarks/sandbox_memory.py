"""How much memory the sandbox's process takes for a large table and a large transaction."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.bare import read_bare
from benchmarks.harness import Benchmark, Comparison, Context, Figure
from benchmarks.orders import COLUMNS, SELECT, TABLE
from benchmarks.processes import Process
from benchmarks.source import Source, running_source

ROWS = 10_000_000
CHANGED_SHARE = 10
"""One row of so many changes in the one large transaction."""


def run(context: Context) -> Sequence[Figure]:
    """Load, read everything once, then change a share of it in one transaction and capture it."""
    rows = context.rows(ROWS)
    with running_source(context.folder / "sandbox") as source:
        server = source.server
        started = time.perf_counter()
        source.load(rows, captured=False)
        loading = {"peak_mb": round(server.peak_mb()), "s": _since(started)}
        reading = _read(source, server, rows)
        capturing = _capture(source, server, rows // CHANGED_SHARE)
    details = {"rows": rows, "columns": len(COLUMNS), "load": loading}
    return [
        Figure(reading["peak_mb"], {**details, "read": reading}),
        Figure(capturing["peak_mb"], {**details, "capture": capturing}),
    ]


def _read(source: Source, server: Process, rows: int) -> dict[str, float]:
    server.forget_peak()
    started = time.perf_counter()
    read = read_bare(source, SELECT)
    if read != rows:
        raise ValueError(f"the sandbox served {read} rows of {rows}")
    return {"peak_mb": server.peak_mb(), "s": _since(started)}


def _capture(source: Source, server: Process, changed: int) -> dict[str, float]:
    """One UPDATE while capture is off, then its capture alone."""
    server.forget_peak()
    source.execute(
        "EXEC sys.sp_cdc_stop_job N'capture'",
        f"UPDATE dbo.{TABLE} SET total = total + 1 WHERE order_id <= {changed}",
    )
    updating = server.peak_mb()
    server.forget_peak()
    started = time.perf_counter()
    source.execute("EXEC sys.sp_cdc_start_job N'capture'")
    return {
        "changed_rows": changed,
        "update_peak_mb": round(updating),
        "peak_mb": server.peak_mb(),
        "s": _since(started),
    }


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 1)


BENCHMARK = Benchmark(
    name="sandbox_memory",
    what="peak resident memory of the sandbox's process, with a table of ten columns",
    comparisons=(
        Comparison("4 GB, while one arrow-odbc reader reads all rows", "MB", target=4_000),
        Comparison("4 GB, while one large transaction is captured", "MB", target=4_000),
    ),
    run=run,
)
