"""Columns of a driver with their exact types, and values as the engine gives them.

Times come as ticks of 100 ns: no Python type has them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pytds import tds_base

from cdc_assets.sandbox.results import MAX_LENGTH, SqlType

_TICKS_PER_DAY = 864_000_000_000
_TICKS_PER_MINUTE = 600_000_000
_DAYS_TO_1900 = 693_595
_ROWVERSION_USER_TYPE = 80
_UNBOUNDED = 0xFFFF

_NAMES = {
    (tds_base.SYBBITN, 1): "bit",
    (tds_base.SYBINTN, 1): "tinyint",
    (tds_base.SYBINTN, 2): "smallint",
    (tds_base.SYBINTN, 4): "int",
    (tds_base.SYBINTN, 8): "bigint",
    (tds_base.SYBFLTN, 4): "real",
    (tds_base.SYBFLTN, 8): "float",
    (tds_base.SYBMONEYN, 4): "smallmoney",
    (tds_base.SYBMONEYN, 8): "money",
    (tds_base.SYBDATETIMN, 4): "smalldatetime",
    (tds_base.SYBDATETIMN, 8): "datetime",
}
_FIXED = {
    tds_base.SYBBIT: "bit",
    tds_base.SYBINT1: "tinyint",
    tds_base.SYBINT2: "smallint",
    tds_base.SYBINT4: "int",
    tds_base.SYBINT8: "bigint",
    tds_base.SYBREAL: "real",
    tds_base.SYBFLT8: "float",
    tds_base.SYBMONEY4: "smallmoney",
    tds_base.SYBMONEY: "money",
    tds_base.SYBDATETIME4: "smalldatetime",
    tds_base.SYBDATETIME: "datetime",
    tds_base.SYBMSDATE: "date",
    tds_base.SYBUNIQUE: "uniqueidentifier",
    tds_base.SYBMSXML: "xml",
    tds_base.SYBTEXT: "text",
    tds_base.SYBNTEXT: "ntext",
    tds_base.SYBIMAGE: "image",
}
_SCALED = {
    tds_base.SYBMSTIME: "time",
    tds_base.SYBMSDATETIME2: "datetime2",
    tds_base.SYBMSDATETIMEOFFSET: "datetimeoffset",
}
_LENGTHS = {
    tds_base.XSYBCHAR: "char",
    tds_base.XSYBVARCHAR: "varchar",
    tds_base.XSYBNCHAR: "nchar",
    tds_base.XSYBNVARCHAR: "nvarchar",
    tds_base.XSYBBINARY: "binary",
    tds_base.XSYBVARBINARY: "varbinary",
}
_DECIMALS = {tds_base.SYBDECIMAL: "decimal", tds_base.SYBNUMERIC: "numeric"}


@dataclass(frozen=True)
class ExactTypes:
    """The driver's factory of readers, which then say their type and lose no digit."""

    known: Any

    def get_type_serializer(self, number: int) -> _Reading:
        return _Reading(number, self.known.get_type_serializer(number))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.known, name)


@dataclass(frozen=True)
class _Reading:
    number: int
    driver: Any

    def from_stream(self, reader: Any) -> _Column:
        return _Column(self.number, self.driver.from_stream(reader))


@dataclass(frozen=True)
class _Column:
    """One column's reader."""

    number: int
    driver: Any

    @property
    def precision(self) -> Any:
        return self.driver.precision

    @property
    def scale(self) -> Any:
        return self.driver.scale

    @property
    def size(self) -> Any:
        return self.driver.size

    def get_typeid(self) -> Any:
        return self.driver.get_typeid()

    def named(self, user_type: int) -> SqlType:
        """The type as T-SQL names it."""
        number, size = self.number, self.driver.size
        if number in _DECIMALS:
            return SqlType(
                _DECIMALS[number], precision=self.driver.precision, scale=self.driver.scale
            )
        if number in _SCALED:
            return SqlType(_SCALED[number], scale=self.driver.precision)
        if user_type == _ROWVERSION_USER_TYPE:
            return SqlType("timestamp")
        if number in _LENGTHS:
            bounded = 0 < size < _UNBOUNDED
            return SqlType(_LENGTHS[number], length=int(size) if bounded else MAX_LENGTH)
        return SqlType(_FIXED[number] if number in _FIXED else _NAMES[number, size])

    def read(self, reader: Any) -> Any:
        if self.number in _TIMES:
            return _TIMES[self.number](reader, self.driver)
        value = self.driver.read(reader)
        return str(value).upper() if isinstance(value, UUID) else value


def _number(reader: Any, size: int, *, signed: bool = False) -> int:
    return int.from_bytes(tds_base.readall(reader, size), "little", signed=signed)


def _datetime(reader: Any, size: int) -> int:
    half = size // 2
    days = _number(reader, half, signed=size == 8)
    part = _number(reader, half)
    ticks = (part * 200_000 + 3) // 6 if size == 8 else part * _TICKS_PER_MINUTE
    return (days + _DAYS_TO_1900) * _TICKS_PER_DAY + ticks


def _nullable_datetime(reader: Any, _: Any) -> int | None:
    size = reader.get_byte()
    return _datetime(reader, size) if size else None


def _time_of_day(reader: Any, size: int, driver: Any) -> int:
    return int(_number(reader, size) * 10 ** (7 - driver.precision))


def _time(reader: Any, driver: Any) -> int | None:
    size = reader.get_byte()
    return _time_of_day(reader, size, driver) if size else None


def _datetime2(reader: Any, driver: Any) -> int | None:
    size = reader.get_byte()
    return _moment(reader, size, driver) if size else None


def _moment(reader: Any, size: int, driver: Any) -> int:
    ticks = _time_of_day(reader, size - 3, driver)
    return _number(reader, 3) * _TICKS_PER_DAY + ticks


def _datetimeoffset(reader: Any, driver: Any) -> dict[str, int] | None:
    size = reader.get_byte()
    if not size:
        return None
    utc = _moment(reader, size - 2, driver)
    return {"ticks": utc, "offset_minutes": _number(reader, 2, signed=True)}


_TIMES: dict[int, Callable[[Any, Any], Any]] = {
    tds_base.SYBDATETIMN: _nullable_datetime,
    tds_base.SYBDATETIME: lambda reader, _: _datetime(reader, 8),
    tds_base.SYBDATETIME4: lambda reader, _: _datetime(reader, 4),
    tds_base.SYBMSTIME: _time,
    tds_base.SYBMSDATETIME2: _datetime2,
    tds_base.SYBMSDATETIMEOFFSET: _datetimeoffset,
}
