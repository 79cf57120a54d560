"""Spark in other processes: once behind Spark Connect, once on a standalone master."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from cdc_assets.settings.model import SparkSettings
from cdc_assets_tests.engines.spark.cluster.servers import (
    LOOPBACK,
    connect_server,
    standalone_master,
)
from cdc_assets_tests.engines.spark.helpers import LiteralEngine
from cdc_assets_tests.source import SPARK

CONNECT, STANDALONE = "connect", "standalone"


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the Spark Connect server writes what happens in its sessions."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session", params=[CONNECT, STANDALONE])
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, events: Path
) -> Iterator[SparkSettings]:
    """The settings of each of both; they are started once."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == CONNECT:
        with connect_server(folder, events) as address:
            yield SparkSettings(master=address)
        return
    with standalone_master(folder) as address:
        conf = {
            **SPARK["conf"],
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": SPARK["conf"]["spark.driver.extraJavaOptions"],
            "spark.pyspark.python": sys.executable,
            # A cluster tries a task four times; what fails here fails each time.
            "spark.task.maxFailures": "1",
        }
        yield SparkSettings(master=address, conf=conf)
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()


@pytest.fixture
def engine(spark: SparkSettings) -> LiteralEngine:
    return LiteralEngine(spark)
