"""`cdc-assets snapshot`: a table read anew, to the end, with its progress."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from cdc_assets.cli.output import print_json, say
from cdc_assets.cli.sync import database_of, load_silver, show_loaded
from cdc_assets.contract import SnapshotMode
from cdc_assets.engines.database import Database
from cdc_assets.ingest.backfill import backfill
from cdc_assets.ingest.outcome import BackfillOutcome, BackfillState, Work
from cdc_assets.ingest.sync import sync


class _Bar:
    """How far it is, on standard error: standard output is for what it comes to."""

    def __init__(self) -> None:
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )

    def show(self, task: TaskID, found: BackfillOutcome) -> None:
        """A wave more."""
        left = f", {found.seconds_left:,.0f} s left" if found.seconds_left else ""
        rate = f", {found.rows_per_second:,.0f} rows/s" if found.rows_per_second else ""
        total = "?" if found.chunks_total is None else f"{found.chunks_total:,}"
        told = f"{found.chunks_done:,} of {total} chunks{rate}{left}"
        self.progress.update(task, completed=found.chunks_done, total=found.chunks_total, told=told)


def run_snapshot(key: str, table: str, *, as_json: bool) -> int:
    """Read a table anew and apply it; exit status 1 where it failed or has to wait."""
    database = database_of(key, [table])
    bar, read = _Bar(), None
    with bar.progress:
        task = bar.progress.add_task(f"{key}.{table}", total=None, told="reading")
        report = sync(database, [table], resnapshot=True)
        is_chunked = database.settings.snapshot_of(table) is SnapshotMode.CHUNKED
        if is_chunked and report.outcomes[table].work not in (Work.FAILED, Work.WAITING):
            read = _waves(database, table, bar, task)
            report = sync(database, [table])
        loaded = load_silver(database, report)
    if as_json:
        print_json({"tables": loaded, "warnings": report.warnings, "backfill": read})
    else:
        show_loaded(loaded, report.warnings)
        if read is not None and not read.done:
            say(f"{key}.{table}: {read.reason}. Then: cdc-assets backfill {key} {table}")
    waits = report.outcomes[table].work is Work.WAITING or (read is not None and not read.done)
    return int(waits or any(one.error for one in loaded))


def _waves(database: Database, table: str, bar: _Bar, task: TaskID) -> BackfillOutcome:
    """Every wave of its open chunked snapshot, until it is complete or has to wait."""
    while True:
        found = backfill(database, table, max_waves=1)
        bar.show(task, found)
        if found.state is not BackfillState.RUNNING:
            return found
