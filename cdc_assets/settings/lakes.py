"""Where a lake may be, and what its kind of store asks of those who write there."""

from __future__ import annotations

import re

LAKE_SCHEMES = ("file", "s3", "s3a", "abfs", "abfss", "gs")
"""Stores that both engines reach; a lake without a scheme is a folder."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(uri: str) -> str:
    """The scheme of a URI in lower case; "" for a path."""
    found = _URI.match(uri)
    return found[1].lower() if found else ""


def wants_one_engine(lake: str) -> bool:
    """Whether a table there may be written by one engine alone.

    Two writers of one table are safe where both create log entries conditionally. On S3, Delta's
    log store for Spark does so within one driver only.
    """
    return scheme_of(lake) in ("s3", "s3a")
