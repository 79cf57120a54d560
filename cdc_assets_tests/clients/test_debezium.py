"""Debezium's SQL Server connector: its snapshot and its stream end with the source's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.cli.wire import wire
from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.sandbox.workload.changes import Changes
from cdc_assets.sandbox.workload.tables import Scale
from cdc_assets_tests.clients.debezium import Connector, Event, day, moment, reduced
from cdc_assets_tests.clients.java import missing
from cdc_assets_tests.clients.stacks import BUILD_SECONDS_MAX, RUN_SECONDS_MAX

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(BUILD_SECONDS_MAX + 2 * RUN_SECONDS_MAX),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

SCALE = 0.004  # 20 customers, 200 orders, about 800 line items
BATCHES = 60
TABLES = {
    "dbo.customer": "customer_id",
    "dbo.orders": "order_id",
    "dbo.lineitem": "order_id, line_number",
    "dbo.marker": "id",
}
DAYS = {"order_date", "ship_date"}
DIGITS = {
    ("dbo.customer", "updated_at"): 7,
    ("dbo.orders", "created_at"): 7,
    ("dbo.orders", "updated_at"): 3,
}
MODES = [
    pytest.param({}, id="defaults"),
    pytest.param(
        {"snapshot.isolation.mode": "snapshot", "data.query.mode": "direct"}, id="snapshot-direct"
    ),
]


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    # Capture is a job of its own, as on a real server: max_lsn lags behind the commits.
    with Sandbox(tmp_path / "sandbox", capture_interval_seconds=0.2) as running:
        running.load_workload(SCALE)
        running.execute("ALTER DATABASE sales SET ALLOW_SNAPSHOT_ISOLATION ON")
        running.execute("CREATE TABLE dbo.marker (id int NOT NULL PRIMARY KEY)")
        running.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'marker', "
            "@role_name = NULL, @supports_net_changes = 0; INSERT dbo.marker VALUES (0)"
        )
        # What is committed but not captured when a snapshot begins would be streamed once more.
        running.execute("EXEC sandbox.capture_now")
        yield running


def change(sandbox: Sandbox, changes: Changes, marker: int) -> None:
    """Some transactions, and a last one that the connector's run ends with."""
    for batch in changes.batches(BATCHES):
        sandbox.execute(batch)
    sandbox.execute(f"INSERT dbo.marker VALUES ({marker})")


def text(table: str, name: str, value: Any) -> str | None:
    """An event's value as the server writes it."""
    if value is None:
        return None
    if name in DAYS:
        return str(day(value))
    if (table, name) in DIGITS:
        return moment(value, DIGITS[table, name])
    return str(int(value)) if isinstance(value, bool) else str(value)


def rows_of(sandbox: Sandbox, table: str) -> list[dict[str, str | None]]:
    """The source's rows, every value as text, through another driver than Debezium's."""
    with wire(sandbox.connection_string(admin=True), database="sales") as cursor:
        cursor.execute(f"SELECT TOP (0) * FROM {table}")
        names = [column[0] for column in cursor.description]
        items = ", ".join(f"CAST({name} AS nvarchar(100))" for name in names)
        cursor.execute(f"SELECT {items} FROM {table} ORDER BY {TABLES[table]}")
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def assert_equal_to_source(sandbox: Sandbox, events: list[Event]) -> None:
    found = reduced(events)
    for table in TABLES:
        rows = [
            {name: text(table, name, value) for name, value in row.items()}
            for row in found[table].values()
        ]
        wanted = rows_of(sandbox, table)
        names = dict.fromkeys(wanted[0])
        # A row that was last changed before a column came has no value of it.
        rows = [{**names, **row} for row in rows]
        assert wanted, table
        assert sorted(rows, key=repr) == sorted(wanted, key=repr), table


def snapshot(events: Iterator[Event]) -> list[Event]:
    """The events of the snapshot, and no more."""
    taken: list[Event] = []
    for event in events:
        taken.append(event)
        if event["value"]["source"]["snapshot"] == "last":
            return taken
    return taken


@pytest.mark.parametrize("options", MODES)
def test_snapshot_and_stream_end_with_the_rows_of_the_source(
    sandbox: Sandbox, tmp_path: Path, options: dict[str, str]
) -> None:
    connector = Connector(sandbox, tmp_path, options)
    changes = Changes(Scale.of(SCALE), seed=7)

    with connector.events("dbo.marker", 1) as events:
        first = snapshot(events)
        assert {event["value"]["op"] for event in first} == {"r"}
        assert_equal_to_source(sandbox, first)
        change(sandbox, changes, 1)
        first += events
    assert_equal_to_source(sandbox, first)

    # Stopped: what commits now is read by the next run, from the offsets of this one.
    change(sandbox, changes, 2)
    with connector.events("dbo.marker", 2) as events:
        second = list(events)
    assert "r" not in {event["value"]["op"] for event in second}
    assert_equal_to_source(sandbox, first + second)

    streamed = [event for event in first + second if event["value"]["op"] != "r"]
    places = Counter(
        (e["topic"], source["commit_lsn"], source["change_lsn"], source["event_serial_no"])
        for e in streamed
        for source in [e["value"]["source"]]
    )
    assert set(places.values()) == {1}, "an event came twice"
    kinds = Counter(event["value"]["op"] for event in streamed)
    assert all(kinds[kind] for kind in "cud"), kinds
    assert moved_keys(streamed) > 0


def moved_keys(events: list[Event]) -> int:
    """Orders that got another number: a delete and an insert of one change."""
    places = Counter(
        (e["topic"], e["value"]["source"]["commit_lsn"], e["value"]["after"]["created_at"])
        for e in events
        if e["topic"].endswith(".orders") and e["value"]["op"] == "c"
    )
    deleted = {
        (e["topic"], e["value"]["source"]["commit_lsn"], e["value"]["before"]["created_at"])
        for e in events
        if e["topic"].endswith(".orders") and e["value"]["op"] == "d"
    }
    return len(places.keys() & deleted)


def test_a_second_capture_instance_brings_a_new_column(sandbox: Sandbox, tmp_path: Path) -> None:
    connector = Connector(sandbox, tmp_path)
    changes = Changes(Scale.of(SCALE), seed=8)
    with connector.events("dbo.marker", 1) as events:
        seen = snapshot(events)
        for batch in changes.batches(10):
            sandbox.execute(batch)
        sandbox.execute("ALTER TABLE dbo.orders ADD note nvarchar(20) NULL")
        sandbox.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders', "
            "@capture_instance = N'dbo_orders_2', @role_name = NULL, @supports_net_changes = 0"
        )
        sandbox.execute("UPDATE dbo.orders SET note = N'note' WHERE order_id % 3 = 0")
        change(sandbox, changes, 1)
        seen += events
    assert_equal_to_source(sandbox, seen)
    noted = [e for e in seen if (e["value"]["after"] or {}).get("note") == "note"]
    assert len(noted) > SCALE * 10_000
