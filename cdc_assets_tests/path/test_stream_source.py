"""`spark.readStream.format("mssql_cdc")`: the changes as the sync reads them, into any sink."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets_tests.path.changing import commit
from cdc_assets_tests.path.helpers import change_items, load
from cdc_assets_tests.path.streaming import TABLE, in_order, options, read_stream
from cdc_assets_tests.source import Project

pytestmark = [pytest.mark.spark, pytest.mark.sqlserver]


@pytest.fixture
def engine_name() -> str:
    """What the rows are compared with is the arrow engine's."""
    return "arrow"


def test_the_stream_gives_what_the_sync_gives(items: Project, tmp_path: Path) -> None:
    """B185: admission control; each micro-batch has so many commits, and all of them come."""
    load(items)
    for base in (100, 300, 500):
        change_items(items.source, base)
    load(items)
    given = options(items, maxCommitsPerBatch="5")
    batches = read_stream(given, tmp_path / "checkpoint")
    assert [len({r["_start_lsn"] for r in batch}) for batch in batches] == [5, 5, 2]
    rows = [row for batch in batches for row in batch]
    synced = [row for row in items.bronze(TABLE) if row["_operation"] != 0]
    assert in_order(rows) == in_order(synced)
    assert len({row["_start_lsn"] for row in rows}) == 12
    change_items(items.source, 700)
    (more,) = [batch for batch in read_stream(options(items), tmp_path / "checkpoint") if batch]
    assert {row["_start_lsn"] for row in more} & {row["_start_lsn"] for row in rows} == set()
    assert len(more) == 11
    assert commit
