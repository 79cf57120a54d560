"""Changes to the workload: T-SQL batches for a client to send, the same ones for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from cdc_assets.sandbox.workload.tables import Scale

_WORDS = ("carefully", "quickly", "schnell", "naïve", "O''Brien", "регулярно", "日本", "final")
_STATUS = ("F", "O", "P")


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each kind of change comes, as weights."""

    insert: int = 4
    update: int = 8
    delete: int = 2
    move_key: int = 1
    long_transaction: int = 1


class Changes:
    """Makes batches; keeps no more than the keys it knows to exist.

    The keys are those of a table loaded by `load_workload(scale)` and changed by nobody else; a
    batch that meets another state still runs, its statements may then touch no row.
    """

    def __init__(self, scale: Scale, seed: int = 0, mix: Mix | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._mix = mix or Mix()
        self._customers = scale.customers
        self._orders = list(range(1, scale.orders + 1))
        self._next = scale.orders + 1

    def batches(self, count: int) -> Iterator[str]:
        """`count` batches, each one transaction."""
        for _ in range(count):
            yield self.batch()

    def batch(self) -> str:
        """One transaction: one statement, or several between BEGIN TRAN and COMMIT."""
        kinds = ("insert", "update", "delete", "move_key", "long_transaction")
        weights = [getattr(self._mix, kind) for kind in kinds]
        kind = self._random.choices(kinds, weights)[0]
        if kind != "long_transaction":
            statements = getattr(self, f"_{kind}")()
        else:
            statements = [
                statement
                for _ in range(self._random.randint(3, 12))
                for statement in getattr(self, f"_{self._random.choice(kinds[:4])}")()
            ]
        if len(statements) == 1:
            return str(statements[0])
        return "\n".join(["BEGIN TRAN;", *statements, "COMMIT;"])

    # --- statements ----------------------------------------------------------------------------

    def _order(self) -> int | None:
        return self._random.choice(self._orders) if self._orders else None

    def _comment(self) -> str:
        if self._random.random() < 0.2:
            return "NULL"
        return f"N'{self._random.choice(_WORDS)} {self._random.randrange(10**6)}'"

    def _insert(self) -> list[str]:
        number, self._next = self._next, self._next + 1
        self._orders.append(number)
        lines = self._random.randint(1, 4)
        items = ", ".join(
            f"({number}, {line}, {self._random.randint(1, 20000)}, {self._random.randint(1, 50)}, "
            f"{self._random.randrange(100, 10**7) / 100:.2f}, 0.0{self._random.randrange(10)}, "
            f"'{self._random.choice('ANR')}', NULL, 'RAIL', {self._comment()})"
            for line in range(1, lines + 1)
        )
        return [
            "INSERT INTO dbo.orders (order_id, customer_id, status, total_price, order_date, "
            "priority, clerk, comment, created_at, updated_at) VALUES "
            f"({number}, {self._random.randint(1, self._customers)}, 'O', "
            f"{self._random.randrange(10**4, 5 * 10**7) / 100:.2f}, '2026-11-30', '3-MEDIUM', "
            f"N'Clerk#{self._random.randrange(1000):09d}', {self._comment()}, SYSUTCDATETIME(), "
            "NULL);",
            "INSERT INTO dbo.lineitem (order_id, line_number, part_id, quantity, extended_price, "
            f"discount, return_flag, ship_date, ship_mode, comment) VALUES {items};",
        ]

    def _update(self) -> list[str]:
        number = self._order()
        if number is None:
            return self._insert()
        chosen = self._random.random()
        if chosen < 0.6:
            return [
                f"UPDATE dbo.orders SET status = '{self._random.choice(_STATUS)}', "
                f"total_price = total_price + {self._random.randrange(1, 9999) / 100:.2f}, "
                f"comment = {self._comment()}, updated_at = SYSUTCDATETIME() "
                f"WHERE order_id = {number};"
            ]
        if chosen < 0.85:
            return [
                f"UPDATE dbo.lineitem SET quantity = quantity + 1, comment = {self._comment()} "
                f"WHERE order_id = {number};"
            ]
        return [
            "UPDATE dbo.customer SET account_balance = account_balance - "
            f"{self._random.randrange(1, 9999) / 100:.2f}, updated_at = SYSUTCDATETIME() "
            f"WHERE customer_id = {self._random.randint(1, self._customers)};"
        ]

    def _delete(self) -> list[str]:
        number = self._order()
        if number is None:
            return self._insert()
        self._orders.remove(number)
        return [
            f"DELETE FROM dbo.lineitem WHERE order_id = {number};",
            f"DELETE FROM dbo.orders WHERE order_id = {number};",
        ]

    def _move_key(self) -> list[str]:
        """An order gets another number: recorded as deletes and inserts."""
        number = self._order()
        if number is None:
            return self._insert()
        self._orders.remove(number)
        new, self._next = self._next, self._next + 1
        self._orders.append(new)
        return [
            f"UPDATE dbo.orders SET order_id = {new} WHERE order_id = {number};",
            f"UPDATE dbo.lineitem SET order_id = {new} WHERE order_id = {number};",
        ]
