"""Values of (max) columns: never cut, and refused by name above the limit of the settings."""

from __future__ import annotations

import pytest

from cdc_assets.errors import UnsupportedColumnError
from cdc_assets.sqlserver import connection
from cdc_assets_tests.path.helpers import load, run_sync
from cdc_assets_tests.source import Project, Source

pytestmark = pytest.mark.sqlserver

ARROW = pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)

LENGTHS = (0, 8_000, 8_001, 65_536, 65_537)


def create(source: Source) -> None:
    source.execute(
        "CREATE TABLE dbo.large (id int NOT NULL PRIMARY KEY, small varchar(max) NULL,"
        " [n ü] nvarchar(max) NULL, b varbinary(max) NULL)"
    )
    source.enable("large")


def insert(source: Source, key: int, length: int) -> None:
    source.execute(
        f"INSERT INTO dbo.large VALUES ({key}, 'x',"
        f" REPLICATE(CAST(N'é' AS nvarchar(max)), {length}),"
        f" CAST(REPLICATE(CAST('y' AS varchar(max)), {length}) AS varbinary(max)))"
    )


@ARROW
def test_lengths_around_every_buffer(project: Project, source: Source) -> None:
    """B107: exact, from the table and from the change table."""
    create(source)
    for key, length in enumerate(LENGTHS):
        insert(source, key, length)
    source.captured()
    project.tables = {"dbo_large": None}
    run_sync(project)
    for key, length in enumerate(LENGTHS):
        insert(source, 10 + key, length)
    source.captured()
    run_sync(project)
    rows = project.bronze("dbo_large", ("id", "_operation", "n ü", "b"))
    found = {r["id"]: (r["_operation"], r["n ü"], r["b"]) for r in rows}
    for key, length in enumerate(LENGTHS):
        assert found[key] == (0, "é" * length, b"y" * length)
        assert found[10 + key] == (2, "é" * length, b"y" * length)


@ARROW
def test_a_value_above_the_limit_names_its_column(project: Project, source: Source) -> None:
    """B107: in the snapshot, in a change, and loaded once the limit allows it."""
    create(source)
    insert(source, 1, 20_001)
    project.tables = {"dbo_large": {"rename": {"n ü": "text"}}}
    project.extra = {"max_value_bytes": 20_000}
    source.captured()
    with pytest.raises(
        UnsupportedColumnError, match=r"column (text|b) has a value of 20,001 .*20,000"
    ):
        run_sync(project)
    source.execute("UPDATE dbo.large SET [n ü] = NULL, b = NULL")
    source.captured()
    run_sync(project)
    source.execute(
        "UPDATE dbo.large SET [n ü] = REPLICATE(CAST(N'é' AS nvarchar(max)), 20001),"
        " b = CAST(REPLICATE(CAST('y' AS varchar(max)), 19999) AS varbinary(max))"
    )
    source.captured()
    with pytest.raises(UnsupportedColumnError) as caught:
        run_sync(project)
    assert "sales.dbo_large: column text has a value of 20,001" in str(caught.value)
    assert "Raise `max_value_bytes`" in str(caught.value)
    project.extra = {"max_value_bytes": 20_001}
    run_sync(project)
    assert project.bronze("dbo_large", ("text",))[-1]["text"] == "é" * 20_001


@ARROW
def test_the_row_before_an_update_lacks_what_did_not_change(
    project: Project, source: Source
) -> None:
    """B044: NULL in operation 3 is the server's own hole; the row after it has every value."""
    create(source)
    insert(source, 1, 10)
    project.tables = {"dbo_large": None}
    load(project, "dbo_large")
    source.execute("UPDATE dbo.large SET small = 'new'")
    source.captured()
    load(project, "dbo_large")
    before, after = project.bronze("dbo_large", ("_operation", "small", "n ü", "b"))[-2:]
    assert tuple(before.values()) == (3, "x", None, None)
    assert tuple(after.values()) == (4, "new", "é" * 10, b"y" * 10)
    project.assert_identical("dbo_large", ("id", "small", "n ü", "b"))


@ARROW
def test_what_a_delete_lacks(project: Project, source: Source) -> None:
    """B044: text, ntext and image are NULL before a change and in a delete, which needs its key.

    NOT NULL at the source is none in the lake.
    """
    source.execute(
        "CREATE TABLE dbo.old (id int NOT NULL PRIMARY KEY, n int NULL, body ntext NOT NULL,"
        " plain text NOT NULL, i image NOT NULL, m varchar(max) NOT NULL)",
        "INSERT INTO dbo.old VALUES (1, 1, N'ä', 'b', 0x01, 'm'), (2, 1, N'ö', 'c', 0x02, 'm')",
    )
    source.enable("old")
    project.tables = {"dbo_old": None}
    load(project, "dbo_old")
    source.execute("UPDATE dbo.old SET n = 2 WHERE id = 1", "DELETE FROM dbo.old WHERE id = 2")
    source.captured()
    load(project, "dbo_old")
    names = ("_operation", "id", "body", "plain", "i", "m")
    before, after, gone = (tuple(r.values()) for r in project.bronze("dbo_old", names)[-3:])
    assert before == (3, 1, None, None, None, None)
    assert after == (4, 1, "ä", "b", b"\x01", "m")
    assert gone[:5] == (1, 2, None, None, None)
    assert project.silver("dbo_old", ("id", "n", "body", "plain", "i", "m")) == [
        (1, 2, "ä", "b", b"\x01", "m")
    ]
    bronze = project.database().lake.bronze(project.database().table("dbo_old"))
    assert bronze is not None
    assert all(field.nullable for field in bronze.schema().fields)


@ARROW
def test_a_row_of_many_large_values_has_a_limit_of_its_own(
    project: Project, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B107: 5,000,000 characters and bytes, once the limit lets them pass."""
    length = 5_000_000
    create(source)
    insert(source, 1, length)
    project.tables = {"dbo_large": None}
    source.captured()
    monkeypatch.setattr(connection, "ROW_BYTES_MAX", 10_000_000)
    with pytest.raises(UnsupportedColumnError, match="one row would need a buffer of"):
        run_sync(project)
    monkeypatch.undo()
    run_sync(project)
    insert(source, 2, length)
    source.captured()
    run_sync(project)
    rows = project.bronze("dbo_large", ("_operation", "n ü", "b"))
    assert [row["_operation"] for row in rows] == [0, 2]
    assert all(row["n ü"] == "é" * length and row["b"] == b"y" * length for row in rows)
