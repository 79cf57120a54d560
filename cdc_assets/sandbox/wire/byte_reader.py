"""A cursor over a message that refuses to read past its end."""

from __future__ import annotations

import struct

from cdc_assets.sandbox.wire.errors import ProtocolError

_PLP_NULL = 2**64 - 1


class ByteReader:
    """Reads little-endian TDS values from `data`; `ProtocolError` where it ends too soon."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self.position >= len(self.data)

    def peek(self) -> int:
        """The next byte, not consumed."""
        if self.at_end():
            raise ProtocolError("message ends too soon")
        return self.data[self.position]

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise ProtocolError(f"message ends too soon: {size} bytes wanted at {self.position}")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def rest(self) -> bytes:
        """Everything left."""
        return self.take(len(self.data) - self.position)

    def u8(self) -> int:
        """An unsigned byte."""
        return self.take(1)[0]

    def u16(self) -> int:
        """Two bytes, unsigned."""
        return int.from_bytes(self.take(2), "little")

    def u32(self) -> int:
        """Four bytes, unsigned."""
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        """Eight bytes, unsigned."""
        return int.from_bytes(self.take(8), "little")

    def signed(self, size: int) -> int:
        """`size` bytes, two's complement."""
        return int.from_bytes(self.take(size), "little", signed=True)

    def f32(self) -> float:
        """A four-byte IEEE float."""
        return float(struct.unpack("<f", self.take(4))[0])

    def f64(self) -> float:
        """An eight-byte IEEE float."""
        return float(struct.unpack("<d", self.take(8))[0])

    def utf16(self, size: int) -> str:
        """`size` bytes of UTF-16LE."""
        return decode_text(self.take(size), "utf-16-le")

    def short_text(self) -> str:
        """B_VARCHAR: a count of characters in one byte, then UTF-16."""
        return self.utf16(2 * self.u8())

    def plp(self) -> bytes | None:
        """A partially length-prefixed value: total, chunks, terminator; None for NULL."""
        if self.u64() == _PLP_NULL:
            return None
        chunks = []
        while size := self.u32():
            chunks.append(self.take(size))
        return b"".join(chunks)


def decode_text(raw: bytes, codec: str) -> str:
    """Text of the client's; unpaired surrogates pass, as SQL Server stores them."""
    try:
        if codec == "utf-16-le":
            return raw.decode(codec, "surrogatepass")
        return raw.decode(codec, "replace")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"text is not {codec}") from error
