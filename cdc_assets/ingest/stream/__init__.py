"""The stream: a table's changes as a Spark query, on the sync's own plans, reads and records."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cdc_assets.engines.spark.installed import require_pyspark

if TYPE_CHECKING:
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
    "planner_of",
    "register",
    "track",
]

STREAM_FORMAT = "mssql_cdc"

_PUBLIC = {
    "CdcQuery": "queries",
    "CdcStream": "cdc_stream",
    "NewGenerationWarning": "starting",
    "planner_of": "planner",
    "track": "tracking",
}


def __getattr__(name: str) -> Any:
    """What is public here, when it is asked for: pyspark is an extra, and `places` needs none.

    Raises `ExtraMissingError` where it lacks.
    """
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_PUBLIC[name]}")
    except ModuleNotFoundError:
        require_pyspark()
        raise
    return getattr(module, name)


def register(spark: Any) -> None:
    """Make `spark.readStream.format("mssql_cdc")` known to a session, once for each."""
    require_pyspark()
    # Late, for the same reason.
    from cdc_assets.engines.spark import streaming  # noqa: PLC0415
    from cdc_assets.ingest.stream.planner import planner_of  # noqa: PLC0415

    streaming.register(spark, STREAM_FORMAT, planner_of)


def error_of(failure: BaseException) -> Exception | None:
    """Our own error in what Spark raised for a query, as it was raised; None where it has none."""
    from cdc_assets.engines.spark.failures import typed_error  # noqa: PLC0415 - late, as above

    return typed_error(failure)
