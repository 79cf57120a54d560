"""The peer's pipeline on Spark: bronze, facts, verdicts and silver, as its README makes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from cdc_assets_tests.clients.history import FIRST
from cdc_assets_tests.clients.peer import connection_text, mssql_cdc
from cdc_assets_tests.source import SPARK, Source

GRANULARITY = "hour"

PLACES = {
    "bronze": f"bronze/{FIRST}",
    "silver": f"silver/{FIRST}",
    "facts": "_cdc/facts",
    "control": "_cdc/control",
}
"""Where its tables are put in its lake: where ours would be."""


class Peer:
    """Its calls for dbo.stock, with tables as paths."""

    def __init__(self, source: Source, folder: Path) -> None:
        # Late: the fast tests must run where no PySpark is installed.
        from cdc_assets.engines.spark.config import SessionConfig  # noqa: PLC0415
        from cdc_assets.engines.spark.session import new_session  # noqa: PLC0415
        from cdc_assets.settings.model import SparkSettings  # noqa: PLC0415

        self.session = new_session(SessionConfig.of(SparkSettings(**SPARK)))
        self.session.conf.set("spark.sql.shuffle.partitions", "2")
        # Spark looks for a format of that name in the thread's active session, which may be another
        # test's with the format in it: this makes it ours.
        self.session.createDataFrame([], "id INT")
        self.lake = folder / "lake"
        self._checkpoint = str(folder / "checkpoint")
        # Spark's workers were started before this server had a certificate to trust.
        text = f"{connection_text(source, 'mssql-python')};TrustServerCertificate=yes"
        self._options = {"connectionString": text, "captureInstance": FIRST}

    def path(self, table: str) -> str:
        """Where one of its tables is, which is also its name in facts and verdicts."""
        return str(self.lake / PLACES[table])

    def snapshot(self) -> None:
        """The table as it is, into its bronze."""
        self._stream().snapshot(self.path("bronze"))

    def work_off(self, *, recorded: bool = False, **options: Any) -> None:
        """Stream all changes since the snapshot, then apply both to silver.

        `recorded` says whether it keeps facts and verdicts too.
        """
        facts = self.path("facts") if recorded else None
        query = self._stream().to_delta(
            self.path("bronze"),
            app_id="stock",
            checkpoint=self._checkpoint,
            facts_table=facts,
            trigger={"availableNow": True},
            bootstrap=True,
            **options,
        )
        query.awaitTermination()
        if recorded:
            end = mssql_cdc.finalization.end_offset_from_progress(query.lastProgress)
            mssql_cdc.finalization.advance(
                self.session,
                self.path("control"),
                self.path("bronze"),
                end,
                granularity=GRANULARITY,
            )
        self.apply(self.path("bronze"), self.path("silver"), self.path("control"), facts)

    def apply(self, bronze: str, silver: str, control: str, facts: str | None) -> dict[str, Any]:
        """Apply anybody's bronze to a silver."""
        done = mssql_cdc.apply_changes(
            self.session,
            bronze,
            silver,
            capture_instance=FIRST,
            keys=["id"],
            control_table=control,
            facts_table=facts,
            granularity=GRANULARITY,
        )
        return dict(done)

    def is_final(self, control: str, table: str, end: datetime) -> bool:
        """What it says of a table's period that ends then, by anybody's control table."""
        return bool(mssql_cdc.finalization.is_final(self.session, control, table, end))

    def rows(self, table: str, columns: Sequence[str] = ("*",)) -> list[tuple[Any, ...]]:
        """The rows of one of its tables, sorted."""
        found = self.session.read.format("delta").load(self.path(table)).select(*columns)
        return sorted((tuple(row) for row in found.collect()), key=repr)

    def _stream(self) -> Any:
        return mssql_cdc.stream(self.session, self._options)
