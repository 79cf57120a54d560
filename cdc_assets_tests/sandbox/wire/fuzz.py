"""Malformed packets, drawn from a seed: valid messages of every kind, then broken somewhere."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from enum import Enum

from cdc_assets_tests.sandbox.wire import packets as p
from cdc_assets_tests.sandbox.wire.canned import PASSWORD, USER

_EXTREMES = (0, 1, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF, 2**31, 2**32 - 2, 2**32 - 1)
_LONE_SURROGATE = b"\x00\xd8"
_WRONG = (
    "",
    "wrong",
    PASSWORD.upper(),
    PASSWORD + "\0",
    PASSWORD[:-1],
    " " + PASSWORD,
    "\ud800",
    "x" * 300,
)


class Stage(Enum):
    """How far a client got before it sends its malformed packet."""

    CONNECTED = "connected"
    GREETED = "after PRELOGIN"
    ENCRYPTING = "after a PRELOGIN that asks for TLS"
    ENCRYPTED = "under TLS"
    LOGGED_IN = "logged in"


@dataclass(frozen=True, slots=True)
class Case:
    """One malformed packet (or a few that only together are malformed)."""

    what: str
    stage: Stage
    data: bytes


class Fuzzer:
    """Draws cases; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._hello = p.client_hello()
        self._kinds = (
            (2, "prelogin", Stage.CONNECTED, self._prelogin),
            (1, "first bytes", Stage.CONNECTED, self._noise),
            (1, "direct TLS", Stage.CONNECTED, self._direct_tls),
            (1, "request before the login", Stage.CONNECTED, self._request),
            (1, "request before the login", Stage.GREETED, self._request),
            (2, "TLS record", Stage.ENCRYPTING, self._tls_record),
            (1, "TLS record", Stage.ENCRYPTED, self._noise),
            (4, "login", Stage.GREETED, self._login),
            (2, "wrong login", Stage.GREETED, self._wrong_login),
            (3, "batch", Stage.LOGGED_IN, self._batch),
            (5, "RPC", Stage.LOGGED_IN, self._rpc),
            (2, "transaction request", Stage.LOGGED_IN, self._transaction),
            (1, "attention", Stage.LOGGED_IN, self._attention),
            (2, "bulk load", Stage.LOGGED_IN, self._bulk),
            (2, "framing", Stage.LOGGED_IN, self._many_packets),
        )

    def case(self) -> Case:
        """The next case."""
        weights = [weight for weight, *_ in self._kinds]
        ((_, what, stage, make),) = self.random.choices(self._kinds, weights)
        return Case(what, stage, make())

    # --- what is broken ------------------------------------------------------------------------

    def _broken(self, data: bytes) -> bytes:
        """The bytes with one to three faults."""
        for _ in range(self.random.choice((1, 1, 2, 3))):
            data = self.random.choice(
                (self._flip, self._cut, self._insert, self._extreme, self._repeat, self._surrogate)
            )(data)
        return data

    def _place(self, data: bytes) -> int:
        return self.random.randrange(len(data) + 1)

    def _flip(self, data: bytes) -> bytes:
        changed = bytearray(data or b"\0")
        for _ in range(self.random.randint(1, 8)):
            changed[self.random.randrange(len(changed))] = self.random.randrange(256)
        return bytes(changed)

    def _cut(self, data: bytes) -> bytes:
        return data[: self._place(data)]

    def _insert(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + self.random.randbytes(self.random.randint(1, 40)) + data[place:]

    def _extreme(self, data: bytes) -> bytes:
        """A length, an offset or a count somewhere, of a value at an end of its range."""
        size = self.random.choice((1, 2, 2, 4, 4, 8))
        number = self.random.choice(_EXTREMES) & (256**size - 1)
        raw = number.to_bytes(size, self.random.choice(("little", "big")))
        place = self._place(data)
        return data[:place] + raw + data[place + size :]

    def _repeat(self, data: bytes) -> bytes:
        start, end = sorted((self._place(data), self._place(data)))
        return data[:end] + data[start:end] * self.random.randint(1, 5) + data[end:]

    def _surrogate(self, data: bytes) -> bytes:
        place = self._place(data) & ~1
        return data[:place] + _LONE_SURROGATE + data[place + 2 :]

    def _packets(self, kind: int, data: bytes) -> bytes:
        """The message in packets; some of them with a header that lies."""
        if self.random.random() < 0.7:
            return p.packet(kind, data[: p.LARGEST - 8])
        lie = self.random.randrange(5)
        if lie == 0:
            return p.packet(self.random.randrange(256), data[: p.LARGEST - 8])
        if lie == 1:
            return p.packet(kind, data[: p.LARGEST - 8], self.random.randrange(256))
        if lie == 2:
            size = self.random.choice((0, 1, 7, 8, 9, len(data), 32_767, 32_768, 65_535))
            return struct.pack(">BBHHBB", kind, 1, size, 0, 1, 0) + data
        if lie == 3:
            return p.message(kind, data, self.random.randint(1, 30))
        return self._cut(p.packet(kind, data[: p.LARGEST - 8]))

    # --- before the login ----------------------------------------------------------------------

    def _prelogin(self) -> bytes:
        options = p.prelogin(self.random.randrange(5), self.random.randrange(3))
        return self._packets(p.PRELOGIN, self._broken(options))

    def _noise(self) -> bytes:
        return self.random.randbytes(self.random.randint(0, 300))

    def _direct_tls(self) -> bytes:
        return b"\x16" + self._broken(self._hello)[1:]

    def _request(self) -> bytes:
        kind = self.random.choice(
            (p.SQL_BATCH, p.RPC, p.TRANSACTION, p.BULK, p.ATTENTION, p.LOGIN7, 2, 8, 17)
        )
        return self._packets(kind, p.batch("SELECT 1"))

    def _tls_record(self) -> bytes:
        hello = self._broken(self._hello)
        if self.random.random() < 0.3:
            hello = struct.pack(">BHH", self.random.randrange(256), 0x0303, 65_535) + hello
        return self._packets(p.PRELOGIN, hello)

    def _login(self) -> bytes:
        """Broken anywhere, with a password that never was right."""
        features = None
        if self.random.random() < 0.5:
            features = self._broken(b"\x0a\x01\0\0\0\x01" + b"\x01\0\0\0\0" + b"\xff")
        raw = p.login(
            self.random.choice((USER, "sa", "", "x" * 200)),
            "wrong",
            version=self.random.choice((p.TDS_7_0, p.TDS_7_1, p.TDS_7_2, p.TDS_7_4, 0, 2**32 - 1)),
            packet_bytes=self.random.choice((0, 1, 511, 512, 4096, 32_767, 2**31)),
            features=features,
        )
        return self._packets(p.LOGIN7, self._broken(raw))

    def _wrong_login(self) -> bytes:
        user = self.random.choice((USER, USER.upper(), USER + "\0", "", "x" * 120, "\udfff"))
        return p.packet(p.LOGIN7, p.login(user, self.random.choice(_WRONG)))

    # --- after it ------------------------------------------------------------------------------

    def _batch(self) -> bytes:
        text = self.random.choice(("one", "nothing of that name", "ü" * 500, ""))
        return self._packets(p.SQL_BATCH, self._broken(p.batch(text)))

    def _rpc(self) -> bytes:
        count = self.random.choice((0, 1, 2, 3, 6))
        given = [self.random.choice(p.PARAMETERS) for _ in range(count)]
        whole = self.random.random() < 0.5
        if not whole and given:
            given[-1] = self._broken(given[-1])
        if self.random.random() < 0.5:
            given = [p.nvarchar("one"), p.nvarchar("@a int, @b nvarchar(max)"), *given]
        name = self.random.choice((*range(17), "sp_executesql", "sp_execute", "dbo.none", ""))
        message = p.call(name, *given)
        if self.random.random() < 0.2:
            message += b"\xff" + message[len(p.HEADERS) :]
        if self.random.random() < 0.2:
            lie = self.random.choice((2**64 - 2, 2**63, 2**40, 3))
            message += b"\0\0" + p.nvarchar_max("text", total=lie, chunk=2**31)
        return self._packets(p.RPC, self._broken(message) if whole else message)

    def _transaction(self) -> bytes:
        payload = self.random.choice(
            (b"", b"\x00\x00", b"\x02\x00", b"\x00\x01\x00\x00", b"\x04a\0b\0\x00")
        )
        request = self.random.choice((0, 1, 5, 6, 7, 8, 9, 10, 0xFFFF))
        data = p.transaction(request, payload)
        return self._packets(p.TRANSACTION, self._broken(data))

    def _attention(self) -> bytes:
        body = self.random.randbytes(self.random.choice((0, 0, 1, 200)))
        return self._packets(p.ATTENTION, body) * self.random.choice((1, 1, 2, 5))

    def _bulk(self) -> bytes:
        return self._packets(p.BULK, self._broken(p.bulk()))

    def _many_packets(self) -> bytes:
        """Messages in hundreds of packets: empty ones, and of changing types."""
        count = self.random.choice((2, 50, 400))
        kinds = self.random.choice(((p.SQL_BATCH,), (p.RPC,), (p.SQL_BATCH, p.RPC), (p.BULK,)))
        body = self.random.choice((b"", b"x"))
        parts = [p.packet(self.random.choice(kinds), body, 0, i & 0xFF) for i in range(count)]
        return b"".join(parts) + self.random.choice(
            (b"", p.packet(kinds[0], b""), p.packet(p.ATTENTION, b""))
        )
