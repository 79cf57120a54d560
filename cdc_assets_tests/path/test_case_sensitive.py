"""A database whose collation tells capitals apart: Delta and Spark do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc_assets.errors import CaptureInstanceUnknownError, UnsupportedColumnError
from cdc_assets_tests.path.helpers import load, run_sync
from cdc_assets_tests.sandbox.remote import drop_databases
from cdc_assets_tests.source import Project, Server, Source

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"]),  # Decided before an engine is asked.
]


@pytest.fixture
def source(server: Server) -> Iterator[Source]:
    made = Source.create(server, collation="Latin1_General_BIN")
    yield made
    if not server.is_sandbox:
        drop_databases(server, made.name)


def create(source: Source, *columns: str, table: str = "MyTableOne") -> None:
    body = ", ".join(f"[{name}] int NULL" for name in columns)
    source.execute(
        f"CREATE TABLE dbo.[{table}] (Id int NOT NULL PRIMARY KEY, {body})",
        f"INSERT INTO dbo.[{table}] VALUES (1, {', '.join('7' for _ in columns)})",
    )
    source.enable(table)


def change(source: Source, column: str, table: str = "MyTableOne") -> None:
    source.execute(f"UPDATE dbo.[{table}] SET [{column}] = 8")
    source.captured()


def test_a_name_in_another_case(project: Project, source: Source) -> None:
    """B125: found where it is the only one; else the message has the candidates."""
    create(source, "Amount")
    project.tables = {"dbo_mytableone": {"columns": ["ID", "amount"], "keys": ["id"]}}
    load(project, "dbo_mytableone")
    change(source, "Amount")
    load(project, "dbo_mytableone")
    assert project.silver("dbo_mytableone", ("Id", "Amount")) == [(1, 8)]

    create(source, "Amount", table="mytableOne")
    with pytest.raises(CaptureInstanceUnknownError) as caught:
        run_sync(project)
    for name in ("dbo_MyTableOne", "dbo_mytableOne"):
        assert name in str(caught.value)
    project.tables = {"dbo_mytableOne": None}
    load(project, "dbo_mytableOne")
    assert project.silver("dbo_mytableOne", ("Id", "Amount")) == [(1, 7)]

    project.tables = {"dbo_yours": {"capture_instance": "DBO_YOURS"}}
    with pytest.raises(CaptureInstanceUnknownError, match="dbo_MyTableOne, dbo_mytableOne"):
        run_sync(project)


def test_columns_that_differ_in_case_alone(project: Project, source: Source) -> None:
    """B124: refused with both names before anything is written, and loaded under other names."""
    create(source, "id", "ID")
    project.tables = {"dbo_MyTableOne": None}
    with pytest.raises(UnsupportedColumnError) as caught:
        run_sync(project)
    assert "columns Id and id would both be id in the lake" in str(caught.value)
    assert project.database().lake.facts.events() == []
    project.tables = {"dbo_MyTableOne": {"rename": {"id": "second", "ID": "third"}}}
    load(project, "dbo_MyTableOne")
    change(source, "ID")
    load(project, "dbo_MyTableOne")
    assert project.silver("dbo_MyTableOne", ("Id", "second", "third")) == [(1, 7, 8)]
    project.tables = {"dbo_MyTableOne": {"rename": {"id": "second"}}}
    with pytest.raises(UnsupportedColumnError, match="columns Id and ID would both be ID"):
        source.execute("UPDATE dbo.[MyTableOne] SET [ID] = 9")
        source.captured()
        run_sync(project)
