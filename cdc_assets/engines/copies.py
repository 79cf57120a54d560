"""The rows of a copy as a snapshot's: columns matched by name, values cast where nothing is lost.

What reaches bronze must be what a read of the server gives: a key that is written otherwise would
be another row.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from cdc_assets.contract import Column
from cdc_assets.errors import SeedRefusedError
from cdc_assets.planning.columns import find_name, listed
from cdc_assets.sqlserver.catalog import Captured, CapturedColumn
from cdc_assets.sqlserver.read import arrow_schema
from cdc_assets.sqlserver.types import arrow_type

_GUID = r"^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$"
_TIME_WIDTHS = ((0, 8), (3, 12), (6, 15), (7, 16))
"""Up to so many digits of a second, a read gives so many characters."""


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
        if column.is_computed:
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
    if not (pt.is_null(kind) or any(fits(kind) for fits in _fitting(column.column.type))):
        raise SeedRefusedError(
            f"column {column.source_name} is {given} in the copy, and {column.type.name} in the"
            f" table, which is {column.column.type} in the lake",
            hint="Cast it in the copy.",
        )


def _fitting(declared: str) -> Sequence[Any]:
    """Which Arrow types may become a declared one."""
    if declared.startswith("DECIMAL"):
        return (pt.is_decimal, pt.is_integer)
    if declared in ("SMALLINT", "INT", "BIGINT"):
        # pandas has integers with NULLs among them as floating point.
        return (pt.is_integer, pt.is_floating)
    return {
        "BOOLEAN": (pt.is_boolean,),
        "FLOAT": (pt.is_floating, pt.is_integer),
        "DOUBLE": (pt.is_floating, pt.is_integer),
        "DATE": (pt.is_date,),
        "TIMESTAMP_NTZ": (lambda t: pt.is_timestamp(t) and t.tz is None,),
        "TIMESTAMP": (lambda t: pt.is_timestamp(t) and t.tz is not None,),
        "STRING": (pt.is_string, pt.is_large_string, pt.is_string_view, pt.is_time),
        "BINARY": (
            pt.is_binary,
            pt.is_large_binary,
            pt.is_binary_view,
            pt.is_fixed_size_binary,
        ),
    }[declared]


@dataclass(slots=True)
class CopyRows:
    """A copy as an append's rows; see `engines.arrow.Rows`."""

    reader: pa.RecordBatchReader
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
            for batch in self.reader:
                if batch.num_rows:
                    fitted = self._fit(batch)
                    self.rows += fitted.num_rows
                    self.bytes += fitted.nbytes
                    yield fitted
        except Exception as error:
            self.error = self.error or error
            raise

    def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        known = {column.name: column for column in self.captured.columns}
        arrays = []
        for column in self.columns:
            place = self.places.get(column.name)
            if place is not None:
                arrays.append(_values(batch.column(place), known[column.name]))
            else:
                value = pa.scalar(self.constants.get(column.name)).cast(arrow_type(column.type))
                arrays.append(pa.repeat(value, batch.num_rows))
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self.columns))


def _values(given: pa.Array, column: CapturedColumn) -> pa.Array:
    """A column's values as a read of the server gives them."""
    try:
        if pt.is_dictionary(given.type):
            given = given.cast(given.type.value_type)
        return _cast(given, column)
    except pa.ArrowInvalid as error:
        raise SeedRefusedError(
            f"column {column.source_name} has a value that {column.column.type} cannot hold:"
            f" {str(error).splitlines()[0].rstrip('.')}",
            hint="Is it a copy of this table?",
        ) from None


def _cast(given: pa.Array, column: CapturedColumn) -> pa.Array:
    target = arrow_type(column.column.type)
    if pt.is_time(given.type):
        digits = 7 if column.type.time_scale is None else column.type.time_scale
        width = next(width for most, width in _TIME_WIDTHS if digits <= most)
        text = given.cast(pa.time64("ns")).cast(pa.string())
        return pc.utf8_slice_codeunits(text, 0, width)
    if pt.is_timestamp(given.type) and given.type.unit == "ns":
        # Cut, as every read is, and towards the past also before 1970.
        given = pc.floor_temporal(given, unit="microsecond")
    if column.type.name == "uniqueidentifier" and not pt.is_null(given.type):
        text = pc.utf8_upper(given.cast(pa.string()))
        if not pc.all(pc.match_substring_regex(text, _GUID)).as_py() and text.null_count < len(
            text
        ):
            raise pa.ArrowInvalid("it is no GUID in the form that the server prints")
        return text
    cast = given.cast(target, safe=not pt.is_floating(target))
    if pt.is_float32(target) and pt.is_float64(given.type):
        same = pc.or_(pc.equal(cast.cast(given.type), given), pc.is_nan(given))
        if pc.any(pc.invert(same)).as_py():
            raise pa.ArrowInvalid("it has more digits")
    return cast
