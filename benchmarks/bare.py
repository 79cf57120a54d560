"""The limit of our reads: the same query through arrow-odbc, and nothing done with its rows."""

from __future__ import annotations

from collections.abc import Sequence

import arrow_odbc

from benchmarks.source import Source, bare_connection
from cdc_assets.sqlserver.connection import BYTES_PER_BATCH_MAX, ROWS_PER_BATCH_MAX


def read_bare(source: Source, query: str, parameters: Sequence[str] = ()) -> int:
    """Fetch every batch on a new connection; gives the number of rows.

    Batches are as large as ours, and the next one is fetched while this one is handed over.
    """
    reader = bare_connection(source).read_arrow_batches(
        query=query,
        parameters=list(parameters) or None,
        batch_size=ROWS_PER_BATCH_MAX,
        max_bytes_per_batch=BYTES_PER_BATCH_MAX,
        fetch_concurrently=True,
        payload_text_encoding=arrow_odbc.TextEncoding.UTF16,
    )
    return sum(batch.num_rows for batch in reader) if reader else 0
