"""Random histories are what is said of them: drawn from seeds alone, and all are seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from cdc_assets_tests.properties.drawing import (
    CHANGES,
    IN_APPLY,
    IN_BACKFILL,
    IN_HISTORY,
    IN_SYNC,
    draw_history,
    size_of,
)
from cdc_assets_tests.properties.features import (
    AS_DELETE_AND_INSERT,
    AS_UPDATE,
    NULL_KEY,
    OFTEN,
    REINSERTED,
    RING,
    features,
)
from cdc_assets_tests.properties.keys import KINDS, Key
from cdc_assets_tests.properties.model import State
from cdc_assets_tests.properties.seeds import ARROW, ON_ARROW
from cdc_assets_tests.properties.statements import Statement, run_all
from cdc_assets_tests.properties.steps import (
    Capture,
    Clean,
    Clock,
    Disable,
    End,
    History,
    Step,
    Switch,
    Sync,
    Transaction,
)

pytestmark = pytest.mark.sandbox

IN_EACH_TENTH = {
    *(f"key {kind.name}" for kind in KINDS),
    *("whole", "chunked", "crash", "beside", "beneath", "rolled back", "resnapshot", "clock back"),
    *("history", "deleted rows kept", "unchecked keys"),
    *(kind.__name__ for kind in (Capture, Clean, Clock, Disable, Switch)),
    *(AS_DELETE_AND_INSERT, AS_UPDATE, NULL_KEY, OFTEN, REINSERTED, RING),
}
"""What at least one history of ten has."""

IN_SOME = {"kill", *(f"at {point}" for point in {*IN_SYNC, *IN_BACKFILL, *IN_APPLY, *IN_HISTORY})}
"""What some of all have: every point at which a run stops, or something else happens."""


def test_a_seed_is_one_history() -> None:
    assert str(draw_history(7)) == str(draw_history(7)) != str(draw_history(8))


def test_histories_are_what_is_said_of_them() -> None:
    """Each has its changes, and those of `make test` have all that they are about."""
    seen: Counter[str] = Counter()
    for seed in range(ON_ARROW):
        history = draw_history(seed, ARROW)
        assert len(history.tables) == 3
        marks: set[str] = set()
        assert _changes(history, marks) >= CHANGES
        for table in history.tables:
            marks |= {f"key {table.kind_name}", "chunked" if table.chunk_rows else "whole"}
            marks |= {"history"} if table.scd else set()
            marks |= {"deleted rows kept"} if table.soft else set()
            marks |= {"unchecked keys"} if table.unchecked else set()
        for step in history.steps:
            marks.update((type(step).__name__, *_marks(step)))
        seen.update(marks)
    rare = {name: seen[name] for name in IN_EACH_TENTH if seen[name] < ON_ARROW / 10}
    assert not rare
    assert seen.keys() >= IN_SOME, IN_SOME - seen.keys()


def _changes(history: History, marks: set[str]) -> int:
    """Rows that its transactions change; not those of one that is rolled back, or within a run."""
    states: tuple[State, ...] = tuple({} for _ in history.tables)
    _, states, _ = run_all(history.first_rows, history.tables, states)
    gone: list[set[Key]] = [set() for _ in history.tables]
    count = 0
    for step, is_own in _transactions(history.steps):
        done: list[Statement]
        done, after, _ = run_all(step.statements, history.tables, states)
        if not step.rolled_back:
            states = after
            marks.update(features(done, history.tables, gone))
            count += sum(size_of(statement) for statement in done) if is_own else 0
    return count


def _transactions(steps: Iterable[Step], is_own: bool = True) -> Iterator[tuple[Transaction, bool]]:
    """All of them in their order, and whether each is a step of the history itself."""
    for step in steps:
        if isinstance(step, Transaction):
            yield step, is_own
        at, beneath = getattr(step, "at", None), getattr(step, "beneath", None)
        if at is not None and not isinstance(at.what, End):
            yield from _transactions(at.what, is_own=False)
        if beneath is not None:
            yield beneath.transaction, False


def _marks(step: Step) -> Iterator[str]:
    """What is special of a step."""
    if isinstance(step, Transaction) and step.rolled_back:
        yield "rolled back"
    if isinstance(step, Clock) and step.seconds < 0:
        yield "clock back"
    if isinstance(step, Sync) and step.resnapshot is not None:
        yield "resnapshot"
    if getattr(step, "beneath", None) is not None:
        yield "beneath"
    at = getattr(step, "at", None)
    if at is not None:
        yield str(at.what) if isinstance(at.what, End) else "beside"
        yield f"at {at.point}"
