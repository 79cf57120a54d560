"""Whole snapshots in ranges: every row exactly once, whatever the key and whoever writes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from cdc_assets.engines.database import Database
from cdc_assets.ingest.ranges import Query, snapshot_ranges
from cdc_assets.planning.columns import ColumnWish
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.sqlserver.catalog import Captured, capture_instances, captured_columns
from cdc_assets.sqlserver.queries import quoted as bracketed
from cdc_assets_tests.path.helpers import load
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])
GREEK = "αβγδεζηθΑΒΓΔΕ"


@dataclass(frozen=True)
class Keyed:
    """A table's key columns and its keys, as T-SQL literals in no particular order."""

    columns: tuple[tuple[str, str], ...]
    keys: tuple[str, ...]
    cuts: bool = True
    """Whether it can be read in ranges."""

    @property
    def names(self) -> str:
        return ", ".join(bracketed(name) for name, _ in self.columns)

    def create(self) -> str:
        columns = ", ".join(f"{bracketed(name)} {kind} NOT NULL" for name, kind in self.columns)
        return f"CREATE TABLE dbo.keyed ({columns}, v int NULL, PRIMARY KEY ({self.names}))"


def one(kind: str, *keys: str, cuts: bool = True) -> Keyed:
    return Keyed((("k", kind),), keys, cuts)


def quoted(values: Iterator[str] | list[str], prefix: str = "N") -> list[str]:
    return [f"{prefix}'{value}'" for value in values]


NUMBERS = [str(n) for n in (-(2**31), -5, 0, 1, 2, 3, 7, 100, 101, 5000, 2**31 - 1)]
WORDS = ["a", "B", "c", "D", "n", "Na", "nb", "z", "", "é", "ZZ"]
KEYED = {
    "int": one("int", *NUMBERS),
    "bigint": one("bigint", "-9223372036854775808", *NUMBERS, "9223372036854775807"),
    "tinyint": one("tinyint", *(str(n) for n in (0, 1, 2, 5, 254, 255))),
    "(int, int)": Keyed(
        (("company", "int"), ("id", "int")),
        tuple(f"{company}, {i}" for company in (1, 1, 2) for i in range(company * 3 - 3, 9)),
    ),
    "(int, varchar, date)": Keyed(
        (("a", "int"), ("b b]", "varchar(10)"), ("c", "date")),
        tuple(
            f"{a}, '{b}', '2026-01-0{c}'"
            for a in (1, 2)
            for b in ("x", "Y", "z''")
            for c in (1, 2, 3)
        ),
    ),
    "varchar CI": one("varchar(20) COLLATE Latin1_General_CI_AS", *quoted(WORDS)),
    "(varchar CI, int)": Keyed(
        (("k", "varchar(5) COLLATE Latin1_General_CI_AS"), ("i", "int")),
        tuple(f"N'{'nN'[i % 2]}', {i}" for i in range(12)),
    ),
    "varchar SQL": one(
        "varchar(20) COLLATE SQL_Latin1_General_CP1_CI_AS",
        *quoted(["Y-1", "Y-11-3-4", "Y0", "Y1-01-1-1", "y2", "Y-1-1", "Y10", "coop", "co-op"], ""),
    ),
    "nvarchar hyphens": one(
        "nvarchar(20) COLLATE Latin1_General_CI_AS",
        *quoted(["Y-1", "Y-11-3-4", "Y0", "Y1-01-1-1", "y2", "Y-1-1", "Y10", "coop", "co-op"]),
    ),
    "varchar Greek": one("varchar(20) COLLATE Greek_CS_AS", *quoted(list(GREEK))),
    "char": one("char(8) COLLATE Latin1_General_BIN2", *quoted(WORDS)),
    "nvarchar": one("nvarchar(20)", *quoted([*WORDS, "日本", "Ж"])),
    "uniqueidentifier": one(
        "uniqueidentifier",
        *quoted([f"{i:08X}-0000-0000-0000-{(7 * i) % 11:012X}" for i in range(11)]),
    ),
    "datetime2(7)": one(
        "datetime2(7)",
        *quoted([f"2026-11-30 10:00:00.{i:07d}" for i in (0, 1, 2, 9, 10, 11, 12, 999999)]),
        "'0001-01-01'",
        "'9999-12-31 23:59:59.9999999'",
    ),
    "(datetime2(7), int)": Keyed(
        (("t", "datetime2(7)"), ("i", "int")),
        tuple(f"'2026-11-30 10:00:00.000000{i}', {9 - i}" for i in range(8)),
        cuts=False,
    ),
    "datetime": one("datetime", *quoted([f"2026-01-{d:02d} 10:00:00.003" for d in range(1, 12)])),
    "smalldatetime": one("smalldatetime", *quoted([f"2026-01-{d:02d} 10:01" for d in range(1, 9)])),
    "date": one("date", *quoted([f"2026-02-{d:02d}" for d in range(1, 12)])),
    "decimal(38,10)": one(
        "decimal(38,10)",
        *("-1", "0.0000000001", "-0.0000000001", "0", "2", "10", "9", "1e-9", "-2", "1.5"),
        "9999999999999999999999999999.9999999999",
        "-9999999999999999999999999999.9999999999",
    ),
    "decimal": one("decimal(38,10)", *(f"{n}.{abs(int(n)) % 7}000000001" for n in NUMBERS)),
    "money": one("money", *(f"{n}.1234" for n in NUMBERS)),
    "float": one("float", "0.1", "1e-300", "-1e300", "3.3333333333333335", "7", "8", "9", "-0.5"),
    "bit": one("bit", "0", "1"),
    "binary": one("binary(4)", *(f"0x0000{n:04X}" for n in range(0, 60000, 6001))),
    "varbinary": one("varbinary(8)", "0x", "0x01", "0x02", "0xFF", "0xFF01", "0x80", "0x8001"),
    "time": one("time(3)", *quoted([f"10:00:0{n}.5" for n in range(8)]), cuts=False),
}


@dataclass
class Table:
    """The captured table, as a snapshot sees it."""

    project: Project
    keyed: Keyed
    database: Database
    instance: CaptureInstance
    columns: Captured

    def ranges(self, count: int) -> tuple[Query, ...]:
        with self.database.connections.lend() as connection:
            return snapshot_ranges(connection, self.instance, self.columns, count)

    def read(self, query: Query) -> list[int]:
        with self.database.connections.lend() as connection:
            return [row["v"] for row in connection.rows(*query)]

    def everything(self) -> list[int]:
        return [row[0] for row in self.project.source.rows("SELECT v FROM dbo.keyed")]


def make_table(project: Project, keyed: Keyed) -> Table:
    keys = dict.fromkeys(keyed.keys)
    values = ", ".join(f"({key}, {number})" for number, key in enumerate(keys))
    project.source.execute(
        keyed.create(), f"INSERT INTO dbo.keyed ({keyed.names}, v) VALUES {values}"
    )
    project.source.enable("keyed")
    project.tables = {"dbo_keyed": None}
    database = project.database()
    with database.connections.lend() as connection:
        instance = capture_instances(connection)["dbo_keyed"]
        columns = captured_columns(connection, instance, ColumnWish())
    return Table(project, keyed, database, instance, columns)


@ARROW
@pytest.mark.parametrize("kind", KEYED)
def test_every_row_once(project: Project, kind: str) -> None:
    """B062, B067: keys are ordered and compared by the server, in the column's own type."""
    keyed = KEYED[kind]
    table = make_table(project, keyed)
    everything = sorted(table.everything())
    assert len(everything) == len(set(keyed.keys))
    for count in (1, 3, 8, len(everything) + 5):
        ranges = table.ranges(count)
        read = [value for query in ranges for value in table.read(query)]
        assert sorted(read) == everything, count
        if kind != "bit":
            assert (len(ranges) > 1) == (keyed.cuts and count > 1)
        assert len(ranges) <= count


@ARROW
@pytest.mark.parametrize("kind", ["varchar SQL", "nvarchar", "varchar Greek", "char"])
def test_no_collation_is_asked_for(project: Project, kind: str) -> None:
    """B063: but the column's own, which every server that has the column knows."""
    own = {"varchar SQL": "SQL_Latin1_General_CP1_CI_AS", "varchar Greek": "Greek_CS_AS"}
    own["char"] = "Latin1_General_BIN2"
    table = make_table(project, KEYED[kind])
    for text, _ in table.ranges(3):
        named = set(re.findall(r"COLLATE (\w+)", text))
        assert named == ({own[kind]} if kind in own else set())
        assert "ORDER BY" not in text
        assert re.search(r"\[k\] (<|>=|=|>) (CAST|CONVERT)\(", text)


@ARROW
@pytest.mark.parametrize("kind", ["(int, int)", "varchar CI", "int", "uniqueidentifier"])
def test_rows_that_come_and_go_meanwhile(project: Project, kind: str) -> None:
    """What stays is read once; what comes or goes is read once or not at all."""
    keyed = KEYED[kind]
    table = make_table(project, keyed)
    ranges = table.ranges(3)
    stay = set(table.everything()) - {0, 4, 8}
    read: list[int] = []
    later = {
        "(int, int)": ["0, 0", "1, 100", "9, 9"],
        "varchar CI": ["N'AA'", "N'mm'", "N'zzz'"],
        "int": ["-6", "50", "6000"],
        "uniqueidentifier": [f"N'{i:08X}-0000-0000-0000-{i:012X}'" for i in (0x50, 0x60, 0x70)],
    }[kind]
    for number, query in enumerate(ranges):
        table.project.source.execute(
            f"DELETE FROM dbo.keyed WHERE v = {4 * number}",
            f"INSERT INTO dbo.keyed ({keyed.names}, v) VALUES ({later[number]}, {100 + number})",
        )
        read += table.read(query)
    counts = Counter(read)
    assert set(counts.values()) == {1}
    assert set(counts) >= stay


@ARROW
def test_an_emptied_and_a_tiny_table(project: Project) -> None:
    table = make_table(project, KEYED["varchar CI"])
    table.project.source.execute("DELETE FROM dbo.keyed WHERE v > 0")
    assert [table.read(query) for query in table.ranges(8)] == [[0]]
    table.project.source.execute("DELETE FROM dbo.keyed")
    (query,) = table.ranges(8)
    assert table.read(query) == []


@ARROW
def test_a_key_that_is_not_all_selected_is_one_range(project: Project) -> None:
    table = make_table(project, KEYED["(int, int)"])
    kept = tuple(c for c in table.columns.columns if c.name != "id")
    table.columns = Captured(kept)
    (query,) = table.ranges(8)
    assert sorted(table.read(query)) == sorted(table.everything())


def test_a_composite_key_end_to_end(project: Project) -> None:
    keyed = KEYED["(varchar CI, int)"]
    project.extra = {"num_partitions": 4}
    make_table(project, keyed)
    outcome, _ = load(project, "dbo_keyed")
    assert outcome.rows == len(set(keyed.keys))
    names: list[Any] = [name for name, _ in keyed.columns]
    project.source.execute("UPDATE dbo.keyed SET v = -v", "DELETE FROM dbo.keyed WHERE v = 0")
    project.source.captured()
    load(project, "dbo_keyed")
    project.assert_identical("dbo_keyed", [*names, "v"])
