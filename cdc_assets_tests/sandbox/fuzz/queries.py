"""Random SELECT statements together with their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from cdc_assets_tests.sandbox.fuzz import model
from cdc_assets_tests.sandbox.fuzz.aggregates import aggregate, windowed
from cdc_assets_tests.sandbox.fuzz.expressions import Expressions
from cdc_assets_tests.sandbox.fuzz.model import Expr, FailedError, Row, UnsureError
from cdc_assets_tests.sandbox.fuzz.setoperations import converted, set_operations
from cdc_assets_tests.sandbox.fuzz.sources import Source, Sources
from cdc_assets_tests.sandbox.fuzz.tables import Table

_TRIES = 200


@dataclass(frozen=True)
class Answer:
    """Rows with their columns; rows of one block may come in any order."""

    names: tuple[str, ...]
    columns: tuple[Expr, ...]
    rows: list[tuple[Any, ...]]
    blocks: list[int] | None = None
    folded: frozenset[int] = frozenset()
    """Columns of text where any of the equal values may stand for the group."""


@dataclass(frozen=True)
class Statement:
    """A statement and what it must give: an answer, or one of these errors."""

    text: str
    answer: Answer | None = None
    errors: frozenset[int] = field(default=frozenset())


def statement(random: Random, tables: dict[str, Table]) -> Statement:
    """A statement whose answer the documentation fixes."""
    for _ in range(_TRIES):
        try:
            return Queries(random, tables).any()
        except UnsureError:
            continue
        except FailedError:
            continue  # an error that depends on the order of evaluation
    raise AssertionError(f"no certain statement in {_TRIES} tries")


class Queries:
    """Makes one statement."""

    def __init__(self, random: Random, tables: dict[str, Table]) -> None:
        self.random = random
        self.sources = Sources(random, tables)

    def any(self) -> Statement:
        pick = self.random.random()
        if pick < 0.25:
            return self._scalar()
        if pick < 0.6:
            return self._plain()
        if pick < 0.8:
            return self._grouped()
        return self._combined()

    def _make(self, columns: Sequence[Expr]) -> Expressions:
        make = Expressions(self.random, list(columns))
        make.subquery = self.sources.subquery
        return make

    def _names(self, count: int) -> tuple[str, ...]:
        return tuple(self.random.choice(["", f"x{i}", f"Some name {i}"]) for i in range(count))

    def _listed(self, items: Sequence[Expr], names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """The select list, and the names its columns get."""
        texts, shown = [], []
        for item, name in zip(items, names, strict=True):
            texts.append(f"{item.sql} AS [{name}]" if name else item.sql)
            plain = item.sql.rpartition(".")[2] if item.sql.replace(".", "").isalnum() else ""
            plain = "" if plain[:1].isdigit() or item.literal else plain
            shown.append(name or plain)
        return ", ".join(texts), tuple(shown)

    # --- one table, no filter: errors are certain ------------------------------------------------

    def _scalar(self) -> Statement:
        source = self.sources.table()
        make = Expressions(self.random, list(source.columns))
        items = [make.any(3) for _ in range(self.random.randint(1, 3))]
        listed, names = self._listed(items, self._names(len(items)))
        text = f"SELECT {listed} FROM {source.text}"
        failures: set[int] = set()
        rows = []
        for row in source.rows:
            try:
                rows.append(tuple(item.run(row) for item in items))
            except FailedError as failed:
                failures |= failed.numbers
        if failures:
            return Statement(text, errors=frozenset(failures | _all_failures(items, source.rows)))
        return Statement(text, Answer(names, tuple(items), rows))

    # --- SELECT … FROM … WHERE … ORDER BY --------------------------------------------------------

    def _filtered(self, source: Source, make: Expressions) -> tuple[str, list[Row]]:
        if self.random.random() < 0.3:
            return "", [dict(row) for row in source.rows]
        where = make.condition(2)
        return f" WHERE {where.sql}", [dict(row) for row in source.rows if where.run(row)]

    def _plain(self) -> Statement:
        source = self.sources.any()
        make = self._make(source.columns)
        where, rows = self._filtered(source, make)
        plain = Expressions(self.random, list(source.columns))
        items = [plain.any(2) for _ in range(self.random.randint(1, 4))]
        if self.random.random() < 0.3:
            items.append(windowed(self.random, plain, source.keys, rows))
            return self._finish(source, where, rows, items, distinct=False)
        return self._finish(source, where, rows, items, distinct=self.random.random() < 0.2)

    def _finish(
        self, source: Source, where: str, rows: list[Row], items: list[Expr], *, distinct: bool
    ) -> Statement:
        listed, names = self._listed(items, self._names(len(items)))
        values = [tuple(item.run(row) for item in items) for row in rows]
        head = f"{source.prefix}SELECT "
        tail = f"{listed} FROM {source.text}{where}"
        if distinct:
            return self._distinct(head, tail, names, items, values)
        if self.random.random() < 0.35:
            return Statement(head + tail, Answer(names, tuple(items), values))
        keys, texts = self._keys(source, items)
        ordered = sorted(zip(rows, values, strict=True), key=lambda pair: _sorting(keys, pair[0]))
        limit = self.random.random()
        order = f" ORDER BY {', '.join(texts)}"
        if limit < 0.5:
            blocks = _blocks([_sorting(keys, row) for row, _ in ordered])
            answer = Answer(names, tuple(items), [v for _, v in ordered], blocks)
            return Statement(head + tail + order, answer)
        if limit < 0.65:
            return self._with_ties(head, tail, order, keys, ordered, names, items)
        keys += [(key, False) for key in source.keys]
        order += ", " + ", ".join(key.sql for key in source.keys)
        ordered = sorted(ordered, key=lambda pair: _sorting(keys, pair[0]))
        count, skipped = self.random.choice([0, 1, 3, 100]), self.random.choice([0, 1, 2])
        if limit < 0.8:
            text, kept = f"{head}TOP ({count}) {tail}{order}", ordered[:count]
        else:
            count = max(count, 1)
            fetch = f" FETCH NEXT {count} ROWS ONLY"
            text = f"{head}{tail}{order} OFFSET {skipped} ROWS{fetch}"
            kept = ordered[skipped : skipped + count]
        chosen = [v for _, v in kept]
        return Statement(text, Answer(names, tuple(items), chosen, [1] * len(chosen)))

    def _with_ties(
        self,
        head: str,
        tail: str,
        order: str,
        keys: list[tuple[Expr, bool]],
        ordered: list[tuple[Row, tuple[Any, ...]]],
        names: tuple[str, ...],
        items: list[Expr],
    ) -> Statement:
        count = self.random.choice([1, 2])
        sorting = [_sorting(keys, row) for row, _ in ordered]
        kept = [
            value
            for i, (_, value) in enumerate(ordered)
            if i < count or sorting[i] == sorting[count - 1]
        ]
        blocks = _blocks(sorting[: len(kept)])
        text = f"{head}TOP ({count}) WITH TIES {tail}{order}"
        return Statement(text, Answer(names, tuple(items), kept, blocks))

    def _keys(self, source: Source, items: list[Expr]) -> tuple[list[tuple[Expr, bool]], list[str]]:
        make = Expressions(self.random, list(source.columns))
        keys, texts, seen = [], [], set()
        for _ in range(self.random.randint(1, 2)):
            family = self.random.choice(["number", "text", "date", "bit", "time"])
            key = make.column(family)
            if self.random.random() < 0.3 and source.columns:
                key = make.expression(family, 1)
            if key.sql in seen or key.sql in {k.sql for k in source.keys} or "." not in key.sql:
                continue
            if not any(c.sql in key.sql for c in source.columns):
                continue
            seen.add(key.sql)
            descending = self.random.random() < 0.4
            keys.append((key, descending))
            texts.append(key.sql + (" DESC" if descending else self.random.choice(["", " ASC"])))
        if not keys:
            raise UnsureError
        return keys, texts

    def _distinct(
        self,
        head: str,
        tail: str,
        names: tuple[str, ...],
        items: list[Expr],
        values: list[tuple[Any, ...]],
    ) -> Statement:
        if any(item.type.name == "varbinary" for item in items):
            raise UnsureError
        folded = frozenset(i for i, item in enumerate(items) if item.type.name in model.TEXTS)
        kept = list({tuple(map(model.equality_key, value)): value for value in values}.values())
        return Statement(f"{head}DISTINCT {tail}", Answer(names, tuple(items), kept, None, folded))

    # --- GROUP BY ------------------------------------------------------------------------------

    def _grouped(self) -> Statement:
        source = self.sources.any()
        make = self._make(source.columns)
        where, rows = self._filtered(source, make)
        plain = Expressions(self.random, list(source.columns))
        keys = self._group_keys(plain)
        groups: dict[Any, list[Row]] = {} if keys else {(): []}
        for row in rows:
            groups.setdefault(tuple(model.equality_key(key.run(row)) for key in keys), []).append(
                row
            )
        pairs = [aggregate(self.random, plain) for _ in range(self.random.randint(1, 3))]
        results: list[Row] = []
        for members in groups.values():
            result = {key.sql: key.run(members[0]) for key in keys}
            result |= {expr.sql: work(members) for expr, work in pairs}
            results.append(result)
        shown = [_of_group(key) for key in keys] + [expr for expr, _ in pairs]
        numbers = [e for e in shown if e.type.name not in model.TEXTS]
        items = self.random.sample(shown, self.random.randint(1, len(shown)))
        if numbers and self.random.random() < 0.4:
            items.append(self._over_groups(numbers))
        having = ""
        if numbers and self.random.random() < 0.4:
            test = self._group_condition(numbers)
            having = f" HAVING {test.sql}"
            results = [result for result in results if test.run(result)]
        listed, names = self._listed(items, self._names(len(items)))
        group = f" GROUP BY {', '.join(k.sql for k in keys)}" if keys else ""
        text = f"{source.prefix}SELECT {listed} FROM {source.text}{where}{group}{having}"
        folded = frozenset(i for i, item in enumerate(items) if item.type.name in model.TEXTS)
        values = [tuple(item.run(result) for item in items) for result in results]
        return Statement(text, Answer(names, tuple(items), values, None, folded))

    def _group_keys(self, make: Expressions) -> list[Expr]:
        keys: list[Expr] = []
        for _ in range(self.random.choice([0, 1, 1, 2])):
            family = self.random.choice(["whole", "text", "date", "bit", "exact"])
            key = make.column(family)
            if "." in key.sql and self.random.random() < 0.25 and family != "text":
                other = make.expression(family, 1)
                key = other if any(c.sql in other.sql for c in make.columns) else key
            if key.sql not in {k.sql for k in keys} and any(c.sql in key.sql for c in make.columns):
                keys.append(key)
        return keys

    def _over_groups(self, shown: list[Expr]) -> Expr:
        make = Expressions(self.random, shown)
        for _ in range(_TRIES):
            made = make.expression(self.random.choice(["number", "exact", "bit"]), 1)
            if any(e.sql in made.sql for e in shown):
                return made
        raise UnsureError

    def _group_condition(self, shown: list[Expr]) -> model.Test:
        return Expressions(self.random, shown).condition(1)

    # --- set operations ------------------------------------------------------------------------

    def _combined(self) -> Statement:
        families = [
            self.random.choice(["exact", "number", "text", "date", "time"])
            for _ in range(self.random.randint(1, 3))
        ]
        arms = [self._arm(families) for _ in range(self.random.choice([2, 2, 3]))]
        kinds = [model.common([arm[1][i].type for arm in arms]) for i in range(len(families))]
        ops = [self.random.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]) for _ in arms[1:]]
        mixed = "INTERSECT" in ops and len(set(ops)) > 1
        if mixed and any(a[1][i].type != kind for a in arms for i, kind in enumerate(kinds)):
            raise UnsureError  # each operation has types of its own
        tables = [converted(arm[1], arm[2], kinds) for arm in arms]
        listed, names = self._listed(arms[0][1], self._names(len(families)))
        texts = [f"SELECT {listed} {arms[0][0]}"]
        texts += [f"SELECT {', '.join(item.sql for item in arm[1])} {arm[0]}" for arm in arms[1:]]
        text = texts[0] + "".join(
            f" {op} {other}" for op, other in zip(ops, texts[1:], strict=True)
        )
        values = set_operations(tables, ops)
        columns = tuple(
            Expr(
                names[i],
                kind,
                lambda row: None,
                fixed_type=all(arm[1][i].fixed_type for arm in arms),
            )
            for i, kind in enumerate(kinds)
        )
        folded = frozenset(
            i
            for i, kind in enumerate(kinds)
            if kind.name in model.TEXTS and set(ops) != {"UNION ALL"}
        )
        if self.random.random() < 0.3 and not folded:
            order = sorted(values, key=lambda v: model.order_key(v[0]))
            blocks = _blocks([model.order_key(v[0]) for v in order])
            return Statement(text + " ORDER BY 1", Answer(names, columns, order, blocks, folded))
        return Statement(text, Answer(names, columns, values, None, folded))

    def _arm(self, families: list[str]) -> tuple[str, list[Expr], list[tuple[Any, ...]]]:
        source = self.sources.table()
        make = self._make(source.columns)
        where, rows = self._filtered(source, make)
        plain = Expressions(self.random, list(source.columns))
        items = [plain.expression(family, 1) for family in families]
        items = [plain._cast_plain(i, model.INT) if i.literal else i for i in items]
        if any(item.type == model.FLOAT and item.sql.count(".") > 1 for item in items):
            raise UnsureError
        return f"FROM {source.text}{where}", items, [tuple(i.run(r) for i in items) for r in rows]


def _all_failures(items: list[Expr], rows: Sequence[Row]) -> set[int]:
    """Every number that some row and item can end with: which comes first is not documented."""
    found: set[int] = set()
    for item in items:
        for row in rows:
            try:
                item.run(row)
            except FailedError as failed:
                found |= failed.numbers
    return found


def _of_group(key: Expr) -> Expr:
    return replace(key, run=lambda row: row[key.sql], literal=False)


class _Reversed:
    """Sorts the other way round."""

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.key == other.key)

    __hash__ = None  # type: ignore[assignment]


def _sorting(keys: list[tuple[Expr, bool]], row: Row) -> list[Any]:
    found = []
    for key, descending in keys:
        plain = model.order_key(key.run(row))
        found.append(_Reversed(plain) if descending else plain)
    return found


def _blocks(keys: list[Any]) -> list[int]:
    sizes: list[int] = []
    for i, key in enumerate(keys):
        if i and key == keys[i - 1]:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return sizes
