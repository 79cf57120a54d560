"""`cdc-assets backfill`: the chunks of a table's open snapshot, wave by wave."""

from __future__ import annotations

from rich.console import Console

from cdc_assets.cli.sync import database_of
from cdc_assets.ingest.backfill import backfill


def run_backfill(key: str, table: str, max_waves: int | None, max_seconds: float | None) -> int:
    """Read a chunked snapshot on, and say how far it is; exit status 1 where it has to wait."""
    database = database_of(key, [table])
    found = backfill(database, table, max_waves=max_waves, max_seconds=max_seconds)
    rate = f", {found.rows_per_second:,.0f} rows/s" if found.rows_per_second else ""
    left = f", about {found.seconds_left:,.0f} s left" if found.seconds_left else ""
    total = "?" if found.chunks_total is None else f"{found.chunks_total:,}"
    Console(soft_wrap=True, highlight=False).print(
        f"{key}.{table}: {found.state}: {found.chunks_done:,} of {total} chunks,"
        f" {found.rows:,} rows now{rate}{left}; {found.reason}.",
        markup=False,
    )
    return int(found.paused)
