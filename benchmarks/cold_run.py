"""A whole Dagster run from a cold process, next to one that does nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.dagster_runs import Home, Job
from benchmarks.harness import (
    ROUNDS,
    Benchmark,
    Comparison,
    Context,
    Figure,
    alternate,
    ratio,
)
from benchmarks.source import CA_FILE, CAPTURE_NOW, NAME, READER_FILE, Source, running_source
from cdc_assets.engines.database import Database
from cdc_assets.settings import load_settings

CHANGES_PER_TABLE = 1_000
LINES_PER_ORDER = 4
WORKLOAD_FLOOR = 0.2
"""The smallest scale of the demo's tables: a thousand customers."""
JOB = Job("cdc_assets.definitions", f"{NAME}_sync_and_apply")
EMPTY_JOB = Job("benchmarks.empty", "empty")

_DEMO = Path(__file__).parent.parent / "tables.yaml"


def run(context: Context) -> Sequence[Figure]:
    """Change the demo's tables, run our job, and by turns a job of one empty asset."""
    workload = max(context.scale, WORKLOAD_FLOOR)
    with running_source(context.folder / "sandbox", workload=workload) as source:
        home = Home.of(context.folder, _settings(context.folder, source))
        home.execute(JOB)  # the snapshots

        def ours() -> float:
            source.execute(*_changes(), CAPTURE_NOW)
            return home.timed(JOB)

        samples = alternate({"empty": lambda: home.timed(EMPTY_JOB), "ours": ours})
    _check(home.settings_file)
    details = {
        "changes_per_table": CHANGES_PER_TABLE,
        "workload_scale": workload,
        "installed": "the locked packages of no extra: neither Spark nor pandas",
        "ours": samples["ours"].described(),
        "empty": samples["empty"].described(),
        "ours_cpu": home.cpu_of(JOB),
        "empty_cpu": home.cpu_of(EMPTY_JOB),
    }
    return [Figure(ratio(samples["ours"], samples["empty"]), details)]


def _settings(folder: Path, source: Source) -> dict[str, Any]:
    """Settings like the demo's."""
    demo: dict[str, Any] = yaml.safe_load(_DEMO.read_text(encoding="utf-8"))
    database = demo["databases"][NAME]
    database["connection"] = f"file:{source.state / READER_FILE}"
    database["ca_file"] = str(source.state / CA_FILE)
    database["lake"] = str(folder / "lake")
    return demo


def _check(settings_file: Path) -> None:
    """Raise where a run did not bring changes of every table."""
    settings = load_settings(settings_file).databases[NAME]
    database = Database.of(NAME, settings)
    for key in settings.tables:
        batches = database.lake.facts.batches(database.table(key).bronze)
        found = sum(1 for batch in batches if batch.rows)
        if found <= ROUNDS:
            raise ValueError(f"{key} has {found} batches with rows after more than {ROUNDS} runs")


def _changes() -> Sequence[str]:
    """1,000 rows of each table; line items have about four rows an order."""
    return (
        "UPDATE dbo.customer SET account_balance = account_balance + 1,"
        f" updated_at = SYSUTCDATETIME() WHERE customer_id <= {CHANGES_PER_TABLE}",
        "UPDATE dbo.orders SET total_price = total_price + 1, status = 'P'"
        f" WHERE order_id <= {CHANGES_PER_TABLE}",
        "UPDATE dbo.lineitem SET quantity = quantity + 1"
        f" WHERE order_id <= {CHANGES_PER_TABLE // LINES_PER_ORDER}",
    )


BENCHMARK = Benchmark(
    name="cold_run",
    what="the demo's three tables, 1,000 changes each, as a whole Dagster run from a cold process",
    comparisons=(
        Comparison("a job of one empty asset, started the same way", "of its time", target=1.4),
    ),
    run=run,
)
