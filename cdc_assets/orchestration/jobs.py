"""Jobs and the schedule of one database."""

from collections.abc import Mapping

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import (
    UnresolvedAssetJobDefinition,  # what `define_asset_job` gives; Dagster exports no name for it
)

from cdc_assets.orchestration.asking import database_tags, running_job
from cdc_assets.orchestration.checks import health_specs
from cdc_assets.orchestration.continuous import continuous_job, continuous_name
from cdc_assets.orchestration.translator import BRONZE, SILVER, Translator
from cdc_assets.settings.running import SilverTrigger

Job = UnresolvedAssetJobDefinition | dg.JobDefinition

SYNC_CRON = "* * * * *"


def database_jobs(translator: Translator) -> dict[str, Job]:
    """`<db>_sync`, `<db>_apply`, both as `<db>_sync_and_apply`, and `<db>_health_checks`.

    Where the settings want it, `<db>_continuous` too.

    The checks of the last one are left out of the others: a sensor reports them when they change,
    and a table that is quiet in a run would skip them for all.
    """
    database, tables = translator.database.key, translator.settings.tables
    bronze = [translator.asset_key(BRONZE, table) for table in tables]
    silver = [translator.asset_key(SILVER, table) for table in tables]
    health = [spec.key for spec in health_specs(translator)]
    jobs = {
        "sync": (bronze, "Bring bronze up to SQL Server."),
        "apply": (silver, "Bring silver up to bronze."),
        "sync_and_apply": (
            [*bronze, *silver],
            "Bring bronze up to SQL Server, and silver up to bronze.",
        ),
    }
    found: dict[str, Job] = {
        name: dg.define_asset_job(
            f"{database}_{name}",
            selection=dg.AssetSelection.assets(*keys) - dg.AssetSelection.checks(*health),
            description=description,
            tags=database_tags(database),
        )
        for name, (keys, description) in jobs.items()
    }
    found["health"] = dg.define_asset_job(
        health_name(database),
        selection=dg.AssetSelection.checks(*health),
        description="Say of every table how late it is, how far cleanup and capture are, and"
        " whether silver has each key once.",
        tags=database_tags(database),
    )
    if translator.settings.continuous is not None:
        found["continuous"] = continuous_job(translator, translator.settings.continuous)
    return found


def health_name(database: str) -> str:
    """What the job with the checks that need no sync is called."""
    return f"{database}_health_checks"


def main_job(translator: Translator, jobs: Mapping[str, Job]) -> Job:
    """The job that schedule and sensor ask for: the settings say what a run brings along."""
    if translator.settings.continuous is not None:
        return jobs["continuous"]
    together = translator.settings.silver is SilverTrigger.SAME_RUN
    return jobs["sync_and_apply" if together else "sync"]


def bringing_silver(database: str) -> tuple[str, ...]:
    """The jobs of a database whose runs bring bronze and silver along together."""
    return f"{database}_sync_and_apply", continuous_name(database)


def sync_schedule(translator: Translator, job: Job) -> dg.ScheduleDefinition:
    """A sync every minute; a tick that finds nothing new costs one poll.

    While one is queued or running no other is asked for, so a long first load piles up nothing,
    and a run that keeps polling is followed by the next one.
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
