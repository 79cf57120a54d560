"""Columns of fixed width, whole columns at a time: numbers, dates and times, identifiers.

Each function takes an Arrow array and returns the bytes of its values (without the length
byte); slots of NULLs hold anything. A value out of the type's range raises `EncodingError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_assets.sandbox.results import SqlType
from cdc_assets.sandbox.wire.errors import EncodingError
from cdc_assets.sandbox.wire.pieces import Bytes2D, Numbers, as_bytes
from cdc_assets.sandbox.wire.type_info import (
    TIME_BYTES,
    decimal_bytes,
    decimal_precision,
    time_scale,
)

TICKS_PER_DAY = 864_000_000_000
_EPOCH_DAYS = 719_162  # 1970-01-01, counted from 0001-01-01
_LAST_DAY = 3_652_058  # 9999-12-31
_DAYS_1753 = 639_905
_DAYS_1900 = 693_595
_SMALL_LAST_DAY = 65_535  # 2079-06-06, counted from 1900-01-01
_TICKS_PER_MINUTE = 600_000_000
_UNITS_PER_DAY = 25_920_000  # datetime counts 1/300 s
_MAX_OFFSET_MINUTES = 840

# Where the 32 hexadecimal digits stand in the text, in the order of the bytes on the wire:
# the first three groups are little-endian.
_GUID_BYTES = (6, 4, 2, 0, 11, 9, 16, 14, 19, 21, 24, 26, 28, 30, 32, 34)
_GUID_DASHES = (8, 13, 18, 23)
_NOT_HEX = 0xFF
_HEX = np.full(256, _NOT_HEX, np.uint8)
for _digit in "0123456789abcdefABCDEF":
    _HEX[ord(_digit)] = int(_digit, 16)


def validity(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which rows are not NULL; None where all are."""
    if not array.null_count:
        return None
    valid: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def encode_fixed(array: pa.Array, sql_type: SqlType) -> Bytes2D:
    """Bytes of a column's values; `EncodingError` where one is out of range."""
    return _ENCODERS[sql_type.name](array, sql_type)


def is_fixed(sql_type: SqlType) -> bool:
    """Whether `encode_fixed` knows the type."""
    return sql_type.name in _ENCODERS


def numbers_of(array: pa.Array, dtype: str, per_row: int = 1) -> Numbers:
    """The values buffer of an array as numpy sees it, NULLs as 0."""
    buffer = array.buffers()[-1]
    if buffer is None:
        numbers: Numbers = np.zeros(len(array) * per_row, dtype)
    else:
        first = array.offset * per_row
        numbers = np.frombuffer(buffer, dtype)[first : first + len(array) * per_row]
    if per_row > 1:
        numbers = numbers.reshape(-1, per_row)
    valid = validity(array)
    if valid is None:
        return numbers
    return np.where(valid if per_row == 1 else valid[:, None], numbers, numbers.dtype.type(0))


def _bits(array: pa.Array, _: SqlType) -> Bytes2D:
    bits = array.to_numpy(zero_copy_only=False) if not array.null_count else None
    if bits is None:
        bits = array.fill_null(False).to_numpy(zero_copy_only=False)
    return as_bytes(bits.astype(np.uint8))


def _plain(dtype: str) -> Callable[[pa.Array, SqlType], Bytes2D]:
    return lambda array, _: as_bytes(numbers_of(array, dtype))


def _float(dtype: str) -> Callable[[pa.Array, SqlType], Bytes2D]:
    def encode(array: pa.Array, sql_type: SqlType) -> Bytes2D:
        numbers = numbers_of(array, dtype)
        _require(np.isfinite(numbers), sql_type)
        return as_bytes(numbers)

    return encode


def _decimal(array: pa.Array, sql_type: SqlType) -> Bytes2D:
    precision = decimal_precision(sql_type)
    words = numbers_of(array, "<u8", 2)
    low, high = words[:, 0], words[:, 1]
    negative = high >> np.uint64(63) != 0
    # Two's complement: invert and add one, the carry reaching the high word from a zero low one.
    magnitude_low = np.where(negative, ~low + np.uint64(1), low)
    magnitude_high = np.where(negative, ~high + (low == 0), high)
    limit_high, limit_low = divmod(10**precision, 2**64)
    _require(
        (magnitude_high < np.uint64(limit_high))
        | ((magnitude_high == np.uint64(limit_high)) & (magnitude_low < np.uint64(limit_low))),
        sql_type,
    )
    magnitude = np.stack((magnitude_low, magnitude_high), axis=1)
    size = decimal_bytes(precision)
    out = np.empty((len(array), size), np.uint8)
    out[:, 0] = ~negative
    out[:, 1:] = as_bytes(magnitude.view("V16").reshape(-1))[:, : size - 1]
    return out


def _money(array: pa.Array, sql_type: SqlType) -> Bytes2D:
    words = numbers_of(array, "<i8", 2)
    low, high = words[:, 0], words[:, 1]
    _require(high == low >> 63, sql_type)
    bits = low.view("<u8")
    # The wire has the high half first.
    return as_bytes(bits >> np.uint64(32) | bits << np.uint64(32))


def _smallmoney(array: pa.Array, sql_type: SqlType) -> Bytes2D:
    words = numbers_of(array, "<i8", 2)
    low, high = words[:, 0], words[:, 1]
    _require((high == low >> 63) & (low == low.astype("<i4")), sql_type)
    return as_bytes(low.astype("<i4"))


def _date(array: pa.Array, sql_type: SqlType) -> Bytes2D:
    days = numbers_of(array, "<i4").astype("<i8") + _EPOCH_DAYS
    valid = validity(array)
    return _low_bytes(_days(days if valid is None else np.where(valid, days, 0), sql_type), 3)


def _time(array: pa.Array, sql_type: SqlType) -> Bytes2D:
    return _time_of_day(numbers_of(array, "<i8"), sql_type)


def _datetime2(array: pa.Array, sql_type: SqlType) -> Bytes2D:
    return _moment(numbers_of(array, "<i8"), sql_type)


def _datetimeoffset(array: pa.Array, sql_type: SqlType) -> Bytes2D:
    valid = validity(array)
    fields = [array.field(position) for position in range(2)]
    for field in fields:
        present = validity(field)
        if present is not None and not (present if valid is None else present | ~valid).all():
            raise EncodingError(f"half a NULL in a column of {sql_type}")
    ticks, minutes = numbers_of(fields[0], "<i8"), numbers_of(fields[1], "<i2")
    if valid is not None:
        ticks, minutes = np.where(valid, ticks, 0), np.where(valid, minutes, np.int16(0))
    _require(np.abs(minutes.astype(np.int32)) <= _MAX_OFFSET_MINUTES, sql_type)
    return np.concatenate((_moment(ticks, sql_type), as_bytes(minutes)), axis=1)


def _datetime(array: pa.Array, sql_type: SqlType) -> Bytes2D:
    valid = validity(array)
    days, ticks = np.divmod(numbers_of(array, "<i8"), TICKS_PER_DAY)
    if valid is not None:
        days = np.where(valid, days, _DAYS_1900)
    units = (ticks * 3 + 50_000) // 100_000
    days = days + units // _UNITS_PER_DAY
    units = units % _UNITS_PER_DAY
    _require((days >= _DAYS_1753) & (days <= _LAST_DAY), sql_type)
    packed = np.stack(((days - _DAYS_1900).astype("<i4"), units.astype("<i4")), axis=1)
    return as_bytes(packed.view("V8").reshape(-1))


def _smalldatetime(array: pa.Array, sql_type: SqlType) -> Bytes2D:
    valid = validity(array)
    days, ticks = np.divmod(numbers_of(array, "<i8"), TICKS_PER_DAY)
    days = days - _DAYS_1900
    if valid is not None:
        days = np.where(valid, days, 0)
    minutes, seconds = np.divmod(ticks, _TICKS_PER_MINUTE)
    _require((days >= 0) & (days <= _SMALL_LAST_DAY) & (seconds == 0), sql_type)
    packed = np.stack((days.astype("<u2"), minutes.astype("<u2")), axis=1)
    return as_bytes(packed.view("V4").reshape(-1))


def _uniqueidentifier(array: pa.Array, sql_type: SqlType) -> Bytes2D:
    present = array.drop_null()
    text = np.zeros((len(present), 36), np.uint8)
    if len(present):
        offsets = np.frombuffer(present.buffers()[1], "<i4")
        offsets = offsets[present.offset : present.offset + len(present) + 1]
        _require(np.diff(offsets) == 36, sql_type)
        data = np.frombuffer(present.buffers()[2], np.uint8)
        text = data[offsets[0] : offsets[-1]].reshape(-1, 36)
    positions = np.array(_GUID_BYTES)
    high, low = _HEX[text[:, positions]], _HEX[text[:, positions + 1]]
    _require((high != _NOT_HEX) & (low != _NOT_HEX), sql_type)
    _require(text[:, _GUID_DASHES] == ord("-"), sql_type)
    out = np.zeros((len(array), 16), np.uint8)
    valid = validity(array)
    out[slice(None) if valid is None else valid] = high << 4 | low
    return out


def _moment(ticks: Numbers, sql_type: SqlType) -> Bytes2D:
    days, ticks_of_day = np.divmod(ticks, TICKS_PER_DAY)
    days = _low_bytes(_days(days, sql_type), 3)
    return np.concatenate((_time_of_day(ticks_of_day, sql_type), days), axis=1)


def _time_of_day(ticks: Numbers, sql_type: SqlType) -> Bytes2D:
    scale = time_scale(sql_type)
    units, lost = np.divmod(ticks, 10 ** (7 - scale))
    _require((ticks >= 0) & (ticks < TICKS_PER_DAY) & (lost == 0), sql_type)
    return _low_bytes(units, TIME_BYTES[scale])


def _days(days: Numbers, sql_type: SqlType) -> Numbers:
    _require((days >= 0) & (days <= _LAST_DAY), sql_type)
    return days


def _low_bytes(numbers: Numbers, size: int) -> Bytes2D:
    return as_bytes(numbers.astype("<i8"))[:, :size]


def _require(ok: npt.NDArray[Any], sql_type: SqlType) -> None:
    if not ok.all():
        row = int(np.argmin(ok.reshape(len(ok), -1).all(axis=1)))
        raise EncodingError(f"row {row} of its batch holds a value out of range for {sql_type}")


_ENCODERS: dict[str, Callable[[pa.Array, SqlType], Bytes2D]] = {
    "bit": _bits,
    "tinyint": _plain("<u1"),
    "smallint": _plain("<i2"),
    "int": _plain("<i4"),
    "bigint": _plain("<i8"),
    "real": _float("<f4"),
    "float": _float("<f8"),
    "decimal": _decimal,
    "numeric": _decimal,
    "money": _money,
    "smallmoney": _smallmoney,
    "date": _date,
    "time": _time,
    "datetime2": _datetime2,
    "datetimeoffset": _datetimeoffset,
    "datetime": _datetime,
    "smalldatetime": _smalldatetime,
    "uniqueidentifier": _uniqueidentifier,
}
