"""History tables against a plain Python model: at every commit, they are the table as it was.

Random histories of one table: transactions with several changes of a row, key updates, deletes and
re-inserts, snapshots whose reads see later commits, re-snapshots after purged gaps, calls in
between, and calls whose record was lost.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cdc_assets.contract import Column, Event, Operation, bronze_columns
from cdc_assets.engines.door import Engine
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.lake import Lake
from cdc_assets.lake.tables import query
from cdc_assets.lsn import Lsn
from cdc_assets.names import DatabaseName
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import EngineChoice
from cdc_assets.planning.records import ControlRow, event_row
from cdc_assets.silver.history import apply_history
from cdc_assets.silver.places import SilverTable
from cdc_assets_tests.conftest import NO_SOURCE, make_engine

HISTORIES, HISTORIES_SOAKED = 8, 400
CAPTURED = (Column("k", "INT"), Column("Name", "STRING"), Column("__n", "DOUBLE"))
BEGIN = datetime(2026, 3, 1, 12)
Row = tuple[Any, ...]
Table = dict[int | None, Row]


def lsn(number: int) -> Lsn:
    return Lsn.of_int(number)


def at(number: int) -> datetime:
    return BEGIN + timedelta(seconds=number // 2)


@dataclass
class World:
    """A source, what CDC says of it, and the lake that knows of it up to some commit."""

    lake: Lake
    engine: Engine
    random: random.Random
    now: int = 10
    rows: Table = field(default_factory=dict)
    states: dict[int, Table] = field(default_factory=dict)
    """The table after each commit, by its number."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """Commits above the first number and below the second are in no bronze."""
    begins: int = 0
    opens: int = 0
    pending: list[tuple[Any, ...]] = field(default_factory=list)
    """Changes that are not in bronze yet."""
    keys: tuple[str, ...] = ("k",)
    """Those that are named for the table."""
    rank_rows_max: int = 1_000

    def __post_init__(self) -> None:
        self.states[self.now] = {}
        self.name = DatabaseName("db", self.lake_root).table("t")
        self.lake.ensure_bronze(self.name, bronze_columns(CAPTURED))

    @property
    def lake_root(self) -> str:
        return str(Path(self.lake.facts._uri).parents[2])

    @property
    def table(self) -> SilverTable:
        return SilverTable(
            name=self.name,
            lake=self.lake,
            choose=lambda _beyond, _rows: EngineChoice(self.engine.name),
            engine=lambda _: self.engine,
            keys=self.keys,
            rank_rows_max=self.rank_rows_max,
        )

    # --- the source ---------------------------------------------------------------------------

    def commit(self, *, captured: bool = True) -> None:
        """A transaction of up to five changes of few keys; what is not captured is lost."""
        self.now += self.random.choice([1, 1, 2, 3])
        changes = [change for _ in range(self.random.randrange(1, 6)) for change in self._change()]
        self.states[self.now] = dict(self.rows)
        if captured and changes:
            self.pending += [
                (
                    str(lsn(self.now)),
                    f"0x{i:020X}",
                    operation,
                    i,
                    at(self.now),
                    *row,
                    None,
                    None,
                )
                for i, (operation, row) in enumerate(changes)
            ]

    def _change(self) -> list[tuple[int, Row]]:
        key = self.random.choice([None, 1, 2, 3, 4])
        row = (key, self.random.choice(["a", "b", None]), self.random.choice([0.5, None]))
        old = self.rows.get(key)
        if old is None:
            self.rows[key] = row
            return [(Operation.INSERT, row)]
        kind = self.random.random()
        if kind < 0.4:
            self.rows[key] = row
            return [(Operation.BEFORE, old), (Operation.AFTER, row)]
        del self.rows[key]
        if kind < 0.8:
            return [(Operation.DELETE, old)]
        other = self.random.choice([5, 6])
        if other in self.rows:
            return [(Operation.DELETE, old)]
        moved = (other, *old[1:])
        self.rows[other] = moved
        as_update = kind < 0.9
        first = Operation.BEFORE if as_update else Operation.DELETE
        return [(first, old), (Operation.AFTER if as_update else Operation.INSERT, moved)]

    # --- the lake -----------------------------------------------------------------------------

    def snapshot(self, *, after_loss: bool) -> None:
        """One whose read sees each row as it is after one of the commits that follow."""
        s, event = self.now, Event.BOOTSTRAP if not self.begins else Event.RESNAPSHOT
        if after_loss:
            start = self.now
            for _ in range(self.random.randrange(1, 4)):
                self.commit(captured=False)
            s = self.now
            self.lost.append((start, s))
        self.synced(s)
        self._tell(Event.SNAPSHOT_OPEN, s, {"kind": str(event), "keys": ["k"]})
        for _ in range(self.random.randrange(3)):
            self.commit()
        seen = {}
        for key in (None, *range(1, 7)):
            state = self.states[self.random.choice([n for n in self.states if n >= s])]
            if key in state:
                seen[key] = state[key]
        self._append(
            [
                (str(lsn(s)), None, Operation.SNAPSHOT, None, at(s), *row, str(lsn(s)), None)
                for row in seen.values()
            ]
        )
        # The server rounds a commit's time up: that of one seen may be above the mark.
        mark = at(self.now) - timedelta(milliseconds=2)
        self._tell(event, s, {"high_mark": mark.isoformat(), "keys": ["k"]})
        self.begins = self.begins or s
        if self.random.random() < 0.5:
            # What the read has seen is not in bronze yet.
            self.applied()
            self.check()

    def _tell(self, event: Event, number: int, detail: dict[str, Any]) -> None:
        self.opens += 1
        row = event_row(event, "bronze/t", Offset(lsn(number), at(number)), detail=detail)
        row = replace(row, written_at=BEGIN + timedelta(days=1, seconds=self.opens))
        self.lake.facts.append([FactsEntry((row,))])

    def _append(self, rows: list[tuple[Any, ...]]) -> None:
        names = ["_start_lsn", "_seqval", "_operation", "_command_id", "_commit_ts"]
        names += [*(c.name for c in CAPTURED), "_snapshot", "_chunk"]
        self.random.shuffle(rows)
        bronze = self.lake.bronze(self.name)
        assert bronze is not None
        schema = pa.schema(bronze.schema().to_arrow())
        known = {name: [row[i] for row in rows] for i, name in enumerate(names)}
        nulls = [None] * len(rows)
        data = {name: known.get(name, nulls) for name in schema.names}
        write_deltalake(bronze, pa.table(data, schema=schema), mode="append")

    def synced(self, number: int = 0) -> None:
        """Bronze is complete up to a commit, by default up to now."""
        number = number or self.now
        if self.pending:
            self._append(self.pending)
        self.pending = []
        row = ControlRow(
            "bronze/t",
            finalized_until=at(number),
            end_lsn=str(lsn(number)),
            end_commit_ts=at(number),
        )
        self.lake.control.update(lambda _: [row])

    def applied(self) -> None:
        """A call; of some the record is lost, or they are made again from an old one."""
        before = self.lake.control.read().get("history/t")
        apply_history(self.table)
        if self.random.random() < 0.3:
            old = before or ControlRow("history/t")
            self.lake.control.update(lambda _: [old])
            if before is not None or self.random.random() < 0.5:
                apply_history(self.table)

    # --- what must be true ------------------------------------------------------------------------

    def versions(self) -> list[dict[str, Any]]:
        history = self.lake.history(self.name)
        return [] if history is None else query("SELECT * FROM h", h=history).to_pylist()

    def check(self) -> None:
        """At every commit that history has, it is the table as it was then."""
        versions = self.versions()
        row = self.lake.control.read().get("history/t")
        done = (row.applied_lsn or "") if row else ""
        for number, state in self.states.items():
            if not self.begins <= number or str(lsn(number)) > done or self._is_lost(number):
                continue
            assert held(versions, number) == sorted(state.values(), key=repr), number
        for version in versions:
            assert version["_valid_to_lsn"] is None or (
                version["_valid_from_lsn"] < version["_valid_to_lsn"]
                and version["_valid_from_ts"] <= version["_valid_to_ts"]
            )
        assert_once(versions)

    def _is_lost(self, number: int) -> bool:
        return any(start < number < end for start, end in self.lost)


def held(versions: list[dict[str, Any]], number: int) -> list[Row]:
    """The rows at a commit, as the comment of the table says."""
    moment = str(lsn(number))
    rows = [
        tuple(version[column.name] for column in CAPTURED)
        for version in versions
        if version["_valid_from_lsn"] <= moment
        and (version["_valid_to_lsn"] is None or version["_valid_to_lsn"] > moment)
    ]
    return sorted(rows, key=repr)


def assert_once(versions: list[dict[str, Any]]) -> None:
    begun = [(version["k"], version["_valid_from_lsn"]) for version in versions]
    assert len(begun) == len(set(begun))


def lived(tmp_path: Path, engine: Engine, seed: int) -> World:
    """A random history, checked after every call; of half of them in ranges of the key."""
    lake = Lake(DatabaseName("db", str(tmp_path / f"h{seed}")), {})
    world = World(lake, engine, random.Random(seed), rank_rows_max=3 if seed % 2 else 1_000)
    for _ in range(world.random.randrange(3)):
        world.commit(captured=False)
    world.snapshot(after_loss=False)
    for _ in range(world.random.randrange(3, 7)):
        kind = world.random.random()
        if kind < 0.25:
            world.snapshot(after_loss=kind < 0.15)
        else:
            for _ in range(world.random.randrange(1, 4)):
                world.commit()
        if world.random.random() < 0.7:
            world.synced()
            world.applied()
            world.check()
    world.now += 10
    world.states[world.now] = dict(world.rows)
    world.synced()
    world.applied()
    apply_history(world.table)
    world.check()
    return world


SEEDS = [
    pytest.param(seed, marks=[] if seed < HISTORIES else [pytest.mark.soak])
    for seed in range(HISTORIES_SOAKED)
]


@pytest.mark.parametrize("seed", SEEDS)
def test_history_is_the_table_at_every_commit(tmp_path: Path, seed: int) -> None:
    world = lived(tmp_path, make_engine("arrow", NO_SOURCE), seed)
    row = world.lake.control.read()["history/t"]
    assert row.snapshot_lsn is not None
    assert held(world.versions(), world.now) == sorted(world.rows.values(), key=repr)
    # Applied again from the very beginning, nothing is written but an empty commit.
    before = sorted(map(repr, world.versions()))
    world.lake.control.update(lambda _: [replace(row, applied_lsn=None, snapshot_lsn=None)])
    apply_history(world.table)
    assert sorted(map(repr, world.versions())) == before


@pytest.mark.spark
@pytest.mark.parametrize("seed", [3])
def test_spark_writes_the_same(tmp_path: Path, seed: int) -> None:
    arrow = lived(tmp_path / "arrow", make_engine("arrow", NO_SOURCE), seed)
    spark = lived(tmp_path / "spark", make_engine("spark", NO_SOURCE), seed)
    assert sorted(map(repr, spark.versions())) == sorted(map(repr, arrow.versions()))
