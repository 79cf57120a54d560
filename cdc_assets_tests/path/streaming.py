"""Streams of dbo.items that tests start, and what they leave."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from cdc_assets_tests.source import SPARK, Project

TABLE = "dbo_items"
PROGRAM = "from cdc_assets_tests.path.streaming import main; main()"
"""A stream of dbo.items in a process of its own, as `killing.kill_at` runs it."""
BACKFILL = "from cdc_assets_tests.path.streaming import read_chunks; read_chunks()"
"""The backfill beside it, in another, which needs no session."""
NOW = {"availableNow": True}
QUERY_SECONDS_MAX = 120


def session() -> Any:
    """A session on the one JVM of all tests."""
    # Late: the fast tests must run where no PySpark is installed.
    from cdc_assets.engines.spark.config import SessionConfig  # noqa: PLC0415
    from cdc_assets.engines.spark.session import new_session  # noqa: PLC0415
    from cdc_assets.settings.model import SparkSettings  # noqa: PLC0415

    return new_session(SessionConfig.of(SparkSettings(**SPARK)))


def options(project: Project, **more: str) -> dict[str, str]:
    """A source of the options alone, which no settings know."""
    project.write()
    ca_file = {"caFile": project.source.server.ca_file} if project.source.server.ca_file else {}
    source = {"connection": f"file:{project.folder / 'source.odbc'}", "captureInstance": TABLE}
    return {**source, **ca_file, **more}


def read_stream(
    given: dict[str, str], checkpoint: Path, trigger: dict[str, Any] | None = None
) -> list[list[dict[str, Any]]]:
    """All that there is, by micro-batches, through the plain format into a sink of our own."""
    from cdc_assets.ingest.stream import register  # noqa: PLC0415

    spark, batches = session(), []
    register(spark)
    query = (
        spark.readStream.format("mssql_cdc")
        .options(**given)
        .load()
        .writeStream.foreachBatch(lambda frame, _: batches.append(_rows(frame)))
        .option("checkpointLocation", str(checkpoint))
        .trigger(**(trigger or NOW))
        .start()
    )
    try:
        assert query.awaitTermination(QUERY_SECONDS_MAX), "the query did not end"
    finally:
        query.stop()
    return batches


def _rows(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def in_order(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Change rows without what only a batch gives them, in the order of the changes."""
    return sorted(
        (tuple(v for k, v in row.items() if k not in _OF_A_BATCH) for row in rows), key=repr
    )


_OF_A_BATCH = ("_batch_id", "_snapshot", "_chunk")


def stream(project: Project, **given: str) -> Any:
    """A `CdcStream` of dbo.items as the settings have it; with options, of those alone."""
    from cdc_assets.ingest.stream import CdcStream  # noqa: PLC0415

    return CdcStream(session(), given or named(project))


def named(project: Project) -> dict[str, str]:
    """The options of dbo.items as the settings have it."""
    project.write()
    return {"table": f"{project.key}.{TABLE}", "settings": str(project.settings_file)}


def run_stream(project: Project, checkpoint: Path, **more: Any) -> Any:
    """The table's stream until all is read; gives the query that has ended."""
    return finish(stream(project).to_delta(checkpoint=str(checkpoint), trigger=NOW, **more))


def finish(query: Any) -> Any:
    """Wait for a query's end; its error is raised."""
    try:
        assert query.awaitTermination(QUERY_SECONDS_MAX), "the query did not end"
    finally:
        query.stop()
    return query


def main() -> None:
    """What `PROGRAM` does; its arguments are the checkpoint and the database's key."""
    from cdc_assets.ingest.stream import CdcStream  # noqa: PLC0415

    checkpoint, key = sys.argv[1:]
    own = CdcStream(session(), _given(key))
    finish(own.to_delta(checkpoint=checkpoint, trigger=NOW, bootstrap=True))


def read_chunks() -> None:
    """What `BACKFILL` does; its arguments are any word and the database's key."""
    from cdc_assets.ingest.stream import CdcStream  # noqa: PLC0415

    CdcStream(None, _given(sys.argv[2])).backfill()


def _given(key: str) -> dict[str, str]:
    return {"table": f"{key}.{TABLE}", "settings": os.environ["CDC_TABLES"]}
