"""TDS packets: framing of messages, both ways, with bounded memory (MS-TDS 2.2.3)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Protocol

from cdc_assets.sandbox.wire.errors import ProtocolError
from cdc_assets.sandbox.wire.limits import DEFAULT_PACKET_BYTES, MAX_PACKET_BYTES

HEADER_BYTES = 8
BytesLike = bytes | bytearray | memoryview
_HEADER = struct.Struct(">BBHHBB")


class PacketType(IntEnum):
    """The first byte of a packet."""

    SQL_BATCH = 1
    RPC = 3
    RESPONSE = 4
    ATTENTION = 6
    BULK_LOAD = 7
    FEDERATED_TOKEN = 8
    TRANSACTION_MANAGER = 14
    LOGIN7 = 16
    SSPI = 17
    PRELOGIN = 18


_PACKET_TYPES = frozenset(int(kind) for kind in PacketType)


class PacketStatus(IntFlag):
    """The second byte of a packet."""

    END_OF_MESSAGE = 0x01
    IGNORE = 0x02
    RESET_CONNECTION = 0x08
    RESET_CONNECTION_KEEP_TRANSACTION = 0x10


class Channel(Protocol):
    """Bytes both ways, plain or under TLS."""

    def receive(self, size: int) -> bytes:
        """Exactly `size` bytes; `ConnectionError` at the end of the stream."""
        ...

    def send(self, data: BytesLike) -> None:
        """All of `data`."""
        ...

    def has_input(self) -> bool:
        """Whether something (or the end of the stream) waits to be received."""
        ...


@dataclass(frozen=True, slots=True)
class ClientMessage:
    """A whole message of the client."""

    type: PacketType
    first_status: int
    ignored: bool
    data: bytes


def receive_message(channel: Channel, limit: int) -> ClientMessage:
    """Read one message of at most `limit` bytes; `ProtocolError` where it is malformed."""
    data = bytearray()
    total = 0
    expected: PacketType | None = None
    first_status = 0
    while True:
        kind, status, size, *_ = _HEADER.unpack(channel.receive(HEADER_BYTES))
        if not HEADER_BYTES <= size <= MAX_PACKET_BYTES:
            raise ProtocolError(f"packet of {size} bytes")
        if kind not in _PACKET_TYPES:
            raise ProtocolError(f"packet type {kind}")
        if kind == PacketType.ATTENTION and expected is not None:
            # The client gave up in the middle of sending: the attention replaces the request.
            data.clear()
            expected = None
        if expected is None:
            expected, first_status = PacketType(kind), status
        elif kind != expected:
            raise ProtocolError(f"packet type {kind} inside a message of type {expected}")
        total += size
        if total > limit:
            raise ProtocolError(f"message of more than {limit} bytes")
        data += channel.receive(size - HEADER_BYTES)
        if status & PacketStatus.END_OF_MESSAGE:
            ignored = bool(status & PacketStatus.IGNORE)
            return ClientMessage(expected, first_status, ignored, bytes(data))


class PacketWriter:
    """Cuts a response into packets; holds back at most one packet until `end_message`."""

    def __init__(self, channel: Channel, process_id: int) -> None:
        self.channel = channel
        self.packet_bytes = DEFAULT_PACKET_BYTES
        self._process_id = process_id
        self._next_packet = 1
        self._held = bytearray()

    def write(self, data: BytesLike) -> bool:
        """Append `data`; whole packets leave at once. Returns whether any did."""
        view = memoryview(data)
        payload = self.packet_bytes - HEADER_BYTES
        if len(self._held) + len(view) <= payload:
            self._held += view
            return False
        # The last packet stays: only `end_message` knows whether it ends the message.
        taken = payload - len(self._held)
        out: list[BytesLike] = [self._header(0, payload), self._held, view[:taken]]
        while len(view) - taken > payload:
            out += (self._header(0, payload), view[taken : taken + payload])
            taken += payload
        sent = b"".join(out)
        self._held = bytearray(view[taken:])
        self.channel.send(sent)
        return True

    def flush(self) -> None:
        """Send what is held though the message goes on: nothing more may come of it."""
        if self._held:
            header = self._header(0, len(self._held))
            held, self._held = self._held, bytearray()
            self.channel.send(header + held)

    def end_message(self, kind: PacketType = PacketType.RESPONSE) -> None:
        """Send what is held as the last packet."""
        header = self._header(PacketStatus.END_OF_MESSAGE, len(self._held), kind)
        held, self._held = self._held, bytearray()
        self._next_packet = 1
        self.channel.send(header + held)

    def _header(self, status: int, size: int, kind: PacketType = PacketType.RESPONSE) -> bytes:
        number = self._next_packet & 0xFF
        self._next_packet += 1
        return _HEADER.pack(kind, status, size + HEADER_BYTES, self._process_id, number, 0)
