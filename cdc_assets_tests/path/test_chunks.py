"""P4: chunks tile the keys that a table has at the server, the first open below.

Every row is in one of them, they are of about one size, and what came above is in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest

from cdc_assets.engines.database import Database
from cdc_assets.errors import SchemaChangedError, SettingsError
from cdc_assets.ingest.chunking import chunk_query, extent_of, last_bound, plan_chunks
from cdc_assets.lsn import Lsn
from cdc_assets.planning.chunks import ChunkPlan, Extent, Sizing, Slice
from cdc_assets.planning.columns import ColumnWish
from cdc_assets.planning.keysets import KeyType
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.sqlserver.catalog import Captured, capture_instances, captured_columns
from cdc_assets.sqlserver.chunk_queries import count_slices
from cdc_assets.sqlserver.connection import Connection
from cdc_assets_tests.path.test_key_ranges import KEYED, Keyed, one, quoted
from cdc_assets_tests.source import Project, bracketed

pytestmark = pytest.mark.sqlserver
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])
SNAPSHOT = Lsn.of_int(42)
KINDS = {
    **{
        kind: KEYED[kind]
        for kind in (
            *("tinyint", "(int, varchar, date)", "(varchar CI, int)", "varchar SQL"),
            *("varchar Greek", "nvarchar hyphens", "uniqueidentifier", "datetime2(7)"),
            *("datetime", "decimal(38,10)", "varbinary"),
        )
    },
    "datetime2(7) in one microsecond": one(
        "datetime2(7)", *quoted([f"2026-11-30 10:00:00.000000{i}" for i in range(1, 10)])
    ),
    "datetimeoffset(7)": one(
        "datetimeoffset(7)",
        *quoted([f"2026-11-30 10:00:00.{i:07d} +0{i % 9}:00" for i in (0, 1, 2, 9, 10, 11)]),
    ),
    "real": one("real", "0.1", "1e-30", "-1e30", "3.3333333", "7"),
}
"""Keys whose bounds travel in different ways; ranges are cut on all of them."""


@dataclass
class Table:
    """A captured table, as a chunked snapshot sees it; `v` numbers its rows."""

    name: str
    database: Database
    instance: CaptureInstance
    columns: Captured

    def extent(self, column: str | None = None) -> Extent:
        with self.database.connections.lend() as connection:
            return extent_of(connection, self.instance, self.columns, column)

    def plan(self, rows_max: int, extent: Extent | None = None) -> ChunkPlan:
        extent = extent or self.extent()
        with self.database.connections.lend() as connection:
            return self.planned(connection, extent, rows_max)

    def planned(self, connection: Connection, extent: Extent, rows_max: int) -> ChunkPlan:
        return plan_chunks(
            connection, self.instance, self.columns, extent, SNAPSHOT, Sizing(rows_max, "")
        )

    def now(self, plan: ChunkPlan) -> ChunkPlan:
        with self.database.connections.lend() as connection:
            return last_bound(connection, self.instance, self.columns, plan)

    def read(self, plan: ChunkPlan) -> list[list[int]]:
        """The rows of each chunk, by their number."""
        with self.database.connections.lend() as connection:
            queries = [chunk_query(self.instance, self.columns, plan, c) for c in plan.chunks]
            return [sorted(row["v"] for row in connection.rows(*query)) for query in queries]


def create(project: Project, tables: dict[str, tuple[str, str, Sequence[str]]]) -> list[Table]:
    """Tables by name: their columns, the columns of their key if any, and rows of the former."""
    statements = []
    for name, (columns, key, rows) in tables.items():
        primary = f", PRIMARY KEY ({key})" if key else ""
        statements.append(f"CREATE TABLE dbo.{bracketed(name)} ({columns}, v int{primary})")
        numbered = [f"({row}, {number})" for number, row in enumerate(rows)]
        statements += [
            f"INSERT INTO dbo.{bracketed(name)} VALUES {', '.join(numbered[at : at + 1000])}"
            for at in range(0, len(numbered), 1000)
        ]
    project.source.execute(*statements)
    for name in tables:
        project.source.enable(name)
    project.tables = {"dbo_x": None}
    database = project.database()
    with database.connections.lend() as connection:
        instances = capture_instances(connection)
        return [
            Table(name, database, instance, captured_columns(connection, instance, ColumnWish()))
            for name in tables
            for instance in [instances[f"dbo_{name}"]]
        ]


def check(plan: ChunkPlan, read: list[list[int]], rows: Sequence[int]) -> None:
    """Chunks that tile the keys, and rows each in one of them; as many as were counted."""
    assert plan.chunks[0].lower is None
    assert all(a.upper is not None and a.upper == b.lower for a, b in pairwise(plan.chunks))
    assert sorted(v for part in read for v in part) == sorted(rows)
    assert [len(part) for part in read] == [chunk.rows for chunk in plan.chunks]


def declared(keyed: Keyed) -> str:
    return ", ".join(f"{bracketed(name)} {kind} NOT NULL" for name, kind in keyed.columns)


@ARROW
def test_a_unique_index_of_any_type(project: Project) -> None:
    """B061, B062, B067: keys are ordered and compared by the server, in the column's own type."""
    keys = [list(dict.fromkeys(keyed.keys)) for keyed in KINDS.values()]
    tables = create(
        project,
        {
            f"k{number}": (declared(keyed), keyed.names, rows)
            for number, (keyed, rows) in enumerate(zip(KINDS.values(), keys, strict=True))
        },
    )
    for kind, table, rows in zip(KINDS, tables, keys, strict=True):
        plan = table.plan(4)
        read = table.read(plan)
        check(plan, read, range(len(rows)))
        assert all(len(part) in (2, 3, 4) for part in read[:-1]), kind
        assert len(read) > 1, kind
        assert table.now(plan) == plan, "nothing came above"


@ARROW
def test_dense_clusters_sparse_regions_and_sentinels(project: Project) -> None:
    keys = [
        *(-(2**63), -1, 2**63 - 1),
        *range(10**6, 10**6 + 1500),
        *range(-(10**15), 10**15, 10**13),
        *range(2**40, 2**40 + 3000, 3),
    ]
    values = [str(key) for key in dict.fromkeys(keys)]
    (table,) = create(project, {"ids": ("id bigint NOT NULL", "id", values)})
    with table.database.connections.lend() as connection:
        low = Slice(-(10**13) - 5, 3, 0)
        query = count_slices(("dbo", "ids"), "id", low, 10**13, is_first=False)
        found = [tuple(row.values()) for row in connection.rows(*query)]
    assert found == [(-(10**13), -1, 2), (0, 0, 1)], "division goes down, below zero too"
    plan = table.plan(200)
    read = table.read(plan)
    check(plan, read, range(len(values)))
    assert all(100 <= len(part) <= 200 for part in read[:-1])
    assert len(read) <= 2 * len(values) // 200 + 1
    assert plan.chunks[-1].upper is None, "no bigint is above its largest key"


@ARROW
def test_a_chosen_column_of_a_table_without_a_unique_index(project: Project) -> None:
    """NULLs are in the first chunk, and rows of one value in one, also where 'n' is 'N'."""
    words = [*["NULL"] * 3, *["N'n'", "N'N'"] * 4, *["N'o'"] * 2, "N'p'", "N'P '", "N''"]
    numbers = [*["NULL"] * 5, *["7"] * 9, *map(str, range(-3, 3)), str(-(2**31)), str(2**31 - 1)]
    words += ["N'z'"] * (len(numbers) - len(words))
    kinds = "n int NULL, w varchar(9) COLLATE Latin1_General_CI_AS NULL, x xml NULL"
    rows = [f"{number}, {word}, NULL" for number, word in zip(numbers, words, strict=True)]
    (table,) = create(project, {"heap": (kinds, "", rows)})
    text = KeyType("varchar(9)", "Latin1_General_CI_AS")
    for column, largest, type_ in (("n", "2147483647", KeyType("int")), ("w", "z", text)):
        extent = table.extent(column)
        assert extent == Extent((column,), (largest,), (type_,))
        for rows_max in (1, 4):
            plan = table.plan(rows_max, extent)
            read = table.read(plan)
            check(plan, read, range(len(rows)))
            values = numbers if column == "n" else [w.upper().replace(" ", "") for w in words]
            for part in read:
                assert len(part) <= rows_max or len({values[v] for v in part}) == 1
            for one_value in set(values):
                of_it = {v for v, value in enumerate(values) if value == one_value}
                assert sum(not of_it.isdisjoint(part) for part in read) == 1, one_value
            assert read[0][0] == 0, "NULL"
    whole = table.plan(2)
    check(whole, table.read(whole), range(len(rows)))
    assert (len(whole.chunks), whole.keys, table.now(whole)) == (1, (), whole)
    assert table.extent("W").keys == ("w",)
    for column in ("x", "missing"):
        with pytest.raises(SettingsError, match=f"on the column {column}.*chunk_column"):
            table.extent(column)


@ARROW
@pytest.mark.parametrize("when", ["before the plan", "after it", "into an empty table"])
def test_a_table_that_grows_at_the_top(project: Project, when: str) -> None:
    """B070: what is above the largest key at the open is the changes', and not read as chunks."""
    rows = [] if when == "into an empty table" else [f"{n:02d}" for n in range(10)]
    kinds = {"i": "int", "w": "varchar(9)", "d": "datetime2(7)"}
    make = {
        "i": str,
        "w": lambda n: f"N'{n:03d}'",
        "d": lambda n: f"N'2026-11-30 10:00:00.{n:07d}'",
    }
    tables = create(
        project,
        {
            name: (f"k {kind} NOT NULL", "k", [make[name](n) for n in range(len(rows))])
            for name, kind in kinds.items()
        },
    )
    for table in tables:
        extent = table.extent()
        plan = table.plan(4, extent) if when != "before the plan" else None
        came = ", ".join(f"({make[table.name](n)}, {n})" for n in range(len(rows), 40))
        project.source.execute(f"INSERT INTO dbo.{table.name} VALUES {came}")
        plan = plan or table.plan(4, extent)
        read = table.read(table.now(plan))
        check(plan, read, range(len(rows)))
        assert len(read) == max(1, -(-len(rows) // 4))
        assert table.now(table.now(plan)) == table.now(plan)


@ARROW
def test_rows_that_come_and_go_while_the_chunks_are_read(project: Project) -> None:
    """What stays is read once, wherever a row that was a bound has gone."""
    kinds = {"i": "int", "w": "varchar(9)"}
    tables = create(
        project, {n: (f"k {kind} NOT NULL", "k", [f"'{i}'" for i in range(20, 40)])
                  for n, kind in kinds.items()},
    )  # fmt: skip
    for table in tables:
        plan = table.plan(5)
        bounds = [c.lower[0] for c in plan.chunks if c.lower]
        gone = ", ".join(quoted(bounds))
        project.source.execute(
            f"DELETE FROM dbo.{table.name} WHERE k IN ({gone})",
            f"INSERT INTO dbo.{table.name} VALUES ('10', 100), ('9', 101), ('391', 102)",
        )
        read = [v for part in table.read(table.now(plan)) for v in part]
        assert len(set(read)) == len(read)
        stay = {n for n in range(20) if str(20 + n) not in bounds}
        assert stay <= set(read) <= stay | {100, 101, 102}


@ARROW
def test_names_of_any_kind(project: Project) -> None:
    """B072, B120, B121: a table with a dot, a column with brackets, quotes and other letters."""
    key = "Schlüssel [a]]'b\"; --"
    columns = f"{bracketed(key)} int NOT NULL, [select] varchar(9) NOT NULL"
    rows = [f"{n % 3}, '{n}'" for n in range(12)]
    (table,) = create(project, {"my.table [x]": (columns, f"{bracketed(key)}, [select]", rows)})
    plan = table.plan(5)
    assert plan.keys == (key, "select")
    check(plan, table.read(plan), range(12))
    check(table.plan(3, table.extent(key)), table.read(table.plan(3, table.extent(key))), range(12))


@ARROW
def test_a_key_that_cannot_be_cut_and_one_that_is_gone(project: Project) -> None:
    wide = [f"c{n}" for n in range(26)]
    table, other = create(
        project,
        {
            "t": ("a int NOT NULL, b int NOT NULL", "a, b", ["1, 1", "2, 2"]),
            "wide": (" int NOT NULL, ".join(wide) + " int NOT NULL", ", ".join(wide), []),
        },
    )
    assert other.plan(1).keys == (), "its ranges would have too many parameters"
    assert other.read(other.plan(1)) == [[]]
    plan = table.plan(1)
    kept = tuple(c for c in table.columns.columns if c.name != "b")
    table.columns = Captured(kept)
    with pytest.raises(SchemaChangedError, match="cut on a, b, which cannot be read any more"):
        table.read(plan)
    assert table.plan(1).keys == (), "a key that is not all loaded is not cut"
