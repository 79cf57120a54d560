"""The small tables that generated statements read, held in the server and as Python rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from cdc_assets.sandbox.results import SqlType
from cdc_assets_tests.sandbox.fuzz.model import TICKS_PER_DAY, Row, decimal_type, text_type

WORDS = ["a", "A", "b", "ab", "aB", "abc", "Ab c", "b ", "bc", "é", "E", "e", "Ée", "", "12", "7 x"]


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    type: SqlType
    nullable: bool = True


COLUMNS = (
    Column("id", SqlType("int"), nullable=False),
    Column("i", SqlType("int")),
    Column("s", SqlType("smallint")),
    Column("y", SqlType("tinyint")),
    Column("w", SqlType("bigint")),
    Column("d", decimal_type(9, 2)),
    Column("e", decimal_type(5, 3), nullable=False),
    Column("f", SqlType("float")),
    Column("m", SqlType("money")),
    Column("v", text_type("varchar", 12)),
    Column("n", text_type("nvarchar", 10)),
    Column("c", text_type("char", 4)),
    Column("k", SqlType("bit")),
    Column("x", SqlType("varbinary", length=6)),
    Column("t", SqlType("date")),
    Column("z", SqlType("datetime2", scale=3)),
)


@dataclass(frozen=True)
class Table:
    """A table with its rows."""

    name: str
    rows: tuple[Row, ...]


def literal(value: Any, kind: SqlType) -> str:
    """A value as T-SQL writes it."""
    if value is None:
        return "NULL"
    if kind.name in ("nvarchar", "nchar"):
        return "N'" + value.replace("'", "''") + "'"
    if kind.name in ("varchar", "char"):
        return "'" + value.replace("'", "''") + "'"
    if kind.name == "varbinary":
        return "0x" + value.hex()
    if kind.name == "bit":
        return str(int(value))
    if kind.name == "date":
        return f"'{value.isoformat()}'"
    if kind.name == "datetime2":
        day = date(1, 1, 1) + timedelta(days=value // TICKS_PER_DAY)
        seconds, rest = divmod(value % TICKS_PER_DAY, 10_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return f"'{day.isoformat()} {clock}.{rest // 10_000:03d}'"
    return repr(value) if isinstance(value, float) else str(value)


def _value(random: Random, column: Column) -> Any:
    if column.nullable and random.random() < 0.25:
        return None
    name = column.type.name
    if name == "tinyint":
        return random.choice([0, 1, 3, 7, 200, 255])
    if name == "smallint":
        return random.choice([-32768, -3, 0, 2, 5, 32767])
    if name == "int":
        return random.choice([-7, -2, -1, 0, 1, 2, 3, 10, 2147483647])
    if name == "bigint":
        return random.choice([-(1 << 63), -5, 0, 4, 3_000_000_000, (1 << 63) - 1])
    if name == "decimal":
        scale = column.type.scale or 0
        whole = random.choice([-12345, -250, -1, 0, 5, 33, 150, 12345])
        return Decimal(whole).scaleb(-scale)
    if name == "money":
        return Decimal(random.choice([-12500, 0, 1, 33333, 1000000])).scaleb(-4)
    if name == "float":
        return random.choice([-2.5, 0.0, 0.5, 3.0, 1e10])
    if name == "bit":
        return random.random() < 0.5
    if name == "varbinary":
        return bytes(random.choice([[], [5], [1, 2], [255, 0, 16], [1, 2, 3, 4, 5, 6]]))
    if name == "date":
        return date(2024, 1, 31) + timedelta(days=random.choice([-31, 0, 29, 334, 366]))
    if name == "datetime2":
        day = (date(2024, 2, 28) - date(1, 1, 1)).days + random.choice([0, 1, 2, 307])
        return day * TICKS_PER_DAY + random.choice(
            [0, 36_000_000_000, 863_999_990_000, 450_001_230_000]
        )
    word = random.choice(WORDS)
    return word.ljust(column.type.length or 0) if name == "char" else word


def build(seed: str) -> dict[str, Table]:
    """The tables of a seed."""
    random = Random(f"tables:{seed}")
    found = {}
    for name, count in (("p", 7), ("q", 6), ("r", 4)):
        rows = []
        for number in range(1, count + 1):
            row = {column.name: _value(random, column) for column in COLUMNS}
            row["id"] = number if name != "q" else number * 2 - 1
            rows.append(row)
        found[name] = Table(name, tuple(rows))
    return found


def script(tables: dict[str, Table]) -> list[str]:
    """The statements that make them."""
    definition = ", ".join(
        f"{c.name} {c.type} {'NULL' if c.nullable else 'NOT NULL'}" for c in COLUMNS
    )
    texts = []
    for table in tables.values():
        texts.append(f"CREATE TABLE {table.name} ({definition})")
        for row in table.rows:
            values = ", ".join(literal(row[c.name], c.type) for c in COLUMNS)
            texts.append(f"INSERT INTO {table.name} VALUES ({values})")
    return texts
