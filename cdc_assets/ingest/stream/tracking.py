"""A verdict for streams into other sinks: up to when what a query has written is complete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from cdc_assets.engines.spark.installed import require_pyspark
from cdc_assets.lake.control import Control
from cdc_assets.lake.tables import StorageOptions
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.verdict import finalized_until, later


@dataclass
class Tracker:
    """Moves one row of a control table, forward only; a row of its own is the query's verdict."""

    control: Control
    table_name: str
    granularity: str
    _last: Offset | None = None

    def told(self, end: Offset) -> None:
        """Take an end offset: data first, so this comes after its micro-batch."""
        if self._last is None or end.lsn > self._last.lsn:
            self.control.update(lambda rows: self._moved(rows.get(self.table_name), end))
            self._last = end

    def _moved(self, old: ControlRow | None, end: Offset) -> Iterator[ControlRow]:
        row = old or ControlRow(self.table_name)
        if row.end is not None and row.end.lsn >= end.lsn:
            return
        end = end if row.end is None else end.no_earlier_than(row.end.commit_ts)
        final = finalized_until(end.commit_ts, self.granularity)
        yield replace(
            row,
            finalized_until=later(row.finalized_until, final),
            end_lsn=str(end.lsn),
            end_commit_ts=end.commit_ts,
        )


class Tracking:
    """A query that is being tracked, until `close`."""

    def __init__(self, spark: Any, query: Any, tracker: Tracker) -> None:
        # Late: pyspark is an extra.
        from cdc_assets.engines.spark import listening  # noqa: PLC0415

        self._tell = listening.tell
        self._spark, self._query, self._tracker = spark, query, tracker
        self._listener = listening.ProgressListener(str(query.runId), tracker.told)
        spark.streams.addListener(self._listener)
        self._catch_up()

    def close(self) -> None:
        """Take the last progress, which may not have been told yet, and look no more."""
        self._spark.streams.removeListener(self._listener)
        self._catch_up()

    def _catch_up(self) -> None:
        progress: Mapping[str, Any] | None = self._query.lastProgress
        if progress is not None and progress["sources"]:
            self._tell(progress["sources"][0]["endOffset"], self._tracker.told)


def track(
    spark: Any,
    query: Any,
    control_table: str,
    table_name: str,
    *,
    granularity: Literal["second", "minute", "hour", "day"] = "hour",
    storage_options: StorageOptions | None = None,
) -> Tracking:
    """Keep `table_name`'s verdict in a control table while a query of `mssql_cdc` runs.

    For a sink of one's own: `CdcStream.to_delta` keeps its own. Close it once the query has ended.
    """
    require_pyspark()
    control = Control(control_table, storage_options or {})
    return Tracking(spark, query, Tracker(control, table_name, granularity))
