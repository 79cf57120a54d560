"""`cdc-assets seed`: a copy in Parquet becomes a table's first snapshot."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import dataset
from rich.console import Console

from cdc_assets.cli.sync import database_of
from cdc_assets.errors import SeedRefusedError
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.seeding import seed


def run_seed(key: str, table: str, file: Path, as_of: str) -> int:
    """Seed a table, and say from where its changes go on."""
    database = database_of(key, [table])
    outcome = seed(database, table, _copy(file), as_of)
    done = "was seeded before" if outcome.work is Work.QUIET else "is seeded"
    at = outcome.end.lsn if outcome.end else ""
    Console(soft_wrap=True, highlight=False).print(
        f"{key}.{table} {done}: {outcome.rows:,} rows; its changes start after {at}."
    )
    return 0


def _copy(file: Path) -> pa.RecordBatchReader:
    try:
        return dataset.dataset(file, format="parquet").scanner().to_reader()
    except (OSError, pa.ArrowInvalid) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise SeedRefusedError(f"{file} is no Parquet: {reason}") from None
