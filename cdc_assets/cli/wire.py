"""A second driver: pytds, pure Python, to write and compare with other eyes than the product."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytds

from cdc_assets.sqlserver.connection_string import odbc_pairs

STATEMENT_SECONDS_MAX = 240.0
"""How long a statement may take: one that waits for another's lock would wait for ever."""


@contextlib.contextmanager
def wire(text: str, *, database: str | None = None) -> Iterator[Any]:
    """A pytds cursor, with autocommit, on the database of a connection string or another one.

    A statement that takes longer than `STATEMENT_SECONDS_MAX` raises `TimeoutError`.
    """
    pairs = odbc_pairs(text.strip())
    host, _, port = pairs["server"].removeprefix("tcp:").partition(",")
    connection = pytds.connect(
        dsn=host,
        port=int(port or 1433),
        user=pairs["uid"],
        password=pairs["pwd"],
        database=database or pairs["database"],
        autocommit=True,
        timeout=STATEMENT_SECONDS_MAX,
        appname="cdc-assets demo",
    )
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()
