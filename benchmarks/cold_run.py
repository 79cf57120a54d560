"""A whole Dagster run from a cold process, next to one that does nothing."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from benchmarks.harness import (
    ROUNDS,
    Benchmark,
    Comparison,
    Context,
    Figure,
    Samples,
    alternate,
    ratio,
)
from benchmarks.source import CA_FILE, CAPTURE_NOW, NAME, READER_FILE, Source, running_source
from cdc_assets.engines.database import Database
from cdc_assets.settings import load_settings
from cdc_assets.settings.load import SETTINGS_VARIABLE

CHANGES_PER_TABLE = 1_000
LINES_PER_ORDER = 4
WORKLOAD_FLOOR = 0.2
"""The smallest scale of the demo's tables: a thousand customers."""
JOB = ("cdc_assets.definitions", f"{NAME}_sync_and_apply")
EMPTY_JOB = ("benchmarks.empty", "empty")

_PROJECT = Path(__file__).parent.parent
_RUN_SECONDS_MAX = 300


def run(context: Context) -> Sequence[Figure]:
    """Change the demo's tables, run our job, and by turns a job of one empty asset."""
    workload = max(context.scale, WORKLOAD_FLOOR)
    with running_source(context.folder / "sandbox", workload=workload) as source:
        environment = _home(context.folder, source)
        _execute(JOB, environment)  # the snapshots

        cpu: dict[str, list[float]] = {"ours": [], "empty": []}

        def ours() -> float:
            source.execute(*_changes(), CAPTURE_NOW)
            return _timed(JOB, environment, cpu["ours"])

        def empty() -> float:
            return _timed(EMPTY_JOB, environment, cpu["empty"])

        samples = alternate({"empty": empty, "ours": ours})
    _check(Path(environment[SETTINGS_VARIABLE]))
    details = {
        "changes_per_table": CHANGES_PER_TABLE,
        "workload_scale": workload,
        "ours": samples["ours"].described(),
        "empty": samples["empty"].described(),
        **{
            f"{name}_cpu": Samples(tuple(spent[-ROUNDS:])).described()
            for name, spent in cpu.items()
        },
    }
    return [Figure(ratio(samples["ours"], samples["empty"]), details)]


def _home(folder: Path, source: Source) -> Mapping[str, str]:
    """Dagster's home and a settings file like the demo's, both fresh."""
    home = folder / "dagster"
    home.mkdir()
    shutil.copyfile(_PROJECT / "dagster.yaml", home / "dagster.yaml")
    demo = yaml.safe_load((_PROJECT / "tables.yaml").read_text(encoding="utf-8"))
    database = demo["databases"][NAME]
    database["connection"] = f"file:{source.state / READER_FILE}"
    database["ca_file"] = str(source.state / CA_FILE)
    database["lake"] = str(folder / "lake")
    settings = folder / "tables.yaml"
    settings.write_text(yaml.safe_dump(demo), encoding="utf-8")
    load_settings(settings)
    return {"DAGSTER_HOME": str(home), SETTINGS_VARIABLE: str(settings)}


def _check(settings_file: Path) -> None:
    """Raise where a run did not bring changes of every table."""
    settings = load_settings(settings_file).databases[NAME]
    database = Database.of(NAME, settings)
    for key in settings.tables:
        batches = database.lake.facts.batches(database.table(key).bronze)
        found = sum(1 for batch in batches if batch.rows)
        if found <= ROUNDS:
            raise ValueError(f"{key} has {found} batches with rows after more than {ROUNDS} runs")


def _timed(job: tuple[str, str], environment: Mapping[str, str], cpu: list[float]) -> float:
    """Seconds of one run; its processor time goes into `cpu`."""
    before, started = _children_cpu(), time.perf_counter()
    _execute(job, environment)
    seconds = time.perf_counter() - started
    cpu.append(_children_cpu() - before)
    return seconds


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _execute(job: tuple[str, str], environment: Mapping[str, str]) -> None:
    module, name = job
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "job", "execute", "-m", module, "-j", name],
        cwd=_PROJECT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines()[-5:]
        raise RuntimeError(f"job {name} failed: {' | '.join(said)}")


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
