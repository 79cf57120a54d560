"""mssql-cdc-pyspark, the package of others that does what ours does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cdc_assets.sqlserver.driver import find_driver
from cdc_assets_tests.clients.drivers import trusting
from cdc_assets_tests.source import Source

# `make test ONLY=fast` installs no PySpark, and the peer imports it for its client already.
pytest.importorskip("pyspark", reason="mssql-cdc-pyspark imports PySpark, which is not installed")

import mssql_cdc
from mssql_cdc.client import SqlCdcClient, make_client

BACKENDS = ("arrow-odbc", "mssql-python")

__all__ = ["BACKENDS", "SqlCdcClient", "connection_text", "mssql_cdc", "peer_client"]


def connection_text(source: Source, backend: str) -> str:
    """The product's own connection string, with its grants and no other."""
    text = source.server.text(source.name)
    if backend == "arrow-odbc" and "driver=" not in text.lower():
        return f"Driver={find_driver()};{text}"
    return text


@contextmanager
def peer_client(backend: str, source: Source, **options: str) -> Iterator[SqlCdcClient]:
    """Its client, logged in."""
    given = {"connectionString": connection_text(source, backend), "backend": backend, **options}
    with trusting(source.server.ca_file):
        client = make_client(given)
    try:
        yield client
    finally:
        client.close()
