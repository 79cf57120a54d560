"""Where bytes come from and go to: a plain socket, or TLS over one."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Iterator

from cdc_assets.sandbox.wire.errors import ProtocolError
from cdc_assets.sandbox.wire.limits import LOGIN_SECONDS, MAX_LOGIN_BYTES, SEND_BYTES
from cdc_assets.sandbox.wire.packets import BytesLike

_RECEIVE_BYTES = 65536


def has_waiting_bytes(sock: socket.socket) -> bool:
    """Whether the socket has bytes (or its end) to receive now; safe from any thread."""
    try:
        sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except (BlockingIOError, InterruptedError, TimeoutError):
        return False
    except OSError:
        return True
    return True


def close_abruptly(sock: socket.socket) -> None:
    """Reset the connection instead of ending it, as a broken network does."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


class Incoming:
    """What a socket brings; until `admit`, only so many bytes and for so long."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._deadline: float | None = time.monotonic() + LOGIN_SECONDS
        self._left = MAX_LOGIN_BYTES

    def admit(self) -> None:
        """The client is logged in and may take its time."""
        self._deadline = None
        self.socket.settimeout(None)

    def peek(self) -> bytes:
        """The first byte, left where it is; nothing at the end of the stream."""
        with self._bounded():
            return self.socket.recv(1, socket.MSG_PEEK)

    def receive_into(self, view: memoryview) -> int:
        """What is there, at most as much as fits; `ConnectionError` at the end of the stream.

        Raises `ProtocolError` where a client that is not logged in sends too much or too slowly.
        """
        with self._bounded():
            count = self.socket.recv_into(view)
        if not count:
            raise ConnectionError("the client closed the connection")
        if self._deadline is not None:
            self._left -= count
            if self._left < 0:
                raise ProtocolError(f"more than {MAX_LOGIN_BYTES} bytes without a login")
        return count

    @contextlib.contextmanager
    def _bounded(self) -> Iterator[None]:
        # One deadline for all that is received: a byte now and then must not prolong it.
        if self._deadline is None:
            yield
            return
        left = self._deadline - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self.socket.settimeout(left)
            yield
        except TimeoutError:
            raise ProtocolError(f"no login within {LOGIN_SECONDS:g} s") from None


class PlainChannel:
    """A socket; reads no further than asked, so that TLS can begin on it at any moment."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming
        self._socket = incoming.socket

    def receive(self, size: int) -> bytes:
        """Exactly `size` bytes; `ConnectionError` at the end of the stream."""
        buffer = bytearray(size)
        view = memoryview(buffer)
        filled = 0
        while filled < size:
            filled += self._incoming.receive_into(view[filled:])
        return bytes(buffer)

    def send(self, data: BytesLike) -> None:
        """All of `data`."""
        self._socket.sendall(data)

    def has_input(self) -> bool:
        """Whether something waits to be received."""
        return has_waiting_bytes(self._socket)


class TlsChannel:
    """TLS over a socket through memory, so that its handshake can travel in TDS packets."""

    def __init__(self, incoming: Incoming, context: ssl.SSLContext) -> None:
        self._received = incoming
        self._socket = incoming.socket
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._clear = bytearray()

    def handshake(self, received: bytes) -> tuple[bool, bytes]:
        """One step: what the client sent; returns whether TLS stands, and the answer to send."""
        self._incoming.write(received)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False, self._outgoing.read()
        except ssl.SSLError:
            # The alert tells the client why.
            with contextlib.suppress(OSError):
                self._socket.sendall(self._outgoing.read())
            raise
        return True, self._outgoing.read()

    def handshake_directly(self) -> str | None:
        """TDS 8: TLS first, on the bare socket; returns the protocol ALPN agreed on."""
        complete = False
        while not complete:
            complete, answer = self.handshake(self._receive_some())
            self._socket.sendall(answer)
        return self._tls.selected_alpn_protocol()

    def receive(self, size: int) -> bytes:
        """Exactly `size` bytes; `ConnectionError` at the end of the stream."""
        while len(self._clear) < size:
            try:
                clear = self._tls.read(_RECEIVE_BYTES)
            except ssl.SSLWantReadError:
                self._incoming.write(self._receive_some())
                continue
            if not clear:
                raise ConnectionError("the client closed TLS")
            self._clear += clear
        taken = bytes(self._clear[:size])
        del self._clear[:size]
        return taken

    def send(self, data: BytesLike) -> None:
        """All of `data`."""
        view = memoryview(data)
        for start in range(0, len(view), SEND_BYTES):
            self._tls.write(view[start : start + SEND_BYTES])
            self._socket.sendall(self._outgoing.read())

    def has_input(self) -> bool:
        """Whether something waits to be received."""
        waiting = self._clear or self._tls.pending() or self._incoming.pending
        return bool(waiting) or has_waiting_bytes(self._socket)

    def _receive_some(self) -> bytes:
        count = self._received.receive_into(memoryview(self._buffer))
        return bytes(self._buffer[:count])
