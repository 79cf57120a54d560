"""What is read is what is new: counted by the source, not by our own facts."""

import pytest

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
