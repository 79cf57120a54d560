"""Checks that look at the small tables alone, so they say something when nothing runs."""

from collections.abc import Iterator

import dagster as dg

from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.translator import SILVER, Translator
from cdc_assets.planning.verdict import Finality

FINALIZED = "finalized"


def finality_checks(translator: Translator) -> dg.AssetChecksDefinition:
    """`finalized` of every silver table: late is a warning with its reason, not a failed run."""
    database = translator.database

    @dg.multi_asset_check(
        name=f"{database.key}_finality",
        specs=[
            dg.AssetCheckSpec(
                FINALIZED,
                asset=translator.asset_key(SILVER, table),
                description="The table is complete up to now, less the delay it is allowed.",
            )
            for table in translator.settings.tables
        ],
        can_subset=True,
    )
    def finality(
        context: dg.AssetCheckExecutionContext, cdc: CdcResource
    ) -> Iterator[dg.AssetCheckResult]:
        judged = cdc.finality(database.key)
        for key in sorted(context.selected_asset_check_keys, key=lambda k: k.asset_key):
            found = judged[translator.table_of(key.asset_key)]
            yield dg.AssetCheckResult(
                asset_key=key.asset_key,
                check_name=FINALIZED,
                passed=found.passed,
                severity=dg.AssetCheckSeverity.WARN,
                description=found.text,
                metadata=finality_metadata(found),
            )

    return finality


def finality_metadata(found: Finality) -> dict[str, str | float]:
    """The reason's code and how late the table is."""
    return {"cdc/reason": str(found.reason), "cdc/late_seconds": round(found.late_seconds, 3)}
