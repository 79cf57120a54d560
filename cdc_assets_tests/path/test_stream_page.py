"""The page on streams, block by block, as a reader runs it: with his paths in place of the page's.

What it says of restarts, losses and other sinks has its tests in `test_streams` and its neighbours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.path.helpers import change_items, create_items
from cdc_assets_tests.path.streaming import QUERY_SECONDS_MAX, named, session
from cdc_assets_tests.setup.pages import ROOT, blocks
from cdc_assets_tests.source import Project, Server

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.sandbox]
PAGE = ROOT / "docs" / "stream.md"


@pytest.fixture
def orders(project: Project, server: Server) -> Project:
    """dbo.items in the place of the page's dbo.orders."""
    create_items(project.source)
    project.tables = {"dbo_items": None}
    change_items(project.source)
    project.write()
    # The page's string is one that needs no certificate of ours.
    plain = server.text(project.source.name).replace("encrypt=yes", "encrypt=no")
    assert "encrypt=no" in plain
    (project.folder / "plain.odbc").write_text(plain)
    return project


@pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)
def test_a_reader_follows_it(orders: Project) -> None:
    settings, own, sink, tracked = (b.text for b in blocks(PAGE) if b.kind == "python")
    folder, names = orders.folder, {"spark": session()}
    his = {
        '"/etc/cdc/tables.yaml"': repr(named(orders)["settings"]),
        '"/var/cdc/checkpoints/dbo_orders"': repr(str(folder / "checkpoint")),
        "sales.dbo_orders": f"{orders.key}.dbo_items",
        "dbo_orders": "dbo_items",
        "file:/run/secrets/sales.odbc": f"file:{folder / 'plain.odbc'}",
        # The session's JVM of the tests runs already.
        "env:SALES_ODBC": f"file:{folder / 'plain.odbc'}",
        "s3a://lake": str(folder / "own"),
        "/lake/_cdc/control": str(folder / "sink" / "control"),
        "query.awaitTermination()": "",
        'changes.writeStream.format("kafka")  # and so on': "",
        "...\n": "at_work()\n",
    }

    def run(text: str, **more: Any) -> None:
        for old, new in his.items():
            text = text.replace(old, new)
        names.update(more)
        exec(text, names)

    def stop_when(is_read: Callable[[], bool]) -> None:
        """End what the page lets run until somebody ends it."""
        query = names["query"]
        deadline = time.monotonic() + QUERY_SECONDS_MAX
        try:
            while not is_read():
                assert query.exception() is None, query.exception()
                assert time.monotonic() < deadline, "nothing was read"
                query.awaitTermination(1)
        finally:
            query.stop()

    run(settings)
    change_items(orders.source, base=300)
    stop_when(lambda: has_changes(orders.folder / "lake" / orders.key / "bronze" / "dbo_items"))
    run(own)
    change_items(orders.source, base=500)
    stop_when(lambda: has_changes(folder / "own" / "orders"))
    assert (folder / "own" / "_cdc" / "control").exists()
    run(sink)
    sunk = names["changes"].writeStream.format("delta").outputMode("append")
    sunk = sunk.option("checkpointLocation", str(folder / "sink" / "checkpoint"))
    names["query"] = sunk.trigger(processingTime="1 second").start(str(folder / "sink" / "orders"))
    control = folder / "sink" / "control"
    run(tracked, at_work=lambda: stop_when(lambda: DeltaTable.is_deltatable(str(control))))
    assert has_changes(folder / "sink" / "orders")
    assert [row["table_name"] for row in rows_of(control)] == ["orders"]


def rows_of(table: Path) -> list[dict[str, Any]]:
    return list(DeltaTable(str(table)).to_pyarrow_table().to_pylist())


def has_changes(table: Path) -> bool:
    """Whether change rows are there."""
    return DeltaTable.is_deltatable(str(table)) and any(row["_operation"] for row in rows_of(table))
