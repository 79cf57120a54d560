"""The sensor `silver_waves`: it asks for silver while bronze holds what silver has not applied.

It looks at a level, never at an edge: a lost tick, a failed run or a bronze that moves twice while
silver runs all heal at the next tick. Its cursor only says how far silvers were looked at under the
settings as they are, for what an edit of these leaves to be made anew; a lost one looks again.
While a run that brings silver along is at it, nothing is asked for: once it is over, what it has
missed is.
"""

from collections.abc import Sequence

import dagster as dg

from cdc_assets.orchestration.asking import (
    ATTEMPTS_MAX,
    WAVE_TAG,
    database_tags,
    earlier_runs,
    running,
    running_job,
    tag_value,
)
from cdc_assets.orchestration.checks import FINALIZED
from cdc_assets.orchestration.jobs import bringing_silver
from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.translator import SILVER, Translator
from cdc_assets.planning.pending import Pending

TICK_SECONDS = 4
"""The daemon looks every 5 s; 4 gives a steady tick at each of its turns."""


def silver_sensor(translator: Translator) -> dg.SensorDefinition:
    """The sensor of one database."""
    database = translator.database

    @dg.sensor(
        name=f"{database.key}_silver_waves",
        target=[translator.asset_key(SILVER, table) for table in translator.settings.tables],
        minimum_interval_seconds=TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for silver while bronze holds what silver has not applied.",
    )
    def silver_waves(context: dg.SensorEvaluationContext, cdc: CdcResource) -> dg.SensorResult:
        for job in bringing_silver(database.key):
            if (run := running_job(context.instance, job)) is not None:
                return dg.SensorResult(skip_reason=f"Run {run} brings silver along.")
        looked = cdc.made_otherwise(database.key, context.cursor or "")
        pending = _together(cdc.pending(database.key), looked.pending)
        asked = _asked(context.instance, translator, pending)
        if isinstance(asked, str):
            return dg.SensorResult(skip_reason=asked, cursor=looked.cursor)
        return dg.SensorResult(run_requests=[asked], cursor=looked.cursor)

    return silver_waves


def _together(pending: Sequence[Pending], more: Sequence[Pending]) -> list[Pending]:
    """Each table once."""
    known = {work.table for work in pending}
    return [*pending, *(work for work in more if work.table not in known)]


def _asked(
    instance: dg.DagsterInstance, translator: Translator, pending: Sequence[Pending]
) -> dg.RunRequest | str:
    """The run to ask for, or why none is."""
    if not pending:
        return "Every silver table is at bronze's head."
    wave = _wave(translator.database.key, pending)
    earlier = earlier_runs(instance, wave)
    if (run := running(earlier)) is not None:
        return f"Run {run} is at it."
    if len(earlier) >= ATTEMPTS_MAX:
        return (
            f"{len(earlier)} runs for {wave} left work undone: look at the last one, then run the"
            " apply job by hand."
        )
    return _request(translator, pending, wave, len(earlier))


def _wave(database: str, pending: Sequence[Pending]) -> str:
    """What this state of bronze is called; the same state has the same name at every tick."""
    newest = max(pending, key=lambda work: work.lsn)
    waves = [str(work.wave) for work in pending if work.wave is not None]
    return tag_value("-".join([database, newest.lsn, str(len(pending)), *waves]))


def _request(
    translator: Translator, pending: Sequence[Pending], wave: str, attempt: int
) -> dg.RunRequest:
    return dg.RunRequest(
        # Dagster never runs a key twice, not even after a failure: the attempt is part of it.
        run_key=f"{wave}-{attempt}",
        asset_selection=[translator.asset_key(SILVER, work.table) for work in pending],
        # Else every check of them would run, and `unique_keys` reads all keys (decision 0030).
        asset_check_keys=[
            dg.AssetCheckKey(translator.asset_key(SILVER, work.table), FINALIZED)
            for work in pending
        ],
        tags={WAVE_TAG: wave, **database_tags(translator.database.key)},
    )
