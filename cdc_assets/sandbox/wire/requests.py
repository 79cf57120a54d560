"""What a client asks for after login: batches, RPCs, transaction manager requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from cdc_assets.sandbox.results import Parameter, SqlError
from cdc_assets.sandbox.wire.byte_reader import ByteReader
from cdc_assets.sandbox.wire.errors import ProtocolError
from cdc_assets.sandbox.wire.limits import MAX_PARAMETERS
from cdc_assets.sandbox.wire.parameters import read_parameter

_BY_NUMBER = 0xFFFF
_SEPARATORS = (0xFF, 0xFE)
_PROCEDURES = {
    1: "sp_cursor",
    2: "sp_cursoropen",
    3: "sp_cursorprepare",
    4: "sp_cursorexecute",
    5: "sp_cursorprepexec",
    6: "sp_cursorunprepare",
    7: "sp_cursorfetch",
    8: "sp_cursoroption",
    9: "sp_cursorclose",
    10: "sp_executesql",
    11: "sp_prepare",
    12: "sp_execute",
    13: "sp_prepexec",
    14: "sp_prepexecrpc",
    15: "sp_unprepare",
}


@dataclass(frozen=True, slots=True)
class ProcedureCall:
    """One RPC of a message; `last` where no other follows."""

    name: str
    parameters: tuple[Parameter, ...]
    last: bool


class TransactionRequest(IntEnum):
    """Kinds of transaction manager requests."""

    GET_DTC_ADDRESS = 0
    PROPAGATE = 1
    BEGIN = 5
    PROMOTE = 6
    COMMIT = 7
    ROLLBACK = 8
    SAVE = 9


@dataclass(frozen=True, slots=True)
class TransactionCall:
    """A transaction manager request; `begins` where the next transaction begins at once.

    `name` is of what it ends or saves, `next_name` and `isolation` of what it begins.
    """

    kind: TransactionRequest
    name: str = ""
    isolation: int = 0
    begins: bool = False
    next_name: str = ""


def parse_batch(data: bytes) -> str:
    """The text of a SQL batch."""
    reader = ByteReader(data)
    _skip_headers(reader)
    return reader.utf16(len(data) - reader.position)


def parse_calls(data: bytes) -> Iterator[ProcedureCall]:
    """The RPCs of a message, one by one.

    Raises `SqlError` for parameters the sandbox does not take; nothing after it is readable.
    """
    reader = ByteReader(data)
    _skip_headers(reader)
    while not reader.at_end():
        name = _procedure_name(reader)
        reader.u16()  # options: recompile, no metadata
        parameters: list[Parameter] = []
        while not reader.at_end() and reader.peek() not in _SEPARATORS:
            parameter = read_parameter(reader, len(parameters) + 1)
            if parameter is not None:
                parameters.append(parameter)
            if len(parameters) > MAX_PARAMETERS:
                text = (
                    "Too many parameters were provided in this RPC request. "
                    f"The maximum is {MAX_PARAMETERS}."
                )
                raise SqlError(8003, text)
        if not reader.at_end():
            reader.u8()
        yield ProcedureCall(name, tuple(parameters), last=reader.at_end())


def parse_transaction_call(data: bytes) -> TransactionCall:
    """A transaction manager request."""
    reader = ByteReader(data)
    _skip_headers(reader)
    number = reader.u16()
    if number not in set(TransactionRequest):
        raise ProtocolError(f"transaction manager request {number}")
    kind = TransactionRequest(number)
    if kind == TransactionRequest.BEGIN:
        isolation = reader.u8()
        return TransactionCall(kind, isolation=isolation, next_name=_name(reader))
    if kind == TransactionRequest.SAVE:
        return TransactionCall(kind, _name(reader))
    if kind in (TransactionRequest.COMMIT, TransactionRequest.ROLLBACK):
        name = _name(reader)
        begins = not reader.at_end() and bool(reader.u8() & 1)
        if not begins:
            return TransactionCall(kind, name)
        isolation = reader.u8()
        next_name = "" if reader.at_end() else _name(reader)
        return TransactionCall(kind, name, isolation, begins, next_name)
    return TransactionCall(kind)


def _procedure_name(reader: ByteReader) -> str:
    length = reader.u16()
    if length != _BY_NUMBER:
        return reader.utf16(2 * length)
    number = reader.u16()
    if number not in _PROCEDURES:
        raise SqlError(2812, f"Could not find stored procedure number {number}.", state=62)
    return _PROCEDURES[number]


def _name(reader: ByteReader) -> str:
    # Documented as B_VARCHAR, but its length counts bytes in what clients send.
    return reader.utf16(reader.u8())


def _skip_headers(reader: ByteReader) -> None:
    """ALL_HEADERS: transaction descriptor, notifications, trace; nothing the sandbox needs."""
    total = reader.u32()
    if total < 4:
        raise ProtocolError(f"ALL_HEADERS of {total} bytes")
    reader.take(total - 4)
