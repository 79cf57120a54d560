"""The limit of our reads: the same query through arrow-odbc, and nothing done with its rows.

Or as little as a lake needs: each connection's rows in one Parquet file.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import arrow_odbc
import pyarrow.parquet as pq

from benchmarks.source import Source, bare_connection
from cdc_assets.sqlserver.connection import BYTES_PER_BATCH_MAX, ROWS_PER_BATCH_MAX

Query = tuple[str, tuple[str, ...]]
"""A text and its parameters."""


def read_bare(source: Source, query: str, parameters: Sequence[str] = ()) -> int:
    """Fetch every batch on a new connection; gives the number of rows."""
    reader = _reader(source, query, parameters)
    return sum(batch.num_rows for batch in reader) if reader else 0


def write_bare(source: Source, queries: Sequence[Query], folder: Path) -> int:
    """Fetch several queries, each on a connection and in a thread, to a file each; gives the rows.

    As pyarrow writes Parquet where it is told nothing: Snappy, dictionaries, statistics.
    """
    folder.mkdir(parents=True)
    with ThreadPoolExecutor(len(queries)) as pool:
        files = [folder / f"{number}.parquet" for number in range(len(queries))]
        return sum(pool.map(lambda query, file: _write(source, query, file), queries, files))


def _write(source: Source, query: Query, file: Path) -> int:
    reader = _reader(source, *query)
    with pq.ParquetWriter(file, reader.schema) as writer:
        rows = 0
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _reader(source: Source, query: str, parameters: Sequence[str]) -> arrow_odbc.BatchReader:
    """Batches as large as ours; the next one is fetched while this one is handed over."""
    return bare_connection(source).read_arrow_batches(
        query=query,
        parameters=list(parameters) or None,
        batch_size=ROWS_PER_BATCH_MAX,
        max_bytes_per_batch=BYTES_PER_BATCH_MAX,
        fetch_concurrently=True,
        payload_text_encoding=arrow_odbc.TextEncoding.UTF16,
    )
