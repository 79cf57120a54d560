"""What runs and ticks are tried on: one engine, and an instance on disk or in Postgres."""

from collections.abc import Iterator

import dagster as dg
import pytest

from cdc_assets_tests.orchestration.postgres import (
    Postgres,
    postgres_instance,
    running_postgres,
)
from cdc_assets_tests.source import Project


@pytest.fixture
def engine_name() -> str:
    """Dagster does not know the engine: once is enough."""
    return "arrow"


@pytest.fixture
def storage() -> str:
    """Where Dagster keeps its runs, events and cursors; `STORAGES` gives a test each in turn."""
    return "sqlite"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as found:
        yield found


@pytest.fixture
def instance(
    project: Project, storage: str, request: pytest.FixtureRequest
) -> Iterator[dg.DagsterInstance]:
    home = project.folder / "dagster"
    home.mkdir()
    if storage == "postgres":
        with postgres_instance(home, request.getfixturevalue("postgres")) as made:
            yield made
        return
    with dg.instance_for_test(temp_dir=str(home)) as made:
        yield made
