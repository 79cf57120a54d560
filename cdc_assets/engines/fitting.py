"""A copy's values cast to what a read of the server gives, or refused: never rounded or guessed.

A key that is written otherwise would be another row: trimmed where the server pads, with fewer
digits, or changed on its way through a floating point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from cdc_assets.errors import SeedRefusedError
from cdc_assets.sqlserver.catalog import CapturedColumn
from cdc_assets.sqlserver.types import SqlType, arrow_type

_GUID = r"^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$"
_TIME = r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?$"
_TIME_WIDTHS = ((0, 8), (3, 12), (6, 15), (7, 16))
"""Up to so many digits of a second, a read gives so many characters."""
_TIME_WIDTH_MAX = 18
"""With the nine digits that Arrow has."""
_DIGITS_MAX = {pt.is_float16: 11, pt.is_float32: 24, pt.is_float64: 53}
"""The bits of a floating point: from two to that power on, several integers become one."""
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DOUBLE_BYTE = {
    "Japanese": "cp932",
    "Korean": "cp949",
    "Chinese_PRC": "gbk",
    "Chinese_Simplified": "gbk",
    "Chinese": "cp950",
}
"""How the collations begin whose characters may be two bytes in a `char`; the first one counts."""


def fitting(declared: str) -> Sequence[Callable[[pa.DataType], bool]]:
    """Which Arrow types may become a declared one."""
    if declared.startswith("DECIMAL"):
        return (pt.is_decimal, pt.is_integer)
    if declared in ("SMALLINT", "INT", "BIGINT"):
        # pandas has integers with NULLs among them as floating point.
        return (pt.is_integer, pt.is_floating)
    return {
        "BOOLEAN": (pt.is_boolean,),
        "FLOAT": (pt.is_floating, pt.is_integer),
        # A narrower one has lost digits that the server has.
        "DOUBLE": (pt.is_float64, pt.is_integer),
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


def fitted(given: pa.Array, column: CapturedColumn) -> pa.Array:
    """A column's values as a read of the server gives them; raises `SeedRefusedError`."""
    try:
        if pt.is_dictionary(given.type):
            given = given.cast(given.type.value_type)
        return _cast(given, column)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise SeedRefusedError(
            f"column {column.source_name} has a value that {column.column.type} cannot hold:"
            f" {str(error).splitlines()[0].rstrip('.')}",
            hint="Is it a copy of this table?",
        ) from None


def _cast(given: pa.Array, column: CapturedColumn) -> pa.Array:
    target, kind = arrow_type(column.column.type), column.type
    if pt.is_null(given.type):
        return given.cast(target)
    if pt.is_integer(target) and pt.is_floating(given.type):
        _check_whole(given)
    if pt.is_timestamp(given.type):
        _check_digits(given, kind)
        if given.type.unit == "ns":
            # Cut, as every read is, and towards the past also before 1970.
            given = pc.floor_temporal(given, unit="microsecond")
    if pt.is_decimal(target) and pt.is_integer(given.type):
        # Arrow wants room for all that an integer may be, whatever it is.
        given = given.cast(pa.decimal128(20, 0))
    if pt.is_time(given.type):
        given = given.cast(pa.time64("ns")).cast(target)
    cast = given.cast(target)
    if pt.is_float32(target) and pt.is_float64(given.type):
        same = pc.or_(pc.equal(cast.cast(given.type), given), pc.is_nan(given))
        if pc.any(pc.invert(same)).as_py():
            raise pa.ArrowInvalid("it has more digits")
    if kind.name == "uniqueidentifier":
        return _guids(cast)
    if kind.name == "time":
        return _times(cast, kind)
    return _padded(cast, kind)


def _check_whole(given: pa.Array) -> None:
    digits = next(digits for is_one, digits in _DIGITS_MAX.items() if is_one(given.type))
    largest = pc.max(pc.abs(given)).as_py()
    if largest is not None and largest >= 2**digits:
        raise pa.ArrowInvalid(f"it came as {given.type}, which has one value for several such")


def _check_digits(given: pa.Array, kind: SqlType) -> None:
    """Refuse a time with more digits than the server keeps."""
    units = _UNITS_PER_SECOND[given.type.unit]
    step = units if kind.time_scale is None else units // 10**kind.time_scale
    if kind.name == "smalldatetime":
        step = units * 60
    elif kind.time_scale is None or step <= 1:
        return
    ticks = given.cast(pa.int64())
    if not _all(pc.equal(pc.multiply(pc.divide(ticks, step), step), ticks)):
        raise pa.ArrowInvalid(f"it has more digits than {kind.name} keeps")


def _guids(text: pa.Array) -> pa.Array:
    text = pc.utf8_upper(text)
    if not _all(pc.match_substring_regex(text, _GUID)):
        raise pa.ArrowInvalid("it is no GUID in the form that the server prints")
    return text


def _times(text: pa.Array, kind: SqlType) -> pa.Array:
    """Times of day with as many digits as a read gives."""
    if not _all(pc.match_substring_regex(text, _TIME)):
        raise pa.ArrowInvalid("it is no time in the form that the server prints")
    digits = 7 if kind.time_scale is None else kind.time_scale
    width = next(width for most, width in _TIME_WIDTHS if digits <= most)
    text = pc.replace_substring_regex(text, r"^([0-9:]+)$", r"\1.")
    text = pc.utf8_rpad(text, _TIME_WIDTH_MAX, padding="0")
    if not _all(pc.match_substring_regex(pc.utf8_slice_codeunits(text, 9 + digits), "^0*$")):
        raise pa.ArrowInvalid(f"it has more digits than time({digits}) keeps")
    return pc.utf8_slice_codeunits(text, 0, width)


def _padded(values: pa.Array, kind: SqlType) -> pa.Array:
    """Values of a fixed length as long as the server gives them: other tools trim them."""
    if kind.name not in ("char", "nchar", "binary") or (kind.length or 0) < 1:
        return values
    is_binary = kind.name == "binary"
    missing = pc.subtract(
        kind.length, pc.binary_length(values) if is_binary else _length(values, kind)
    )
    least = pc.min(missing).as_py()
    if least is not None and least < 0:
        raise pa.ArrowInvalid(f"it is longer than {kind.name}({kind.length})")
    fill, nothing = (b"\0", b"") if is_binary else (" ", "")
    return pc.binary_join_element_wise(values, pc.binary_repeat(pa.scalar(fill), missing), nothing)


def _length(text: pa.Array, kind: SqlType) -> pa.Array:
    """How much of a declared length each value takes: UTF-16 units, or bytes in a code page."""
    characters, in_utf8 = pc.utf8_length(text), pc.binary_length(text)
    if kind.name == "nchar":
        beyond = pc.count_substring_regex(text, r"[\x{10000}-\x{10FFFF}]")
        return pc.add(characters, beyond)
    if _all(pc.equal(characters, in_utf8)):
        return characters
    if kind.collation is None:
        raise pa.ArrowInvalid("its collation is not known, so it cannot be padded")
    if kind.collation.endswith("_UTF8"):
        return in_utf8
    codec = next((c for n, c in _DOUBLE_BYTE.items() if kind.collation.startswith(n)), None)
    if codec is None:
        return characters
    lengths = [None if one is None else len(one.encode(codec)) for one in text.to_pylist()]
    return pa.array(lengths, pa.int32())


def _all(found: pa.Array) -> bool:
    """Whether all that is not NULL is true."""
    return pc.all(found).as_py() is not False
