"""The tokens of a response, as bytes (MS-TDS 2.2.7)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum, IntFlag

from cdc_assets.sandbox.results import (
    Message,
    ResultColumn,
    SqlError,
    SqlType,
    TransactionChange,
)
from cdc_assets.sandbox.wire.errors import EncodingError
from cdc_assets.sandbox.wire.type_info import ROWVERSION_USER_TYPE, is_lob, type_info

ROW = 0xD1
SERVER_NAME = "sandbox"
PRODUCT_NAME = "Microsoft SQL Server"
PRODUCT_VERSION = bytes([16, 0, 0x10, 0x00])
"""16.0.4096: SQL Server 2022, which decides what clients dare to send."""

_MAX_MESSAGE_CHARACTERS = 2048
_NULLABLE = 0x01
_HIDDEN = 0x2000
_UPDATABLE = 0x08


class DoneToken(IntEnum):
    """Which of the three DONE tokens: of a batch, of a procedure, of a statement inside one."""

    DONE = 0xFD
    DONE_PROCEDURE = 0xFE
    DONE_IN_PROCEDURE = 0xFF


class DoneStatus(IntFlag):
    """Status bits of a DONE token."""

    FINAL = 0x00
    MORE = 0x01
    ERROR = 0x02
    COUNT = 0x10
    ATTENTION = 0x20


class Command(IntEnum):
    """The command a DONE token belongs to; JDBC takes counts only from those it knows."""

    NONE = 0x00
    SELECT = 0xC1
    SELECT_INTO = 0xC2
    INSERT = 0xC3
    DELETE = 0xC4
    UPDATE = 0xC5
    ROLLBACK = 0xD2
    BEGIN = 0xD4
    COMMIT = 0xD5
    PROCEDURE = 0xE0
    MERGE = 0x117


class Change(IntEnum):
    """What an ENVCHANGE token changes."""

    DATABASE = 1
    LANGUAGE = 2
    PACKET_SIZE = 4
    COLLATION = 7
    BEGIN_TRANSACTION = 8
    COMMIT_TRANSACTION = 9
    ROLLBACK_TRANSACTION = 10
    RESET = 18


def done(kind: DoneToken, status: int, command: int = Command.NONE, rows: int = 0) -> bytes:
    """DONE, DONEPROC or DONEINPROC."""
    return struct.pack("<BHHQ", kind, status, command, rows)


def column_metadata(columns: Sequence[ResultColumn]) -> bytes:
    """COLMETADATA of a result set."""
    parts = [b"\x81", struct.pack("<H", len(columns))]
    for column in columns:
        flags = _UPDATABLE | (_NULLABLE if column.nullable else 0)
        flags |= _HIDDEN if column.hidden else 0
        parts += (
            struct.pack("<IH", _user_type(column.type), flags),
            type_info(column.type, nullable=column.nullable),
            _NO_TABLE if is_lob(column.type) else b"",
            short_text(column.name),
        )
    return b"".join(parts)


def error(problem: SqlError) -> bytes:
    """ERROR."""
    body = (problem.number, problem.state, problem.severity, problem.text)
    return _message(0xAA, *body, line=problem.line or 1)


def old_error(problem: SqlError) -> bytes:
    """ERROR as clients before TDS 7.2 read it."""
    long = _message(0xAA, problem.number, problem.state, problem.severity, problem.text)
    return _sized(0xAA, long[3:-2])  # two bytes of line number instead of four


OLD_DONE_WITH_ERROR = struct.pack("<BHHI", DoneToken.DONE, DoneStatus.ERROR, Command.NONE, 0)
"""DONE as clients before TDS 7.2 read it: four bytes of row count."""


def info(message: Message) -> bytes:
    """INFO."""
    return _message(0xAB, message.number, message.state, message.severity, message.text)


def environment_change(kind: Change, new: bytes, old: bytes) -> bytes:
    """ENVCHANGE; `new` and `old` already carry their lengths."""
    return _sized(0xE3, bytes([kind]) + new + old)


def database_change(new: str, old: str) -> bytes:
    """ENVCHANGE and INFO 5701, as `USE` and a login answer."""
    text = Message(5701, f"Changed database context to '{new}'.", state=2)
    change = environment_change(Change.DATABASE, short_text(new), short_text(old))
    return change + info(text)


def transaction_change(change: TransactionChange) -> bytes:
    """ENVCHANGE 8, 9 or 10: clients send the descriptor back in the headers of their requests."""
    descriptor = b"\x08" + struct.pack("<Q", change.number)
    if change.kind == "begin":
        return environment_change(Change.BEGIN_TRANSACTION, descriptor, b"\x00")
    committed = change.kind == "commit"
    kind = Change.COMMIT_TRANSACTION if committed else Change.ROLLBACK_TRANSACTION
    return environment_change(kind, b"\x00", descriptor)


def login_acknowledgement(tds_version: int) -> bytes:
    """LOGINACK with the version the connection speaks."""
    name = short_text(PRODUCT_NAME)
    return _sized(0xAD, b"\x01" + struct.pack(">I", tds_version) + name + PRODUCT_VERSION)


def feature_acknowledgement(features: dict[int, bytes]) -> bytes:
    """FEATUREEXTACK of the features taken on; all others are thereby declined."""
    parts = [
        bytes([feature]) + struct.pack("<I", len(data)) + data for feature, data in features.items()
    ]
    return b"\xae" + b"".join(parts) + b"\xff"


def return_status(status: int) -> bytes:
    """RETURNSTATUS of a procedure."""
    return b"\x79" + struct.pack("<i", status)


def return_value(ordinal: int, name: str, sql_type: SqlType, value: bytes) -> bytes:
    """RETURNVALUE of an output parameter; `value` as a row would carry it."""
    head = b"\xac" + struct.pack("<H", ordinal) + short_text(name) + b"\x01"
    kind = struct.pack("<IH", _user_type(sql_type), _NULLABLE)
    return head + kind + type_info(sql_type, nullable=True) + value


def short_text(text: str) -> bytes:
    """B_VARCHAR."""
    raw = text.encode("utf-16-le", "surrogatepass")
    if len(raw) > 2 * 255:
        raise EncodingError(f"a name of {len(raw) // 2} characters: {text[:40]}...")
    return bytes([len(raw) // 2]) + raw


def long_text(text: str) -> bytes:
    """US_VARCHAR."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return struct.pack("<H", len(raw) // 2) + raw


# text, ntext and image name their table; one part without characters says "none".
_NO_TABLE = b"\x01\x00\x00"


def _user_type(sql_type: SqlType) -> int:
    return ROWVERSION_USER_TYPE if sql_type.name in ("rowversion", "timestamp") else 0


def _message(
    token: int, number: int, state: int, severity: int, text: str, *, line: int = 1
) -> bytes:
    # SQL Server cuts messages at this length too; the token could carry no more than 64 KiB.
    body = struct.pack("<iBB", number, state & 0xFF, severity & 0xFF)
    body += long_text(text[:_MAX_MESSAGE_CHARACTERS]) + short_text(SERVER_NAME)
    return _sized(token, body + short_text("") + struct.pack("<i", line))


def _sized(token: int, body: bytes) -> bytes:
    return bytes([token]) + struct.pack("<H", len(body)) + body
