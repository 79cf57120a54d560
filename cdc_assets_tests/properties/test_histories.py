"""Random histories against a plain model: what bronze, silver and their verdicts promise holds.

A history is three tables, 200 changes and more, and the product's runs among them, drawn from a
seed (`drawing`). After each run the lake is looked at (`watching`), and in the end silver is the
source and its verdict says so.

Most of their crashes are exceptions that nothing catches, raised at a fault point in the test's own
process: those cost nothing, so that there can be many. Some are SIGKILL in a process of its own;
that at every point has its suite in `path/`.

A failing seed is printed; `CDC_HISTORY_SEED=N pytest cdc_assets_tests/properties -k one_seed` runs
it alone, and prints it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

import pytest

from cdc_assets_tests.properties.drawing import (
    CHANGES,
    IN_APPLY,
    IN_BACKFILL,
    IN_SYNC,
    Shape,
    draw_history,
    size_of,
)
from cdc_assets_tests.properties.keys import KINDS
from cdc_assets_tests.properties.model import State
from cdc_assets_tests.properties.running import SEED_VARIABLE, asked_seed, run_history, run_seeds
from cdc_assets_tests.properties.statements import Move, run_all
from cdc_assets_tests.properties.steps import (
    Clock,
    End,
    History,
    Moment,
    Step,
    Sync,
    Transaction,
)
from cdc_assets_tests.source import Server

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(900)]
"""Seconds: what hangs ends, and what shares its machine with much else does not."""

ON_ARROW = 40
"""Histories of `make test` on the arrow engine."""
ON_SPARK = 4
"""And on Spark, whose runs change engines in between."""
DRAWN = 200
"""Histories of which the drawing is looked at: they are drawn in no time."""
IN_SOAK = 10_000
SHARDS = 8
SPARK_SHARDS = 2
SOAK_SHARDS = 100

ARROW = Shape()
BOTH = Shape(engines=("arrow", "spark", "spark"), killing=0.0, waves=0.0, beside=0.1, rounds=2)

IN_PASSING = {*IN_SYNC, *IN_BACKFILL, *IN_APPLY} - set(Moment)
"""The points that runs stop at."""

ALWAYS_TESTED = ("arrivals", "bronze as of its verdict", "silver at its verdict", "changes")


def shards(count: int, number: int) -> list[range]:
    """Seeds in so many parts of the same size."""
    size = count // number
    return [range(start, start + size) for start in range(0, count, size)]


def assert_tested(counts: Counter[str]) -> None:
    """A look that never had anything to look at would let everything pass."""
    assert all(counts[name] for name in ALWAYS_TESTED), counts


@pytest.mark.parametrize("seeds", shards(ON_ARROW, SHARDS), ids=str)
def test_arrow(seeds: range, server: Server, tmp_path: Path) -> None:
    assert_tested(run_seeds(seeds, ARROW, server, tmp_path, "arrow"))


@pytest.mark.spark
@pytest.mark.parametrize("seeds", shards(ON_SPARK, SPARK_SHARDS), ids=str)
def test_spark_and_arrow_in_turn(seeds: range, server: Server, tmp_path: Path) -> None:
    assert_tested(run_seeds(seeds, BOTH, server, tmp_path, "spark"))


@pytest.mark.soak
@pytest.mark.parametrize("seeds", shards(IN_SOAK, SOAK_SHARDS), ids=str)
def test_many(seeds: range, server: Server, tmp_path: Path) -> None:
    """The seeds above those of `make test`."""
    above = [ON_ARROW + seed for seed in seeds]
    assert_tested(run_seeds(above, ARROW, server, tmp_path, "arrow"))


def test_one_seed(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The seed that the environment names; the first one without."""
    history = draw_history(asked_seed() or 0, ARROW)
    if asked_seed() is not None:
        with capsys.disabled():
            print(f"\n{SEED_VARIABLE}: {history}")
    run_history(history, server, tmp_path / "one", "arrow")


def test_a_seed_is_one_history() -> None:
    assert str(draw_history(7)) == str(draw_history(7)) != str(draw_history(8))


def test_histories_are_what_is_said_of_them() -> None:
    """Each has its changes, and two hundred of them have all that they are about."""
    seen: Counter[str] = Counter()
    for seed in range(DRAWN):
        history = draw_history(seed, ARROW)
        assert changes_of(history) >= CHANGES
        assert len(history.tables) == 3
        seen.update(table.kind_name for table in history.tables)
        seen.update(str(table.chunk_rows is None) for table in history.tables)
        for step in history.steps:
            seen.update((type(step).__name__, *marks_of(step)))
    wanted = {
        *(kind.name for kind in KINDS),
        *(kind.__name__ for kind in get_args(Step)),
        *("True", "False", "rolled back", "ring", "beneath", "resnapshot", "clock back"),
        *(f"{what} {point}" for point in IN_PASSING for what in ("crash", "beside")),
        *("kill", "beside pinned", "beside looked"),
    }
    assert wanted <= seen.keys(), wanted - seen.keys()


def changes_of(history: History) -> int:
    """Rows that its transactions change; not those of one that is rolled back, or within a run."""
    states: tuple[State, ...] = tuple({} for _ in history.tables)
    _, states, _ = run_all(history.first_rows, history.tables, states)
    count = 0
    for step, is_own in transactions(history.steps):
        done, after, _ = run_all(step.statements, history.tables, states)
        if not step.rolled_back:
            states = after
            count += sum(size_of(statement) for statement in done) if is_own else 0
    return count


def transactions(steps: Iterable[Step], is_own: bool = True) -> Iterator[tuple[Transaction, bool]]:
    """All of them in their order, and whether each is a step of the history itself."""
    for step in steps:
        if isinstance(step, Transaction):
            yield step, is_own
        at, beneath = getattr(step, "at", None), getattr(step, "beneath", None)
        if at is not None and not isinstance(at.what, End):
            yield from transactions(at.what, is_own=False)
        if beneath is not None:
            yield beneath.transaction, False


def marks_of(step: Step) -> Iterator[str]:
    """What is special of a step."""
    if isinstance(step, Transaction):
        if step.rolled_back:
            yield "rolled back"
        moves = (s.pairs for s in step.statements if isinstance(s, Move) and len(s.pairs) > 1)
        if any({old for old, _ in pairs} == {new for _, new in pairs} for pairs in moves):
            yield "ring"
    if isinstance(step, Clock) and step.seconds < 0:
        yield "clock back"
    if isinstance(step, Sync) and step.resnapshot is not None:
        yield "resnapshot"
    if getattr(step, "beneath", None) is not None:
        yield "beneath"
    at = getattr(step, "at", None)
    if at is not None:
        yield f"{at.what if isinstance(at.what, End) else 'beside'} {at.point}"
        yield str(at.what) if isinstance(at.what, End) else ""
