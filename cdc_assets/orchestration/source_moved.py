"""The sensor `source_moved`: it asks for a sync as soon as capture has processed something.

It is off by default, and takes the place of the schedule where seconds count: turn the one on and
the other off. A quiet source then costs a statement of one row and no run.
"""

import dagster as dg

from cdc_assets.errors import CdcError
from cdc_assets.orchestration.asking import (
    ATTEMPTS_MAX,
    WAVE_TAG,
    earlier_runs,
    running_job,
    tag_value,
)
from cdc_assets.orchestration.jobs import Job
from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.translator import Translator

TICK_SECONDS = 4
"""The daemon looks every 5 s; 4 gives a steady tick at each of its turns."""

NAMED_MAX = 5
"""Tables that a tick names."""


def source_sensor(translator: Translator, job: Job) -> dg.SensorDefinition:
    """The sensor of one database; `job` is its sync."""
    database = translator.database

    @dg.sensor(
        name=f"{database.key}_source_moved",
        job_name=job.name,
        minimum_interval_seconds=TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Asks for a sync when the source's max_lsn has moved: in place of the schedule,"
        " for seconds of latency.",
    )
    def source_moved(
        context: dg.SensorEvaluationContext, cdc: CdcResource
    ) -> dg.RunRequest | dg.SkipReason:
        if (run := running_job(context.instance, job.name)) is not None:
            return dg.SkipReason(f"Run {run} is at it.")
        try:
            moved = cdc.source_moved(database.key)
        except CdcError as error:
            # A tick that fails says so in red, at each of its turns; the sync tells it once.
            if not error.transient:
                raise
            return dg.SkipReason(str(error))
        if moved.max_lsn is None:
            return dg.SkipReason("Capture has never run: max_lsn is NULL.")
        if not moved.behind:
            return dg.SkipReason(f"Every table is read up to {moved.max_lsn}.")
        wave = tag_value(f"{database.key}-sync-{moved.max_lsn}")
        earlier = earlier_runs(context.instance, wave)
        if len(earlier) >= ATTEMPTS_MAX:
            return dg.SkipReason(
                f"{len(earlier)} runs have left {', '.join(moved.behind[:NAMED_MAX])} behind"
                f" {moved.max_lsn}: look at the last one. The next is asked for when it moves."
            )
        return dg.RunRequest(run_key=f"{wave}-{len(earlier)}", tags={WAVE_TAG: wave})

    return source_moved
