"""Reading one planned range: the same code in a thread of the run and in a Spark task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cdc_assets.contract import Column
from cdc_assets.errors import DataLossError, UnsupportedColumnError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.plans import AppendPlan, Guard, ReadRange
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.connection import (
    LARGE_VALUE_BYTES_START,
    Connection,
    Connections,
    SourceConnection,
    connect,
)
from cdc_assets.sqlserver.odbc_errors import ValueTooLargeError
from cdc_assets.sqlserver.types import arrow_type, cast_column

SMALL_READ_ROWS = 2_000
"""Rows up to which a range is read into one buffer, of as many. More are fetched ahead, into two
of the settings' size, which cost more to prepare than a small read takes."""

COMMIT_TS, START_LSN = "_commit_ts", "_start_lsn"

T = TypeVar("T")

Lender = Callable[[], AbstractContextManager[Connection]]


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of declared columns, all nullable."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])


def read_range(
    source: SourceConnection,
    planned: ReadRange,
    columns: tuple[Column, ...],
    *,
    large_value_bytes: int = LARGE_VALUE_BYTES_START,
    connections: Connections | None = None,
    waited: Callable[[int | None], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read one range on a connection of its own, as batches of exactly `columns`.

    The connection is one of `connections` where they are given; a task in another process has
    none and opens its own. `waited` is told how many milliseconds the server waited for us.

    Raises after the last batch, so that the caller commits nothing before the iterator has ended:
    `SourceUnavailableError` where the connection is broken, which the driver may have taken for the
    end of the rows; `DataLossError` when the guard finds that cleanup passed the range, or when it
    gave another number of rows than was counted. Raises `ValueTooLargeError` for a (max) value
    that needs a larger buffer (`next_large_value_bytes`).
    """
    shape = _Shape(columns, planned)
    count = 0
    is_small = planned.rows is not None and planned.rows <= SMALL_READ_ROWS
    with connections.lend() if connections else connect(source) as connection:
        batches = connection.read(
            planned.text,
            planned.parameters,
            large_value_bytes=large_value_bytes,
            concurrently=not is_small,
            batch_rows_max=SMALL_READ_ROWS if is_small else None,
        )
        for batch in batches:
            fitted = shape.fit(batch)
            count += fitted.num_rows
            yield fitted
        if planned.guard is not None:
            check_guard(connection, planned.guard, where=source.name)
        else:
            connection.check_whole()
        if waited is not None and count:
            waited(connection.network_wait_ms())
    if planned.rows is not None and count != planned.rows:
        raise DataLossError(
            f"a range of {planned.rows} rows gave {count}",
            where=source.name,
            hint="Changes vanished while they were read; run again to see how far cleanup went.",
        )


def next_large_value_bytes(current: int, limit: int) -> int | None:
    """The next buffer to try for a value that did not fit, or None at the limit."""
    return min(current * 8, limit) if current < limit else None


def with_large_values(attempt: Callable[[int], T], plan: AppendPlan, source: Lender) -> T:
    """Make an append with the smallest fetch buffer that its largest (max) value fits.

    `attempt` takes the buffer for one value in bytes and starts over each time; `source` lends a
    connection to ask which value passes the limit. Raises `UnsupportedColumnError` for it.
    """
    large_value_bytes = LARGE_VALUE_BYTES_START
    while True:
        try:
            return attempt(large_value_bytes)
        except ValueTooLargeError:
            larger = next_large_value_bytes(large_value_bytes, plan.max_value_bytes)
            if larger is None:
                culprit = _largest_value(plan, source)
                raise UnsupportedColumnError(
                    f"{culprit}, more than max_value_bytes: {plan.max_value_bytes:,}",
                    where=plan.table,
                    hint="Raise `max_value_bytes` in tables.yaml, or leave the column out: list the"
                    " other columns under `columns`.",
                ) from None
            large_value_bytes = larger


def _largest_value(plan: AppendPlan, source: Lender) -> str:
    """Which column has the largest value of a plan's ranges, and how large it is."""
    asked = [planned for planned in plan.ranges if planned.largest]
    if not asked:
        return "a value is too large for its buffer"
    with source() as connection:
        found = [
            (size, planned.names[int(place[1:])])
            for planned in asked
            for place, size in connection.rows(planned.largest, planned.parameters)[0].items()
            if size is not None
        ]
    size, name = max(found)
    return f"column {name} has a value of {size:,} characters or bytes"


def check_guard(connection: Connection, guard: Guard, *, where: str) -> None:
    """Raise `DataLossError` when cleanup has passed the first LSN a read needed.

    Or when the instance was created anew meanwhile: then its low watermark says nothing.
    """
    asked = [guard.instance, queries.change_table(guard.instance)]
    row = connection.rows(queries.GUARD, asked)[0]
    if guard.change_object_id is not None and row["object_id"] != guard.change_object_id:
        raise DataLossError(
            f"capture instance {guard.instance} was re-created while it was read",
            where=where,
            hint="Changes in between were not captured: take a new snapshot of the table.",
        )
    watermark = Lsn.parse_optional(row["min_lsn"]) or guard.start_lsn
    if watermark is not None and watermark > guard.first_lsn:
        raise DataLossError(
            f"cleanup removed changes of {guard.instance} up to {watermark} while they were read"
            f" from {guard.first_lsn}",
            where=where,
            hint="Take a new snapshot of the table, and lengthen the CDC retention.",
        )


@dataclass(slots=True)
class _Shape:
    """Fits batches to the declared columns; remembers the latest commit time along the way."""

    columns: tuple[Column, ...]
    planned: ReadRange
    floor: datetime | None = field(init=False)
    schema: pa.Schema = field(init=False)
    constants: dict[str, pa.Array] = field(default_factory=dict)
    """The longest array of each constant so far: batches are of one size, but for the last."""

    def __post_init__(self) -> None:
        self.floor = self.planned.commit_ts_floor
        self.schema = arrow_schema(self.columns)

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = self.planned.names or batch.schema.names
        given = dict(zip(names, batch.columns, strict=True))
        arrays = []
        for column in self.columns:
            if column.name in given:
                array = cast_column(given[column.name], column.type)
                if column.name == COMMIT_TS:
                    array = self._commit_times(array, given[START_LSN])
            else:
                array = self._constant(column, batch.num_rows)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _constant(self, column: Column, rows: int) -> pa.Array:
        found = self.constants.get(column.name)
        if found is None or len(found) < rows:
            value = dict(self.planned.constants).get(column.name)
            found = self.constants[column.name] = _repeated(value, column.type, rows)
        return found.slice(0, rows)

    def _commit_times(self, local: pa.Array, lsns: pa.Array) -> pa.Array:
        times = local
        for index, step in enumerate(self.planned.utc_offsets):
            offset = pa.scalar(timedelta(minutes=step.minutes), pa.duration("us"))
            since = pc.subtract(local, offset)
            if index:
                # Texts of one width: their order is the order of LSNs.
                since = pc.if_else(pc.greater_equal(lsns, str(step.lsn)), since, times)
            times = since
        if self.floor is not None:
            times = pc.max_element_wise(times, pa.scalar(self.floor, pa.timestamp("us")))
        if len(times) == 0:
            return times
        # Rows come in LSN order, so a running maximum keeps times from going back.
        micros = pc.cumulative_max(times.cast(pa.int64()))
        times = micros.cast(pa.timestamp("us"))
        self.floor = times[-1].as_py()
        return times


def _repeated(value: str | None, type_text: str, rows: int) -> pa.Array:
    target = arrow_type(type_text)
    if value is None:
        return pa.nulls(rows, target)
    return pa.repeat(pa.scalar(value).cast(target), rows)
