"""Writing rows, wherever they come from, as one commit of bronze."""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator
from typing import Protocol

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from cdc_assets.contract import Column
from cdc_assets.errors import CdcError, expected
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.files import (
    LARGE_VALUES_GROUP_BYTES,
    Place,
    commit_files,
    takes_files,
    write_files,
)
from cdc_assets.lake.tables import (
    StorageOptions,
    columns_of,
    commit_properties,
    retry_conflicts,
    table_to_append,
)
from cdc_assets.planning.plans import AppendPlan, AppendResult, total_wait_ms
from cdc_assets.sqlserver.odbc_errors import ValueTooLargeError
from cdc_assets.sqlserver.read import arrow_schema
from cdc_assets.sqlserver.types import arrow_type


class Rows(Protocol):
    """Rows on their way into one commit, and what was seen of them."""

    @property
    def rows(self) -> int:
        """How many have passed."""
        ...

    @property
    def bytes(self) -> int:
        """How many bytes they had."""
        ...

    @property
    def waits(self) -> list[int | None]:
        """How many milliseconds the server waited for each range; None where it was not told."""
        ...

    @property
    def error(self) -> Exception | None:
        """What ended them early."""
        ...

    def batches(self) -> Generator[pa.RecordBatch]:
        """Non-empty batches of the plan's columns."""
        ...


def append_rows(plan: AppendPlan, options: StorageOptions, rows: Rows) -> AppendResult:
    """Append rows that are read once: a lost conflict is an error, and a rerun finds what is there.

    Nothing is read where the plan's tag is committed already. Raises `CommitConflictError`, and
    as the engine's `append` does where the lake fails or bronze was replaced.
    """
    with lake_failures(plan.uri):
        table = table_to_append(plan, options)
        if table is None:
            return AppendResult(committed=False)
        return retry_conflicts(lambda: write(table, plan, rows), where=plan.table, attempts_max=1)


def write(
    table: DeltaTable, plan: AppendPlan, reading: Rows, large: Place | None = None
) -> AppendResult:
    """Write the rows as one commit; `large` is where the files go where values are large."""
    started = time.monotonic()
    batches = reading.batches()
    try:
        first = next(batches, None)
        if first is None and not plan.keeps_empty:
            return AppendResult(committed=False)
        columns = all_columns(table, plan.columns)
        read = itertools.chain((first,), batches) if first is not None else ()
        rows = (_padded(batch, columns) for batch in read)
        new_columns = len(columns) > len(table.schema().fields)
        schema = arrow_schema(columns)
        if large is not None and takes_files(table, columns):
            files = write_files(large, schema, rows, LARGE_VALUES_GROUP_BYTES)
            commit_files(table, files, commit_properties(plan.tag))
        else:
            write_deltalake(
                table,
                pa.RecordBatchReader.from_batches(schema, rows),
                mode="append",
                schema_mode="merge" if new_columns else None,
                commit_properties=commit_properties(plan.tag),
            )
    except Exception:
        # An error of the source crosses delta-rs as text; the original says what to do.
        if reading.error is None:
            raise
        if isinstance(reading.error, (CdcError, ValueTooLargeError)):
            raise reading.error from None
        # What nobody foresaw of a read is no failure of the lake.
        raise expected(reading.error) from reading.error
    finally:
        batches.close()
    return AppendResult(
        committed=True,
        rows=reading.rows,
        read_seconds=time.monotonic() - started,
        read_mb=reading.bytes / 1e6,
        network_wait_ms=total_wait_ms(reading.waits),
    )


def all_columns(table: DeltaTable, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns, and those that the table has besides: delta-rs appends no fewer."""
    given = {column.name for column in columns}
    return (*columns, *(c for c in columns_of(table) if c.name not in given))


def _padded(batch: pa.RecordBatch, columns: tuple[Column, ...]) -> pa.RecordBatch:
    """A batch with NULL in the columns that were not read."""
    more = columns[batch.num_columns :]
    if not more:
        return batch
    nulls = [pa.nulls(batch.num_rows, arrow_type(column.type)) for column in more]
    return pa.RecordBatch.from_arrays([*batch.columns, *nulls], schema=arrow_schema(columns))
