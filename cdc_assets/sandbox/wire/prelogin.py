"""PRELOGIN: what the client offers, how encryption is agreed on, the answer (MS-TDS 2.2.6.5)."""

from __future__ import annotations

import struct
from enum import IntEnum

from cdc_assets.sandbox.wire.errors import ProtocolError
from cdc_assets.sandbox.wire.tokens import PRODUCT_VERSION

_OPTION = struct.Struct(">BHH")
_VERSION, _ENCRYPTION, _INSTANCE, _THREAD, _MARS, _TERMINATOR = 0, 1, 2, 3, 4, 0xFF


class Encryption(IntEnum):
    """Values of the ENCRYPTION option."""

    OFF = 0
    ON = 1
    NOT_SUPPORTED = 2
    REQUIRED = 3


def parse_prelogin(data: bytes) -> dict[int, bytes]:
    """The options of a PRELOGIN message."""
    options: dict[int, bytes] = {}
    position = 0
    while position < len(data) and data[position] != _TERMINATOR:
        if position + _OPTION.size > len(data):
            raise ProtocolError("PRELOGIN ends inside an option")
        option, offset, length = _OPTION.unpack_from(data, position)
        if offset + length > len(data):
            raise ProtocolError(f"PRELOGIN option {option} lies outside the message")
        options[option] = data[offset : offset + length]
        position += _OPTION.size
    if position >= len(data):
        raise ProtocolError("PRELOGIN without a terminator")
    return options


def agree_on_encryption(options: dict[int, bytes]) -> Encryption:
    """ON for clients that want TLS, NOT_SUPPORTED for the rest: the password stays on loopback."""
    offered = options.get(_ENCRYPTION, b"")[:1]
    wants = offered in (bytes([Encryption.ON]), bytes([Encryption.REQUIRED]))
    return Encryption.ON if wants else Encryption.NOT_SUPPORTED


def wants_mars(options: dict[int, bytes]) -> bool:
    """Whether the client would like several results at once, which the sandbox does not have."""
    return options.get(_MARS, b"\x00") != b"\x00"


def prelogin_answer(encryption: Encryption, *, mars_wanted: bool) -> bytes:
    """The server's PRELOGIN."""
    # Told "off", msodbcsql ends the connection without a word where it had asked for MARS; told
    # nothing, it does without, as every driver does.
    mars = () if mars_wanted else ((_MARS, b"\x00"),)
    answers = (
        (_VERSION, PRODUCT_VERSION + b"\x00\x00"),
        (_ENCRYPTION, bytes([encryption])),
        (_INSTANCE, b"\x00"),
        (_THREAD, b""),
        *mars,
    )
    head, body = b"", b""
    start = len(answers) * _OPTION.size + 1
    for option, value in answers:
        head += _OPTION.pack(option, start + len(body), len(value))
        body += value
    return head + bytes([_TERMINATOR]) + body
