"""What generated queries read from: tables, joins, derived tables, CTEs, APPLY."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from cdc_assets_tests.sandbox.fuzz import model
from cdc_assets_tests.sandbox.fuzz.expressions import Expressions
from cdc_assets_tests.sandbox.fuzz.logic import comparison
from cdc_assets_tests.sandbox.fuzz.model import INT, Expr, Row, Test
from cdc_assets_tests.sandbox.fuzz.tables import COLUMNS, Table


@dataclass(frozen=True)
class Source:
    """Rows with the columns that name them."""

    text: str
    columns: tuple[Expr, ...]
    rows: tuple[Row, ...]
    keys: tuple[Expr, ...]
    """Columns that together tell any two rows apart."""

    prefix: str = ""
    """A WITH clause that goes before the statement."""


def column(
    alias: str, name: str, kind: model.SqlType, nullable: bool | None, *, fixed: bool = True
) -> Expr:
    key = f"{alias}.{name}"
    return Expr(key, kind, lambda row: row[key], nullable, fixed_type=fixed)


class Sources:
    """Makes sources; aliases are unique within one statement."""

    def __init__(self, random: Random, tables: dict[str, Table]) -> None:
        self.random = random
        self.tables = tables
        self._aliases = 0

    def alias(self) -> str:
        self._aliases += 1
        return f"a{self._aliases}"

    def table(self) -> Source:
        table = self.random.choice(list(self.tables.values()))
        alias = self.alias()
        columns = tuple(column(alias, c.name, c.type, c.nullable) for c in COLUMNS)
        rows = tuple({f"{alias}.{k}": v for k, v in row.items()} for row in table.rows)
        word = self.random.choice(["", "dbo.", "shop.dbo.", "[dbo]."])
        as_word = self.random.choice(["AS ", ""])
        return Source(f"{word}{table.name} {as_word}{alias}", columns, rows, columns[:1])

    def any(self) -> Source:
        pick = self.random.random()
        if pick < 0.45:
            return self.table()
        if pick < 0.7:
            return self._join(self.table(), self.table())
        if pick < 0.8:
            return self._derived()
        if pick < 0.9:
            return self._common_table()
        return self._apply()

    # --- joins ---------------------------------------------------------------------------------

    def _join(self, left: Source, right: Source) -> Source:
        columns = left.columns + right.columns
        keys = left.keys + right.keys
        kind = self.random.choice(
            ["JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT OUTER JOIN", "FULL JOIN", "CROSS JOIN", ","]
        )
        if kind in ("CROSS JOIN", ","):
            rows = tuple({**a, **b} for a in left.rows for b in right.rows)
            return Source(f"{left.text} {kind} {right.text}", columns, rows, keys)
        test = self._on(left, right)
        rows, left_seen, right_seen = [], set(), set()
        for i, a in enumerate(left.rows):
            for j, b in enumerate(right.rows):
                if test.run({**a, **b}):
                    rows.append({**a, **b})
                    left_seen.add(i)
                    right_seen.add(j)
        if kind in ("LEFT JOIN", "FULL JOIN"):
            nothing = {c.sql: None for c in right.columns}
            rows += [{**a, **nothing} for i, a in enumerate(left.rows) if i not in left_seen]
        if kind in ("RIGHT OUTER JOIN", "FULL JOIN"):
            nothing = {c.sql: None for c in left.columns}
            rows += [{**nothing, **b} for j, b in enumerate(right.rows) if j not in right_seen]
        loose = [
            _loosened(c, kind in ("RIGHT OUTER JOIN", "FULL JOIN") or c.nullable)
            for c in left.columns
        ] + [_loosened(c, kind in ("LEFT JOIN", "FULL JOIN") or c.nullable) for c in right.columns]
        text = f"{left.text} {kind} {right.text} ON {test.sql}"
        return Source(text, tuple(loose), tuple(rows), keys)

    def _on(self, left: Source, right: Source) -> Test:
        columns = list(left.columns + right.columns)
        if self.random.random() < 0.3:
            return Expressions(self.random, columns).condition(1)
        name = self.random.choice(["id", "y", "i", "v", "k", "t", "d"])
        a = next(c for c in left.columns if c.sql.endswith("." + name))
        b = next(c for c in right.columns if c.sql.endswith("." + name))
        return Test(f"{a.sql} = {b.sql}", _equal(a, b))

    # --- queries in FROM -----------------------------------------------------------------------

    def _inner(self, outer: list[Expr]) -> tuple[Source, list[Expr], Test | None]:
        """A table with expressions over it; the first is its id."""
        base = self.table()
        make = Expressions(self.random, [*base.columns, *outer])
        plain = Expressions(self.random, list(base.columns))
        items = [base.columns[0], *[plain.any(1) for _ in range(self.random.randint(1, 3))]]
        where = make.condition(1) if self.random.random() < 0.6 else None
        return base, items, where

    def _shown(self, base: Source, items: list[Expr], where: Test | None, top: int | None) -> str:
        named = ", ".join(f"{item.sql} AS c{i}" for i, item in enumerate(items))
        filtered = f" WHERE {where.sql}" if where else ""
        first = f"TOP ({top}) " if top is not None else ""
        order = f" ORDER BY {items[0].sql} DESC" if top is not None else ""
        return f"SELECT {first}{named} FROM {base.text}{filtered}{order}"

    def _rows(
        self, base: Source, items: list[Expr], where: Test | None, outer: Row, alias: str
    ) -> list[Row]:
        found = []
        for row in base.rows:
            if where is None or where.run({**outer, **row}):
                found.append({f"{alias}.c{i}": item.run(row) for i, item in enumerate(items)})
        return found

    def _columns(self, alias: str, items: list[Expr], *, loose: bool = False) -> tuple[Expr, ...]:
        return tuple(
            column(
                alias,
                f"c{i}",
                item.type,
                True if loose else item.nullable,
                fixed=item.fixed_type,
            )
            for i, item in enumerate(items)
        )

    def _derived(self) -> Source:
        base, items, where = self._inner([])
        alias = self.alias()
        rows = self._rows(base, items, where, {}, alias)
        columns = self._columns(alias, items)
        text = f"({self._shown(base, items, where, None)}) AS {alias}"
        return Source(text, columns, tuple(rows), columns[:1])

    def _common_table(self) -> Source:
        base, items, where = self._inner([])
        alias, name = self.alias(), f"cte{self._aliases}"
        rows = self._rows(base, items, where, {}, alias)
        columns = self._columns(alias, items)
        named = ", ".join(f"c{i}" for i in range(len(items)))
        prefix = f"WITH {name} ({named}) AS ({self._shown(base, items, where, None)}) "
        return Source(f"{name} AS {alias}", columns, tuple(rows), columns[:1], prefix)

    def _apply(self) -> Source:
        left = self.table()
        base, items, where = self._inner(list(left.columns))
        kind = self.random.choice(["CROSS APPLY", "OUTER APPLY"])
        alias = self.alias()
        top = self.random.choice([None, 1, 2])
        rows: list[Row] = []
        columns = self._columns(alias, items, loose=kind == "OUTER APPLY")
        for outer in left.rows:
            inner = self._rows(base, items, where, outer, alias)
            if top is not None:
                inner = sorted(inner, key=lambda r: -r[f"{alias}.c0"])[:top]
            if not inner and kind == "OUTER APPLY":
                inner = [{c.sql: None for c in columns}]
            rows += [{**outer, **row} for row in inner]
        text = f"{left.text} {kind} ({self._shown(base, items, where, top)}) AS {alias}"
        return Source(text, left.columns + columns, tuple(rows), (left.keys[0], columns[0]))

    # --- subqueries ----------------------------------------------------------------------------

    def subquery(self, kind: str, outer: Expressions) -> Test:
        """IN, EXISTS or a comparison with an aggregate, correlated or not."""
        del kind
        base = self.table()
        correlated = outer.columns if self.random.random() < 0.5 else []
        inner = Expressions(self.random, [*base.columns, *correlated])
        where = inner.condition(1)
        form = self.random.choice(["IN", "NOT IN", "EXISTS", "NOT EXISTS", "MAX", "COUNT"])

        def matching(row: Row) -> list[Row]:
            return [{**row, **r} for r in base.rows if where.run({**row, **r})]

        tail = f"FROM {base.text} WHERE {where.sql}"
        if form.endswith("EXISTS"):
            return Test(
                f"{form} (SELECT * {tail})", lambda row: bool(matching(row)) == (form == "EXISTS")
            )
        name = self.random.choice(["i", "y", "v", "t"])
        item = next(c for c in base.columns if c.sql.endswith("." + name))
        family = {"v": "text", "t": "date"}.get(name, "whole")
        operand = outer.column(family)
        if form == "COUNT":
            return _scalar(
                outer.column("whole"),
                f"(SELECT COUNT(*) {tail})",
                INT,
                lambda row: len(matching(row)),
            )
        if form == "MAX":
            return _scalar(
                operand,
                f"(SELECT MAX({item.sql}) {tail})",
                item.type,
                lambda row: _greatest([item.run(r) for r in matching(row)]),
            )
        return Test(
            f"{operand.sql} {form} (SELECT {item.sql} {tail})",
            lambda row: _within(operand.run(row), [item.run(r) for r in matching(row)], form),
        )


def _loosened(expr: Expr, nullable: bool | None) -> Expr:
    return replace(expr, nullable=nullable)


def _equal(a: Expr, b: Expr) -> Callable[[Row], bool | None]:
    def run(row: Row) -> bool | None:
        x, y = a.run(row), b.run(row)
        if x is None or y is None:
            return None
        return bool(model.equality_key(x) == model.equality_key(y))

    return run


def _greatest(values: list[object]) -> object:
    known = [value for value in values if value is not None]
    return max(known, key=model.order_key) if known else None


def _within(value: object, values: list[object], form: str) -> bool | None:
    if not values:
        return form == "NOT IN"
    found: bool | None = False
    if value is None:
        found = None
    elif any(v is not None and model.equality_key(v) == model.equality_key(value) for v in values):
        found = True
    elif any(v is None for v in values):
        found = None
    return found if form == "IN" or found is None else not found


def _scalar(operand: Expr, text: str, kind: model.SqlType, run: Callable[[Row], object]) -> Test:
    from_query = Expr(text, kind, run)
    return comparison("<=", operand, from_query)
