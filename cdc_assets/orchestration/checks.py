"""Checks beside the syncs: `CHECKS` look at the small tables alone, when nothing runs, too."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.orchestration.metadata import runbook_entry
from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.translator import BRONZE, SILVER, SOURCE, Translator
from cdc_assets.orchestration.uniqueness import UNIQUE_KEYS, unique_result, unique_spec

if TYPE_CHECKING:
    from cdc_assets.quality.health import TableHealth

FINALIZED = "finalized"
RETENTION_HEADROOM = "retention_headroom"
CAPTURE_ALIVE = "capture_alive"


@dataclass(frozen=True, slots=True)
class Found:
    """What a check says of a table: its code, a sentence that says what to do, and one number."""

    passed: bool
    reason: StrEnum
    text: str
    measure: str
    value: float


@dataclass(frozen=True, slots=True)
class Check:
    """A check of every table, on its asset in a layer; red is a warning, not a failed run."""

    name: str
    layer: str
    description: str
    judge: "Callable[[TableHealth], Found]"

    def spec(self, translator: Translator, table: str) -> dg.AssetCheckSpec:
        """It, of one table."""
        return dg.AssetCheckSpec(
            self.name,
            asset=translator.asset_key(self.layer, table),
            description=self.description,
        )


def _finalized(health: "TableHealth") -> Found:
    found = health.finality
    return Found(found.passed, found.reason, found.text, "cdc/late_seconds", found.late_seconds)


def _headroom(health: "TableHealth") -> Found:
    found = health.headroom
    return Found(
        found.passed, found.reason, found.text, "cdc/retention_headroom_hours", found.hours
    )


def _capture(health: "TableHealth") -> Found:
    found = health.capture
    return Found(
        found.passed, found.reason, found.text, "cdc/capture_lag_seconds", found.late_seconds
    )


CHECKS = (
    Check(
        FINALIZED,
        SILVER,
        "The table is complete up to now, less the delay it is allowed.",
        _finalized,
    ),
    Check(
        RETENTION_HEADROOM,
        BRONZE,
        "CDC cleanup is `min_headroom_hours` or more behind what was read.",
        _headroom,
    ),
    Check(
        CAPTURE_ALIVE,
        SOURCE,
        "SQL Server's capture has processed what was committed up to the allowed delay ago.",
        _capture,
    ),
)
"""The checks that need neither a run nor the source."""


def health_specs(translator: Translator) -> Iterator[dg.AssetCheckSpec]:
    """`CHECKS` of every table of a database, and `unique_keys`."""
    for table in translator.settings.tables:
        yield from (check.spec(translator, table) for check in CHECKS)
        yield unique_spec(translator, table)


def health_checks(translator: Translator) -> dg.AssetChecksDefinition:
    """The checks of every table of a database that no sync gives, in one step."""
    database = translator.database
    by_name = {check.name: check for check in CHECKS}

    @dg.multi_asset_check(
        name=f"{database.key}_health",
        specs=list(health_specs(translator)),
        can_subset=True,
    )
    def health(
        context: dg.AssetCheckExecutionContext, cdc: CdcResource
    ) -> Iterator[dg.AssetCheckResult]:
        tables = cdc.health(database.key)
        # Those that read data come last: they take longer, and keep none of the others.
        for key in sorted(context.selected_asset_check_keys, key=_order):
            if key.name == UNIQUE_KEYS:
                yield unique_result(context.instance, cdc, translator, key)
                continue
            found = by_name[key.name].judge(tables[translator.table_of(key.asset_key)])
            yield dg.AssetCheckResult(
                asset_key=key.asset_key,
                check_name=key.name,
                passed=found.passed,
                severity=dg.AssetCheckSeverity.WARN,
                description=found.text,
                metadata=check_metadata(found),
            )

    return health


def _order(key: dg.AssetCheckKey) -> tuple[bool, str]:
    return key.name == UNIQUE_KEYS, str(key)


def check_metadata(found: Found) -> dict[str, str | float]:
    """The reason's code, what was measured, and where to read on."""
    return {
        "cdc/reason": str(found.reason),
        "cdc/runbook": runbook_entry(found.reason),
        found.measure: round(found.value, 3),
    }
