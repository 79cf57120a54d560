"""`cdc-assets demo`: from an empty folder to three identical tables, through a Dagster run."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass

import dagster as dg
from rich.console import Console
from rich.table import Table

from cdc_assets.cli.children import require_sandbox, running_sandbox
from cdc_assets.cli.compare import Comparison, compare
from cdc_assets.cli.home import Home
from cdc_assets.cli.wire import wire
from cdc_assets.definitions import defs
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError
from cdc_assets.planning.records import ControlRow
from cdc_assets.sandbox.workload.changes import change_batches
from cdc_assets.settings import load_settings

DATABASE = "sales"
JOB = "sales_sync_and_apply"
CHANGES_SEED = 7
STATE_FOLDERS = ("sandbox", "lake", "dagster")


class DemoFailedError(CdcError):
    """A run of the demo did not succeed."""

    code = "demo_failed"


@dataclass(slots=True)
class _Steps:
    """Says what happens now and how long the demo has been at it."""

    console: Console
    started: float

    def say(self, text: str) -> None:
        self.console.print(f"[{time.monotonic() - self.started:6.1f} s] {text}", markup=False)


def run_demo(engine: str, scale: float) -> int:
    """Run it; exit status 0 where every table is identical, 1 where one differs."""
    require_sandbox()
    home = Home.here()
    console = Console(highlight=False)
    steps = _Steps(console, time.monotonic())
    _start_from_empty(home, steps)
    os.environ["CDC_ENGINE"] = engine
    home.use_dagster()
    with running_sandbox(home.sandbox, scale=scale, fresh=True) as ready:
        steps.say(ready)
        first = _run_job(steps, f"first run: whole snapshots, engine {engine}")
        _send_changes(home, steps, scale)
        second = _run_job(steps, "second run: only what changed")
        steps.say("comparing all columns of all rows, the source read with pytds")
        database = Database.of(DATABASE, load_settings().databases[DATABASE])
        compared = [_compare(home, database, table) for table in database.settings.tables]
        control = database.lake.control.read()
    _show(console, database, compared, control, (first, second))
    different = [c for c in compared if not c.identical]
    for table in different:
        console.print(f"{table.table} differs, first: {table.first_difference}", markup=False)
    console.print("Different." if different else "Every table is identical.")
    console.print("See it in the browser: make dev")
    return 1 if different else 0


def _start_from_empty(home: Home, steps: _Steps) -> None:
    old = [home.state / name for name in STATE_FOLDERS if (home.state / name).exists()]
    if old:
        steps.say(f"starting from empty: removing what an earlier run left in {home.state}")
    for folder in old:
        shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class _Run:
    """One Dagster run, by table: rows appended to bronze, and seconds in all."""

    rows: dict[str, int]
    seconds: float


def _run_job(steps: _Steps, what: str) -> _Run:
    """Run the job as Dagster does, on the instance in DAGSTER_HOME."""
    steps.say(what)
    started = time.monotonic()
    with dg.DagsterInstance.get() as instance:
        job = defs().resolve_job_def(JOB)
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        if not result.success:
            failed = next((e for e in result.all_events if e.is_step_failure), None)
            raise DemoFailedError(
                str(failed.step_failure_data.error.message if failed else "the run failed").strip(),
                hint="`make dev` shows the run.",
            )
    rows: dict[str, int] = {}
    for event in result.get_asset_materialization_events():
        materialization = event.step_materialization_data.materialization
        _, layer, table = materialization.asset_key.path
        if layer == "bronze":
            rows[table] = int(materialization.metadata["cdc/rows"].value or 0)
    seconds = time.monotonic() - started
    total = sum(rows.values())
    steps.say(f"  {total:,} rows in {seconds:.1f} s, {total / seconds:,.0f} rows/s")
    return _Run(rows, seconds)


def _send_changes(home: Home, steps: _Steps, scale: float) -> None:
    """Inserts, updates, deletes and key updates, over the wire as T-SQL, and one capture step."""
    batches = change_batches(seed=CHANGES_SEED, scale=scale)
    sent = 0
    with wire(home.sandbox / f"{DATABASE}.admin.odbc") as cursor:
        for text in batches:
            cursor.execute(text)
            sent += 1
        steps.say(f"sent {sent} transactions of T-SQL over the wire")
        cursor.execute("EXEC sandbox.capture_now")


def _compare(home: Home, database: Database, table: str) -> Comparison:
    schema, _, name = database.settings.instance_of(table).partition("_")
    source = home.sandbox / f"{DATABASE}.admin.odbc"
    return compare(database, table, schema, name, source)


def _show(
    console: Console,
    database: Database,
    compared: list[Comparison],
    control: dict[str, ControlRow],
    runs: tuple[_Run, _Run],
) -> None:
    shown = Table("table", "source rows", "silver rows", "compared", "complete until (UTC)")
    shown.add_column("loaded", justify="right")
    shown.add_column("changes", justify="right")
    for found in compared:
        row = control.get(database.table(found.table).silver)
        until = row.finalized_until if row else None
        shown.add_row(
            found.table,
            f"{found.source_rows:,}",
            f"{found.silver_rows:,}",
            "identical" if found.identical else f"{found.missing + found.surplus} rows differ",
            f"{until:%Y-%m-%d %H:%M:%S}" if until else "not yet",
            f"{runs[0].rows.get(found.table, 0):,}",
            f"{runs[1].rows.get(found.table, 0):,}",
        )
    console.print(shown)
    for name, run in zip(("first run", "second run"), runs, strict=True):
        total = sum(run.rows.values())
        console.print(f"{name}: {total:,} rows in {run.seconds:.1f} s")
