"""Jobs and the schedule of one database."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition,  # what `define_asset_job` gives; Dagster exports no name for it
)

from cdc_assets.orchestration.sensors import UNFINISHED
from cdc_assets.orchestration.translator import BRONZE, SILVER, Translator

SYNC_CRON = "* * * * *"


def database_jobs(translator: Translator) -> dict[str, UnresolvedAssetJobDefinition]:
    """`<db>_sync`, `<db>_apply`, and both in one run: `<db>_sync_and_apply`."""
    database, tables = translator.database.key, translator.settings.tables
    bronze = [translator.asset_key(BRONZE, table) for table in tables]
    silver = [translator.asset_key(SILVER, table) for table in tables]
    return {
        "sync": _job(f"{database}_sync", bronze, "Bring bronze up to SQL Server."),
        "apply": _job(f"{database}_apply", silver, "Bring silver up to bronze."),
        "sync_and_apply": _job(
            f"{database}_sync_and_apply",
            [*bronze, *silver],
            "Bring bronze up to SQL Server, and silver up to bronze.",
        ),
    }


def _job(name: str, keys: list[dg.AssetKey], description: str) -> UnresolvedAssetJobDefinition:
    selection = dg.AssetSelection.assets(*keys)
    return dg.define_asset_job(name, selection=selection, description=description)


def sync_schedule(
    translator: Translator, job: UnresolvedAssetJobDefinition
) -> dg.ScheduleDefinition:
    """A sync every minute; a tick that finds nothing new costs one poll.

    While one is queued or running no other is asked for, so a long first load piles up nothing.
    """

    @dg.schedule(
        name=f"{translator.database.key}_sync_every_minute",
        job=job,
        cron_schedule=SYNC_CRON,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    def every_minute(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        filters = dg.RunsFilter(job_name=job.name, statuses=UNFINISHED)
        running = context.instance.get_run_ids(filters, limit=1)
        if running:
            return dg.SkipReason(f"Run {running[0]} is at it.")
        return dg.RunRequest()

    return every_minute
