"""Ten thousand random histories, of seeds above those of `make test`: see `test_histories`.

A test ends at its first wrong history and the next one goes on: each one that fails names a seed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets_tests.properties.drawing import Shape
from cdc_assets_tests.properties.running import run_seeds
from cdc_assets_tests.properties.seeds import (
    ARROW,
    IN_SOAK,
    LONGER,
    ON_ARROW,
    SOAK_SHARD,
    assert_tested,
    shards,
)
from cdc_assets_tests.source import Server

pytestmark = [pytest.mark.sandbox, pytest.mark.soak]

HALF = IN_SOAK // 2
SHORT = [(ARROW, seeds) for seeds in shards(range(ON_ARROW, ON_ARROW + HALF), SOAK_SHARD)]
LONG = [(LONGER, seeds) for seeds in shards(range(ON_ARROW, ON_ARROW + HALF), SOAK_SHARD)]


@pytest.mark.parametrize(
    ("shape", "seeds"),
    [*SHORT, *LONG],
    ids=[f"{shape.rounds} rounds, {seeds}" for shape, seeds in (*SHORT, *LONG)],
)
def test_many(shape: Shape, seeds: range, server: Server, tmp_path: Path) -> None:
    assert_tested(run_seeds(seeds, shape, server, tmp_path, "arrow"))
