"""Where bytes come from and go to: a plain socket, or TLS over one."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct

from cdc_assets.sandbox.wire.limits import SEND_BYTES
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


class PlainChannel:
    """A socket; reads no further than asked, so that TLS can begin on it at any moment."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def receive(self, size: int) -> bytes:
        """Exactly `size` bytes; `ConnectionError` at the end of the stream."""
        buffer = bytearray(size)
        view = memoryview(buffer)
        filled = 0
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if not count:
                raise ConnectionError("the client closed the connection")
            filled += count
        return bytes(buffer)

    def send(self, data: BytesLike) -> None:
        """All of `data`."""
        self._socket.sendall(data)

    def has_input(self) -> bool:
        """Whether something waits to be received."""
        return has_waiting_bytes(self._socket)


class TlsChannel:
    """TLS over a socket through memory, so that its handshake can travel in TDS packets."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = sock
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
        received = self._socket.recv(_RECEIVE_BYTES)
        if not received:
            raise ConnectionError("the client closed the connection")
        return received
