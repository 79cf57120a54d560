"""Arrow record batches as ROW tokens, whole columns at a time and in bounded chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cdc_assets.sandbox.results import MAX_LENGTH, ResultColumn
from cdc_assets.sandbox.wire.encode_fixed import encode_fixed, is_fixed, validity
from cdc_assets.sandbox.wire.encode_text import encode_text
from cdc_assets.sandbox.wire.errors import EncodingError
from cdc_assets.sandbox.wire.limits import ENCODE_CHUNK_BYTES, ENCODE_CHUNK_ROWS
from cdc_assets.sandbox.wire.pieces import Fixed, Piece, constant, join_rows, with_nulls
from cdc_assets.sandbox.wire.tokens import ROW
from cdc_assets.sandbox.wire.type_info import arrow_type, declared_length, has_length_byte

_PADDED = {"char": 1, "nchar": 2, "binary": 1}


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Whole ROW tokens."""

    data: memoryview
    rows: int


def encode_rows(columns: Sequence[ResultColumn], batch: pa.RecordBatch) -> Iterator[EncodedRows]:
    """ROW tokens of a batch, in chunks of at most `ENCODE_CHUNK_ROWS` and about `_BYTES`.

    Raises `EncodingError` where a column is not of its type's Arrow type or a value does not
    fit; values are never cast or truncated.
    """
    _check(columns, batch)
    for part in _slices(batch, _row_limit(columns)):
        pieces: list[Piece] = [Fixed(constant(bytes([ROW]), part.num_rows))]
        for column, array in zip(columns, part.columns, strict=True):
            pieces += encode_column(column, array)
        yield EncodedRows(join_rows(pieces), part.num_rows)


def encode_column(column: ResultColumn, array: pa.Array) -> list[Piece]:
    """The pieces one column adds to the rows."""
    try:
        if array.null_count and not column.nullable:
            raise EncodingError("NULL in a column declared NOT NULL")
        if not is_fixed(column.type):
            return encode_text(array, column.type)
        values = encode_fixed(array, column.type)
    except EncodingError as error:
        raise EncodingError(f"column {column.name}: {error}") from error
    if not has_length_byte(column.type, nullable=column.nullable):
        return [Fixed(values)]
    rows, width = values.shape
    prefixed = np.concatenate((constant(bytes([width]), rows), values), axis=1)
    return [with_nulls(prefixed, validity(array), b"\x00")]


def _check(columns: Sequence[ResultColumn], batch: pa.RecordBatch) -> None:
    if len(columns) != batch.num_columns:
        raise EncodingError(f"{batch.num_columns} columns where {len(columns)} were announced")
    for column, field in zip(columns, batch.schema, strict=True):
        expected = arrow_type(column.type)
        if field.type != expected:
            raise EncodingError(
                f"column {column.name}: {field.type} where {column.type} needs {expected}"
            )


def _row_limit(columns: Sequence[ResultColumn]) -> int:
    """Rows of a chunk that stay within its bytes even where fixed lengths pad every value."""
    padded = 0
    for column in columns:
        width = _PADDED.get(column.type.name, 0)
        if width and column.type.length != MAX_LENGTH:
            padded += declared_length(column.type) * width
    per_row = padded + 32 * len(columns)
    return max(1, min(ENCODE_CHUNK_ROWS, ENCODE_CHUNK_BYTES // per_row))


def _slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Slices of at most `rows`, halved while their values are many bytes."""
    for start in range(0, batch.num_rows, rows):
        pending = [batch.slice(start, rows)]
        while pending:
            part = pending.pop()
            # UTF-16 doubles what Arrow holds as UTF-8.
            if part.num_rows > 1 and 2 * part.nbytes > ENCODE_CHUNK_BYTES:
                half = part.num_rows // 2
                pending += (part.slice(half), part.slice(0, half))
            else:
                yield part
