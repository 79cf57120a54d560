"""What a run has written of a table, as the result of an asset or as the event of a job."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.orchestration.columns import bronze_columns_metadata, silver_columns_metadata
from cdc_assets.orchestration.metadata import Metadata, bronze_metadata, silver_metadata
from cdc_assets.orchestration.translator import BRONZE, SILVER, Translator

if TYPE_CHECKING:
    from cdc_assets.ingest.outcome import TableOutcome
    from cdc_assets.ingest.sync import SyncReport
    from cdc_assets.silver.outcome import ApplyOutcome

_TOLD_PERIODS = ("hour", "day")
_DATA_VERSION_TAG = "dagster/data_version"


@dataclass(frozen=True, slots=True)
class Written:
    """A table that was written, what is told of it, and the LSN that it is at."""

    key: dg.AssetKey
    metadata: Metadata
    version: str | None

    def result(self) -> dg.MaterializeResult[None]:
        """For the step of its asset, which gives one."""
        return dg.MaterializeResult(
            asset_key=self.key,
            metadata=self.metadata,
            data_version=dg.DataVersion(self.version) if self.version else None,
        )

    def event(self) -> dg.AssetMaterialization:
        """For a step that writes a table again and again."""
        tags = {_DATA_VERSION_TAG: self.version} if self.version else None
        return dg.AssetMaterialization(self.key, metadata=self.metadata, tags=tags)


def bronze_written(
    translator: Translator,
    report: "SyncReport",
    outcome: "TableOutcome",
    chunks: tuple[int, int] = (0, 0),
) -> Written | None:
    """What a sync has written of one table; None of a quiet one, unless a period has ended for it.

    Periods of less than an hour end with each run: those tell nothing.
    """
    granularity = translator.settings.finality_of(outcome.table).granularity
    is_told = outcome.table in report.crossed and granularity in _TOLD_PERIODS
    if outcome.error is not None or not (outcome.rows or outcome.work == "snapshot" or is_told):
        return None
    row = report.control.get(translator.database.table(outcome.table).bronze)
    return Written(
        key=translator.asset_key(BRONZE, outcome.table),
        metadata={
            **bronze_metadata(outcome, report, row, chunks),
            **bronze_columns_metadata(translator, outcome.table, outcome.columns),
        },
        version=str(outcome.end.lsn) if outcome.end else None,
    )


def silver_written(translator: Translator, outcome: "ApplyOutcome") -> Written | None:
    """What an apply has written of one table; None where another one was first, or failed."""
    if outcome.overtaken or outcome.applied_lsn is None:
        return None
    return Written(
        key=translator.asset_key(SILVER, outcome.table),
        metadata={
            **silver_metadata(outcome),
            **silver_columns_metadata(translator, outcome.table, outcome.columns, outcome.keys),
        },
        version=str(outcome.applied_lsn),
    )
