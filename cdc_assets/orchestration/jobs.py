"""Jobs and the schedule of one database."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition,  # what `define_asset_job` gives; Dagster exports no name for it
)

from cdc_assets.orchestration.asking import running_job
from cdc_assets.orchestration.checks import CHECKS
from cdc_assets.orchestration.translator import BRONZE, SILVER, Translator

SYNC_CRON = "* * * * *"


def database_jobs(translator: Translator) -> dict[str, UnresolvedAssetJobDefinition]:
    """`<db>_sync`, `<db>_apply`, both as `<db>_sync_and_apply`, and `<db>_health_checks`.

    The checks of the last one are left out of the others: a sensor reports them when they change,
    and a table that is quiet in a run would skip them for all.
    """
    database, tables = translator.database.key, translator.settings.tables
    bronze = [translator.asset_key(BRONZE, table) for table in tables]
    silver = [translator.asset_key(SILVER, table) for table in tables]
    health = [check.spec(translator, table).key for table in tables for check in CHECKS]
    jobs = {
        "sync": (bronze, "Bring bronze up to SQL Server."),
        "apply": (silver, "Bring silver up to bronze."),
        "sync_and_apply": (
            [*bronze, *silver],
            "Bring bronze up to SQL Server, and silver up to bronze.",
        ),
    }
    found = {
        name: dg.define_asset_job(
            f"{database}_{name}",
            selection=dg.AssetSelection.assets(*keys) - dg.AssetSelection.checks(*health),
            description=description,
        )
        for name, (keys, description) in jobs.items()
    }
    found["health"] = dg.define_asset_job(
        f"{database}_health_checks",
        selection=dg.AssetSelection.checks(*health),
        description="Say of every table how late it is, and how far cleanup and capture are.",
    )
    return found


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
        description="Asks for a sync, unless one is queued or running.",
    )
    def every_minute(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if not translator.settings.active:
            return dg.SkipReason("Every table is paused.")
        if (run := running_job(context.instance, job.name)) is not None:
            return dg.SkipReason(f"Run {run} is at it.")
        return dg.RunRequest()

    return every_minute
