"""Single Python values as Arrow arrays, for output parameters."""

from __future__ import annotations

import datetime
import re
import uuid

import pyarrow as pa

from cdc_assets.sandbox.results import ResultColumn, SqlType
from cdc_assets.sandbox.wire.encode import encode_column
from cdc_assets.sandbox.wire.encode_fixed import TICKS_PER_DAY
from cdc_assets.sandbox.wire.errors import EncodingError
from cdc_assets.sandbox.wire.pieces import join_rows
from cdc_assets.sandbox.wire.type_info import arrow_type

_TICKS_PER_SECOND = 10_000_000
_CLOCK = re.compile(r"^(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,7}))?)?$")
_OFFSET = re.compile(r"^([+-])(\d\d):(\d\d)$")


def encode_value(sql_type: SqlType, value: object) -> bytes:
    """One value as a row would carry it; times come as T-SQL text, as in `Parameter`."""
    array = pa.array([_arrow_value(sql_type, value)], arrow_type(sql_type))
    return bytes(join_rows(encode_column(ResultColumn("value", sql_type), array)))


def ticks_of(text: str) -> int:
    """T-SQL's `2026-11-30 10:00:00.1234567` as 100 ns since 0001-01-01."""
    day, _, clock = text.strip().replace("T", " ").partition(" ")
    try:
        days = datetime.date.fromisoformat(day).toordinal() - 1
    except ValueError as error:
        raise EncodingError(f"{text!r} is no date and time") from error
    return days * TICKS_PER_DAY + (_clock_ticks(clock) if clock else 0)


def _arrow_value(sql_type: SqlType, value: object) -> object:
    name = sql_type.name
    if isinstance(value, uuid.UUID):
        return str(value).upper()
    if name == "date" and isinstance(value, str):
        return datetime.date.fromisoformat(value)
    if name == "time" and isinstance(value, str):
        return _clock_ticks(value)
    if name in ("datetime", "smalldatetime", "datetime2") and isinstance(value, str):
        return ticks_of(value)
    if name == "datetimeoffset" and isinstance(value, str):
        local, _, offset = value.strip().rpartition(" ")
        match = _OFFSET.match(offset)
        if match is None:
            raise EncodingError(f"{value!r} has no offset")
        minutes = int(match[2]) * 60 + int(match[3])
        minutes = -minutes if match[1] == "-" else minutes
        ticks = ticks_of(local) - minutes * 60 * _TICKS_PER_SECOND
        return {"ticks": ticks, "offset_minutes": minutes}
    return value


def _clock_ticks(text: str) -> int:
    match = _CLOCK.match(text.strip())
    if match is None:
        raise EncodingError(f"{text!r} is no time of day")
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[:3])
    fraction = int((match[4] or "").ljust(7, "0"))
    return ((hours * 60 + minutes) * 60 + seconds) * _TICKS_PER_SECOND + fraction
