"""Tables whose snapshot is read in chunks, for the tests of backfills."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cdc_assets.contract import Event
from cdc_assets.ingest.backfill import backfill
from cdc_assets.ingest.outcome import BackfillOutcome
from cdc_assets.planning.records import FactsRow
from cdc_assets_tests.path.helpers import COLUMNS, create_items, load, purge, run_sync
from cdc_assets_tests.source import Project

TABLE = "dbo_items"


def chunked(project: Project, rows: int = 9, chunk_rows: int = 2, **extra: Any) -> Project:
    """dbo.items with rows, to be read two at a time in chunks of two rows."""
    create_items(project.source, rows)
    project.tables = {TABLE: {"snapshot": "chunked", "chunk_rows": chunk_rows}}
    project.extra = {"num_partitions": 2, **extra}
    return project


def run_backfill(project: Project, **limits: Any) -> BackfillOutcome:
    """One call."""
    return backfill(project.database(), TABLE, **limits)


def lost(project: Project) -> None:
    """A chunked bootstrap, a wave of it read, whose changes cleanup has overtaken."""
    chunked(project, defaults={"min_headroom_hours": 0})
    run_sync(project)
    run_backfill(project, max_waves=1)
    purge(project.source)


def events(project: Project, *kinds: Event) -> list[FactsRow]:
    """The events of these kinds, in order; all without any."""
    found = project.database().lake.facts.events(with_chunks=True)
    return [row for row in found if not kinds or row.event in kinds]


def assert_complete(project: Project) -> None:
    """Silver is the source, and no row of a snapshot came twice."""
    load(project)
    project.assert_identical(TABLE, COLUMNS)
    project.assert_each_change_once(TABLE)
    rows = [row for row in project.bronze(TABLE) if row["_operation"] == 0]
    assert max(Counter((r["_snapshot"], r["id"]) for r in rows).values(), default=1) == 1
