"""Random histories against a plain model: what bronze, silver and their verdicts promise holds.

A history is three tables, 200 changes and more, and the product's runs among them, drawn from a
seed (`drawing`). After each run the lake is looked at (`watching`), and in the end silver is the
source and its verdict says so. Some tables have a history of their states, and some keep deleted
rows (`keeping`): the model says which there must be, since when and up to when.

Most of their crashes are exceptions that nothing catches, raised at a fault point in the test's own
process: those cost nothing, so that there can be many. Some are SIGKILL in a process of its own;
that at every point has its suite in `path/`.

A failing seed is printed, with the command that runs it alone and prints it. `make soak` runs ten
thousand others (`test_soak`); ONLY=histories runs nothing else, on two cores.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets_tests.properties.drawing import draw_history
from cdc_assets_tests.properties.running import (
    SEED_VARIABLE,
    asked_seed,
    asked_shape,
    run_history,
    run_seeds,
)
from cdc_assets_tests.properties.seeds import ARROW, LONGER, ON_ARROW, assert_tested, shards
from cdc_assets_tests.source import Server

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(900)]
"""Seconds: what hangs ends, and what shares its machine with much else does not."""


@pytest.mark.parametrize("seeds", shards(range(ON_ARROW // 2)), ids=str)
def test_arrow(seeds: range, server: Server, tmp_path: Path) -> None:
    assert_tested(run_seeds(seeds, ARROW, server, tmp_path, "arrow"))


def test_one_seed(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The seed that the environment names, in its shape; without, one that runs longer."""
    seed, shape = asked_seed(), asked_shape()
    history = draw_history(0, LONGER) if seed is None else draw_history(seed, shape)
    if seed is not None:
        with capsys.disabled():
            print(f"\n{SEED_VARIABLE}: {history}")
    engine = "spark" if "spark" in shape.engines else "arrow"
    run_history(history, server, tmp_path / "one", engine)
