"""The second half of the random histories, for the other core: see `test_histories`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets_tests.properties.running import run_seeds
from cdc_assets_tests.properties.seeds import ARROW, ON_ARROW, assert_tested, shards
from cdc_assets_tests.source import Server

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(900)]
"""Seconds: what hangs ends, and what shares its machine with much else does not."""


@pytest.mark.parametrize("seeds", shards(range(ON_ARROW // 2, ON_ARROW)), ids=str)
def test_arrow(seeds: range, server: Server, tmp_path: Path) -> None:
    assert_tested(run_seeds(seeds, ARROW, server, tmp_path, "arrow"))
