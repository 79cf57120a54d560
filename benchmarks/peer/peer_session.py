"""Runs inside the peer's environment: its Spark session, tuned, and how its child is talked to.

Imports nothing of ours; a child imports it from its own folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession


def start_spark(cores: int) -> Any:
    """A local session, tuned: Delta's 50 snapshot partitions would double the small work."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.appName("peer")
        .master(f"local[{cores}]")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog",
            "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        )
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.driver.memory", "6g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    return configure_spark_with_delta_pip(builder).getOrCreate()


def serve(main: Callable[[TextIO, TextIO], None]) -> None:
    """Run a child that is told lines and answers in lines.

    Spark and its children print to the real standard output; the answers keep it to themselves.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main(sys.stdin, answers)
