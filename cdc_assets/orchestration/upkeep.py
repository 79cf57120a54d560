"""The maintenance job of one database, and its schedule."""

import dagster as dg

from cdc_assets.orchestration.asking import database_tags
from cdc_assets.orchestration.failing import failure
from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.translator import Translator

WEEKLY_CRON = "0 3 * * 0"


def maintenance_job(translator: Translator) -> dg.JobDefinition:
    """`<db>_maintenance`: files, old versions, logs and old facts of all its tables."""
    database = translator.database

    @dg.op(
        name=f"{database.key}_maintain_tables",
        pool=database.pool("maintenance"),
        out=dg.Out(dg.Nothing),
    )
    def maintain_tables(context: dg.OpExecutionContext, cdc: CdcResource) -> None:
        found = cdc.maintain(database.key)
        for told in found:
            context.log.info(str(told))
        errors = {told.name: told.error for told in found if told.error is not None}
        if errors:
            raise failure(errors)

    @dg.job(
        name=f"{database.key}_maintenance",
        description="Put files together and in order, remove old versions and old facts.",
        tags=database_tags(database.key),
    )
    def maintenance() -> None:
        maintain_tables()

    return maintenance


def maintenance_schedule(job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Weekly, in the night from Saturday to Sunday (UTC)."""
    return dg.ScheduleDefinition(
        name=f"{job.name}_every_week",
        job=job,
        cron_schedule=WEEKLY_CRON,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Asks for maintenance in the night from Saturday to Sunday (UTC).",
    )
