"""The two moments that decide correctness, staged by the server itself.

A commit between a snapshot's recorded LSN and its read; cleanup between a batch's plan and its
read, and in the middle of that read.
"""

import pytest

from cdc_assets.errors import DataLossError
from cdc_assets.ingest.sync import sync
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items, load
from cdc_assets_tests.source import Project, Source

TABLE = "dbo_items"
CLEAN_UP = (
    "DECLARE @to binary(10); SET @to = sys.fn_cdc_get_max_lsn(); "
    f"EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'{TABLE}', @low_water_mark = @to"
)


@pytest.fixture
def items(project: Project) -> Project:
    if not project.source.server.is_sandbox:
        pytest.skip("only the sandbox runs a text in the middle of another's read")
    create_items(project.source, rows=8)
    project.tables = {TABLE: None}
    return project


def stage(source: Source, text: str, table: str, *, after: int = 0, rows: int = 0) -> None:
    """Let the server run a text when the product reads a table."""
    quoted = text.replace("'", "''")
    source.execute(
        f"EXEC sandbox.fault @kind = N'execute', @table = N'{table}', @after = {after},"
        f" @login = N'{source.server.reader_login}', @rows = {rows}, @text = N'{quoted}'"
    )


def assert_happened(source: Source) -> None:
    assert source.rows("EXEC sandbox.faults") == []


def test_a_commit_between_the_recorded_lsn_and_the_read(items: Project) -> None:
    stage(
        items.source,
        "UPDATE dbo.items SET name = N'late' WHERE id = 2; DELETE FROM dbo.items WHERE id = 3;"
        "INSERT INTO dbo.items (id, name) VALUES (90, N'late'); UPDATE dbo.items SET id = 91"
        " WHERE id = 4",
        "dbo.items",
    )
    load(items)
    assert_happened(items.source)
    snapshot = {row["id"]: row["name"] for row in items.bronze(TABLE) if row["_operation"] == 0}
    assert snapshot[2] == snapshot[90] == "late"
    assert 3 not in snapshot
    assert load(items)[0].rows == 6  # what the snapshot saw too comes again, as changes
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)


def assert_loss_and_nothing_written(items: Project) -> None:
    before = items.bronze(TABLE)
    control = items.database().lake.control.read()[f"bronze/{TABLE}"]
    (failed,) = sync(items.database()).failed
    assert isinstance(failed.error, DataLossError)
    assert control.end is not None
    needed = control.end.lsn.next()
    assert f"changes from {needed}" in str(failed.error) or f"from {needed}" in str(failed.error)
    assert "Take a new snapshot of the table" in str(failed.error)
    assert_happened(items.source)
    assert items.bronze(TABLE) == before
    assert items.database().lake.control.read()[f"bronze/{TABLE}"].end_lsn == control.end_lsn


def cleanup_is_a_loss(items: Project, rows: int) -> None:
    load(items)
    change_items(items.source)
    # The first look at the change table counts for the plan, the second one reads.
    stage(items.source, CLEAN_UP, f"cdc.{TABLE}_CT", after=1, rows=rows)
    assert_loss_and_nothing_written(items)


def test_cleanup_in_the_middle_of_the_read(items: Project) -> None:
    """B007: rows are missing without an error, on either engine; the watermark tells."""
    cleanup_is_a_loss(items, rows=5)


@pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)
@pytest.mark.parametrize("rows", [0, 1, 13], ids=["before", "first row", "last row"])
def test_cleanup_between_the_plan_and_the_end_of_the_read(items: Project, rows: int) -> None:
    """B006, B007: a loss with its range and the way out, wherever in the read it happens."""
    cleanup_is_a_loss(items, rows)
