"""Random expressions and conditions, each made together with what it is worth on a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

from cdc_assets.sandbox.results import SqlType
from cdc_assets_tests.sandbox.fuzz import functions, model
from cdc_assets_tests.sandbox.fuzz.logic import both, comparison, evaluated, negated
from cdc_assets_tests.sandbox.fuzz.model import (
    BIGINT,
    BIT,
    DATE,
    FLOAT,
    INT,
    MONEY,
    SMALLINT,
    TINYINT,
    Expr,
    FailedError,
    Row,
    Test,
)
from cdc_assets_tests.sandbox.fuzz.patterns import like_test
from cdc_assets_tests.sandbox.fuzz.tables import literal

FAMILIES = {
    "number": ("tinyint", "smallint", "int", "bigint", "decimal", "money", "float"),
    "whole": ("tinyint", "smallint", "int"),
    "exact": ("tinyint", "smallint", "int", "bigint", "decimal"),
    "text": ("varchar", "nvarchar", "char"),
    "date": ("date",),
    "time": ("datetime2",),
    "bytes": ("varbinary",),
    "bit": ("bit",),
}
_TARGETS = {
    "number": (SMALLINT, INT, BIGINT, FLOAT, MONEY, TINYINT),
    "text": (),
}
_COMPARED = ("number", "number", "exact", "text", "text", "date", "time", "bytes", "mixed")


class Expressions:
    """Makes expressions over the columns in scope."""

    def __init__(self, random: Random, columns: list[Expr]) -> None:
        self.random = random
        self.columns = columns
        self.subquery: Callable[[str, Expressions], Expr | Test] | None = None

    def one_of(self, *makers: Callable[[], Any]) -> Any:
        return self.random.choice(makers)()

    # --- leaves --------------------------------------------------------------------------------

    def column(self, family: str) -> Expr:
        fitting = [c for c in self.columns if c.type.name in FAMILIES[family]]
        return self.random.choice(fitting) if fitting else self.constant(family)

    def constant(self, family: str) -> Expr:
        r = self.random
        if family in ("number", "exact", "whole"):
            if family != "whole" and r.random() < 0.3:
                text = r.choice(["1.5", "0.01", "2.50", "10.0", "3.333"])
                whole, fraction = text.split(".")
                precision = len(whole.lstrip("0")) + len(fraction)
                kind = model.decimal_type(precision, len(fraction), "numeric")
                return _fixed(text, kind, Decimal(text))
            number = r.choice([0, 1, 2, 3, 7, 10, 100])
            return replace(_fixed(str(number), INT, number), literal=True)
        if family == "text":
            word = r.choice(["a", "B", "ab", "bc ", "E", "é", " x", "c1"])
            kind = model.text_type(r.choice(["varchar", "nvarchar"]), len(word))
            return _fixed(literal(word, kind), kind, word)
        if family == "bytes":
            raw = r.choice([b"\x01", b"\x05", b"\xff\x00\x10", b"\x01\x02"])
            return _fixed("0x" + raw.hex(), SqlType("varbinary", length=len(raw)), raw)
        if family == "bit":
            value = r.random() < 0.5
            return _fixed(f"CAST({int(value)} AS bit)", BIT, value)
        day = functions.DAYS[r.randrange(len(functions.DAYS))]
        text = f"CAST('{day.isoformat()}' AS date)"
        value = _fixed(text, DATE, day)
        return value if family == "date" else self._cast(value, SqlType("datetime2", scale=3))

    # --- by family -----------------------------------------------------------------------------

    def any(self, depth: int = 2) -> Expr:
        family = self.random.choice(
            ["number", "number", "exact", "text", "text", "date", "time", "bytes", "bit"]
        )
        return self.expression(family, depth)

    def expression(self, family: str, depth: int) -> Expr:
        if depth <= 0 or self.random.random() < 0.25:
            return self.column(family) if self.random.random() < 0.75 else self.constant(family)
        makers: dict[str, list[Callable[[int], Expr]]] = {
            "number": [
                self._arithmetic,
                self._arithmetic,
                self._to_number,
                self._counted,
                self._math,
            ],
            "exact": [self._arithmetic_exact, self._counted],
            "whole": [self._counted],
            "text": [self._joined, self._text_call, self._text_call, self._to_text],
            "date": [self._date_call],
            "time": [self._to_time],
            "bytes": [self._to_bytes],
            "bit": [self._to_bit],
        }
        shared = [lambda d: self._case(family, d), lambda d: self._coalesce(family, d)]
        if self.random.random() < 0.2:
            return self.random.choice(shared)(depth - 1)
        return self.random.choice(makers[family])(depth - 1)

    def _arithmetic(self, depth: int) -> Expr:
        return self._operator(self.expression("number", depth), self.expression("number", depth))

    def _arithmetic_exact(self, depth: int) -> Expr:
        return self._operator(self.expression("exact", depth), self.expression("exact", depth))

    def _operator(self, left: Expr, right: Expr) -> Expr:
        names = {left.type.name, right.type.name}
        ops = ["+", "-", "*", "/", "%"]
        if names <= set(model.INTS):
            ops += ["&", "|", "^"]
        if "float" in names or "money" in names:
            ops = ["+", "-"] if "money" in names and "float" not in names else ["+", "-", "*", "/"]
        op = self.random.choice(ops)
        kind = model.arithmetic_type(op, left, right)
        if kind.name == "bigint" and op == "%":
            op, kind = "+", model.arithmetic_type("+", left, right)

        def run(row: Row) -> Any:
            return model.calculate(op, *evaluated((left, right), row), kind)

        return Expr(f"({left.sql} {op} {right.sql})", kind, run)

    def _math(self, depth: int) -> Expr:
        return functions.math_call(self.random, self.expression("number", depth))

    def _counted(self, depth: int) -> Expr:
        if self.random.random() < 0.6:
            return functions.text_measure(self.random, lambda: self.expression("text", depth))
        return functions.date_measure(self.random, lambda: self.expression("date", depth))

    def _joined(self, depth: int) -> Expr:
        return functions.joined(self.expression("text", depth), self.expression("text", depth))

    def _text_call(self, depth: int) -> Expr:
        return functions.text_call(self.random, lambda: self.expression("text", depth))

    def _date_call(self, depth: int) -> Expr:
        return functions.date_call(self.random, lambda: self.expression("date", depth))

    # --- conversions ---------------------------------------------------------------------------

    def _cast(self, value: Expr, kind: SqlType) -> Expr:
        form = self.random.choice(["CAST({0} AS {1})", "CONVERT({1}, {0})"])
        attempt = self.random.random() < 0.25
        text = ("TRY_" if attempt else "") + form.format(value.sql, kind)

        def run(row: Row) -> Any:
            before = value.run(row)
            try:
                return model.convert(before, value.type, kind)
            except FailedError:
                if attempt:
                    return None
                raise

        return Expr(text, kind, run)

    def _to_number(self, depth: int) -> Expr:
        precision = self.random.randint(3, 18)
        decimals = model.decimal_type(precision, self.random.randint(0, min(6, precision)))
        kind = self.random.choice([*_TARGETS["number"], decimals, decimals])
        source = self.expression(self.random.choice(["number", "exact", "text"]), depth)
        if source.type.name == "float" and kind.name in ("decimal", "money"):
            kind = FLOAT
        if source.type.name == "money" and kind.name in model.INTS:
            kind = FLOAT
        return self._cast(source, kind)

    def _to_text(self, depth: int) -> Expr:
        length = self.random.choice([1, 2, 4, 10, 30, 30])
        kind = model.text_type(self.random.choice(["varchar", "nvarchar", "char"]), length)
        source = self.expression(
            self.random.choice(["exact", "text", "date", "time", "bit"]), depth
        )
        return self._cast(source, kind)

    def _to_time(self, depth: int) -> Expr:
        kind = SqlType("datetime2", scale=self.random.randint(0, 7))
        return self._cast(self.expression(self.random.choice(["date", "time"]), depth), kind)

    def _to_bytes(self, depth: int) -> Expr:
        kind = SqlType("varbinary", length=self.random.choice([1, 2, 4, 8, 30]))
        source = self.expression(self.random.choice(["bytes", "bytes", "text"]), depth)
        return self._cast(source, kind)

    def _to_bit(self, depth: int) -> Expr:
        return self._cast(self.expression("exact", depth), BIT)

    # --- CASE and its kin ----------------------------------------------------------------------

    def _branches(self, family: str, depth: int) -> tuple[list[Expr], SqlType]:
        items = [self.column(family)]
        items += [self.expression(family, depth) for _ in range(self.random.randint(1, 2))]
        if any(item.literal for item in items):
            items = [self._cast_plain(item, INT) if item.literal else item for item in items]
        return items, model.common([item.type for item in items])

    def _cast_plain(self, value: Expr, kind: SqlType) -> Expr:
        return Expr(
            f"CAST({value.sql} AS {kind})",
            kind,
            lambda row: model.convert(value.run(row), value.type, kind),
        )

    def _case(self, family: str, depth: int) -> Expr:
        items, kind = self._branches(family, depth)
        tests = [self.condition(depth) for _ in items[1:]]
        otherwise = self.random.random() < 0.6
        text = "".join(f" WHEN {t.sql} THEN {i.sql}" for t, i in zip(tests, items, strict=False))
        if otherwise:
            text += f" ELSE {items[-1].sql}"
        else:
            kind = model.common([item.type for item in items[:-1]])

        def run(row: Row) -> Any:
            for test, item in zip(tests, items, strict=False):
                if test.run(row):
                    return model.convert(item.run(row), item.type, kind)
            return model.convert(items[-1].run(row), items[-1].type, kind) if otherwise else None

        fixed = all(item.fixed_type for item in items)
        return Expr(f"CASE{text} END", kind, run, None if otherwise else True, fixed_type=fixed)

    def _coalesce(self, family: str, depth: int) -> Expr:
        items, kind = self._branches(family, depth)
        first, *rest = items
        form = self.random.choice(["COALESCE", "ISNULL", "NULLIF"])
        if form == "ISNULL":
            kind, rest = first.type, rest[:1]
            if rest[0].type.name == "float" or kind.name in ("tinyint", "smallint", "money"):
                form, kind = "COALESCE", model.common([i.type for i in items[:2]])
        if form == "NULLIF":
            other = rest[0]
            compared = comparison(self.random.choice(["="]), first, other)

            def null_if(row: Row) -> Any:
                return None if compared.run(row) else first.run(row)

            return Expr(
                f"NULLIF({first.sql}, {other.sql})",
                first.type,
                null_if,
                None,
                fixed_type=first.fixed_type,
            )

        def run(row: Row) -> Any:
            for item in (first, *rest):
                value = item.run(row)
                if value is not None:
                    return model.convert(value, item.type, kind)
            return None

        listed = ", ".join(item.sql for item in (first, *rest))
        nullable = None
        if form == "ISNULL" and rest[0].nullable is False:
            nullable = False
        fixed = all(item.fixed_type for item in (first, *rest))
        return Expr(f"{form}({listed})", kind, run, nullable, fixed_type=fixed)

    # --- conditions ----------------------------------------------------------------------------

    def condition(self, depth: int = 2) -> Test:
        pick = self.random.random()
        if depth > 0 and pick < 0.3:
            return self._logic(depth - 1)
        if self.subquery is not None and pick < 0.42:
            found = self.subquery("condition", self)
            assert isinstance(found, Test)
            return found
        return self.one_of(
            lambda: self._compared(depth - 1),
            lambda: self._compared(depth - 1),
            lambda: self._listed(depth - 1),
            lambda: self._between(depth - 1),
            lambda: self._is_null(depth - 1),
            lambda: like_test(self.random, self.expression("text", depth - 1)),
        )

    def _logic(self, depth: int) -> Test:
        left, right = self.condition(depth), self.condition(depth)
        kind = self.random.choice(["AND", "OR", "NOT"])
        if kind == "NOT":
            return Test(f"NOT ({left.sql})", lambda row: negated(left.run(row)))
        if kind == "AND":
            return Test(
                f"({left.sql} AND {right.sql})", lambda row: both(left.run(row), right.run(row))
            )
        return Test(
            f"({left.sql} OR {right.sql})",
            lambda row: negated(both(negated(left.run(row)), negated(right.run(row)))),
        )

    def _pair(self, depth: int, count: int = 2) -> list[Expr]:
        family = self.random.choice(_COMPARED)
        if family != "mixed":
            return [self.expression(family, depth) for _ in range(count)]
        kind = self.random.choice(["number", "date"])
        if kind == "date":
            other = _fixed("'2024-03-01'", model.text_type("varchar", 10), "2024-03-01")
        else:
            other = _fixed("' 2'", model.text_type("varchar", 2), " 2")
        left = self.column("whole" if kind == "number" else "date")
        return [left, *[other] * (count - 1)]

    def _compared(self, depth: int) -> Test:
        left, right = self._pair(depth)
        return comparison(self.random.choice(["=", "<>", "<", "<=", ">", ">=", "!="]), left, right)

    def _listed(self, depth: int) -> Test:
        operand, *items = self._pair(depth, 3)
        tests = [comparison("=", operand, item) for item in items]
        word = self.random.choice(["IN", "NOT IN"])
        with_null = self.random.random() < 0.2
        listed = ", ".join([item.sql for item in items] + ["NULL"] * with_null)

        def run(row: Row) -> bool | None:
            found: bool | None = False
            for value in [test.run(row) for test in tests] + [None] * with_null:
                found = negated(both(negated(found), negated(value)))
            return found if word == "IN" else negated(found)

        return Test(f"{operand.sql} {word} ({listed})", run)

    def _between(self, depth: int) -> Test:
        operand, low, high = self._pair(depth, 3)
        above, below = comparison(">=", operand, low), comparison("<=", operand, high)
        word = self.random.choice(["BETWEEN", "NOT BETWEEN"])

        def run(row: Row) -> bool | None:
            inside = both(above.run(row), below.run(row))
            return inside if word == "BETWEEN" else negated(inside)

        return Test(f"{operand.sql} {word} {low.sql} AND {high.sql}", run)

    def _is_null(self, depth: int) -> Test:
        operand = self.any(depth)
        word = self.random.choice(["IS NULL", "IS NOT NULL"])
        return Test(
            f"{operand.sql} {word}", lambda row: (operand.run(row) is None) == (word == "IS NULL")
        )


def _fixed(text: str, kind: SqlType, value: Any) -> Expr:
    return Expr(text, kind, lambda row: value, False)
