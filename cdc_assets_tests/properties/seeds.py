"""Which random histories are run where: their seeds, and what they are like.

Tests of one file run in one process, so those of `make test` are in several files: both cores of a
machine have work. A history costs three seconds of its core, a third of them the sandbox's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from cdc_assets_tests.properties.drawing import Shape

ON_ARROW = 200
"""Histories of `make test` on the arrow engine."""
ON_SPARK = 8
"""And on Spark, whose runs change engines in between."""
IN_SOAK = 10_000
ON_SPARK_IN_SOAK = 100
SHARD = 10
"""Histories of one test."""
SOAK_SHARD = 100

ARROW = Shape()
LONGER = replace(ARROW, rounds=4, chunk_rows=(4, 9, 20))
"""More runs of the product among the same changes."""
BOTH = Shape(engines=("arrow", "spark", "spark"), killing=0.0, waves=0.0, beside=0.1)

SHAPES = {"arrow": ARROW, "longer": LONGER, "both": BOTH}
"""By the names that `test_one_seed` knows them by."""

ALWAYS_TESTED = ("arrivals", "bronze as of its verdict", "silver at its verdict", "changes")


def shards(seeds: range, size: int = SHARD) -> list[range]:
    """Seeds in parts of one size."""
    return [seeds[start : start + size] for start in range(0, len(seeds), size)]


def assert_tested(counts: Counter[str]) -> None:
    """A look that never had anything to look at would let everything pass."""
    assert all(counts[name] for name in ALWAYS_TESTED), counts
