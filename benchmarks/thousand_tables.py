"""What a thousand tables cost Dagster: to load, to describe, and at each tick of a sensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import dagster as dg
import yaml
from dagster._core.remote_representation.external_data import (
    RepositorySnap,  # what a code location sends to the webserver; Dagster exports no name for it
)
from dagster._serdes import serialize_value

from benchmarks.harness import Action, Benchmark, Comparison, Context, Figure, repeat, timed
from cdc_assets.clock import utc_now
from cdc_assets.contract import Event
from cdc_assets.engines.database import Database
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lsn import Lsn
from cdc_assets.orchestration.build import build_definitions
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.settings import load_settings

TABLES = 1_000
SENSORS = ("silver_waves", "backfill_waves", "finality", "alerts")
"""Those that run by default, and the one that a webhook brings; none of them asks the source."""
QUIET_ROWS = 12
"""Batch rows of each table in the facts: an hour of a quiet one."""
QUIET_EVERY = timedelta(minutes=5)

_SNAPSHOT, _END = Lsn.of_int(1_000), Lsn.of_int(2_000)


def run(context: Context) -> Sequence[Figure]:
    """Definitions, their snapshot, and a tick of each sensor over a lake with that many tables."""
    count = max(10, round(TABLES * context.scale))
    file = _settings(context.folder, count)
    _bookkeeping(file)
    build = repeat(timed(lambda: build_definitions(load_settings(file), file)))
    sizes: list[int] = []

    def snapshot() -> None:
        definitions = build_definitions(load_settings(file), file)
        snap = RepositorySnap.from_def(definitions.get_repository_def())
        sizes.append(len(serialize_value(snap)))

    whole = repeat(timed(snapshot), warmups=0)
    definitions = build_definitions(load_settings(file), file)
    told = {"tables": count}
    home = context.folder / "dagster"
    home.mkdir()
    with dg.instance_for_test(temp_dir=str(home)) as instance:
        ticks = {name: repeat(_tick(definitions, instance, name)) for name in SENSORS}
    slowest = max(ticks.values(), key=lambda samples: samples.median)
    return [
        Figure(build.median, {**told, "build": build.described()}),
        Figure(
            whole.median,
            {**told, "whole": whole.described(), "snapshot_mb": round(sizes[-1] / 1e6, 1)},
        ),
        Figure(slowest.median, {**told, **{name: one.described() for name, one in ticks.items()}}),
    ]


def _tick(definitions: dg.Definitions, instance: dg.DagsterInstance, name: str) -> Action:
    """A tick of a sensor from where the one before has left its cursor."""
    cursor: list[str | None] = [None]

    def tick() -> None:
        sensor = definitions.resolve_sensor_def(f"sales_{name}")
        with dg.build_sensor_context(
            instance=instance,
            cursor=cursor[0],
            definitions=definitions,
            resources=definitions.resources,
        ) as sensor_context:
            found = sensor.evaluate_tick(sensor_context)
        cursor[0] = found.cursor or cursor[0]

    return timed(tick)


def _settings(folder: Path, count: int) -> Path:
    """A `tables.yaml` of so many tables, each with an owner, judged by the hour."""
    file = folder / "tables.yaml"
    tables = {f"dbo_table_{number:04d}": {"owner": "team:sales"} for number in range(count)}
    webhook = {"webhook": "http://127.0.0.1:9/nobody"}  # Nothing is wrong: nobody is told.
    database = {"lake": "lake", "alerts": webhook, "tables": tables}
    file.write_text(yaml.safe_dump({"databases": {"sales": database}}))
    return file


def _bookkeeping(file: Path) -> None:
    """The small tables as a thousand loaded ones leave them, an hour of quiet rows among them."""
    database = Database.of("sales", load_settings(file).databases["sales"])
    names = [database.table(table) for table in database.settings.tables]
    now = utc_now()
    loaded = now - timedelta(days=1)
    created = loaded - timedelta(days=30)
    rows = [
        FactsRow(
            target=name.bronze,
            rows=1_000,
            min_lsn=str(_SNAPSHOT),
            max_lsn=str(_SNAPSHOT),
            min_commit_ts=loaded,
            max_commit_ts=loaded,
            started_at=loaded,
            written_at=loaded,
            event=Event.BOOTSTRAP,
            detail="{}",
        )
        for name in names
    ]
    for number in reversed(range(QUIET_ROWS)):
        at = now - number * QUIET_EVERY
        rows += [
            FactsRow(
                target=name.bronze,
                rows=0,
                started_at=at,
                written_at=at,
                end_lsn=str(_END),
                end_commit_ts=at,
                retention_watermark_ts=at - timedelta(days=3),
                retention_headroom_hours=72.0,
            )
            for name in names
        ]
    database.lake.facts.append([FactsEntry(tuple(rows))])
    until = now.replace(minute=0, second=0, microsecond=0)
    moved = ControlRow("", finalized_until=until, end_lsn=str(_END), end_commit_ts=now)
    applied = str(_SNAPSHOT)
    rows_of = [
        (
            replace(moved, table_name=n.bronze, instance_created_at=created, table_id=n.key),
            replace(
                moved,
                table_name=n.silver,
                table_id=n.key,
                applied_lsn=applied,
                snapshot_lsn=applied,
            ),
        )
        for n in names
    ]
    database.lake.control.update(lambda _: [row for pair in rows_of for row in pair])


BENCHMARK = Benchmark(
    name="thousand_tables",
    what="1,000 tables with bronze, silver, final hours and five checks each",
    comparisons=(
        Comparison("a fixed time: building `Definitions`", "s", target=3.0),
        Comparison("the time hoped for: that, the repository, and its snapshot", "s", target=6.0),
        Comparison("a fixed time: the slowest sensor's tick, evaluated", "s", target=1.0),
    ),
    run=run,
)
