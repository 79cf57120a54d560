"""TDS messages as a client's bytes, made by hand: what drivers never let us send."""

from __future__ import annotations

import ssl
import struct
import uuid
from collections.abc import Iterator

from cdc_assets_tests.sandbox.wire.canned import PASSWORD, USER

SQL_BATCH, RPC, ATTENTION, BULK, TRANSACTION, LOGIN7, PRELOGIN = 1, 3, 6, 7, 14, 16, 18
RESPONSE = 4
KINDS = frozenset((1, 3, 4, 6, 7, 8, 14, 16, 17, 18))
LARGEST = 32_767
HEADERS = struct.pack("<IIHQI", 22, 18, 2, 0, 1)
"""ALL_HEADERS with a transaction descriptor of 0."""

TDS_7_0, TDS_7_1, TDS_7_2, TDS_7_4 = 0x70000000, 0x71000001, 0x72090002, 0x74000004


def packet(kind: int, data: bytes, status: int = 1, number: int = 1) -> bytes:
    """One packet."""
    return struct.pack(">BBHHBB", kind, status, len(data) + 8, 0, number, 0) + data


def message(kind: int, data: bytes, size: int) -> bytes:
    """A message in packets of `size` bytes of data."""
    pieces = [data[i : i + size] for i in range(0, len(data), size)] or [b""]
    return b"".join(
        packet(kind, piece, int(i == len(pieces)), i & 0xFF) for i, piece in enumerate(pieces, 1)
    )


def prelogin(encryption: int = 2, mars: int = 0) -> bytes:
    """PRELOGIN's options: version, encryption (2: none), MARS."""
    values = ((0, bytes(6)), (1, bytes([encryption])), (4, bytes([mars])))
    head, body = b"", b""
    for option, value in values:
        head += struct.pack(">BHH", option, 5 * len(values) + 1 + len(body), len(value))
        body += value
    return head + b"\xff" + body


def hidden(password: str) -> bytes:
    """A password as LOGIN7 hides it."""
    raw = password.encode("utf-16-le", "surrogatepass")
    return bytes(((b << 4 & 0xF0) | b >> 4) ^ 0xA5 for b in raw)


def login(
    user: str = USER,
    password: str = PASSWORD,
    *,
    database: str = "sales",
    version: int = TDS_7_4,
    packet_bytes: int = 4096,
    features: bytes | None = None,
) -> bytes:
    """LOGIN7; `features` is a FEATUREEXT block."""
    raw_user = user.encode("utf-16-le", "surrogatepass")
    # The sixth is the place of the place of the FEATUREEXT block, which comes last.
    pointer = b"" if features is None else bytes(4)
    texts = [b"h\0", raw_user, hidden(password), b"a\0", b"s\0", pointer, b"l\0", b""]
    texts.append(database.encode("utf-16-le"))
    places = body = b""
    for text in texts:
        size = len(text) if text is pointer else len(text) // 2
        places += struct.pack("<HH", 94 + len(body), size)
        body += text
    offset = 94 + len(body)
    if features is not None:
        at = sum(map(len, texts[:5]))
        body = body[:at] + struct.pack("<I", offset) + body[at + 4 :] + features
    places += bytes(6) + 3 * struct.pack("<HH", offset, 0) + bytes(4)
    flags = bytes([0xE0, 0x03, 0x00, 0x10 if features is not None else 0])
    fixed = struct.pack("<IIIII", version, packet_bytes, 0, 1, 0) + flags + bytes(8)
    return struct.pack("<I", 4 + len(fixed) + len(places) + len(body)) + fixed + places + body


def greeting(user: str = USER, password: str = PASSWORD) -> bytes:
    """PRELOGIN and LOGIN7 as one flight."""
    return packet(PRELOGIN, prelogin()) + packet(LOGIN7, login(user, password))


def batch(text: str) -> bytes:
    """A SQL batch's message."""
    return HEADERS + text.encode("utf-16-le", "surrogatepass")


def name_text(text: str) -> bytes:
    """B_VARCHAR."""
    return bytes([len(text)]) + text.encode("utf-16-le")


def call(number_or_name: int | str, *parameters: bytes) -> bytes:
    """An RPC's message; each parameter is TYPE_INFO and value."""
    if isinstance(number_or_name, int):
        name = struct.pack("<HH", 0xFFFF, number_or_name)
    else:
        name = struct.pack("<H", len(number_or_name)) + number_or_name.encode("utf-16-le")
    body = b"".join(b"\x00\x00" + parameter for parameter in parameters)
    return HEADERS + name + b"\x00\x00" + body


def nvarchar(text: str) -> bytes:
    """An nvarchar(4000) parameter."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return b"\xe7\x40\x1f" + bytes(5) + struct.pack("<H", len(raw)) + raw


def nvarchar_max(text: str, *, total: int | None = None, chunk: int | None = None) -> bytes:
    """An nvarchar(max) parameter; `total` and `chunk` lie about its lengths."""
    raw = text.encode("utf-16-le")
    head = struct.pack("<QI", len(raw) if total is None else total, chunk or len(raw))
    return b"\xe7\xff\xff" + bytes(5) + head + raw + bytes(4)


def table_valued() -> bytes:
    """A table-valued parameter without rows: dbo.ids(int)."""
    column = struct.pack("<IH", 0, 1) + b"\x26\x04" + b"\x00"
    head = b"\xf3\x00" + name_text("dbo") + name_text("ids")
    return head + struct.pack("<H", 1) + column + b"\x00\x00"


PARAMETERS = (
    nvarchar("text"),
    nvarchar_max("long text"),
    b"\x26\x04\x04" + struct.pack("<i", -5),
    b"\x26\x08\x00",
    b"\x68\x01\x01\x01",
    b"\x6d\x08\x08" + struct.pack("<d", 0.5),
    b"\x6e\x08\x08" + struct.pack("<iI", -1, 0xFFFFFFFF),
    b"\x6f\x08\x08" + struct.pack("<iI", 1, 1),
    b"\x28\x03\x00\x00\x00",
    b"\x29\x07\x05" + (864 * 10**9 - 1).to_bytes(5, "little"),
    b"\x2a\x00\x06\x01\x00\x00\x00\x00\x00",
    b"\x2b\x03\x09" + bytes(4) + b"\x01\x00\x00" + struct.pack("<h", -90),
    b"\x6a\x11\x26\x00\x11\x01" + (10**38 - 1).to_bytes(16, "little"),
    b"\xa7\x08\x00\x08\x04\xd0\x00\x00\x01\x00\xd9",
    b"\xa5\x08\x00\x02\x00\x01\x02",
    b"\x63\xff\xff\xff\x7f" + bytes(5) + b"\x02\0\0\0x\0",
    b"\x24\x10\x10" + uuid.UUID(int=9).bytes_le,
    b"\xf1\x00" + struct.pack("<QI", 2, 2) + b"x\0" + bytes(4),
    table_valued(),
)
"""Parameters of every kind of type, as they should be."""


def transaction(request: int, payload: bytes = b"") -> bytes:
    """A transaction manager request."""
    return HEADERS + struct.pack("<H", request) + payload


def bulk() -> bytes:
    """A bulk load of one int column and one row."""
    metadata = b"\x81" + struct.pack("<HIH", 1, 0, 9) + b"\x26\x04" + name_text("n")
    return metadata + b"\xd1\x04" + struct.pack("<i", 7) + struct.pack("<BHHQ", 0xFD, 0, 0, 0)


def client_hello() -> bytes:
    """The first flight of a TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), sent)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without a server")


def framing(data: bytes) -> str:
    """What a server makes of these packets: `whole` message, `broken`, or still `waiting`."""
    position, first = 0, None
    while len(data) - position >= 8:
        kind, status, size = struct.unpack_from(">BBH", data, position)
        if not 8 <= size <= LARGEST or kind not in KINDS:
            return "broken"
        if kind == ATTENTION:
            first = kind
        elif first is not None and kind != first:
            return "broken"
        first = kind
        position += size
        if position > len(data):
            return "waiting"
        if status & 1:
            return "whole"
    return "waiting"


def has_message(data: bytes | bytearray, position: int = 0) -> bool:
    """Whether a whole message begins at a position."""
    while len(data) - position >= 8:
        _, status, size = struct.unpack_from(">BBH", data, position)
        position += size
        if status & 1:
            return position <= len(data)
    return False


def payloads(data: bytes | bytearray) -> Iterator[bytes]:
    """What packets carry."""
    position = 0
    while position < len(data):
        (size,) = struct.unpack_from(">H", data, position + 2)
        yield bytes(data[position + 8 : position + size])
        position += size
