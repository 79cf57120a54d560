"""What an apply costs late in a chunked snapshot: as much as early on, whatever was read before.

Without changes beside the waves: what those cost depends on the files of silver that they touch.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.harness import Benchmark, Comparison, Context, Figure, alternate, ratio
from benchmarks.opened import opened_files
from benchmarks.orders import INSTANCE
from benchmarks.source import Source, running_source
from cdc_assets.contract import SnapshotMode
from cdc_assets.engines.database import Database
from cdc_assets.ingest.backfill import backfill
from cdc_assets.ingest.sync import sync
from cdc_assets.settings.tables import TableSettings
from cdc_assets.silver.apply import apply_changes

EARLY, LATE = 2, 40
"""Waves that have been read; silver has all but the last of them."""
CHUNKS_PER_WAVE = 2
CHUNK_ROWS = 10_000


def run(context: Context) -> Sequence[Figure]:
    """One snapshot, kept as it is before the apply of each of the two waves; applies of copies."""
    chunk_rows = context.rows(CHUNK_ROWS)
    with running_source(context.folder / "sandbox") as source:
        source.load(chunk_rows * CHUNKS_PER_WAVE * (LATE + 2), captured=False)
        source.execute("EXEC sandbox.capture_now")
        kept = _kept(source, context, chunk_rows)
        samples = alternate({name: one.applied for name, one in kept.items()})
    early, late = kept["early"], kept["late"]
    details = {
        "chunk_rows": chunk_rows,
        "chunks_per_wave": CHUNKS_PER_WAVE,
        "logs": "checkpointed",
        "files_of_bronze": {name: one.files for name, one in kept.items()},
        "files_read": {name: len(one.opened) for name, one in kept.items()},
        "bytes_of_files_read": {name: one.bytes for name, one in kept.items()},
        **{name: taken.described() for name, taken in samples.items()},
    }
    return [
        Figure(ratio(samples["late"], samples["early"]), details),
        Figure(len(late.opened) / max(len(early.opened), 1), details),
    ]


@dataclass(slots=True)
class _Kept:
    """A lake before an apply, of which each round has a copy, and what that read of bronze."""

    source: Source
    lake: Path
    folder: Path
    chunk_rows: int
    opened: frozenset[str] = frozenset()
    bytes: int = 0
    files: int = 0
    copies: int = 0

    def applied(self) -> float:
        """The seconds of one apply."""
        self.copies += 1
        copy = self.folder / str(self.copies)
        shutil.copytree(self.lake, copy)
        database = _database(self.source, copy, self.chunk_rows)
        bronze = Path(database.table(INSTANCE).bronze_uri)
        with opened_files(str(bronze)) as opened:
            started = time.perf_counter()
            outcome = apply_changes(database, INSTANCE)
            seconds = time.perf_counter() - started
        if outcome.waves != 1:
            raise ValueError(f"{outcome.waves} waves were applied, not 1")
        self.opened, self.files = frozenset(opened), len(list(bronze.glob("*.parquet")))
        self.bytes = sum((bronze / name).stat().st_size for name in opened)
        shutil.rmtree(copy)
        return seconds


def _kept(source: Source, context: Context, chunk_rows: int) -> dict[str, _Kept]:
    lake = context.folder / "lake"
    database = _database(source, lake, chunk_rows)
    _sync(database)
    found: dict[str, _Kept] = {}
    for wave in range(1, LATE + 1):
        backfill(database, INSTANCE, max_waves=1)
        name = {EARLY: "early", LATE: "late"}.get(wave)
        if name is not None:
            copies = context.folder / f"{name}-copies"
            _checkpoint(lake)
            found[name] = _Kept(source, context.folder / name, copies, chunk_rows)
            shutil.copytree(lake, found[name].lake)
        apply_changes(database, INSTANCE)
    return found


def _checkpoint(lake: Path) -> None:
    """Bring every table's log to one file, as upkeep does: how long a log is, is not asked here."""
    for log in lake.rglob("_delta_log"):
        DeltaTable(str(log.parent)).create_checkpoint()


def _database(source: Source, lake: Path, chunk_rows: int) -> Database:
    plain = source.database(lake)
    table = TableSettings(snapshot=SnapshotMode.CHUNKED, chunk_rows=chunk_rows)
    settings = plain.settings.model_copy(
        update={"num_partitions": CHUNKS_PER_WAVE, "tables": {INSTANCE: table}}
    )
    return Database.of(plain.name.key, settings)


def _sync(database: Database) -> None:
    failed = sync(database).failed
    if failed:
        raise failed[0].error or ValueError(failed[0].table)


BENCHMARK = Benchmark(
    name="wave_apply",
    what=f"an apply after wave {LATE} of a chunked snapshot, its rows alone; warm process",
    comparisons=(
        Comparison(f"after wave {EARLY}", "of its time", target=1.2),
        Comparison(f"files of bronze that it opens after wave {EARLY}", "of them", target=1.0),
    ),
    run=run,
)
