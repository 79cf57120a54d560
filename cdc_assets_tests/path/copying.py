"""Copies of dbo.items as some other tool has read them, and when that was."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from cdc_assets.lsn import Lsn
from cdc_assets.planning.seeds import AS_OF_MARGIN_SECONDS
from cdc_assets_tests.path.helpers import change_items
from cdc_assets_tests.source import Project, Source

TABLE = "dbo_items"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "price": pa.decimal128(20, 4),
        "at": pa.timestamp("ms"),
        "note": pa.string(),
    }
)


def copy_of(source: Source, note: str = "note") -> pa.Table:
    """The table as it is now, as some other tool has read it."""
    rows = source.rows(f"SELECT id, name, price, at, {note} FROM dbo.items")
    return pa.table(dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True)), schema=SCHEMA)


def now(source: Source) -> str:
    """The server's clock, in UTC."""
    found = source.rows("SELECT CONVERT(varchar(26), SYSUTCDATETIME(), 126)")[0][0]
    return str(found)


def newest_lsn(source: Source) -> Lsn:
    return Lsn(source.captured())


@pytest.fixture
def items(items: Project) -> Iterator[Project]:
    """The project, whose server's clock is put right in the end."""
    yield items
    if items.source.server.is_sandbox:
        items.source.execute("EXEC sandbox.set_clock @shift_seconds = 0")


def settled(source: Source) -> None:
    """What has been committed is older now than the margin before any copy."""
    seconds = AS_OF_MARGIN_SECONDS + 1
    if source.server.is_sandbox:
        # From its own time: another test may have left its clock ahead.
        source.execute(
            f"DECLARE @then datetime2 = DATEADD(second, {seconds}, SYSUTCDATETIME());"
            " EXEC sandbox.set_clock @utc = @then"
        )
    else:
        source.execute(f"WAITFOR DELAY '00:00:{seconds}'")


def begun(items: Project) -> tuple[pa.Table, str]:
    """A copy, read while the table was written to, and when that began."""
    change_items(items.source)
    settled(items.source)
    started = now(items.source)
    items.source.execute("UPDATE dbo.items SET name = N'meanwhile' WHERE id = 1")
    copy = copy_of(items.source)
    items.source.execute("UPDATE dbo.items SET name = N'afterwards' WHERE id = 1")
    change_items(items.source, base=300)
    return copy, started
