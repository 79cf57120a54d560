"""The check `unique_keys`: it reads silver's keys, so a run makes it, and no sensor does."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from cdc_assets.errors import CdcError
from cdc_assets.orchestration.metadata import runbook_entry
from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.translator import SILVER, Translator

UNIQUE_KEYS = "unique_keys"
_LOOK_BACK = 5
"""Evaluations, planned ones among them, that the last one is looked for in."""

NIGHTLY_CRON = "30 2 * * *"

CHECKED = "cdc/checked"
"""Of a result: the versions of the tables that were looked at as a whole."""

_DESCRIPTION = (
    "Silver holds each key once, and so do the current rows of a history; deleted rows that are"
    " kept do not count."
)


def unique_spec(translator: Translator, table: str) -> dg.AssetCheckSpec:
    """It, of one table."""
    return dg.AssetCheckSpec(
        UNIQUE_KEYS, asset=translator.asset_key(SILVER, table), description=_DESCRIPTION
    )


def unique_result(
    instance: dg.DagsterInstance, cdc: CdcResource, translator: Translator, key: dg.AssetCheckKey
) -> dg.AssetCheckResult:
    """Count a table's keys, unless its silver is as it was when they were counted last."""
    table = translator.table_of(key.asset_key)
    metadata: dict[str, str | int]
    try:
        found = cdc.unique_keys(translator.database.key, table, _checked(instance, key))
    except CdcError as error:
        # A check says what it does not know; a run is not to fail for it.
        passed, text = False, f"Not known: {error}"
        metadata = {"cdc/code": error.code, "cdc/runbook": runbook_entry(error.code)}
    else:
        passed, text = found.passed, found.text
        metadata = {
            "cdc/reason": str(found.reason),
            "cdc/runbook": runbook_entry(found.reason),
            "cdc/repeated_keys": found.keys,
        }
        if found.checked:
            metadata[CHECKED] = found.checked
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=text,
        metadata=metadata,
    )


def unique_schedule(
    translator: Translator, job: UnresolvedAssetJobDefinition | dg.JobDefinition
) -> dg.ScheduleDefinition:
    """The job with the health checks, each night (UTC); a table that is as it was costs nothing."""
    return dg.ScheduleDefinition(
        name=f"{translator.database.key}_health_checks_every_night",
        job=job,
        cron_schedule=NIGHTLY_CRON,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )


def _checked(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> str:
    """What the last evaluation has looked at and found right."""
    # The newest is this run's own, which is only planned; nor may one that died be the last word.
    records = instance.event_log_storage.get_asset_check_execution_history(key, _LOOK_BACK)
    found = (record.evaluation for record in records)
    last = next((one for one in found if isinstance(one, dg.AssetCheckEvaluation)), None)
    told = last.metadata.get(CHECKED) if last is not None else None
    return "" if told is None else str(told.value)
