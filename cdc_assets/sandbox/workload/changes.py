"""Changes to the workload: T-SQL batches for a client to send, the same ones for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cdc_assets.sandbox.workload.tables import Scale

_WORDS = ("carefully", "quickly", "schnell", "naïve", "O''Brien", "регулярно", "日本", "final")
_STATUS = ("F", "O", "P")
_SPANNING_SHARE = 0.1
_HELD_ORDERS = 4
_ROLLBACK_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each kind of change comes, as weights."""

    insert: int = 4
    update: int = 8
    delete: int = 2
    move_key: int = 1
    long_transaction: int = 1


@dataclass(frozen=True, slots=True)
class Step:
    """A batch for one of two connections: 0 sends transactions one by one, 1 long ones in parts."""

    connection: int
    text: str


class Changes:
    """Makes batches; keeps no more than the keys it knows to exist.

    The keys are those of a table loaded by `load_workload(scale)` and changed by nobody else, or
    `orders` where they are given; a batch that meets another state still runs, its statements may
    then touch no row.
    """

    def __init__(
        self,
        scale: Scale,
        seed: int = 0,
        mix: Mix | None = None,
        orders: Sequence[int] | None = None,
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._mix = mix or Mix()
        self._customers = scale.customers
        self._orders = list(range(1, scale.orders + 1) if orders is None else orders)
        self._next = max(self._orders, default=0) + 1
        self._long: list[str] = []
        """What the open long transaction has still to send."""
        self._held: list[int] = []
        """Its orders, which nobody else touches until it has ended."""

    def batches(self, count: int) -> Iterator[str]:
        """`count` batches, each one transaction."""
        for _ in range(count):
            yield self.batch()

    def steps(self, count: int) -> Iterator[Step]:
        """`count` transactions on two connections, every tenth or so spanning those around it."""
        sent = 0
        while sent < count:
            if not self._long and self._random.random() < _SPANNING_SHARE and self._orders:
                self._begin_long()
                sent += 1
            if self._long:
                yield Step(1, self._part())
            if sent < count:
                yield Step(0, self.batch())
                sent += 1
        while self._long:
            yield Step(1, self._part())

    def _begin_long(self) -> None:
        """A transaction in parts; it keeps its orders to itself, so that nobody waits for it."""
        self._held = self._random.sample(self._orders, min(len(self._orders), _HELD_ORDERS))
        self._orders = [number for number in self._orders if number not in self._held]
        parts = [
            "\n".join(self._change(number, customers=False))
            for number in self._held
            for _ in range(self._random.randint(1, 3))
        ]
        end = "ROLLBACK;" if self._random.random() < _ROLLBACK_SHARE else "COMMIT;"
        self._long = ["BEGIN TRAN;", *parts, end]

    def _part(self) -> str:
        text = self._long.pop(0)
        if not self._long:
            self._orders += self._held
            self._held = []
        return text

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
        return self._change(number)

    def _change(self, number: int, *, customers: bool = True) -> list[str]:
        """An update of an order, its lines or (`customers`) a customer."""
        chosen = self._random.random() * (1.0 if customers else 0.85)
        if chosen < 0.6:
            return [
                f"UPDATE dbo.orders SET status = '{self._random.choice(_STATUS)}', "
                f"total_price = total_price + {self._random.randrange(1, 9999) / 100:.2f}, "
                f"comment = {self._comment()}, updated_at = SYSUTCDATETIME() "
                f"WHERE order_id = {number};"
            ]
        if chosen < 0.85 or not customers:
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
