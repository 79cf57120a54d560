"""A second driver: pytds, pure Python, to write and compare with other eyes than the product."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytds

from cdc_assets.sqlserver.connection_string import odbc_pairs


@contextlib.contextmanager
def wire(connection_file: Path, *, autocommit: bool = True) -> Iterator[Any]:
    """A pytds cursor on the database that a connection file names, over loopback."""
    pairs = odbc_pairs(connection_file.read_text().strip())
    host, _, port = pairs["server"].removeprefix("tcp:").partition(",")
    connection = pytds.connect(
        dsn=host,
        port=int(port or 1433),
        user=pairs["uid"],
        password=pairs["pwd"],
        database=pairs["database"],
        autocommit=autocommit,
        appname="cdc-assets demo",
    )
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()
