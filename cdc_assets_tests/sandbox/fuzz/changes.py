"""Random sequences of INSERT, UPDATE, DELETE and MERGE with the state they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

from cdc_assets_tests.sandbox.fuzz import model
from cdc_assets_tests.sandbox.fuzz.model import INT, FailedError, decimal_type, text_type
from cdc_assets_tests.sandbox.fuzz.tables import literal

Values = tuple[int, int | None, str | None, Decimal]
State = dict[int, Values]
Change = tuple[int, Values]
"""An operation (1 delete, 2 insert, 3 and 4 update) with its row."""

DEFINITION = (
    "CREATE TABLE changed (id int NOT NULL PRIMARY KEY, a int NULL, s varchar(4) NULL, "
    "d decimal(5, 2) NOT NULL DEFAULT 1.5)"
)
_TYPES = (INT, INT, text_type("varchar", 4), decimal_type(5, 2))
_LEGIBLE = ("id", "a", "s", "d")
_TOP = 2147483647


@dataclass(frozen=True)
class Step:
    """One batch: its text, and what it must do."""

    text: str
    count: int | None = None
    """Rows changed, for @@ROWCOUNT and the DONE token."""

    output: list[tuple[Any, ...]] | None = None
    errors: frozenset[int] = frozenset()
    """The numbers one of which it must end with."""


@dataclass
class Sequence:
    """A table's life: its steps, its rows in the end, and its changes commit by commit."""

    random: Random
    rows: State = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    commits: list[list[list[Change]]] = field(default_factory=list)
    """For each commit, for each statement, the changes in any order."""

    _saved: State | None = None
    _open: list[list[Change]] = field(default_factory=list)
    _depth: int = 0

    def extend(self, count: int) -> Sequence:
        """Add steps; an open transaction is ended."""
        for _ in range(count):
            self._step()
        while self._depth:
            self._commit()
        return self

    def _step(self) -> None:
        pick = self.random.random()
        if pick < 0.1:
            return self._begin()
        if pick < 0.2 and self._depth:
            return self._commit() if self.random.random() < 0.6 else self._rollback()
        return self.random.choice(
            [
                self._insert,
                self._insert,
                self._update,
                self._update,
                self._delete,
                self._merge,
                self._copy,
            ]
        )()

    # --- transactions --------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._depth:
            self._saved = dict(self.rows)
        self._depth += 1
        self.steps.append(Step("BEGIN TRAN"))

    def _commit(self) -> None:
        self._depth -= 1
        self.steps.append(Step("COMMIT"))
        if not self._depth:
            self.commits.append(self._open)
            self._open = []

    def _rollback(self) -> None:
        self.rows = dict(self._saved or {})
        self._depth, self._open = 0, []
        self.steps.append(Step("ROLLBACK"))

    def _apply(self, text: str, work: Callable[[State], list[Change]], output: str = "") -> None:
        """Run a statement on the model: an error leaves the rows as they were."""
        after = dict(self.rows)
        try:
            changes = work(after)
        except FailedError as failed:
            self.steps.append(Step(text, errors=failed.numbers))
            return
        self.rows = after
        shown = None
        if output:
            wanted = {"inserted": (2, 4), "deleted": (1, 3)}[output]
            shown = [row for kind, row in changes if kind in wanted]
        counted = (2, 4) if text.startswith("UPDATE") else (1, 2, 4)
        count = sum(kind in counted for kind, _ in changes)
        self.steps.append(Step(text, count, shown))
        if changes:
            (self._open.append(changes) if self._depth else self.commits.append([changes]))

    # --- statements ----------------------------------------------------------------------------

    def _key(self) -> int:
        return self.random.randint(1, 9)

    def _new(self) -> tuple[Any, ...]:
        r = self.random
        return (
            r.choice([self._key()] * 12 + [None]),
            r.choice([None, 0, 1, -5, _TOP]),
            r.choice([None, "a", "A ", "abcd", "x", "abcde"] if r.random() < 0.5 else [None, "b"]),
            r.choice([Decimal("0.00"), Decimal("12.345"), Decimal("-1.50"), Decimal("999.99")]),
        )

    def _insert(self) -> None:
        rows = [self._new() for _ in range(self.random.choice([1, 1, 2, 3]))]
        default = self.random.random() < 0.2
        texts = []
        for row in rows:
            cells = [literal(value, kind) for value, kind in zip(row, _TYPES, strict=True)]
            if default:
                cells[3] = "DEFAULT"
            texts.append(f"({', '.join(cells)})")
        output = self.random.random() < 0.2
        shown = " OUTPUT inserted.id, inserted.a, inserted.s, inserted.d" if output else ""
        text = f"INSERT INTO changed (id, a, s, d){shown} VALUES {', '.join(texts)}"

        def work(state: State) -> list[Change]:
            return _inserted(
                state,
                _all_stored([(*row[:3], Decimal("1.50")) if default else row for row in rows]),
            )

        self._apply(text, work, "inserted" if output else "")

    def _copy(self) -> None:
        step, (text, test) = self.random.choice([10, 20]), self._where()
        text = f"INSERT changed (id, a, s, d) SELECT id + {step}, a, s, d / 2 FROM changed{text}"

        def work(state: State) -> list[Change]:
            found = [row for row in state.values() if test(row)]
            half = decimal_type(11, 7)
            halves = [model.calculate("/", row[3], Decimal(2), half) for row in found]
            new = [(row[0] + step, *row[1:3], d) for row, d in zip(found, halves, strict=True)]
            return _inserted(state, _all_stored(new))

        self._apply(text, work)

    def _where(self) -> tuple[str, Callable[[Values], bool]]:
        key, number = self._key(), self.random.choice([0, 1, 5])
        return self.random.choice(
            [
                (f" WHERE id = {key}", lambda row: row[0] == key),
                (f" WHERE id <= {key}", lambda row: row[0] <= key),
                (f" WHERE a >= {number}", lambda row: row[1] is not None and row[1] >= number),
                (" WHERE s = 'A'", lambda row: row[2] is not None and model.folded(row[2]) == "a"),
                (" WHERE a IS NULL", lambda row: row[1] is None),
                (
                    f" WHERE id % 2 = 0 AND NOT a = {number}",
                    lambda row: row[0] % 2 == 0 and row[1] is not None and row[1] != number,
                ),
            ]
        )

    def _update(self) -> None:
        where, test = self._where()
        amount = self.random.choice([1, -1, 7])
        word = self.random.choice(["z", "Zed", "toolong"])
        sets, make = self.random.choice(
            [
                (f"a = a + {amount}", lambda r: (r[0], _sum(r[1], amount), *r[2:])),
                (f"s = '{word}', a = id", lambda r: (r[0], r[0], word, r[3])),
                (f"id = id + {amount}", lambda r: (r[0] + amount, r[1], r[2], r[3])),
                ("d = d * 10", lambda r: (r[0], r[1], r[2], r[3] * 10)),
                ("d = NULL", lambda r: (r[0], r[1], r[2], None)),
                ("s = NULL, d += 0.25", lambda r: (r[0], r[1], None, r[3] + Decimal("0.25"))),
                ("a = id / (id - 3)", lambda r: (r[0], _quotient(r[0], r[0] - 3), *r[2:])),
            ]
        )  # fmt: skip
        output = self.random.choice(["", "", "", "inserted", "deleted"])
        if "id =" in sets.split(",")[0]:
            output = ""
        columns = ", ".join(f"{output}.{c}" for c in _LEGIBLE)
        shown = f" OUTPUT {columns}" if output else ""
        text = f"UPDATE changed SET {sets}{shown}{where}"

        def work(state: State) -> list[Change]:
            old = [row for row in state.values() if test(row)]
            new = _all_stored([make(row) for row in old])
            return _updated(state, list(zip(old, new, strict=True)))

        self._apply(text, work, output)

    def _delete(self) -> None:
        where, test = self._where()
        output = self.random.random() < 0.3
        columns = ", ".join(f"deleted.{c}" for c in _LEGIBLE)
        shown = f" OUTPUT {columns}" if output else ""

        def work(state: State) -> list[Change]:
            gone = [row for row in state.values() if test(row)]
            for row in gone:
                del state[row[0]]
            return [(1, row) for row in gone]

        self._apply(f"DELETE FROM changed{shown}{where}", work, "deleted" if output else "")

    def _merge(self) -> None:
        keys = self.random.sample(range(1, 10), self.random.randint(1, 3))
        given = {key: self.random.choice([0, 1, 2]) for key in keys}
        listed = ", ".join(f"({key}, {value})" for key, value in given.items())
        deleting = self.random.random() < 0.5
        by_source = self.random.random() < 0.2
        text = (
            f"MERGE changed AS t USING (VALUES {listed}) AS g (id, a) ON t.id = g.id "
            + ("WHEN MATCHED AND g.a = 0 THEN DELETE " if deleting else "")
            + "WHEN MATCHED THEN UPDATE SET a = g.a "
            + "WHEN NOT MATCHED THEN INSERT (id, a) VALUES (g.id, g.a)"
            + (" WHEN NOT MATCHED BY SOURCE AND t.id > 15 THEN DELETE" if by_source else "")
            + ";"
        )

        def work(state: State) -> list[Change]:
            changes: list[Change] = []
            for key, row in list(state.items()):
                if key in given:
                    if deleting and given[key] == 0:
                        del state[key]
                        changes.append((1, row))
                    else:
                        changes += _updated(state, [(row, (key, given[key], row[2], row[3]))])
                elif by_source and key > 15:
                    del state[key]
                    changes.append((1, row))
            new = [(k, v, None, Decimal("1.50")) for k, v in given.items() if k not in self.rows]
            return changes + _inserted(state, new)

        self._apply(text, work)


def _sum(a: int | None, b: int) -> Any:
    return model.calculate("+", a, b, INT)


def _quotient(a: int, b: int) -> Any:
    return model.calculate("/", a, b, INT)


def _all_stored(rows: list[tuple[Any, ...]]) -> list[Values]:
    """Rows as their columns keep them; which row's error comes first is nobody's promise."""
    found, failures = [], set()
    for row in rows:
        try:
            found.append(_stored(row))
        except FailedError as failed:
            failures |= failed.numbers
    if failures:
        raise FailedError(*failures)
    return found


def _stored(row: tuple[Any, ...]) -> Values:
    """A row as its columns keep it; raises what the server would."""
    key, number, text, amount = row
    failures = {515} if key is None or amount is None else set()
    if text is not None and len(text.rstrip(" ")) > 4:
        failures.add(2628)
    if failures:
        raise FailedError(*failures)
    return key, number, text[:4] if text is not None else None, model.rounded(amount, _TYPES[3])


def _inserted(state: State, rows: list[Values]) -> list[Change]:
    for row in rows:
        if row[0] in state:
            raise FailedError(2627)
        state[row[0]] = row
    return [(2, row) for row in rows]


def _updated(state: State, pairs: list[tuple[Values, Values]]) -> list[Change]:
    """The changes of an UPDATE: a key that one row leaves and one takes is updated."""
    for old, _ in pairs:
        del state[old[0]]
    for _, new in pairs:
        if new[0] in state:
            raise FailedError(2627)
        state[new[0]] = new
    left, taken = {old[0]: old for old, _ in pairs}, {new[0]: new for _, new in pairs}
    changes: list[Change] = [(3 if key in taken else 1, row) for key, row in left.items()]
    return changes + [(4 if key in left else 2, row) for key, row in taken.items()]
