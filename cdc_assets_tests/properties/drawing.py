"""Random histories: the same seed draws the same one, on any machine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cdc_assets.faults import FaultPoint as P
from cdc_assets_tests.properties.keys import KINDS, Key, KeyKind
from cdc_assets_tests.properties.model import Row, State, Table
from cdc_assets_tests.properties.statements import (
    Delete,
    Insert,
    Move,
    Statement,
    Update,
    run_all,
)
from cdc_assets_tests.properties.steps import (
    Apply,
    At,
    Backfill,
    Beneath,
    Capture,
    Clean,
    Clock,
    Disable,
    End,
    History,
    Limits,
    Moment,
    Step,
    Switch,
    Sync,
    Transaction,
    Work,
)

CHANGES = 200
"""Rows that the transactions of a history change, at least."""

ROUNDS = 2
"""Times that transactions are followed by runs of the product."""

POOL = 50
"""Different keys that a table's rows have over the time."""

IN_SYNC = (
    *(P.SNAPSHOT_OPENED, P.SNAPSHOT_APPENDED, P.BRONZE_APPENDED, P.BRONZE_APPENDED),
    *(P.FACTS_WRITTEN, P.FACTS_WRITTEN, P.LOSS_RECORDED, P.INSTANCE_SEEN),
)
IN_BACKFILL = (P.PLAN_STORED, P.PLAN_TOLD, P.WAVE_APPENDED, P.WAVE_TOLD, P.BACKFILL_COMPLETED)
IN_APPLY = (
    *(P.SILVER_CREATED, P.SILVER_RANGE_MERGED, P.SILVER_MERGED),
    *(Moment.LOOKED, Moment.PINNED, Moment.PINNED),
)
IN_HISTORY = (P.HISTORY_CREATED, P.HISTORY_MERGED, P.HISTORY_RECORDED)
LATER = (Clock(1.5), Capture(idle=True))
"""What lets a verdict move past a transaction."""

KILLED_IN = {Sync: (P.BRONZE_APPENDED, P.FACTS_WRITTEN, P.SILVER_MERGED), Backfill: IN_BACKFILL[2:]}


@dataclass(frozen=True)
class Shape:
    """What histories are like: engines, kinds of keys, their size, and how much of what there is.

    `killing` is the share of runs that a process is killed in, `chunked` that of tables whose
    snapshots are read in chunks, of `chunk_rows` each, `waves` that of rounds that apply one wave
    of one, `beside` that of runs at whose points something else happens, `beneath` that of the
    others whose reads a transaction gets into, and `early` that of histories that apply at once
    what the first sync brings. `kept` is the share of tables with a history of their states, `soft`
    that of tables whose deleted rows are kept, and `unchecked` that of alternate keys without an
    index of their own.
    """

    engines: tuple[str, ...] = ("",)
    kinds: tuple[KeyKind, ...] = KINDS
    killing: float = 0.3
    chunked: float = 0.35
    chunk_rows: tuple[int, ...] = (9, 20)
    waves: float = 0.35
    beside: float = 0.25
    beneath: float = 0.5
    early: float = 0.6
    kept: float = 0.12
    soft: float = 0.2
    unchecked: float = 0.5
    rounds: int = ROUNDS
    changes: int = CHANGES
    pool: int = POOL


@dataclass
class _Drawing:
    """A history while it is drawn; its own copy of the rows lets most statements do something."""

    draw: random.Random
    shape: Shape
    tables: tuple[Table, ...]
    pools: list[list[Key]]
    states: tuple[State, ...] = ()
    changed: int = 0
    steps: list[Step] = field(default_factory=list)
    kills: int = 0
    clean: int | None = None
    switch: int | None = None

    # --- the source ----------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.draw.random() < probability

    def rows(self, table: int, keys: Sequence[Key]) -> tuple[Row, ...]:
        draw = self.draw
        notes = (None, "", "x", "it's", "ü漢")
        values = ((draw.randrange(1000), draw.choice(notes)) for _ in keys)
        return tuple(Row(key, n, note) for key, (n, note) in zip(keys, values, strict=True))

    def statement(self) -> Statement:
        """One that most likely changes rows, of one table."""
        draw, table = self.draw, self.draw.randrange(len(self.tables))
        kind, state, pool = self.tables[table].kind, self.states[table], self.pools[table]
        present = [row.key for row in state.values()]
        free = [key for key in pool if kind.canonical(key) not in state]
        choices = ["update"] * 3 + ["delete"] * 2 + ["move"] * 3 if present else []
        choices += ["insert"] * (5 if len(present) < len(pool) / 2 else 2) if free else []
        chosen = draw.choice(choices or ["update"])
        some = draw.sample(present, min(len(present), draw.choice((1, 6, 18, 26, 36))))
        if chosen == "insert":
            return Insert(table, self.rows(table, draw.sample(free, min(len(free), len(some) + 2))))
        if chosen == "delete":
            return Delete(table, tuple(present if self.chance(0.04) else some))
        if chosen == "move":
            return Move(table, self._pairs(some, free, kind.alternate))
        extra = draw.randrange(100) if self.chance(0.7) else None
        n = draw.randrange(1000) if self.chance(0.9) else None
        return Update(table, tuple(some), n, extra)

    def _pairs(
        self, some: list[Key], free: list[Key], alternate: bool
    ) -> tuple[tuple[Key, Key], ...]:
        """Rows to free keys, or around in a ring, or along in a chain that ends in a free one."""
        draw = self.draw
        how = draw.choice(("free", "ring", "chain"))
        if how == "ring" and len(some) > 1 and not alternate:
            return tuple(zip(some, [*some[1:], some[0]], strict=True))
        if how == "chain" and free and not alternate:
            return tuple(zip(some, [*some[1:], draw.choice(free)], strict=True))
        return tuple(zip(some, draw.sample(free, min(len(free), len(some))), strict=False))

    def transaction(self) -> Transaction:
        """Some statements, of which several often concern one row."""
        statements: list[Statement] = []
        before = self.states
        rolled_back = self.chance(0.12)
        for _ in range(self.draw.choice((1, 2, 3, 4))):
            statement = self.statement()
            done, self.states, _ = run_all([statement], self.tables, self.states)
            if done:
                statements.append(statement)
                self.changed += 0 if rolled_back else size_of(done[0])
        if rolled_back:
            self.states = before
        return Transaction(tuple(statements), rolled_back)

    def busy(self, changes: int) -> None:
        """Transactions of so many changes, and capture among them."""
        until = self.changed + changes
        while self.changed < until:
            self.steps.append(self.transaction())
            if self.chance(0.1):
                self.steps.append(Capture())
            if self.chance(0.15):
                self.steps.append(Clock(round(self.draw.uniform(0.1, 2.5), 1)))
        if self.chance(0.85):
            self.steps.append(Capture(idle=self.chance(0.2)))

    # --- the product ---------------------------------------------------------------------------

    def engine(self) -> str:
        return self.draw.choice(self.shape.engines)

    def beneath(self, changes: float, table: int | None = None) -> Beneath | None:
        """A transaction within a read: of a change table with a chance of `changes`."""
        if not self.chance(self.shape.beneath):
            return None
        draw = self.draw
        place = draw.randrange(len(self.tables)) if table is None else table
        of_changes, nth = self.chance(changes), draw.choice((0, 0, 0, 1))
        return Beneath(place, self.transaction(), nth, of_changes, self.chance(0.5))

    def at(self, points: Sequence[P | Moment], *others: Step) -> At | None:
        """An end at a point, or something else at it, or neither."""
        draw, chance = self.draw, self.draw.random()
        point, nth = draw.choice(points), draw.choice((1, 1, 1, 2, 3))
        if chance < 0.3 and isinstance(point, P):
            return At(point, End.CRASH, nth)
        if chance < 0.3 + self.shape.beside:
            return At(point, (self.transaction(), *LATER, *others), nth)
        return None

    def work(self) -> Work:
        """A run of the product."""
        draw = self.draw
        chunked = [n for n, table in enumerate(self.tables) if table.chunk_rows]
        kind = draw.choice(["sync"] * 3 + ["apply"] * 3 + ["backfill"] * (3 if chunked else 0))
        if kind == "apply":
            return Apply(
                self.at(IN_APPLY, Sync(), *([Apply()] if self.chance(0.3) else [])), self.engine()
            )
        work: Work
        if kind == "backfill":
            table = draw.choice(chunked)
            waves = draw.choice((1, 1, 2, 3, None))
            at = self.at(IN_BACKFILL, draw.choice((Sync(), Apply(), Backfill(table, 1))))
            beneath = None if at else self.beneath(0.2, table)
            work = Backfill(table, waves, at, beneath, self.engine())
        else:
            again = draw.choice(chunked or [0, 1, 2]) if self.chance(0.55) else None
            at = self.at(IN_SYNC, draw.choice((Sync(), Apply())))
            beneath = None if at else self.beneath(0.9 if again is None else 0.2, again)
            work = Sync(again, at, beneath, self.engine())
        killed = KILLED_IN.get(type(work))
        if killed and not self.kills and work.at is None and self.chance(self.shape.killing):
            # A process of its own knows no fault of the server's and no new snapshot.
            self.kills += 1
            at = At(draw.choice(killed), End.KILL)
            return Sync(at=at) if isinstance(work, Sync) else replace(work, at=at, beneath=None)
        return work

    def first(self) -> Work:
        """The first sync, which takes or opens every table's snapshot."""
        at = self.at(IN_SYNC, Apply())
        return Sync(at=at, beneath=None if at else self.beneath(0.1))

    def round(self, number: int) -> None:
        """Transactions, and what follows them."""
        self.busy(self.shape.changes // self.shape.rounds + 1)
        if number == self.switch:
            self.steps.append(Switch(self.draw.randrange(len(self.tables))))
        if number == self.clean:
            self._lose()
        if self.chance(0.12):
            self.steps.append(Clock(-round(self.draw.uniform(0.5, 4), 1)))
        self.steps.append(self.work() if number else self.first())
        if not number and self.chance(self.shape.early):
            # What comes later is then merged into a silver that is there, not ranked for a new one.
            self.steps.append(Apply(self.at(IN_APPLY, Sync()), self.engine()))
        chunked = [number for number, table in enumerate(self.tables) if table.chunk_rows]
        if chunked and self.chance(self.shape.waves):
            # Silver takes what there is of an open snapshot.
            one = Backfill(self.draw.choice(chunked), 1, engine=self.engine())
            self.steps += [one, Apply(engine=self.engine())]
        if self.switch is not None and self.chance(0.8):
            self.steps += [Disable(table) for table in range(len(self.tables))]

    def _lose(self) -> None:
        """Changes that cleanup takes unread, and some that it leaves."""
        table = self.draw.randrange(len(self.tables))
        self.steps += [self.transaction(), Capture(), self.transaction(), Capture(), Clean(table)]
        self.steps += [self.transaction(), Capture()]


def size_of(statement: Statement) -> int:
    """Rows that it changes."""
    if isinstance(statement, Insert):
        return len(statement.rows)
    return len(statement.pairs) if isinstance(statement, Move) else len(statement.keys)


def draw_history(seed: int, shape: Shape | None = None) -> History:
    """The history of a seed."""
    shape, draw = shape or Shape(), random.Random(seed)
    kinds = draw.sample(shape.kinds, 3)
    tables = []
    for name, kind in zip("abc", kinds, strict=True):
        chunk_rows = draw.choice(shape.chunk_rows) if draw.random() < shape.chunked else None
        tables.append(Table(name, kind.name, chunk_rows))
    drawing = _Drawing(draw, shape, tuple(tables), [kind.pool(draw, shape.pool) for kind in kinds])
    first: list[Statement] = []
    for number, pool in enumerate(drawing.pools):
        size = len(pool) * draw.choice((0, 4, 5, 7)) // 10
        if size:
            first.append(Insert(number, drawing.rows(number, draw.sample(pool, size))))
    _, drawing.states, _ = run_all(first, tables, [{} for _ in tables])
    if draw.random() < 0.4:
        drawing.clean = draw.randrange(1, shape.rounds)
    if draw.random() < 0.25:
        drawing.switch = draw.randrange(1, shape.rounds)
    limits = Limits(
        draw.choice((1, 2, 2)),
        draw.choice((None, None, None, None, 3)),
        draw.choice((12, *[10**6] * 5)),
    )
    for number in range(shape.rounds):
        drawing.round(number)
    # Drawn by themselves: all else of a seed is what it was without them.
    more = random.Random(f"{seed} kept")
    kept = tuple(_kept(table, shape, more) for table in tables)
    steps = tuple(_in_history(step, more) for step in drawing.steps)
    if not any(table.scd for table in kept):
        steps = tuple(drawing.steps)
    return History(seed, kept, tuple(first), limits, steps)


def _kept(table: Table, shape: Shape, draw: random.Random) -> Table:
    """A table, and what is kept of it beyond the rows of now."""
    scd, soft, unchecked = (
        draw.random() < share for share in (shape.kept, shape.soft, shape.unchecked)
    )
    return replace(table, scd=scd, soft=soft, unchecked=unchecked and table.kind.alternate)


def _in_history(step: Step, draw: random.Random) -> Step:
    """Half of what happens in applies happens in histories, where there is one."""
    is_later, point = draw.random() < 0.5, draw.choice(IN_HISTORY)
    if not isinstance(step, Apply) or step.at is None or not is_later:
        return step
    return replace(step, at=replace(step.at, point=point, nth=1))
