"""Histories whose key, table or bronze is another than a call has known, and calls that fail."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets.contract import Event, Operation
from cdc_assets.engines.door import Engine
from cdc_assets.errors import SourceQueryError
from cdc_assets.lake.lake import Lake
from cdc_assets.lake.tables import table_id
from cdc_assets.names import DatabaseName
from cdc_assets.planning.plans import ApplyPlan, ApplyResult
from cdc_assets.silver import apply
from cdc_assets.silver.history import apply_history
from cdc_assets.silver.outcome import ApplyOutcome
from cdc_assets.silver.places import SilverTable
from cdc_assets_tests.conftest import NO_SOURCE, make_engine
from cdc_assets_tests.silver.test_history import Row, World, at, held, lsn

A, B, C, D = (1, "a", None), (2, "b", None), (3, "a", None), (2, "c", None)
"""Rows of which two have one name; it is the second key."""


@dataclass
class Hindered:
    """An engine that does something before, or in the place of, some of its MERGEs."""

    engine: Engine
    happening: Callable[[ApplyPlan], ApplyResult | None]

    name = "arrow"

    def apply(self, plan: ApplyPlan, bronze: DeltaTable | None = None) -> ApplyResult:
        return self.happening(plan) or self.engine.apply(plan, bronze)


def dies(_: ApplyPlan) -> ApplyResult | None:
    raise KeyboardInterrupt


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A table of three rows, its first snapshot settled, and a change of after it."""
    lake = Lake(DatabaseName("db", str(tmp_path)), {})
    made = World(lake, make_engine("arrow", NO_SOURCE), random.Random(0), keys=())
    taken(made, 10, "k", [A, B, C])
    committed(made, 13, (Operation.BEFORE, B), (Operation.AFTER, D))
    made.states = {10: sorted_rows(A, B, C), 13: sorted_rows(A, C, D)}
    return made


def sorted_rows(*rows: Row) -> dict[int | None, Row]:
    return dict(enumerate(rows))


def taken(world: World, number: int, key: str, rows: list[Row]) -> None:
    """A complete snapshot by a unique index."""
    stamp = str(lsn(number))
    world._tell(Event.SNAPSHOT_OPEN, number, {"keys": [key]})
    world._append(
        [(stamp, None, Operation.SNAPSHOT, None, at(number), *row, stamp, None) for row in rows]
    )
    mark = at(number).isoformat()
    event = Event.RESNAPSHOT if world.begins else Event.BOOTSTRAP
    world._tell(event, number, {"high_mark": mark, "keys": [key]})
    world.begins = world.begins or number


def committed(world: World, number: int, *changes: tuple[int, Row]) -> None:
    """A transaction, and bronze complete up to it."""
    world.pending = [
        (str(lsn(number)), f"0x{i:020X}", operation, i, at(number), *row, None, None)
        for i, (operation, row) in enumerate(changes)
    ]
    world.synced(number)


def assert_history(world: World) -> None:
    """At every commit it is the table as it was; and no version is empty."""
    versions = world.versions()
    for number, state in world.states.items():
        assert held(versions, number) == sorted(state.values(), key=repr), number
    assert all(v["_valid_from_lsn"] != v["_valid_to_lsn"] for v in versions)


@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize("merges", [0, 1, 2])
def test_another_key(world: World, merges: int, *, is_applied: bool) -> None:
    """All states of the old key end at the snapshot of the new one, also if a call dies there.

    The old key is no longer one, and the last change of before has the snapshot's own LSN.
    """
    gone, again, moved = (1, "d", None), (1, "e", 0.5), (5, "a", None)
    apply_history(world.table)
    old = world.lake.control.read()["history/t"]
    committed(world, 16, (Operation.DELETE, C), (Operation.BEFORE, D), (Operation.AFTER, B))
    world.states[16] = sorted_rows(A, B)
    if is_applied:
        apply_history(world.table)
    taken(world, 16, "Name", [A, B])
    if is_applied:
        assert apply_history(world.table).applied_lsn is None, "it is not settled"
    committed(world, 18, (Operation.INSERT, gone), (Operation.INSERT, again))
    committed(world, 20, (Operation.BEFORE, A), (Operation.AFTER, moved), (Operation.DELETE, gone))
    world.states |= {18: sorted_rows(A, B, gone, again), 20: sorted_rows(B, again, moved)}
    left = [merges]

    def dies_later(plan: ApplyPlan) -> ApplyResult | None:
        left[0] -= 1
        return dies(plan) if left[0] < 0 else None

    try:
        apply_history(hindered(world, dies_later))
    except KeyboardInterrupt:
        apply_history(world.table)
    assert_history(world)
    row = world.lake.control.read()["history/t"]
    assert (row.applied_lsn, row.snapshot_lsn) == (str(lsn(20)), str(lsn(16)))
    # Calls whose records were lost do it all again.
    before = sorted(map(repr, world.versions()))
    for lost in (replace(row, applied_lsn=str(lsn(16)), snapshot_lsn=None), old):
        world.lake.control.update(lambda _, lost=lost: [lost])
        apply_history(world.table)
        assert sorted(map(repr, world.versions())) == before


def hindered(world: World, happening: Callable[[ApplyPlan], ApplyResult | None]) -> SilverTable:
    engine = Hindered(world.engine, happening)
    return replace(world.table, engine=lambda _: engine)


def test_keys_that_are_named_later(world: World) -> None:
    """It is made anew, also where a call dies before; by the index's own it stays as it is."""
    apply_history(world.table)
    before = identity(world)
    world.keys = ("K",)
    assert apply_history(world.table).written == 0
    assert identity(world) == before
    world.keys = ("k", "name")
    with pytest.raises(KeyboardInterrupt):
        apply_history(hindered(world, dies))
    assert world.lake.control.read()["history/t"].finalized_until is None
    assert apply_history(world.table).written > 0
    assert identity(world) != before
    # B became D in one commit, under another key: it has ended, and D begun.
    assert_history(world)
    assert apply_history(world.table).written == 0
    row = world.lake.control.read()["history/t"]
    assert row.applied_lsn == str(lsn(13))
    before = identity(world)
    world.keys = ()
    assert apply_history(world.table).written > 0
    assert identity(world) != before
    assert_history(world)


def identity(world: World) -> str:
    history = world.lake.history(world.name)
    assert history is not None
    return table_id(history)


def test_a_snapshot_whose_event_comes_late(world: World) -> None:
    """Changes above it are there already: it says nothing new, and holds no verdict."""
    apply_history(world.table)
    committed(world, 20, (Operation.DELETE, C))
    world.states[20] = sorted_rows(A, D)
    assert apply_history(world.table).applied_lsn == lsn(20)
    before = sorted(map(repr, world.versions()))
    taken(world, 16, "k", [A, C, D])
    apply_history(world.table)
    row = world.lake.control.read()["history/t"]
    assert (row.applied_lsn, row.snapshot_lsn) == (str(lsn(20)), str(lsn(16)))
    assert row.finalized_until == at(20)
    assert sorted(map(repr, world.versions())) == before


def test_a_new_table_has_no_verdict_of_the_old(world: World) -> None:
    """Its folder was removed, as an error may say, and the next call dies before its record."""
    apply_history(world.table)
    assert world.lake.control.read()["history/t"].finalized_until == at(13)
    remove(world)
    with pytest.raises(KeyboardInterrupt):
        apply_history(hindered(world, dies))
    assert world.lake.control.read()["history/t"].finalized_until is None
    apply_history(world.table)
    assert_history(world)


def test_a_late_call_leaves_the_row_of_a_newer_history(world: World) -> None:
    """The folder is removed and made anew between its MERGE and its position."""

    def happening(plan: ApplyPlan) -> ApplyResult:
        result = world.engine.apply(plan)
        remove(world)
        apply_history(world.table)
        return result

    apply_history(world.table)
    committed(world, 16, (Operation.DELETE, C))
    world.states[16] = sorted_rows(A, D)
    assert apply_history(hindered(world, happening)).overtaken
    history = world.lake.history(world.name)
    assert history is not None
    assert world.lake.control.read()["history/t"].table_id == table_id(history)
    assert_history(world)


def remove(world: World) -> None:
    """The history's folder, out of the way."""
    place = Path(world.name.history_uri)
    place.rename(place.with_name("removed"))


def test_a_bronze_that_only_spark_reads(world: World) -> None:
    """Its log, or control, says how far its changes go; what is not known is merged."""
    apply_history(world.table)
    committed(world, 16, (Operation.DELETE, C))
    bronze = world.lake.bronze(world.name)
    assert bronze is not None
    widened(bronze)
    plans: list[ApplyPlan] = []

    def merged(plan: ApplyPlan) -> ApplyResult:
        plans.append(plan)
        return ApplyResult(overtaken=False, version=0)

    assert apply_history(hindered(world, merged)).applied_lsn == lsn(16)
    assert len(plans) == 1
    world.now = 20
    known = world.lake.control.read()["bronze/t"]
    row = replace(known, end_lsn=str(lsn(20)), end_commit_ts=at(20), changed_lsn=str(lsn(16)))
    world.lake.control.update(lambda _: [row])
    assert apply_history(hindered(world, merged)).applied_lsn == lsn(16)
    assert len(plans) == 1


def widened(table: DeltaTable) -> None:
    """Give a table a feature that delta-rs cannot scan it with."""
    protocol = (
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,'
        '"readerFeatures":["timestampNtz","typeWidening"],'
        '"writerFeatures":["timestampNtz","typeWidening"]}}'
    )
    log = Path(table.table_uri.removeprefix("file://")) / "_delta_log"
    (log / f"{table.version() + 1:020}.json").write_text(protocol)


def test_silvers_outcome_stays_beside_historys_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise SourceQueryError("it broke")

    monkeypatch.setattr(apply, "apply_history", fails)
    done = ApplyOutcome("t", bronze_found=True, applied_lsn=lsn(13), upserted=2)
    _, found = apply._with_history(world.table, done)
    assert "it broke" in str(found.error)
    assert replace(found, error=None) == done
