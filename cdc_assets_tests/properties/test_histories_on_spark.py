"""Random histories on Spark, some of whose runs are the arrow engine's: see `test_histories`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets_tests.properties.running import run_seeds
from cdc_assets_tests.properties.seeds import (
    BOTH,
    ON_SPARK,
    ON_SPARK_IN_SOAK,
    SHARD,
    assert_tested,
    shards,
)
from cdc_assets_tests.source import Server

pytestmark = [
    *(pytest.mark.sandbox, pytest.mark.spark, pytest.mark.slow),
    pytest.mark.timeout(900),
]


@pytest.mark.parametrize("seeds", shards(range(ON_SPARK), 2), ids=str)
def test_spark_and_arrow_in_turn(seeds: range, server: Server, tmp_path: Path) -> None:
    assert_tested(run_seeds(seeds, BOTH, server, tmp_path, "spark"))


@pytest.mark.soak
@pytest.mark.parametrize(
    "seeds", shards(range(ON_SPARK, ON_SPARK + ON_SPARK_IN_SOAK), SHARD), ids=str
)
def test_many(seeds: range, server: Server, tmp_path: Path) -> None:
    assert_tested(run_seeds(seeds, BOTH, server, tmp_path, "spark"))
