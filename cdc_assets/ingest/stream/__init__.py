"""The stream: a table's changes as a Spark query, on the sync's own plans, reads and records."""

from __future__ import annotations

from typing import Any

from cdc_assets.engines.spark.failures import typed_error
from cdc_assets.engines.spark.installed import require_pyspark
from cdc_assets.ingest.stream.cdc_stream import CdcStream
from cdc_assets.ingest.stream.planner import planner_of
from cdc_assets.ingest.stream.queries import CdcQuery
from cdc_assets.ingest.stream.starting import NewGenerationWarning
from cdc_assets.ingest.stream.tracking import track

__all__ = [
    "STREAM_FORMAT",
    "CdcQuery",
    "CdcStream",
    "NewGenerationWarning",
    "error_of",
    "register",
    "track",
]

STREAM_FORMAT = "mssql_cdc"


def register(spark: Any) -> None:
    """Make `spark.readStream.format("mssql_cdc")` known to a session, once for each."""
    require_pyspark()
    # Late: pyspark is an extra.
    from cdc_assets.engines.spark import streaming  # noqa: PLC0415

    streaming.register(spark, STREAM_FORMAT, planner_of)


def error_of(failure: BaseException) -> Exception | None:
    """Our own error in what Spark raised for a query, as it was raised; None where it has none."""
    return typed_error(failure)
