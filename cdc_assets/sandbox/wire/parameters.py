"""Values a client sends: TYPE_INFO and value, as `results.Parameter` holds them."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from decimal import Decimal

from cdc_assets.sandbox.results import MAX_LENGTH, Parameter, SqlError, SqlType
from cdc_assets.sandbox.wire.byte_reader import ByteReader, decode_text
from cdc_assets.sandbox.wire.collations import codec_of_bytes
from cdc_assets.sandbox.wire.errors import ProtocolError
from cdc_assets.sandbox.wire.type_info import TIME_BYTES, UNBOUNDED

_BY_REFERENCE = 0x01
_DEFAULT = 0x02
_ENCRYPTED = 0x08
_NULL_SHORT = 0xFFFF
_NULL_LONG = 0xFFFFFFFF
_LAST_DAY = 3_652_058
_DAYS_1900 = 693_595
_TICKS_PER_DAY = 864_000_000_000
_TICKS_PER_SECOND = 10_000_000

_FIXED = {
    0x30: ("tinyint", 1),
    0x32: ("bit", 1),
    0x34: ("smallint", 2),
    0x38: ("int", 4),
    0x3A: ("smalldatetime", 4),
    0x3B: ("real", 4),
    0x3C: ("money", 8),
    0x3D: ("datetime", 8),
    0x3E: ("float", 8),
    0x7A: ("smallmoney", 4),
    0x7F: ("bigint", 8),
}
_SIZED = {
    0x26: {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"},
    0x68: {1: "bit"},
    0x6D: {4: "real", 8: "float"},
    0x6E: {4: "smallmoney", 8: "money"},
    0x6F: {4: "smalldatetime", 8: "datetime"},
    0x24: {16: "uniqueidentifier"},
}
_NULL_TYPE = 0x1F
_DATE = 0x28
_SCALED = {0x29: "time", 0x2A: "datetime2", 0x2B: "datetimeoffset"}
_DECIMAL = {0x6A: "decimal", 0x6C: "numeric", 0x37: "decimal", 0x3F: "numeric"}
_CHARACTER = {0xA7: "varchar", 0xAF: "char", 0xE7: "nvarchar", 0xEF: "nchar"}
_BINARY = {0xA5: "varbinary", 0xAD: "binary"}
_LOB = {0x22: "image", 0x23: "text", 0x63: "ntext"}
_XML = 0xF1
_TABLE = 0xF3

Decoded = tuple[SqlType, object]


class _NoSuchNumberError(Exception):
    """A numeric of more digits than there are, or of more behind the point than it has."""


def read_parameter(reader: ByteReader, position: int) -> Parameter | None:
    """The next parameter of an RPC; None where the client asks for the default.

    Raises `SqlError` 2715 for a table-valued one, 8009 for other types the sandbox does not take
    and 8023 for a numeric that there is not, `ProtocolError` for bad bytes.
    """
    name = reader.short_text()
    status = reader.u8()
    if status & _ENCRYPTED:
        raise SqlError(33299, "The sandbox does not know Always Encrypted parameters.")
    if reader.peek() == _TABLE:
        raise _no_table_type(reader, position)
    sql_type, value = read_typed_value(reader, name)
    if status & _DEFAULT:
        return None
    return Parameter(name, sql_type, value, output=bool(status & _BY_REFERENCE))


def read_typed_value(reader: ByteReader, name: str = "") -> Decoded:
    """A TYPE_INFO and the value after it."""
    token = reader.u8()
    stream = (
        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is "
        f'incorrect. Parameter "{name}":'
    )
    for tokens, read in _READERS:
        if token not in tokens:
            continue
        try:
            return read(reader, token)
        except _NoSuchNumberError as error:
            text = (
                f"{stream} The supplied value is not a valid instance of data type {error}. Check "
                "the source data for invalid values. An example of an invalid value is data of "
                "numeric type with scale greater than precision."
            )
            raise SqlError(8023, text) from error
    raise SqlError(8009, f"{stream} Data type 0x{token:02X} is unknown.")


def _no_table_type(reader: ByteReader, position: int) -> SqlError:
    """Msg 2715: there is no CREATE TYPE here, so no table type of that name either."""
    reader.u8()
    name = ".".join(part for part in (reader.short_text() for _ in range(3)) if part)
    return SqlError(
        2715, f"Column, parameter, or variable #{position}: Cannot find data type {name}.", state=3
    )


def _read_null(_reader: ByteReader, _token: int) -> Decoded:
    return SqlType("nvarchar", length=1), None


def _read_fixed(reader: ByteReader, token: int) -> Decoded:
    name, size = _FIXED[token]
    return SqlType(name), _scalar(name, reader.take(size))


def _read_sized(reader: ByteReader, token: int) -> Decoded:
    size = reader.u8()
    names = _SIZED[token]
    if size not in names:
        raise ProtocolError(f"type {token:#x} of {size} bytes")
    actual = reader.u8()
    if not actual:
        return SqlType(names[size]), None
    if actual not in names:
        raise ProtocolError(f"type {token:#x} with a value of {actual} bytes")
    return SqlType(names[size]), _scalar(names[actual], reader.take(actual))


def _read_decimal(reader: ByteReader, token: int) -> Decoded:
    reader.u8()  # the longest a value may be; each says its own length
    precision, scale = reader.u8(), reader.u8()
    if not 1 <= precision <= 38 or scale > precision:
        raise _NoSuchNumberError(_DECIMAL[token])
    sql_type = SqlType(_DECIMAL[token], precision=precision, scale=scale)
    raw = reader.take(reader.u8())
    if not raw:
        return sql_type, None
    # The sign and at most 16 bytes of magnitude; JDBC leaves out leading zero bytes.
    if not 2 <= len(raw) <= 17:
        raise ProtocolError(f"decimal of {len(raw)} bytes")
    digits = tuple(int(digit) for digit in str(int.from_bytes(raw[1:], "little")))
    # From digits and an exponent: exact whatever the thread's decimal context.
    return sql_type, Decimal((0 if raw[0] else 1, digits, -scale))


def _read_date(reader: ByteReader, _token: int) -> Decoded:
    raw = reader.take(reader.u8())
    return SqlType("date"), _day(int.from_bytes(raw, "little")) if raw else None


def _read_scaled(reader: ByteReader, token: int) -> Decoded:
    name, scale = _SCALED[token], reader.u8()
    if scale >= len(TIME_BYTES):
        raise ProtocolError(f"{name}({scale})")
    sql_type = SqlType(name, scale=scale)
    size = reader.u8()
    if not size:
        return sql_type, None
    expected = TIME_BYTES[scale] + {"time": 0, "datetime2": 3, "datetimeoffset": 5}[name]
    if size != expected:
        raise ProtocolError(f"{name}({scale}) of {size} bytes")
    ticks = int.from_bytes(reader.take(TIME_BYTES[scale]), "little") * 10 ** (7 - scale)
    if ticks >= _TICKS_PER_DAY:
        raise ProtocolError("a time of day of more than a day")
    if name == "time":
        return sql_type, _clock(ticks, scale)
    days = int.from_bytes(reader.take(3), "little")
    if name == "datetime2":
        return sql_type, f"{_day(days)} {_clock(ticks, scale)}"
    return sql_type, _with_offset(days, ticks, reader.signed(2), scale)


def _read_character(reader: ByteReader, token: int) -> Decoded:
    name, size = _CHARACTER[token], reader.u16()
    collation = reader.take(5)
    wide = name.startswith("n")
    codec = "utf-16-le" if wide else codec_of_bytes(collation)
    if size == UNBOUNDED:
        raw = reader.plp()
        return SqlType(name, length=MAX_LENGTH), None if raw is None else decode_text(raw, codec)
    sql_type = SqlType(name, length=max(1, size // 2 if wide else size))
    length = reader.u16()
    return sql_type, None if length == _NULL_SHORT else decode_text(reader.take(length), codec)


def _read_binary(reader: ByteReader, token: int) -> Decoded:
    size = reader.u16()
    if size == UNBOUNDED:
        return SqlType(_BINARY[token], length=MAX_LENGTH), reader.plp()
    length = reader.u16()
    value = None if length == _NULL_SHORT else reader.take(length)
    return SqlType(_BINARY[token], length=max(1, size)), value


def _read_lob(reader: ByteReader, token: int) -> Decoded:
    name = _LOB[token]
    reader.u32()
    codec = ""
    if name != "image":
        collation = reader.take(5)
        codec = "utf-16-le" if name == "ntext" else codec_of_bytes(collation)
    length = reader.u32()
    if length == _NULL_LONG:
        return SqlType(name), None
    raw = reader.take(length)
    return SqlType(name), decode_text(raw, codec) if codec else raw


def _read_xml(reader: ByteReader, _token: int) -> Decoded:
    if reader.u8():
        for _ in range(2):
            reader.short_text()
        reader.utf16(2 * reader.u16())
    raw = reader.plp()
    return SqlType("xml"), None if raw is None else decode_text(raw, "utf-16-le")


def _scalar(name: str, raw: bytes) -> object:
    reader = ByteReader(raw)
    size = len(raw)
    if name == "bit":
        return raw != b"\x00"
    if name == "tinyint":
        return reader.u8()
    if name in ("smallint", "int", "bigint"):
        return reader.signed(size)
    if name in ("real", "float"):
        return reader.f32() if size == 4 else reader.f64()
    if name == "uniqueidentifier":
        return uuid.UUID(bytes_le=raw)
    if name == "smallmoney":
        return _money(reader.signed(4))
    if name == "money":
        return _money(reader.signed(4) << 32 | reader.u32())
    if name == "smalldatetime":
        days, minutes = reader.u16(), reader.u16()
        return f"{_day(_DAYS_1900 + days)} {_clock(minutes * 60 * _TICKS_PER_SECOND, 0)}"
    days, units = reader.signed(4), reader.u32()
    milliseconds = (units * 10 + 1) // 3
    return f"{_day(_DAYS_1900 + days)} {_clock(milliseconds * 10_000, 3)}"


def _money(units: int) -> Decimal:
    digits = tuple(int(digit) for digit in str(abs(units)))
    return Decimal((1 if units < 0 else 0, digits, -4))


def _day(days: int) -> datetime.date:
    if not 0 <= days <= _LAST_DAY:
        raise ProtocolError(f"a date of {days} days")
    return datetime.date.fromordinal(days + 1)


def _clock(ticks: int, scale: int) -> str:
    if not 0 <= ticks < _TICKS_PER_DAY:
        raise ProtocolError("a time of day of more than a day")
    seconds, fraction = divmod(ticks, _TICKS_PER_SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:07}"[: len(text) + 1 + scale] if scale else text


def _with_offset(days: int, ticks: int, minutes: int, scale: int) -> str:
    """The wire has UTC and the offset, T-SQL writes local time and the offset."""
    carried, local = divmod(ticks + minutes * 60 * _TICKS_PER_SECOND, _TICKS_PER_DAY)
    sign = "-" if minutes < 0 else "+"
    offset = f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    return f"{_day(days + carried)} {_clock(local, scale)} {offset}"


_READERS: tuple[tuple[frozenset[int], Callable[[ByteReader, int], Decoded]], ...] = (
    (frozenset(_CHARACTER), _read_character),
    (frozenset(_SIZED), _read_sized),
    (frozenset(_DECIMAL), _read_decimal),
    (frozenset(_SCALED), _read_scaled),
    (frozenset((_DATE,)), _read_date),
    (frozenset(_BINARY), _read_binary),
    (frozenset(_LOB), _read_lob),
    (frozenset(_FIXED), _read_fixed),
    (frozenset((_XML,)), _read_xml),
    (frozenset((_NULL_TYPE,)), _read_null),
)
