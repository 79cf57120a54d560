"""Tables whose applies end together are recorded together, and each fails alone all the same."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets.lake.control import Control
from cdc_assets.names import TableName
from cdc_assets.planning.records import ControlRow
from cdc_assets.silver import apply
from cdc_assets.silver.apply import apply_tables
from cdc_assets_tests.path.helpers import run_sync
from cdc_assets_tests.path.test_many_tables import versions
from cdc_assets_tests.source import Project

NAMES = "abc"


@pytest.fixture
def three(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Three tables of which bronze has a change that silver lacks."""
    # However slow the machine is, one commit.
    monkeypatch.setattr(apply, "RECORD_EVERY_SECONDS", 3600.0)
    for name in NAMES:
        project.source.execute(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY)")
        project.source.enable(name)
    project.tables = {f"dbo_{name}": None for name in NAMES}
    insert(project, 1)
    run_sync(project)
    applied(project)
    insert(project, 2)
    run_sync(project)
    return project


def insert(project: Project, key: int) -> None:
    project.source.transaction(*(f"INSERT INTO dbo.{name} (id) VALUES ({key})" for name in NAMES))
    project.source.captured()


def applied(project: Project) -> list[int]:
    """How many rows each table's apply has written; raises the first error."""
    outcomes = apply_tables(project.database(), list(project.tables))
    for outcome in outcomes.values():
        if outcome.error is not None:
            raise outcome.error
    return [outcome.upserted for outcome in outcomes.values()]


def positions(project: Project) -> list[str | None]:
    control = project.database().lake.control.read()
    return [control[f"silver/{table}"].applied_lsn for table in project.tables]


@pytest.mark.parametrize("engine_name", ["arrow"])  # What is recorded is no engine's.
def test_one_commit_of_control(three: Project) -> None:
    _, control = versions(three)
    assert applied(three) == [1, 1, 1]
    assert versions(three)[1] == control + 1
    assert len(set(positions(three))) == 1


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_one_that_cannot_be_recorded_fails_alone(
    three: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = positions(three)
    moved = apply.moved

    def refusing(row: ControlRow, *rest: Any) -> ControlRow:
        if row.table_name == "silver/dbo_b":
            raise ValueError("this one")
        return moved(row, *rest)

    monkeypatch.setattr(apply, "moved", refusing)
    outcomes = apply_tables(three.database(), list(three.tables))
    assert [outcome.error is None for outcome in outcomes.values()] == [True, False, True]
    after = positions(three)
    assert [new == old for new, old in zip(after, before, strict=True)] == [False, True, False]
    monkeypatch.setattr(apply, "moved", moved)
    assert applied(three) == [0, 0, 0]
    assert len(set(positions(three))) == 1


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_a_death_between_the_merges_and_their_record(
    three: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call finds what was merged, and writes nothing twice."""

    def dies(*_: Any) -> dict[str, ControlRow]:
        raise KeyboardInterrupt

    before = positions(three)
    with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
        dying.setattr(Control, "update", dies)
        applied(three)
    assert positions(three) == before
    assert [len(silver(three, table)) for table in three.tables] == [2, 2, 2]
    assert applied(three) == [0, 0, 0]
    assert len(set(positions(three))) == 1
    assert [len(silver(three, table)) for table in three.tables] == [2, 2, 2]


def silver(project: Project, table: str) -> list[dict[str, Any]]:
    database = project.database()
    name: TableName = database.table(table)
    found = database.lake.silver(name)
    assert found is not None
    rows: list[dict[str, Any]] = found.to_pyarrow_table().to_pylist()
    return rows
