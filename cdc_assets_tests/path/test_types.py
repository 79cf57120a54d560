"""Every value of the type table reads back exactly: as the driver gives it, and in the lake.

Both from the base table (the snapshot) and from the change table (a change).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import arrow_odbc
import pyarrow as pa
import pytest

from cdc_assets.errors import UnsupportedColumnError
from cdc_assets.sqlserver.driver import find_driver
from cdc_assets_tests import type_table
from cdc_assets_tests.path.helpers import run_sync
from cdc_assets_tests.source import Project, Source

pytestmark = pytest.mark.sqlserver

TYPES = type_table.TYPES
ROWS = type_table.rows_of(TYPES)
NAMES = [f"c{i}" for i in range(len(TYPES))]
BASE, CHANGES = "dbo.typed", "cdc.dbo_typed_CT"
DELTA = {
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
}
"""What Delta's log calls them, where it is not the same in small letters."""


WIDEST = 10_000


def create_typed(source: Source, first: int, rows: list[tuple[type_table.Cell, ...]]) -> None:
    """Insert rows, ids from `first` on."""
    source.execute(*(type_table.insert_row(BASE, first + i, cells) for i, cells in enumerate(rows)))


@pytest.fixture
def typed(source: Source) -> Source:
    """A captured table of a column of each type, filled before and after capture began."""
    source.execute(type_table.create_table(BASE, TYPES))
    create_typed(source, 0, ROWS)
    source.enable("typed")
    create_typed(source, 100, ROWS)
    source.captured()
    return source


def exact(value: Any) -> Any:
    """A value whose equality is exactness: the sign of zero counts."""
    if isinstance(value, float):
        return (value, math.copysign(1.0, value))
    return value


def differences(
    found: list[dict[str, Any]], expected: Callable[[type_table.Cell], Any]
) -> list[str]:
    """What is not as the table says, with its type and literal."""
    assert len(found) == len(ROWS)
    return [
        f"{row.sql} {cell.literal[:60]}: {found[i][name]!r} is not {expected(cell)!r}"
        for i, cells in enumerate(ROWS)
        for name, row, cell in zip(NAMES, TYPES, cells, strict=True)
        if exact(found[i][name]) != exact(expected(cell))
    ]


def read(source: Source, text: str) -> list[dict[str, Any]]:
    """A query's rows through arrow-odbc alone; times as the numbers that they are."""
    place = f"Driver={{{find_driver()}}};{source.server.text(source.name)}"
    connection = arrow_odbc.connect(f"{place};TrustServerCertificate=yes")
    batches = connection.read_arrow_batches(
        query=text,
        batch_size=10,
        max_text_size=WIDEST,
        max_binary_size=WIDEST,
        # Nanoseconds since 1970 hold no date before 1677 or after 2262.
        map_schema=lambda schema: pa.schema([f.with_type(_micros(f.type)) for f in schema]),
    )
    return pa.Table.from_batches([_plain(batch) for batch in batches]).to_pylist()


def _micros(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us") if kind == pa.timestamp("ns") else kind


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        c.cast(pa.int32() if c.type.bit_width == 32 else pa.int64()) if pa.types.is_time(c.type)
        else c
        for c in batch.columns
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def test_the_driver_gives_each_value_exactly(typed: Source) -> None:
    names = ", ".join(NAMES)
    base = read(typed, f"SELECT {names} FROM {BASE} WHERE id < 100 ORDER BY id")
    assert differences(base, lambda cell: cell.driver) == []
    changes = read(typed, f"SELECT {names} FROM {CHANGES} ORDER BY id")
    assert differences(changes, lambda cell: cell.driver) == []


def test_the_lake_holds_each_value_exactly(project: Project, typed: Source) -> None:
    """The rows of the snapshot, then the same rows as changes.

    B061, B090, B091, B094, B095, B097, B098, B099, B101, B102, B104, B106, B155: their inputs are
    rows of the type table.
    """
    project.tables = {"dbo_typed": None}
    run_sync(project)
    create_typed(typed, 200, ROWS)
    typed.captured()
    run_sync(project)
    database = project.database()
    bronze = database.lake.bronze(database.table("dbo_typed"))
    declared = {f.name: f.type.type for f in bronze.schema().fields if f.name in NAMES}
    assert declared == {
        n: DELTA.get(row.delta, row.delta.lower()) for n, row in zip(NAMES, TYPES, strict=True)
    }
    rows = sorted(project.bronze("dbo_typed", ["id", "_operation", *NAMES]), key=lambda r: r["id"])
    snapshot = [r for r in rows if r["_operation"] == 0 and r["id"] < 100]
    assert differences(snapshot, lambda cell: cell.lake) == []
    changes = [r for r in rows if r["_operation"] == 2 and r["id"] >= 200]
    assert differences(changes, lambda cell: cell.lake) == []


def test_alias_types_are_what_they_were_made_from(project: Project, source: Source) -> None:
    """B110: sysname and xml are in the type table, and here beside them."""
    source.execute(
        "CREATE TYPE dbo.phone FROM varchar(20) NOT NULL",
        "CREATE TYPE dbo.Price FROM decimal(38, 10)",
        "CREATE TYPE dbo.[row key] FROM uniqueidentifier",
        "CREATE TABLE dbo.aliased (id int NOT NULL PRIMARY KEY, phone dbo.phone, price dbo.Price,"
        " k dbo.[row key], s sysname, x xml)",
        "INSERT INTO dbo.aliased VALUES (1, '+49', 0.0000000001,"
        " '6F9619FF-8B86-D011-B42D-00C04FC964FF', N'n', N'<a>b</a>')",
    )
    source.enable("aliased")
    project.tables = {"dbo_aliased": None}
    run_sync(project)
    source.execute("UPDATE dbo.aliased SET price = 9999999999999999999999999999.5")
    source.captured()
    run_sync(project)
    names = ["_operation", "phone", "price", "k", "s", "x"]
    guid = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
    assert [tuple(row.values()) for row in project.bronze("dbo_aliased", names)] == [
        (0, "+49", Decimal("0.0000000001"), guid, "n", "<a>b</a>"),
        # The server leaves a large value out of the row before, unless it was changed.
        (3, "+49", Decimal("0.0000000001"), guid, "n", None),
        (4, "+49", Decimal("9999999999999999999999999999.5"), guid, "n", "<a>b</a>"),
    ]


def test_values_of_several_megabytes(project: Project, source: Source) -> None:
    """Each larger than the buffer before: text, two bytes a character, and bytes."""
    source.execute(
        "CREATE TABLE dbo.large (id int NOT NULL PRIMARY KEY, t varchar(max) NULL,"
        " n nvarchar(max) NULL, b varbinary(max) NULL)"
    )
    source.enable("large")
    values = "REPLICATE(CAST('x' AS varchar(max)), 3000000)"
    wide = "REPLICATE(CAST(N'ж' AS nvarchar(max)), 1500001)"
    source.execute(
        f"INSERT INTO dbo.large VALUES (1, {values}, {wide}, CAST({values} AS varbinary(max)))"
    )
    project.tables = {"dbo_large": None}
    source.captured()
    run_sync(project)
    source.execute("INSERT INTO dbo.large SELECT id + 1, t, n, b FROM dbo.large")
    source.captured()
    run_sync(project)
    rows = project.bronze("dbo_large", ["id", "_operation", "t", "n", "b"])
    snapshot_and_changes = [row["_operation"] for row in rows]
    assert snapshot_and_changes == [0, 2]
    for row in rows:
        assert (row["t"], row["n"]) == ("x" * 3_000_000, "ж" * 1_500_001)
        assert row["b"] == b"x" * 3_000_000


# On arrow alone: the columns are chosen before an engine is asked.
@pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)
@pytest.mark.parametrize("kind", type_table.WITHOUT_COUNTERPART)
def test_a_type_without_a_counterpart_names_its_column(
    project: Project, source: Source, kind: str
) -> None:
    """B108."""
    source.execute(
        f"CREATE TABLE dbo.odd (id int NOT NULL PRIMARY KEY, shape {kind} NULL, name varchar(5))",
        "INSERT INTO dbo.odd (id, name) VALUES (1, 'one')",
    )
    source.enable("odd")
    project.tables = {"dbo_odd": None}
    with pytest.raises(UnsupportedColumnError, match=f"column shape has the type {kind}.*columns"):
        run_sync(project)
    project.tables = {"dbo_odd": {"columns": ["id", "name"]}}
    run_sync(project)
    source.execute("INSERT INTO dbo.odd (id, name) VALUES (2, 'two')")
    source.captured()
    run_sync(project)
    assert [(r["id"], r["name"]) for r in project.bronze("dbo_odd", ["id", "name"])] == [
        (1, "one"),
        (2, "two"),
    ]
