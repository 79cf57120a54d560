"""Columns of characters and bytes, whole columns at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdc_assets.sandbox.results import SqlType
from cdc_assets.sandbox.wire.collations import collation_codec
from cdc_assets.sandbox.wire.encode_fixed import validity
from cdc_assets.sandbox.wire.errors import EncodingError
from cdc_assets.sandbox.wire.pieces import (
    Fixed,
    Numbers,
    Piece,
    Variable,
    as_bytes,
    binary_array,
    constant,
    offsets_of,
    repeated,
    with_nulls,
)
from cdc_assets.sandbox.wire.type_info import declared_length, is_lob, is_plp

_UTF16_NAMES = frozenset(("nchar", "nvarchar", "ntext", "xml"))
_BINARY_NAMES = frozenset(("binary", "varbinary", "image", "rowversion", "timestamp"))
_PADDING = {"char": b" ", "nchar": b" \x00", "binary": b"\x00"}
_NULL_LENGTH = 0xFFFF
_PLP_NULL = b"\xff" * 8
# A text pointer and its timestamp: clients only look at whether they are there.
_TEXT_POINTER = b"\x10" + b"\x00" * 16 + b"\x00" * 8


@dataclass(frozen=True, slots=True)
class _Encoded:
    """Values as their bytes on the wire, and how many of them each row has."""

    array: pa.Array
    lengths: Numbers


def encode_text(array: pa.Array, sql_type: SqlType) -> list[Piece]:
    """Pieces of a character or binary column; `EncodingError` for what does not fit."""
    valid = validity(array)
    encoded = _encode_values(array, sql_type)
    if is_plp(sql_type):
        return _plp(encoded, valid)
    if is_lob(sql_type):
        return _lob(encoded, valid)
    return _short(encoded, valid, sql_type)


def _short(
    encoded: _Encoded, valid: npt.NDArray[np.bool_] | None, sql_type: SqlType
) -> list[Piece]:
    width = 2 if sql_type.name in _UTF16_NAMES else 1
    limit = declared_length(sql_type) * width
    lengths = encoded.lengths
    if lengths.max() > limit:
        row = int(np.argmax(lengths))
        raise EncodingError(
            f"row {row} of its batch is {lengths[row] // width} long, too long for {sql_type}"
        )
    padding: list[Piece] = []
    if sql_type.name in ("rowversion", "timestamp"):
        exact = lengths == limit if valid is None else (lengths == limit) | ~valid
        if not exact.all():
            raise EncodingError("a rowversion has eight bytes")
    elif sql_type.name in _PADDING:
        missing = limit - lengths if valid is None else np.where(valid, limit - lengths, 0)
        if missing.any():
            padding = [repeated(_PADDING[sql_type.name], missing // width)]
            lengths = lengths + missing
    announced = lengths if valid is None else np.where(valid, lengths, _NULL_LENGTH)
    return [Fixed(as_bytes(announced.astype("<u2"))), Variable(encoded.array), *padding]


def _plp(encoded: _Encoded, valid: npt.NDArray[np.bool_] | None) -> list[Piece]:
    # Total length, then one chunk. An empty value's chunk length is already the terminator.
    totals = as_bytes(encoded.lengths.astype("<u8"))
    head = np.concatenate((totals, as_bytes(encoded.lengths.astype("<u4"))), axis=1)
    terminators = (encoded.lengths > 0).astype(np.int64)
    return [
        with_nulls(head, valid, _PLP_NULL),
        Variable(encoded.array),
        repeated(b"\x00\x00\x00\x00", terminators),
    ]


def _lob(encoded: _Encoded, valid: npt.NDArray[np.bool_] | None) -> list[Piece]:
    lengths = as_bytes(encoded.lengths.astype("<u4"))
    head = np.concatenate((constant(_TEXT_POINTER, len(lengths)), lengths), axis=1)
    return [with_nulls(head, valid, b"\x00"), Variable(encoded.array)]


def _encode_values(array: pa.Array, sql_type: SqlType) -> _Encoded:
    """The values' bytes; a NULL has none."""
    if array.null_count:
        array = pc.fill_null(array, b"" if pa.types.is_binary(array.type) else "")
    raw_offsets = np.frombuffer(array.buffers()[1], "<i4")
    offsets = raw_offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    buffer = array.buffers()[2]
    data = np.frombuffer(buffer if buffer is not None else b"", np.uint8)
    data = data[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    if sql_type.name in _BINARY_NAMES:
        return _encoded(offsets, data)
    if sql_type.name in _UTF16_NAMES:
        return _utf16(offsets, data)
    codec = collation_codec(sql_type.collation)
    if codec == "utf-8" or not _has_high_bytes(data):
        return _encoded(offsets, data)
    return _code_page(offsets, data, codec, sql_type)


def _utf16(offsets: Numbers, data: npt.NDArray[np.uint8]) -> _Encoded:
    if not _has_high_bytes(data):
        return _encoded(offsets * 2, data.astype("<u2").view(np.uint8))
    # A code point is one unit at its first byte, two where that byte begins four.
    units = (data & 0xC0 != 0x80).astype(np.int8) + (data >= 0xF0)
    text = _text(data)
    return _encoded(offsets_of(units)[offsets] * 2, text.encode("utf-16-le"))


def _code_page(
    offsets: Numbers, data: npt.NDArray[np.uint8], codec: str, sql_type: SqlType
) -> _Encoded:
    try:
        encoded = _text(data).encode(codec)
    except UnicodeEncodeError as error:
        bad = error.object[error.start : error.start + 1]
        raise EncodingError(f"{bad!r} is not in the code page of {sql_type}, {codec}") from error
    characters = offsets_of(data & 0xC0 != 0x80)
    if len(encoded) == characters[-1]:
        return _encoded(characters[offsets], encoded)
    # A code page of several bytes for a character: the lengths are known only value by value.
    raw = data.tobytes()
    values = [
        raw[start:end].decode("utf-8").encode(codec)
        for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    ]
    return _encoded(offsets_of(np.array([len(value) for value in values])), b"".join(values))


def _text(data: npt.NDArray[np.uint8]) -> str:
    try:
        return data.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise EncodingError("a string column holds bytes that are not UTF-8") from error


def _has_high_bytes(data: npt.NDArray[np.uint8]) -> bool:
    return bool(len(data)) and bool(data.max() >= 0x80)


def _encoded(offsets: Numbers, data: npt.NDArray[np.uint8] | bytes) -> _Encoded:
    return _Encoded(binary_array(offsets, data), np.diff(offsets))
