"""One Spark on two cores for all of these tests, and tables made the way the lake makes them."""

from pathlib import Path

import pytest

from cdc_assets_tests.engines.spark.helpers import LiteralEngine, Tables

_NEED_A_JVM = {"engine", "tables"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_here = Path(__file__).parent in item.path.parents
        is_elsewhere = item.get_closest_marker("cluster") is not None
        if is_here and not is_elsewhere and _NEED_A_JVM & set(item.fixturenames):
            item.add_marker(pytest.mark.spark)


@pytest.fixture
def engine() -> LiteralEngine:
    return LiteralEngine()


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path).create()
