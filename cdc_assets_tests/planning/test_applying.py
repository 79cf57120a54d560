"""What an apply does, for each state of silver, snapshots, waves and changes."""

from cdc_assets.contract import Event, SnapshotMode
from cdc_assets.lsn import Lsn
from cdc_assets.planning.applying import (
    ApplyWork,
    Position,
    ToldWave,
    moved,
    plan_apply,
    told_waves,
)
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import Snapshots, snapshots_of
from cdc_assets_tests.planning.test_snapshots import event
from cdc_assets_tests.planning.test_waves import COMMIT, LATER


def at(number: int) -> Lsn:
    return Lsn.of_int(number)


def opened(lsn: int, *keys: str) -> FactsRow:
    return event(Event.SNAPSHOT_OPEN, lsn, mode=str(SnapshotMode.CHUNKED), keys=keys)


def waves(*stamps: int) -> tuple[ToldWave, ...]:
    return tuple(ToldWave(n, at(stamp), (n,)) for n, stamp in enumerate(stamps))


BOOTSTRAP = snapshots_of([opened(10)])
FURTHER = snapshots_of([event(Event.BOOTSTRAP, 5), opened(10)])


def plan(
    position: Position,
    snapshots: Snapshots,
    told: tuple[ToldWave, ...] = (),
    head: int | None = None,
    whole: int | None = None,
) -> ApplyWork | None:
    return plan_apply(
        position,
        snapshots,
        at(whole) if whole else None,
        told,
        lambda above: at(head) if head and at(head) > above else None,
    )


def test_nothing_while_the_first_snapshot_is_read() -> None:
    whole = snapshots_of([event(Event.SNAPSHOT_OPEN, 10, mode=str(SnapshotMode.FULL))])
    assert plan(Position(), whole, head=9) is None
    assert plan(Position(), Snapshots()) is None


def test_a_stream_without_any_snapshot_is_its_changes() -> None:
    """Until a bootstrap is complete; one that is open is followed on top of them."""
    first = plan_apply(Position(), Snapshots(), None, (), lambda _: at(30))
    assert first is not None
    assert (first.position, first.is_rebuild, first.rows_of) == (Position(at(30)), True, None)
    assert first.since.is_zero
    further = plan_apply(first.position, Snapshots(), None, (), lambda _: at(40))
    assert further is not None
    assert (further.above, further.position, further.is_rebuild) == (
        at(30),
        Position(at(40)),
        False,
    )


def test_an_open_bootstrap_makes_silver_of_the_waves_told_of() -> None:
    work = plan(Position(), BOOTSTRAP, waves(12, 14), head=13)
    assert work is not None
    assert work.is_rebuild
    assert (work.rows_of, len(work.waves)) == (None, 2)
    assert work.position == Position(at(13), None, at(10), 1)
    first = plan(Position(), BOOTSTRAP)
    assert first is not None
    assert first.position == Position(at(10), None, at(10), None), "never a stamp, at least S"


def test_further_waves_are_ranked_with_the_changes_since_the_first_of_them() -> None:
    before = Position(at(20), None, at(10), 0)
    work = plan(before, BOOTSTRAP, waves(12, 14, 30), head=25)
    assert work is not None
    assert (work.above, work.since, work.is_rebuild) == (at(20), at(13), False)
    assert [wave.wave for wave in work.waves] == [1, 2]
    assert work.position == Position(at(25), None, at(10), 2)
    late = plan(before, BOOTSTRAP, waves(12, 30))
    assert late is not None
    assert (late.since, late.is_empty) == (at(20), False), "unapplied changes are all read"
    none = plan(before, BOOTSTRAP, waves(12))
    assert none is not None
    assert (none.is_empty, none.position) == (True, before)


def test_changes_at_s_are_older_than_the_snapshot() -> None:
    work = plan(Position(at(20), at(5)), FURTHER, waves(10))
    assert work is not None
    assert work.since == at(10)


def test_a_wave_counts_for_its_own_snapshot_alone() -> None:
    given_up = snapshots_of([opened(7), opened(10)])
    work = plan(Position(at(20), None, at(7), 3), given_up, waves(12, 14))
    assert work is not None
    assert len(work.waves) == 2
    assert work.position == Position(at(20), None, at(10), 1)


def test_a_bootstrap_of_another_index_begins_silver_anew() -> None:
    given_up = snapshots_of([opened(7, "id"), opened(10, "code")])
    work = plan(Position(at(20), None, at(7), 3), given_up, waves(12), head=21)
    assert work is not None
    assert (work.is_rebuild, work.position) == (True, Position(at(21), None, at(10), 0))


def test_the_complete_one_comes_first_and_the_open_ones_waves_after_it() -> None:
    work = plan(Position(), FURTHER, waves(12), head=11)
    assert work is not None
    assert (work.rows_of, work.waves, work.position) == (at(5), (), Position(at(11), at(5)))
    after = plan(work.position, FURTHER, waves(12))
    assert after is not None
    assert after.position == Position(at(11), at(5), at(10), 0)


def test_completion_rebuilds_and_so_does_a_whole_one_without_its_event() -> None:
    complete = snapshots_of([opened(10), event(Event.BOOTSTRAP, 10)])
    for snapshots, whole in ((complete, None), (BOOTSTRAP, 10)):
        work = plan(Position(at(20), None, at(10), 3), snapshots, (), 20, whole)
        assert work is not None
        assert (work.rows_of, work.position) == (at(10), Position(at(20), at(10)))
    stay = plan(Position(at(10), at(10)), complete)
    assert stay is not None
    assert (stay.is_rebuild, stay.is_empty) == (False, True)


def test_control_never_goes_back() -> None:
    """Whichever of two calls records last."""
    row = ControlRow("silver/t", table_id="s")
    steps = [
        Position(at(20), None, at(10), 1),
        Position(at(25), None, at(10), 4),
        Position(at(25), at(10)),
        Position(at(26), at(10), at(24), 0),
    ]
    for order in (steps, [steps[i] for i in (1, 0, 3, 2)]):
        found = row
        for step in order:
            found = moved(found, "s", step)
        assert Position.of(found, "s") == steps[-1]
    assert Position.of(moved(row, "s", steps[0]), "s") == steps[0]
    assert Position.of(moved(moved(row, "s", steps[1]), "s", steps[0]), "s") == steps[1]
    assert Position.of(moved(found, "new", steps[0]), "new") == steps[0], "but for a new silver"
    assert Position.of(found, "other") == Position()


def test_waves_are_what_the_facts_tell() -> None:
    rows = [*LATER.facts_rows({}, None), *COMMIT.facts_rows({}, None)]
    assert told_waves([*rows, *rows]) == (
        ToldWave(0, at(9), (0, 1), "p", COMMIT.stamp.commit_ts),
        ToldWave(1, at(11), (2, 3, 4), "p", LATER.stamp.commit_ts),
    )


def test_a_snapshot_of_another_unique_index_begins_silver_anew() -> None:
    """Whichever of the two was whole or in chunks; names are the server's, whatever their case."""
    for first in (event(Event.BOOTSTRAP, 5, keys=("a",)), opened(5, "a")):
        for keys, is_other in ((("b",), True), (("A",), False), (("a", "b"), True)):
            known = Position(at(7), at(5)) if first.event == Event.BOOTSTRAP else None
            position = known or Position(at(7), None, at(5), 0)
            complete = snapshots_of([first, event(Event.RESNAPSHOT, 10, keys=keys)])
            work = plan(position, complete)
            assert work is not None
            assert (work.is_rebuild, work.has_other_key) == (True, is_other)
    work = plan(Position(at(7), None, at(5), 0), snapshots_of([opened(5, "a"), opened(10, "b")]))
    assert work is not None
    assert (work.is_rebuild, work.has_other_key) == (True, True)
    work = plan(Position(at(7), at(5)), FURTHER, head=8)
    assert work is not None
    assert not work.has_other_key
