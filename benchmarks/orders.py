"""The table that is measured: orders of ten columns, its T-SQL, and batches of changes to it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

TABLE = "bench_orders"
INSTANCE = f"dbo_{TABLE}"
COLUMNS = (
    "order_id int NOT NULL PRIMARY KEY",
    "customer_id int NOT NULL",
    "status char(1) NOT NULL",
    "total decimal(15,2) NOT NULL",
    "order_day date NOT NULL",
    "priority nvarchar(15) NOT NULL",
    "clerk nvarchar(15) NOT NULL",
    "ship_priority int NOT NULL",
    "updated_at datetime2(3) NOT NULL",
    "comment nvarchar(64) NULL",
)
NAMES = tuple(column.split()[0] for column in COLUMNS)

CREATE = f"CREATE TABLE dbo.{TABLE} ({', '.join(COLUMNS)})"
ENABLE = (
    "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo',"
    f" @source_name = N'{TABLE}', @role_name = NULL, @supports_net_changes = 0"
)
SELECT = f"SELECT {', '.join(NAMES)} FROM dbo.{TABLE}"

TRANSACTIONS = 5
"""Transactions that a batch of changes is made in."""
_ROWS_PER_INSERT_MAX = 1_000
"""SQL Server's limit for the rows of one VALUES."""


class Orders:
    """What the source holds, as far as the next changes need to know."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._keys: list[int] = []
        self._next = 1

    @property
    def rows(self) -> int:
        """Rows that the source table holds."""
        return len(self._keys)

    def load(self, rows: int) -> Iterator[str]:
        """Statements that fill the table: a first thousand, then copies of what is there."""
        first = min(rows, _ROWS_PER_INSERT_MAX)
        yield self._insert(first)
        while (there := self._next - 1) < rows:
            more = min(there, rows - there)
            others = ", ".join(name for name in NAMES if name != "order_id")
            yield (
                f"INSERT INTO dbo.{TABLE} (order_id, {others})"
                f" SELECT order_id + {there}, {others} FROM dbo.{TABLE} WHERE order_id <= {more}"
            )
            self._take(more)

    def changes(self, count: int) -> Iterator[str]:
        """One batch a transaction: of a hundred changed rows 20 are new, 70 updated, 10 deleted."""
        each = -(-count // TRANSACTIONS)
        for first in range(0, count, each):
            yield self._transaction(min(each, count - first))

    def _transaction(self, count: int) -> str:
        inserts, deletes = count // 5, count // 10
        touched = self._random.sample(range(len(self._keys)), count - inserts)
        keys = [self._keys[index] for index in touched]
        gone, updated = keys[:deletes], keys[deletes:]
        for index in sorted(touched[:deletes], reverse=True):
            self._keys[index] = self._keys[-1]
            self._keys.pop()
        statements = [self._insert(inserts)] if inserts else []
        if updated:
            statements.append(
                f"UPDATE dbo.{TABLE} SET status = 'P', total = total + 1 WHERE {_among(updated)}"
            )
        if gone:
            statements.append(f"DELETE FROM dbo.{TABLE} WHERE {_among(gone)}")
        return f"BEGIN TRANSACTION; {'; '.join(statements)}; COMMIT TRANSACTION"

    def _insert(self, rows: int) -> str:
        values = ", ".join(self._values(self._next + n) for n in range(rows))
        self._take(rows)
        return f"INSERT INTO dbo.{TABLE} ({', '.join(NAMES)}) VALUES {values}"

    def _values(self, key: int) -> str:
        customer, cents = self._random.randrange(10_000), self._random.randrange(100, 100_000)
        return (
            f"({key}, {customer}, 'O', {cents / 100:.2f}, '2026-01-15', N'3-MEDIUM',"
            f" N'Clerk#{key % 1000:09d}', 0, '2026-01-15 10:00:00.000',"
            f" N'carefully packed requests {key}')"
        )

    def _take(self, rows: int) -> None:
        self._keys.extend(range(self._next, self._next + rows))
        self._next += rows


def _among(keys: Sequence[int]) -> str:
    return f"order_id IN ({', '.join(map(str, keys))})"
