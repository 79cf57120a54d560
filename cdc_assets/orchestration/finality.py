"""The sensor `finality`: it reports the checks, and each hour once it is final, without a run.

With capture or the sync stopped nothing runs, and that is when it matters.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.orchestration.checks import CHECKS, Check, Found, check_metadata
from cdc_assets.orchestration.cursors import Reported
from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.translator import FINAL, HOUR_FORMAT, Translator
from cdc_assets.planning.finality import Verdict
from cdc_assets.planning.releases import FinalHour, final_hours

if TYPE_CHECKING:
    from cdc_assets.quality.health import TableHealth

TICK_SECONDS = 29
CHECKS_PER_TICK_MAX = 100
"""Checks reported in one tick; the rest follow at the next. Writing one takes 10 to 50 ms."""
HOURS_PER_TICK_MAX = 100
"""Final hours reported in one tick, the oldest of all tables first."""
LOOKUPS_PER_TICK_MAX = 50
"""Tables whose final hours Dagster is asked for in one tick, where the cursor lacks them."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A check that says something else than it did."""

    table: str
    check: Check
    found: Found

    def event(self, translator: Translator) -> dg.AssetCheckEvaluation:
        return dg.AssetCheckEvaluation(
            asset_key=translator.asset_key(self.check.layer, self.table),
            check_name=self.check.name,
            passed=self.found.passed,
            severity=dg.AssetCheckSeverity.WARN,
            description=self.found.text,
            metadata=check_metadata(self.found),
        )


@dataclass(frozen=True, slots=True)
class _Hour:
    """An hour of a table that is final, and where to read it."""

    table: str
    hour: FinalHour
    silver: Verdict

    def event(self, translator: Translator) -> dg.AssetMaterialization:
        told: dict[str, bool | int | str] = {
            "cdc/lost": self.hour.lost,
            "cdc/finalized_until": str(self.silver.finalized_until),
        }
        if self.silver.verdict_version is not None:
            told["cdc/silver_version"] = self.silver.verdict_version
        return dg.AssetMaterialization(
            asset_key=translator.asset_key(FINAL, self.table),
            partition=self.hour.begin.strftime(HOUR_FORMAT),
            description="Changes of this hour were lost." if self.hour.lost else None,
            metadata=told,
        )


def finality_sensor(translator: Translator) -> dg.SensorDefinition:
    """The sensor of one database."""
    database = translator.database

    @dg.sensor(
        name=f"{database.key}_finality",
        minimum_interval_seconds=TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports how complete each table is, when that changes; needs no run.",
    )
    def finality(context: dg.SensorEvaluationContext, cdc: CdcResource) -> dg.SensorResult:
        tables = cdc.health(database.key)
        known = Reported.read(context.cursor)
        changes = list(islice(_changes(tables, known), CHECKS_PER_TICK_MAX))
        told = _told(context.instance, translator, tables, known)
        final = list(islice(_final(translator, tables, told), HOURS_PER_TICK_MAX))
        after = Reported(
            {table: dict(known.reasons.get(table, {})) for table in tables},
            {table: at for table, at in told.items() if at is not None},
        )
        for change in changes:
            after.reasons[change.table][change.check.name] = str(change.found.reason)
        for hour in final:
            after.hours[hour.table] = hour.hour.begin
        return dg.SensorResult(
            asset_events=[
                *(change.event(translator) for change in changes),
                *(hour.event(translator) for hour in final),
            ],
            skip_reason=f"{len(changes)} checks changed, {len(final)} hours became final.",
            cursor=after.text(),
        )

    return finality


def _changes(tables: "Mapping[str, TableHealth]", known: Reported) -> Iterator[_Change]:
    for table, health in tables.items():
        reasons = known.reasons.get(table, {})
        for check in CHECKS:
            found = check.judge(health)
            if reasons.get(check.name) != found.reason:
                yield _Change(table, check, found)


def _told(
    instance: dg.DagsterInstance,
    translator: Translator,
    tables: "Mapping[str, TableHealth]",
    known: Reported,
) -> dict[str, datetime | None]:
    """The last hour that was reported of each table that has any, as far as it is known.

    Those that the cursor lacks are looked up, a bounded number in a tick: a new table has none,
    but after a cursor was deleted all have.
    """
    found: dict[str, datetime | None] = {}
    lookups = 0
    for table in translator.hourly_tables():
        at = known.hours.get(table)
        if at is None and tables[table].silver.finalized_until is not None:
            if lookups == LOOKUPS_PER_TICK_MAX:
                continue
            lookups += 1
            hours = instance.get_materialized_partitions(translator.asset_key(FINAL, table))
            at = max((datetime.strptime(hour, HOUR_FORMAT) for hour in hours), default=None)
        found[table] = at
    return found


def _final(
    translator: Translator,
    tables: "Mapping[str, TableHealth]",
    told: Mapping[str, datetime | None],
) -> Iterator[_Hour]:
    """The hours to report, the oldest of all tables first."""
    found = (
        [
            _Hour(table, hour, tables[table].silver)
            for hour in islice(
                final_hours(
                    tables[table].bronze,
                    tables[table].silver,
                    translator.final_from(table),
                    at,
                ),
                HOURS_PER_TICK_MAX,
            )
        ]
        for table, at in told.items()
    )
    return heapq.merge(*found, key=lambda one: one.hour.begin)
