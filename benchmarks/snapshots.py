"""Whole snapshots of the measured table as the product takes them: one sync into an empty lake."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.bare import Query
from benchmarks.harness import Action
from benchmarks.source import Source, reading
from cdc_assets.contract import SnapshotMode
from cdc_assets.engines.database import Database
from cdc_assets.ingest.backfill import backfill
from cdc_assets.ingest.columns import columns_to_load
from cdc_assets.ingest.ranges import snapshot_ranges
from cdc_assets.ingest.sync import sync
from cdc_assets.sqlserver.catalog import capture_instances

CONNECTIONS = 2
"""Connections that read the table; the settings' default."""


def take(database: Database, table: str) -> int:
    """Poll, open the snapshot, read it, record it; gives the rows."""
    outcome = sync(database, [table]).outcomes[table]
    if outcome.error is not None:
        raise outcome.error
    return outcome.rows


def chunked(database: Database, table: str, chunk_rows: int) -> int:
    """Open a snapshot that is read in chunks, and read it to its end; gives the rows."""
    settings = database.settings
    own = settings.tables[table].model_copy(
        update={"snapshot": SnapshotMode.CHUNKED, "chunk_rows": chunk_rows}
    )
    tables = {**settings.tables, table: own}
    changed = settings.model_copy(update={"tables": tables})
    in_chunks = Database.of(database.name.key, changed)
    take(in_chunks, table)
    outcome = backfill(in_chunks, table)
    if not outcome.done:
        raise RuntimeError(f"the backfill ended before its snapshot did: {outcome.reason}")
    return outcome.rows


def planned_queries(source: Source, table: str, lake: Path) -> tuple[Query, ...]:
    """What a snapshot reads the table with, a query for each connection."""
    database = source.database(lake)
    with reading(source) as connection:
        instance = capture_instances(connection)[table]
        columns = columns_to_load(database, database.table(table), connection, instance, None)
        found = snapshot_ranges(connection, instance, columns, CONNECTIONS)
    if len(found) != CONNECTIONS:
        raise ValueError(f"the snapshot has {len(found)} ranges, not {CONNECTIONS}")
    return found


def into_folders(folder: Path, rows: int, work: Callable[[Path], int]) -> Action:
    """An action that writes so many rows into a new folder each time, which then is removed."""
    count = 0

    def action() -> float:
        nonlocal count
        count += 1
        place = folder / str(count)
        started = time.perf_counter()
        written = work(place)
        seconds = time.perf_counter() - started
        if written != rows:
            raise ValueError(f"{written} rows were written of {rows}")
        shutil.rmtree(place)
        return seconds

    return action
