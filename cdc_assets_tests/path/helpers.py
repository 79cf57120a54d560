"""Tables, changes and runs that the tests of the whole path share."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from cdc_assets.ingest.outcome import TableOutcome
from cdc_assets.ingest.recording import Recorder
from cdc_assets.ingest.sync import SyncReport, sync
from cdc_assets.silver.apply import apply_changes
from cdc_assets.silver.outcome import ApplyOutcome
from cdc_assets_tests.source import Project, Source

HOUR = 3600
"""Seconds."""
COLUMNS = ("id", "name", "price", "at", "note")


def create_items(source: Source, rows: int = 5) -> None:
    """A captured table dbo.items with some rows from before capture began."""
    source.execute(
        "CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, name nvarchar(40) NOT NULL,"
        " price decimal(12,4) NULL, at datetime2(3) NULL, note varchar(60) NULL)"
    )
    if rows:
        source.execute("INSERT INTO dbo.items (id, name, price, at, note) VALUES " + ", ".join(
            f"({i}, N'näme {i}', {i}.25, '2026-01-0{1 + i % 9} 10:00:00.123', NULL)"
            for i in range(1, rows + 1)
        ))  # fmt: skip
    source.enable("items")


def change_items(source: Source, base: int = 100) -> None:
    """Every kind of change, some of them several times in one transaction."""
    source.execute(
        f"INSERT INTO dbo.items (id, name) VALUES ({base}, N'new'), ({base + 1}, N'gone')",
        f"DELETE FROM dbo.items WHERE id = {base + 1}",
        "UPDATE dbo.items SET price = price + 1, note = 'it''s' WHERE id = 1",
    )
    source.transaction(
        "UPDATE dbo.items SET name = N'first' WHERE id = 2",
        "UPDATE dbo.items SET name = N'second' WHERE id = 2",
        f"UPDATE dbo.items SET id = {base + 50} WHERE id = 3",
        "DELETE FROM dbo.items WHERE id = 4",
        "INSERT INTO dbo.items (id, name) VALUES (4, N'again')",
    )
    source.captured()


def clean_up(source: Source, until: str | None = None) -> None:
    """Let cleanup remove everything below an LSN, by default up to now."""
    mark = f"CONVERT(binary(10), '{until}', 1)" if until else "sys.fn_cdc_get_max_lsn()"
    source.execute(
        f"DECLARE @to binary(10); SET @to = {mark};"
        " EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_items',"
        " @low_water_mark = @to"
    )


def set_clock(project: Project, shift_seconds: int) -> None:
    """The server's clock, so far from the machine's; the sandbox's alone can be set."""
    project.source.execute(f"EXEC sandbox.set_clock @shift_seconds = {shift_seconds}")


def purge(source: Source, base: int = 900) -> None:
    """Changes that cleanup takes, and one that it leaves."""
    change_items(source, base)
    newest = source.captured()
    clean_up(source)
    source.execute(f"UPDATE dbo.items SET name = N'kept', note = '{base}' WHERE id = 1")
    source.captured(minimum=newest)


def load(project: Project, table: str = "dbo_items") -> tuple[TableOutcome, ApplyOutcome]:
    """One sync and one apply; a failing table raises its error."""
    report = run_sync(project)
    return report.outcomes[table], apply_changes(project.database(), table)


def run_sync(project: Project) -> SyncReport:
    """One sync; the first failing table raises its error."""
    report = sync(project.database())
    for outcome in report.failed:
        assert outcome.error is not None
        raise outcome.error
    return report


def sync_unrecorded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that crashes between its bronze commits and the record of them."""
    with monkeypatch.context() as crash:
        crash.setattr(Recorder, "record", lambda *_: None)
        sync(project.database())


def once(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, happening: Callable[[], object]
) -> None:
    """Let something happen before a function's next call."""
    function = getattr(module, name)

    def first(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(module, name, function)
        happening()
        return function(*arguments, **named)

    monkeypatch.setattr(module, name, first)
