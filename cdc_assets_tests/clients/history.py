"""A small seeded history of a captured table, and what must be true of it, in plain Python.

The statements give the changes; the server is asked for the LSNs and times of the commits alone,
by a driver that the peer does not use.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from cdc_assets_tests.source import Source

DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4
FIRST, SECOND = "dbo_stock", "dbo_stock_2"
"""The capture instances of dbo.stock."""
COLUMNS = ("id", "name", "price", "day", "seen", "gone")
LIVE = COLUMNS[:-1]
"""Those that the table has at the end."""
ADDED = "ALTER TABLE dbo.stock ADD extra int NULL"
WIDENED = "ALTER TABLE dbo.stock ALTER COLUMN name nvarchar(60) NULL"
DROPPED = "ALTER TABLE dbo.stock DROP COLUMN gone"

Row = dict[str, Any]

_TABLES = (
    "CREATE TABLE dbo.stock (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL,"
    " price decimal(10,2) NULL, day date NULL, seen datetime2(7) NULL, gone int NULL,"
    " doubled AS price * 2)",
    "CREATE TABLE dbo.parts (region varchar(10) NOT NULL, code smallint NOT NULL,"
    " label nvarchar(20) NULL, PRIMARY KEY (region, code))",
    "CREATE TABLE dbo.nothing (id int NOT NULL PRIMARY KEY)",
)


@dataclass(frozen=True)
class Change:
    """A row of a change table."""

    operation: int
    row: Row


@dataclass(frozen=True)
class Commit:
    """A transaction that changed dbo.stock; its LSN and the server's clock at its end."""

    changes: tuple[Change, ...]
    lsn: str = ""
    local: datetime = datetime.min


def literal(value: Any) -> str:
    """A value in T-SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, (date, datetime)):
        # The seventh digit is there to be cut by clients that hold six.
        text = value.isoformat(timespec="microseconds") + "5" if isinstance(value, datetime) else ""
        return f"'{text or value.isoformat()}'"
    return "N'" + str(value).replace("'", "''") + "'"


@dataclass
class History:
    """Rows that are there, commits that were made."""

    source: Source
    random: random.Random
    rows: dict[int, Row] = field(default_factory=dict)
    parts: list[Row] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    mapping: list[tuple[str, datetime]] = field(default_factory=list)
    """cdc.lsn_time_mapping."""

    @classmethod
    def create(cls, source: Source, seed: int = 7) -> History:
        """Both tables with rows, captured, and no commits yet."""
        history = cls(source, random.Random(seed))
        source.execute(*_TABLES)
        history._load_parts()
        for table in ("stock", "parts", "nothing"):
            source.enable(table)
        return history

    # --- what happens ------------------------------------------------------------------------

    def commit(self, transactions: int) -> None:
        """Transactions of one to six statements, one row each."""
        self.source.execute(*(self._transaction() for _ in range(transactions)))

    def _transaction(self) -> str:
        texts: list[str] = []
        changes: list[Change] = []
        for _ in range(self.random.randrange(1, 7)):
            text, made = self._statement()
            texts.append(text)
            changes += made
        self.commits.append(Commit(tuple(changes)))
        return f"BEGIN TRANSACTION; {'; '.join(texts)}; COMMIT TRANSACTION"

    def execute(self, *texts: str) -> None:
        """Statements that change no row."""
        self.source.execute(*texts)

    def drop(self, column: str) -> None:
        """What a dropped column leaves behind."""
        self.source.execute(DROPPED)
        self.rows = {
            key: {name: value for name, value in row.items() if name != column}
            for key, row in self.rows.items()
        }

    def settle(self) -> None:
        """Learn the LSNs and times of the commits once capture has come to the last."""
        self.source.captured()
        self.mapping = [
            (_hex(lsn), _milliseconds(at))
            for lsn, at in self.source.rows(
                "SELECT start_lsn, tran_end_time FROM cdc.lsn_time_mapping ORDER BY start_lsn"
            )
        ]
        lsns = self.source.rows(
            "SELECT DISTINCT __$start_lsn FROM cdc.dbo_stock_CT ORDER BY __$start_lsn"
        )
        assert len(lsns) == len(self.commits)
        at = dict(self.mapping)
        self.commits = [
            replace(commit, lsn=_hex(lsn), local=at[_hex(lsn)])
            for commit, (lsn,) in zip(self.commits, lsns, strict=True)
        ]

    def _statement(self) -> tuple[str, list[Change]]:
        kind = self.random.random()
        if not self.rows or kind < 0.45:
            return self._insert()
        key = self.random.choice(sorted(self.rows))
        if kind < 0.7:
            return self._update(key)
        if kind < 0.85:
            return self._move(key)
        row = self.rows.pop(key)
        return f"DELETE FROM dbo.stock WHERE id = {key}", [Change(DELETE, row)]

    def _insert(self) -> tuple[str, list[Change]]:
        row = self._row(self._free_key())
        self.rows[row["id"]] = row
        values = ", ".join(literal(value) for value in row.values())
        names = ", ".join(row)
        return f"INSERT INTO dbo.stock ({names}) VALUES ({values})", [Change(INSERT, row)]

    def _update(self, key: int) -> tuple[str, list[Change]]:
        before = self.rows[key]
        price = (before["price"] or Decimal(0)) + Decimal("0.01")
        after = {**before, "price": price}
        self.rows[key] = after
        text = f"UPDATE dbo.stock SET price = {price} WHERE id = {key}"
        return text, [Change(BEFORE, before), Change(AFTER, after)]

    def _move(self, key: int) -> tuple[str, list[Change]]:
        """A new key: CDC records it as a delete and an insert."""
        before = self.rows.pop(key)
        after = {**before, "id": self._free_key()}
        self.rows[after["id"]] = after
        text = f"UPDATE dbo.stock SET id = {after['id']} WHERE id = {key}"
        return text, [Change(DELETE, before), Change(INSERT, after)]

    def _free_key(self) -> int:
        while (key := self.random.randrange(-200, 1000)) in self.rows:
            pass
        return key

    def _row(self, key: int) -> Row:
        pick = self.random
        name = f"{pick.choice('aBcDé')}{pick.randrange(10_000):04}'s"
        row = {
            "id": key,
            "name": None if pick.random() < 0.1 else name,
            "price": None if pick.random() < 0.1 else Decimal(pick.randrange(10**6)) / 100,
            "day": date(1969, 6, 1) + timedelta(days=pick.randrange(400)),
            "seen": datetime(2026, 1, 1) + timedelta(microseconds=pick.randrange(10**12)),
            "gone": pick.randrange(10),
        }
        if any("gone" not in other for other in self.rows.values()):
            del row["gone"]
        return row

    def _load_parts(self) -> None:
        self.parts = [
            {"region": region, "code": code, "label": f"{region}-{code}"}
            for region in ("east", "north", "south", "west")
            for code in self.random.sample(range(-300, 300), 12)
        ]
        self.parts.sort(key=lambda part: (part["region"], part["code"]))
        values = ", ".join(
            f"({', '.join(literal(value) for value in part.values())})" for part in self.parts
        )
        self.source.execute(f"INSERT INTO dbo.parts (region, code, label) VALUES {values}")

    # --- what follows ------------------------------------------------------------------------

    @property
    def lsns(self) -> list[str]:
        """Of the commits, in order."""
        return [commit.lsn for commit in self.commits]

    def changes(self, low: str, high: str) -> list[tuple[str, Change]]:
        """The changes of a closed range, each with its commit's LSN, in order."""
        return [
            (commit.lsn, change)
            for commit in self.commits
            if low <= commit.lsn <= high
            for change in commit.changes
        ]

    def ordered(self) -> list[Row]:
        """The rows by key."""
        return [self.rows[key] for key in sorted(self.rows)]


def tiles(values: Sequence[Any], count: int) -> list[Sequence[Any]]:
    """NTILE: as equal as can be, the larger ones first."""
    size, larger = divmod(len(values), count)
    cuts = [number * size + min(number, larger) for number in range(count + 1)]
    return [values[a:b] for a, b in pairwise(cuts) if a < b]


def moved(lsn: str, by: int) -> str:
    """The LSN so many after another."""
    return f"0x{int(lsn, 16) + by:020X}"


def utc_text(at: datetime) -> str:
    """A commit's time as the peer writes it."""
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds")


def as_utc(naive: datetime) -> datetime:
    """A naive UTC time as an aware one."""
    return naive.replace(tzinfo=UTC)


def _hex(lsn: bytes) -> str:
    return "0x" + bytes(lsn).hex().upper()


def _milliseconds(at: datetime) -> datetime:
    """A datetime of the server's, which counts 1/300 s, in the milliseconds it is shown in."""
    return at.replace(microsecond=0) + timedelta(milliseconds=(at.microsecond + 500) // 1000)
