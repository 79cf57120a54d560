"""What is read is what is new: counted by the source, not by our own facts."""

import pytest

from cdc_assets.sqlserver import connection, read
from cdc_assets.sqlserver.connection import connect
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items, load, run_sync
from cdc_assets_tests.source import Project, Source

TABLE = "dbo_items"
CHANGE_TABLE = {"table": "dbo_items_CT", "schema": "cdc"}


@pytest.fixture
def items(project: Project) -> Project:
    if not project.source.server.is_sandbox:
        pytest.skip("only the sandbox counts the rows it serves")
    create_items(project.source, rows=40)
    project.tables = {TABLE: None}
    project.source.counters()
    return project


def test_the_second_run_reads_only_what_is_new(items: Project) -> None:
    load(items)
    first = items.source.counters()
    assert first.rows_of("items") >= 40
    assert first.rows_of(**CHANGE_TABLE) == 0
    change_items(items.source)
    outcome, _ = load(items)
    second = items.source.counters()
    assert second.rows_of("items") == 0
    # The rows themselves, the counts by operation, and that there are any.
    assert outcome.rows <= second.rows_of(**CHANGE_TABLE) <= outcome.rows + 4 + 1
    items.assert_identical(TABLE, COLUMNS)


def test_a_quiet_table_costs_no_read(items: Project) -> None:
    load(items)
    change_items(items.source)
    load(items)
    run_sync(items)
    items.source.counters()
    run_sync(items)
    quiet = items.source.counters()
    assert quiet.connections == 1
    assert quiet.rows_of("items") == 0
    assert quiet.rows_of(**CHANGE_TABLE) <= 1


def test_the_poll_does_not_grow_with_the_tables(
    project: Project, source: Source, engine_name: str
) -> None:
    """The statements of a quiet sync do not grow with the tables."""
    if not source.server.is_sandbox or engine_name != "arrow":
        pytest.skip("the sandbox counts statements, and the poll is no engine's")

    def statements_of(tables: int) -> int:
        project.tables = {f"dbo_t{i}": None for i in range(tables)}
        source.captured()
        run_sync(project)
        run_sync(project)
        source.counters()
        run_sync(project)
        return source.counters().statements

    for number in range(30):
        source.execute(f"CREATE TABLE dbo.t{number} (id int NOT NULL PRIMARY KEY)")
        source.enable(f"t{number}")
    source.execute("INSERT INTO dbo.t0 (id) VALUES (1)")
    few = statements_of(2)
    assert statements_of(30) == few


@pytest.mark.parametrize("engine_name", ["arrow"])  # The buffers are the connection's.
def test_more_rows_than_a_small_buffer_holds(
    project: Project, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several buffers of a few rows; a read of as many as a small one takes, and of one more."""
    monkeypatch.setattr(connection, "SMALL_BATCH_ROWS", 2)
    monkeypatch.setattr(read, "SMALL_READ_ROWS", 4)
    source.execute("CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, v int NULL)")
    source.enable("items")
    project.tables = {TABLE: None}
    load(project)
    for first, rows in ((1, 4), (11, 5), (21, 1)):
        values = ", ".join(f"({key}, 0)" for key in range(first, first + rows))
        source.execute(f"INSERT INTO dbo.items VALUES {values}")
        source.captured()
        outcome, _ = load(project)
        assert outcome.rows == rows
    project.assert_identical(TABLE, ["id", "v"])
    with connect(project.database().source) as one:
        found = one.rows("SELECT id FROM dbo.items ORDER BY id")
    assert [row["id"] for row in found] == [*range(1, 5), *range(11, 16), 21]
