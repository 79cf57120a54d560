"""Public cases of types that need a table of their own; the other inputs are in `type_table`.

Each from the base table (the snapshot) and from the change table (a change). On arrow alone: an
engine takes a column as the type table declares it, whatever it is called or belongs to.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from cdc_assets.sandbox.wire import encode_text
from cdc_assets_tests.path.helpers import load, run_sync
from cdc_assets_tests.source import Project, Source

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"], indirect=True),
]

GUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
OTHER = "FF19966F-868B-11D0-B42D-00C04FC964FF"
"""The same bytes with the first groups turned round: what a shuffle too many makes of it."""
END = datetime(9999, 12, 31, 23, 59, 59, 999999)


def images(project: Project, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Bronze's rows: operation and columns."""
    return [tuple(r.values()) for r in project.bronze(table, ("_operation", *columns))]


def test_a_guid_is_one_text_everywhere(project: Project, source: Source) -> None:
    """B061: as a key, in the snapshot's ranges, in changes, in silver, and in its delete."""
    source.execute(
        "CREATE TABLE dbo.guids (g uniqueidentifier NOT NULL PRIMARY KEY, v int NOT NULL)",
        f"INSERT INTO dbo.guids VALUES ('{GUID.lower()}', 1), ('{OTHER}', 1)",
    )
    source.enable("guids")
    project.tables = {"dbo_guids": None}
    project.extra = {"num_partitions": 2}
    load(project, "dbo_guids")
    assert sorted(images(project, "dbo_guids", "g")) == sorted([(0, GUID), (0, OTHER)])
    source.execute(f"UPDATE dbo.guids SET v = 2 WHERE g = '{GUID}'")
    source.captured()
    load(project, "dbo_guids")
    assert images(project, "dbo_guids", "g", "v")[-2:] == [(3, GUID, 1), (4, GUID, 2)]
    assert project.silver("dbo_guids", ("g", "v")) == [(GUID, 2), (OTHER, 1)]
    source.execute(f"DELETE FROM dbo.guids WHERE g = '{GUID.lower()}'")
    source.captured()
    load(project, "dbo_guids")
    assert project.silver("dbo_guids", ("g", "v")) == [(OTHER, 1)]


def test_a_rowversion_is_eight_bytes(project: Project, source: Source) -> None:
    """B109: under both of its names, another with every update, and never a time."""
    source.execute(
        "CREATE TABLE dbo.versions (id int NOT NULL PRIMARY KEY, v int NULL, rv rowversion)",
        "INSERT INTO dbo.versions (id, v) VALUES (1, 1)",
    )
    source.enable("versions")
    project.tables = {"dbo_versions": None}
    load(project, "dbo_versions")
    current = "SELECT CONVERT(varchar(18), rv, 1) FROM dbo.versions"
    ((first,),) = source.rows(current)
    source.execute("UPDATE dbo.versions SET v = v")
    source.captured()
    load(project, "dbo_versions")
    ((second,),) = source.rows(current)
    assert first != second
    before, after = (bytes.fromhex(text.removeprefix("0x")) for text in (first, second))
    assert len(after) == 8
    assert images(project, "dbo_versions", "rv") == [(0, before), (3, before), (4, after)]
    assert project.silver("dbo_versions", ("id", "rv")) == [(1, after)]


def test_the_end_of_a_period_and_a_history_table(project: Project, source: Source) -> None:
    """B055: the history table is no business of ours; `ValidTo` is the last microsecond.

    The sandbox has no system-versioned tables: there, two tables of their shape.
    """
    period = "ValidFrom datetime2(7){0} NOT NULL, ValidTo datetime2(7){1} NOT NULL"
    if source.server.is_sandbox:
        columns = f"id int NOT NULL{{0}}, v int NULL, {period.format('', '')}"
        source.execute(
            f"CREATE TABLE dbo.account ({columns.format(' PRIMARY KEY')})",
            f"CREATE TABLE dbo.account_history ({columns.format('')})",
        )
        change = (
            "INSERT INTO dbo.account_history SELECT * FROM dbo.account",
            "UPDATE dbo.account SET v = 2",
        )
        insert = (
            "INSERT INTO dbo.account VALUES (1, 1, '2026-01-01', '9999-12-31T23:59:59.9999999')"
        )
    else:
        generated = (" GENERATED ALWAYS AS ROW START", " GENERATED ALWAYS AS ROW END")
        source.execute(
            "CREATE TABLE dbo.account (id int NOT NULL PRIMARY KEY, v int NULL,"
            f" {period.format(*generated)}, PERIOD FOR SYSTEM_TIME (ValidFrom, ValidTo))"
            " WITH (SYSTEM_VERSIONING = ON (HISTORY_TABLE = dbo.account_history))"
        )
        change = ("UPDATE dbo.account SET v = 2",)
        insert = "INSERT INTO dbo.account (id, v) VALUES (1, 1)"
    source.execute("CREATE INDEX by_v ON dbo.account_history (v)", insert)
    source.enable("account")
    project.tables = {"dbo_account": None}
    load(project, "dbo_account")
    source.execute(*change)
    source.captured()
    load(project, "dbo_account")
    assert [row[-1] for row in images(project, "dbo_account", "ValidTo")] == [END] * 3
    assert project.silver("dbo_account", ("id", "v", "ValidTo")) == [(1, 2, END)]


LARGE = {
    "xml": "CAST(N'<a>' + REPLICATE(CAST(N'ж' AS nvarchar(max)), 70000) + N'</a>' AS xml)",
    "text": "REPLICATE(CAST('é' AS varchar(max)), 70001)",
    "ntext": "REPLICATE(CAST(N'ж' AS nvarchar(max)), 65537)",
    "image": "CAST(REPLICATE(CAST('y' AS varchar(max)), 131073) AS varbinary(max))",
}


def test_large_values_of_the_old_types_and_xml(project: Project, source: Source) -> None:
    """B107: more than 64 KB of each."""
    columns = ", ".join(f"c_{kind} {kind} NULL" for kind in LARGE)
    source.execute(f"CREATE TABLE dbo.old (id int NOT NULL PRIMARY KEY, {columns})")
    source.enable("old")
    project.tables = {"dbo_old": None}
    for key in (1, 2):
        source.execute(f"INSERT INTO dbo.old VALUES ({key}, {', '.join(LARGE.values())})")
        source.captured()
        run_sync(project)
    whole = (f"<a>{'ж' * 70_000}</a>", "é" * 70_001, "ж" * 65_537, b"y" * 131_073)
    names = [f"c_{kind}" for kind in LARGE]
    assert images(project, "dbo_old", *names) == [(0, *whole), (2, *whole)]


@pytest.mark.sandbox
def test_half_of_a_surrogate_pair_becomes_the_replacement_character(
    project: Project, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B106: UTF-8 has no such character; what stands beside it stays, and nothing fails.

    DuckDB cannot hold one either, so the sandbox puts it in on the way out.
    """
    half = "\ud800".encode("utf-16-le", "surrogatepass")
    encoded = encode_text._utf16

    def with_half(*arguments: Any) -> Any:
        whole = encoded(*arguments)
        data = [v.as_py().replace("\ue000".encode("utf-16-le"), half) for v in whole.array]
        return encode_text._Encoded(encode_text.pa.array(data, whole.array.type), whole.lengths)

    source.execute(
        "CREATE TABLE dbo.halves (id int NOT NULL PRIMARY KEY, n nvarchar(9), m nvarchar(max))",
        "INSERT INTO dbo.halves VALUES (1, N'a\ue000b', N'\ue000')",
    )
    source.enable("halves")
    project.tables = {"dbo_halves": None}
    monkeypatch.setattr(encode_text, "_utf16", with_half)
    run_sync(project)
    source.execute("UPDATE dbo.halves SET id = 2")
    source.captured()
    run_sync(project)
    found = images(project, "dbo_halves", "n", "m")
    assert {row[1:] for row in found} == {("a\ufffdb", "\ufffd")}
    assert len(found) == 3
