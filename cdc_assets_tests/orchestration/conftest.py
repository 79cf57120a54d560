"""What runs and ticks are tried on: one engine, and an instance on disk."""

from collections.abc import Iterator

import dagster as dg
import pytest

from cdc_assets_tests.source import Project


@pytest.fixture
def engine_name() -> str:
    """Dagster does not know the engine: once is enough."""
    return "arrow"


@pytest.fixture
def instance(project: Project) -> Iterator[dg.DagsterInstance]:
    home = project.folder / "dagster"
    home.mkdir()
    with dg.instance_for_test(temp_dir=str(home)) as made:
        yield made
