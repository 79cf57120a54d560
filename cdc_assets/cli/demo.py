"""`cdc-assets demo`: from an empty folder to three identical tables, through a Dagster run."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from dagster._core.execution.plan.objects import StepFailureData
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from cdc_assets.cli.children import refuse_running, require_sandbox, running_sandbox
from cdc_assets.cli.compare import Comparison, compare
from cdc_assets.cli.home import Home
from cdc_assets.cli.wire import wire
from cdc_assets.definitions import defs
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError, SettingsError
from cdc_assets.planning.records import ControlRow
from cdc_assets.sandbox.workload.changes import Changes
from cdc_assets.sandbox.workload.tables import Scale
from cdc_assets.settings import load_settings

DATABASE = "sales"
JOB = "sales_sync_and_apply"
CHANGES_SEED = 7
TRANSACTIONS = 300
WORKLOAD_SCALE = 1.2
"""Of the sandbox's workload, at the demo's scale 1: 300,000 rows in three tables."""
QUIET_LOG = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
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
    os.environ["CDC_ENGINE"] = engine
    _require_sandbox_settings(home)
    _start_from_empty(home, steps)
    scale *= WORKLOAD_SCALE
    home.use_dagster()
    with running_sandbox(home.sandbox, scale=scale, fresh=True) as sandbox:
        steps.say(sandbox.ready)
        first = _run_job(steps, f"first run: whole snapshots, engine {engine}")
        _send_changes(home, steps, scale)
        second = _run_job(steps, "second run: only what changed")
        steps.say("comparing all columns of all rows, the source read with pytds")
        database = Database.of(DATABASE, load_settings().databases[DATABASE])
        source = home.sandbox / f"{DATABASE}.admin.odbc"
        status = show_comparison(console, database, source, (first, second))
    console.print("See it in the browser: make dev")
    return status


def _require_sandbox_settings(home: Home) -> None:
    """The demo empties its lake first: it must never be somebody's own database."""
    database = load_settings().databases.get(DATABASE)
    if database is None or not home.uses_sandbox(database):
        raise SettingsError(
            f"the demo loads the database {DATABASE} from the sandbox, and tables.yaml names"
            " another source",
            hint="Unset CDC_SALES_CONNECTION, or run `cdc-assets sync` for your own database.",
        )


def _start_from_empty(home: Home, steps: _Steps) -> None:
    refuse_running(home.sandbox)
    old = [home.state / name for name in STATE_FOLDERS if (home.state / name).exists()]
    if old:
        steps.say(f"starting from empty: removing what an earlier run left in {home.state}")
    for folder in old:
        shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One Dagster run: rows appended to bronze and their seconds by table, and seconds in all."""

    rows: dict[str, int]
    table_seconds: dict[str, float]
    seconds: float


def _run_job(steps: _Steps, what: str) -> DemoRun:
    """Run the job as Dagster does, on the instance in DAGSTER_HOME."""
    steps.say(what)
    started = time.monotonic()
    with dg.DagsterInstance.get() as instance:
        job = defs().resolve_job_def(JOB)
        result = job.execute_in_process(
            run_config=QUIET_LOG, instance=instance, raise_on_error=False
        )
        if not result.success:
            failed = next((e for e in result.all_events if e.is_step_failure), None)
            raise DemoFailedError(
                _why(failed.step_failure_data if failed else None),
                hint="`make dev` shows the run.",
            )
    rows: dict[str, int] = {}
    table_seconds: dict[str, float] = {}
    for event in result.get_asset_materialization_events():
        materialization = event.step_materialization_data.materialization
        _, layer, table = materialization.asset_key.path
        if layer == "bronze":
            told = {name: value.value for name, value in materialization.metadata.items()}
            rows[table] = int(str(told["cdc/rows"]))
            table_seconds[table] = float(str(told["cdc/duration_seconds"]))
    seconds = time.monotonic() - started
    total = sum(rows.values())
    steps.say(f"  {total:,} rows in {seconds:.1f} s, {total / seconds:,.0f} rows/s")
    return DemoRun(rows, table_seconds, seconds)


def _why(failed: StepFailureData | None) -> str:
    """What a failed step says of itself, in one line."""
    if failed is None:
        return "the run failed"
    told = failed.user_failure_data.description if failed.user_failure_data else None
    return (told or str(failed.error_display_string)).strip().splitlines()[0].rstrip(".")


def _send_changes(home: Home, steps: _Steps, scale: float) -> None:
    """Inserts, updates, deletes and key updates, over the wire as T-SQL, and one capture step."""
    changes = Changes(Scale.of(scale), seed=CHANGES_SEED)
    with wire((home.sandbox / f"{DATABASE}.admin.odbc").read_text()) as cursor:
        for text in changes.batches(TRANSACTIONS):
            cursor.execute(text)
        cursor.execute("EXEC sandbox.capture_now")
    steps.say(
        f"sent {TRANSACTIONS} transactions over the wire: inserts, updates, deletes, new keys"
    )


def show_comparison(
    console: Console, database: Database, source: Path, runs: tuple[DemoRun, DemoRun]
) -> int:
    """Compare every table and print how it went; exit status 1 where one differs."""
    control = database.lake.control.read()
    shown = Table(box=SIMPLE, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for column in ("table", "source", "silver", "compared", "until"):
        shown.add_column(column, no_wrap=True)
    for column in ("loaded", "rows/s", "changed"):
        shown.add_column(column, justify="right", no_wrap=True)
    different = []
    for table in database.settings.tables:
        schema, _, name = database.settings.instance_of(table).partition("_")
        found = compare(database, table, schema, name, source)
        row = control.get(database.table(table).silver)
        shown.add_row(*_cells(found, row, runs))
        if not found.identical:
            different.append(found)
    console.print(shown)
    for name, run in zip(("first run", "second run"), runs, strict=True):
        console.print(f"{name}: {sum(run.rows.values()):,} rows in {run.seconds:.1f} s")
    for found in different:
        console.print(f"{found.table} differs, first: {found.first_difference}", markup=False)
    console.print("Different." if different else "Every table is identical.")
    return 1 if different else 0


def _cells(
    found: Comparison, row: ControlRow | None, runs: tuple[DemoRun, DemoRun]
) -> tuple[str, ...]:
    first, second = runs
    until = row.finalized_until if row else None
    loaded = first.rows.get(found.table, 0)
    return (
        found.table,
        f"{found.source_rows:,}",
        f"{found.silver_rows:,}",
        "identical" if found.identical else f"{found.missing + found.surplus} differ",
        f"{until:%H:%M:%S}" if until else "not yet",
        f"{loaded:,}",
        f"{loaded / max(first.table_seconds.get(found.table, first.seconds), 0.001):,.0f}",
        f"{second.rows.get(found.table, 0):,}",
    )
