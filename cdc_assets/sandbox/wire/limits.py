"""Every bound of the wire in one place; what is beyond one is refused, never grown into."""

from __future__ import annotations

MAX_CONNECTIONS = 128
"""Connections at once; the next is closed as it arrives."""

ACCEPT_RETRY_SECONDS = 0.05
"""How long the listener waits after an `accept` that failed, before it tries again."""

LOGIN_SECONDS = 30.0
"""How long a client may take from connecting to the end of its LOGIN7, however it spends it."""

MAX_LOGIN_BYTES = 256 * 1024
"""All that a client may send until it is logged in: PRELOGIN, TLS handshake, LOGIN7."""

STOP_SECONDS = 10.0
"""How long `TdsServer.stop` waits for the threads of its connections, in all."""

DEFAULT_PACKET_BYTES = 4096
"""Packet size until LOGIN7 negotiates one, and for clients that ask for 0."""

MIN_PACKET_BYTES = 512
MAX_PACKET_BYTES = 32767
"""What LOGIN7 may ask for."""

MAX_TLS_PACKET_BYTES = 16384
"""A packet under TLS has to fit one TLS record, or msodbcsql ends the connection."""

MAX_LOGIN_MESSAGE_BYTES = 128 * 1024
"""A PRELOGIN or LOGIN7 message (MS-TDS bounds LOGIN7 at 128 KiB)."""

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""A request after login: its packets with their headers, so that empty ones count too."""

MAX_PARAMETERS = 2100
"""Parameters of one RPC, as SQL Server bounds them (Msg 8003)."""

MAX_PREPARED_STATEMENTS = 16_384
"""Statements that one connection may hold prepared; the next is refused with Msg 701."""

MAX_CURSORS = 1024
"""Server cursors that one connection may hold open; the next is refused with Msg 701."""

MAX_CURSOR_BYTES = 64 * 1024 * 1024
"""The rows of one server cursor, as Arrow holds them; more are refused with Msg 701."""

ENCODE_CHUNK_ROWS = 16384
ENCODE_CHUNK_BYTES = 4 * 1024 * 1024
"""Rows encoded at once: at most so many, and (single giant rows aside) of so many bytes."""

SEND_BYTES = 256 * 1024
"""Bytes handed to TLS at once, so that ciphertext never doubles a whole chunk."""

WATCH_SECONDS = 0.05
"""How often busy connections are looked at for an attention or a closed socket."""
