"""The rows of a copy as a snapshot's: columns matched by name, values as `fitting` has them."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.types as pt

from cdc_assets.contract import Column
from cdc_assets.engines.fitting import fitted, fitting
from cdc_assets.errors import SeedRefusedError, first_line
from cdc_assets.planning.columns import find_name, listed
from cdc_assets.sqlserver.catalog import Captured, CapturedColumn
from cdc_assets.sqlserver.read import arrow_schema
from cdc_assets.sqlserver.types import arrow_type

TRIAL_ROWS_MAX = 10_000
"""Rows of a copy that are fitted before anything is written: what is amiss is so mostly in all."""


class ArrowStream(Protocol):
    """Whatever gives Arrow batches: pyarrow's tables and readers, pandas, Polars, DuckDB, Spark."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule of a stream."""
        ...


def as_reader(copy: ArrowStream) -> pa.RecordBatchReader:
    """A copy as a stream of batches; raises `SeedRefusedError` for what is none."""
    if isinstance(copy, pa.RecordBatchReader):
        return copy
    if not hasattr(copy, "__arrow_c_stream__"):
        raise SeedRefusedError(
            f"a {type(copy).__name__} gives no Arrow data",
            hint="Pass a pyarrow, pandas, Polars or Spark table, or a pyarrow.RecordBatchReader.",
        )
    return pa.RecordBatchReader.from_stream(copy)


def places_of(schema: pa.Schema, captured: Captured) -> dict[str, int]:
    """Where the copy has each column that a snapshot selects, by its name in the lake.

    A column may have its name in the lake or at the source, in any case; further ones are left
    out. Raises `SeedRefusedError` for a missing one and for a type that does not fit.
    """
    places = {}
    for column in captured.columns:
        if not column.is_read:
            continue
        found = find_name(column.name, schema.names) or find_name(column.source_name, schema.names)
        if found is None or schema.names.count(found) != 1:
            raise SeedRefusedError(
                f"the copy has not one column {column.source_name}",
                hint=f"It has: {listed(schema.names)}.",
            )
        place = schema.get_field_index(found)
        _check_type(column, schema.field(place).type)
        places[column.name] = place
    return places


def _check_type(column: CapturedColumn, given: pa.DataType) -> None:
    kind = given.value_type if pt.is_dictionary(given) else given
    if not (pt.is_null(kind) or any(fits(kind) for fits in fitting(column.column.type))):
        raise SeedRefusedError(
            f"column {column.source_name} is {given} in the copy, and {column.type.name} in the"
            f" table, which is {column.column.type} in the lake",
            hint="Cast it in the copy.",
        )


def looked_at(
    reader: pa.RecordBatchReader, captured: Captured, places: Mapping[str, int]
) -> Iterator[pa.RecordBatch]:
    """All batches of a copy, its first rows fitted on trial: nothing has to be written to refuse.

    Raises `SeedRefusedError` for a value that does not fit and where the copy cannot be read.
    """
    batches = _read(reader)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return iter(())
    trial = first.slice(0, TRIAL_ROWS_MAX)
    for column in captured.columns:
        if column.name in places:
            fitted(trial.column(places[column.name]), column)
    return itertools.chain((first,), batches)


def _read(reader: pa.RecordBatchReader) -> Generator[pa.RecordBatch]:
    try:
        yield from reader
    except Exception as error:
        # Said here: beside a write it would pass for an error of the lake.
        raise SeedRefusedError(
            f"the copy cannot be read: {type(error).__name__}: {first_line(str(error))}",
            hint="Read it again.",
        ) from error


@dataclass(slots=True)
class CopyRows:
    """A copy as an append's rows; see `engines.arrow.appending.Rows`."""

    copy: Iterable[pa.RecordBatch]
    columns: tuple[Column, ...]
    captured: Captured
    places: Mapping[str, int]
    constants: Mapping[str, str | None]
    rows: int = 0
    bytes: int = 0
    waits: list[int | None] = field(default_factory=list)
    error: Exception | None = None

    def batches(self) -> Generator[pa.RecordBatch]:
        """Its batches, of exactly `columns`; raises `SeedRefusedError` for a value that is cut."""
        try:
            for batch in self.copy:
                if batch.num_rows:
                    ours = self._fit(batch)
                    self.rows += ours.num_rows
                    self.bytes += sum(ours.column(name).nbytes for name in self.places)
                    yield ours
        except Exception as error:
            self.error = self.error or error
            raise

    def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        known = {column.name: column for column in self.captured.columns}
        arrays = []
        for column in self.columns:
            place = self.places.get(column.name)
            if place is not None:
                arrays.append(fitted(batch.column(place), known[column.name]))
            else:
                value = pa.scalar(self.constants.get(column.name)).cast(arrow_type(column.type))
                arrays.append(pa.repeat(value, batch.num_rows))
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self.columns))
