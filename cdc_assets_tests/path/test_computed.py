"""Computed columns, which CDC captures as NULL: left out, NULL everywhere, and never a key."""

from __future__ import annotations

import re

import pytest

from cdc_assets.errors import UnsupportedColumnError
from cdc_assets_tests.path.helpers import load, run_sync
from cdc_assets_tests.source import Project, Source

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"]),  # Chosen before an engine is asked.
]
TABLE = "dbo_t"


@pytest.fixture
def twice(source: Source) -> Source:
    """A captured table with a stored and a computed column, and one row."""
    source.execute(
        "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, a int NULL, b AS a * 2 PERSISTED)",
        "INSERT INTO dbo.t (id, a) VALUES (1, 5)",
    )
    source.enable("t")
    return source


def fails(project: Project, *parts: str) -> None:
    with pytest.raises(UnsupportedColumnError) as caught:
        run_sync(project)
    for part in parts:
        assert part in str(caught.value)


def test_listed_they_are_null_everywhere(project: Project, twice: Source) -> None:
    """B042: in the snapshot as in the changes, so that no update seems to empty them."""
    project.tables = {TABLE: {"columns": ["b"]}}
    fails(project, "all columns to load from dbo_t are computed")
    project.tables = {TABLE: {"columns": ["id", "a", "b"]}}
    assert not any("computed" in text for text in run_sync(project).warnings)
    twice.execute("UPDATE dbo.t SET a = 6")
    twice.captured()
    load(project, TABLE)
    rows = project.bronze(TABLE, ["_operation", "a", "b"])
    assert [tuple(row.values()) for row in rows] == [(0, 5, None), (3, 5, None), (4, 6, None)]


def test_left_out_they_are_told(project: Project, twice: Source) -> None:
    """B042."""
    project.tables = {TABLE: None}
    assert any(
        re.match(r"dbo_t: computed columns .* left out: b\.", text)
        for text in run_sync(project).warnings
    )
    bronze = project.database().lake.bronze(project.database().table(TABLE))
    assert bronze is not None
    assert "b" not in {field.name for field in bronze.schema().fields}
    twice.execute("UPDATE dbo.t SET a = 6")
    twice.captured()
    load(project, TABLE)
    project.assert_identical(TABLE, ["id", "a"])


@pytest.mark.parametrize("listed", [False, True], ids=["left out", "listed"])
def test_a_key_must_not_be_computed(project: Project, source: Source, listed: bool) -> None:
    """B043: told at once, not by a silver of one row; stored columns may be the key instead."""
    source.execute(
        "CREATE TABLE dbo.t (a int NOT NULL, k AS ('K' + CAST(a AS varchar(10))) PERSISTED"
        " PRIMARY KEY)",
        "INSERT INTO dbo.t (a) VALUES (1), (2)",
    )
    source.enable("t")
    columns = {"columns": ["a", "k"]} if listed else {}
    said = "key column k of dbo_t is computed, and CDC captures computed columns as NULL"
    for keys in ({}, {"keys": ["k"]}, {"keys": ["a", "k"]}):
        project.tables = {TABLE: {**columns, **keys}}
        fails(project, said, "under `keys`")
    project.tables = {TABLE: {**columns, "keys": ["a"], "keys_unchecked": True}}
    load(project, TABLE)
    source.execute("DELETE FROM dbo.t WHERE a = 1", "INSERT INTO dbo.t (a) VALUES (3)")
    source.captured()
    project.tables = {TABLE: columns}
    fails(project, said)
    project.tables = {TABLE: {**columns, "keys": ["a"], "keys_unchecked": True}}
    load(project, TABLE)
    assert project.silver(TABLE, ["a"]) == [(2,), (3,)]
