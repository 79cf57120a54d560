"""The ways a connection ends or a request fails before the engine sees it."""

from __future__ import annotations


class ProtocolError(Exception):
    """The client's bytes are not TDS, or more than a limit allows; the connection is closed."""


class EncodingError(Exception):
    """A value does not fit the T-SQL type its column declares; nothing is truncated."""


class Attention(Exception):  # noqa: N818 - TDS calls it that, and it is no error
    """The client asked for the running request to stop."""
