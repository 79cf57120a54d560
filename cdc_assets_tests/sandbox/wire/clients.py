"""The real drivers, pointed at a server of the tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import arrow_odbc
import pyarrow as pa
import pytds
from arrow_odbc import TextEncoding

from cdc_assets.sandbox.server import TdsServer
from cdc_assets_tests.sandbox.wire.canned import PASSWORD, USER


def driver() -> Path:
    """Microsoft's driver, as the wheel brings it."""
    spec = importlib.util.find_spec("mssql_python_odbc")
    assert spec is not None
    assert spec.origin is not None
    found = Path(spec.origin).parent.glob(
        "libs/linux/debian_ubuntu/x86_64/lib/libmsodbcsql-18*.so*"
    )
    return next(found)


def connection_string(server: TdsServer, **options: str) -> str:
    escaped = PASSWORD.replace("}", "}}")
    given = {
        "Driver": str(driver()),
        "Server": f"127.0.0.1,{server.port}",
        "UID": USER,
        "PWD": f"{{{escaped}}}",
        "Encrypt": "no",
        **options,
    }
    return ";".join(f"{key}={value}" for key, value in given.items())


def odbc(server: TdsServer, **options: str) -> Any:
    return arrow_odbc.connect(connection_string(server, **options))


def read(
    connection: Any, query: str, parameters: list[str | None] | None = None, **options: Any
) -> pa.Table:
    reader = connection.read_arrow_batches(
        query, parameters=parameters, payload_text_encoding=TextEncoding.UTF16, **options
    )
    return reader.into_pyarrow_record_batch_reader().read_all()


def tds(server: TdsServer, *, autocommit: bool = True) -> Any:
    return pytds.connect(
        "127.0.0.1",
        port=server.port,
        user=USER,
        password=PASSWORD,
        database="sales",
        autocommit=autocommit,
        timeout=20,
        login_timeout=20,
    )
