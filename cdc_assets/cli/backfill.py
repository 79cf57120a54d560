"""`cdc-assets backfill`: the chunks of a table's open snapshot, wave by wave."""

from __future__ import annotations

from cdc_assets.cli.output import print_json, say
from cdc_assets.cli.sync import database_of
from cdc_assets.ingest.backfill import backfill


def run_backfill(
    key: str, table: str, max_waves: int | None, max_seconds: float | None, *, as_json: bool
) -> int:
    """Read a chunked snapshot on, and say how far it is; exit status 1 where it has to wait."""
    database = database_of(key, [table])
    found = backfill(database, table, max_waves=max_waves, max_seconds=max_seconds)
    if as_json:
        print_json(found)
        return int(found.paused)
    rate = f", {found.rows_per_second:,.0f} rows/s" if found.rows_per_second else ""
    left = f", about {found.seconds_left:,.0f} s left" if found.seconds_left else ""
    total = "?" if found.chunks_total is None else f"{found.chunks_total:,}"
    say(
        f"{key}.{table}: {found.state}: {found.chunks_done:,} of {total} chunks,"
        f" {found.rows:,} rows now{rate}{left}; {found.reason}."
    )
    return int(found.paused)
