"""Chunked snapshots: the job that reads their waves, and the sensor that asks for it.

The sensor looks at a level: while a chunked snapshot is open it asks, for one run a table, and a
run that dies or comes back early is followed by the next.
"""

import time
from collections import deque
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.errors import CdcError
from cdc_assets.orchestration.asking import (
    ATTEMPTS_MAX,
    WAVE_TAG,
    database_tags,
    earlier_runs,
    running,
    seconds_since,
    tag_value,
)
from cdc_assets.orchestration.failing import failure
from cdc_assets.orchestration.metadata import backfill_metadata
from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.translator import BRONZE, Translator

if TYPE_CHECKING:
    from cdc_assets.ingest.outcome import BackfillOutcome
    from cdc_assets.quality.backfills import OpenBackfill

TICK_SECONDS = 29
REQUESTS_PER_TICK_MAX = 10
"""Runs asked for in one tick; the pool of a database takes one at a time."""
WAVES_PLOTTED_MAX = 40
"""Waves whose pace is plotted, the last ones."""
REST_SECONDS = 600
"""After `ATTEMPTS_MAX` runs that read nothing the next one is asked for so much later."""


class BackfillConfig(dg.Config):
    """What one run reads."""

    tables: list[str] | None = None
    """Tables by their keys; all with an open chunked snapshot when left out."""


def backfill_job(translator: Translator) -> dg.JobDefinition:
    """`<db>_backfill`: the waves of open chunked snapshots, beside the syncs."""
    database = translator.database

    @dg.op(
        name=_op_name(database.key),
        pool=database.pool("backfill"),
        out=dg.Out(dg.Nothing),
    )
    def read_waves(
        context: dg.OpExecutionContext, cdc: CdcResource, config: BackfillConfig
    ) -> None:
        tables = config.tables or [one.table for one in cdc.open_backfills(database.key)]
        errors: dict[str, CdcError] = {}
        for table in tables:
            try:
                _read(context, cdc, translator, table)
            except CdcError as error:
                context.log.error(str(error))
                errors[table] = error
        if errors:
            raise failure(errors)

    @dg.job(
        name=f"{database.key}_backfill",
        description="Read the open chunked snapshots on, wave by wave.",
        tags=database_tags(database.key),
    )
    def backfill() -> None:
        read_waves()

    return backfill


def _op_name(database: str) -> str:
    return f"{database}_read_waves"


def _read(
    context: dg.OpExecutionContext, cdc: CdcResource, translator: Translator, table: str
) -> None:
    """Read a table's waves: each is an observation of bronze, and all are a materialization."""
    key, pace = translator.asset_key(BRONZE, table), _Pace()

    def progress(outcome: "BackfillOutcome") -> None:
        pace.wave(outcome.rows)
        metadata = backfill_metadata(outcome, list(pace.rates))
        context.log_event(dg.AssetObservation(key, metadata=metadata))
        context.log.info(
            f"{table}: {outcome.chunks_done} of {outcome.chunks_total or '?'} chunks,"
            f" {outcome.rows_per_second or 0.0:,.0f} rows/s,"
            f" {outcome.seconds_left or 0.0:,.0f} s left"
        )

    outcome = cdc.backfill(translator.database.key, table, progress)
    context.log.info(f"{table}: {outcome.state}: {outcome.reason}")
    if outcome.rows:
        metadata = backfill_metadata(outcome, list(pace.rates))
        context.log_event(dg.AssetMaterialization(key, metadata=metadata))


class _Pace:
    """Rows per second of a call's last waves."""

    def __init__(self) -> None:
        self.rates: deque[float] = deque(maxlen=WAVES_PLOTTED_MAX)
        self._rows, self._at = 0, time.monotonic()

    def wave(self, rows: int) -> None:
        """Another wave is told, with which the call has read so many rows."""
        now = time.monotonic()
        self.rates.append((rows - self._rows) / max(now - self._at, 1e-3))
        self._rows, self._at = rows, now


def backfill_sensor(translator: Translator, job: dg.JobDefinition) -> dg.SensorDefinition:
    """The sensor of one database."""
    database = translator.database

    @dg.sensor(
        name=f"{database.key}_backfill_waves",
        job_name=job.name,
        minimum_interval_seconds=TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for the next waves while a chunked snapshot is open.",
    )
    def backfill_waves(context: dg.SensorEvaluationContext, cdc: CdcResource) -> dg.SensorResult:
        opened = cdc.open_backfills(database.key)
        requests, reasons = [], []
        for one in opened:
            wave = tag_value(f"{one.table}-{one.snapshot}-{one.next_wave}")
            runs = earlier_runs(context.instance, wave)
            waits = one.waits or _at_it(runs)
            if waits:
                reasons.append(f"{one.table}: {waits}")
            else:
                requests.append(_request(database.key, one, wave, len(runs)))
        if not opened:
            reasons.append("No chunked snapshot is open.")
        asked = requests[:REQUESTS_PER_TICK_MAX]
        return dg.SensorResult(
            run_requests=asked, skip_reason=None if asked else "\n".join(reasons)
        )

    return backfill_waves


def _at_it(runs: list[dg.RunRecord]) -> str:
    """Why no other run is asked for now; "" where one is."""
    if (run := running(runs)) is not None:
        return f"run {run} is at it."
    if len(runs) >= ATTEMPTS_MAX and (seconds := seconds_since(runs[0])) < REST_SECONDS:
        return (
            f"{len(runs)} runs read no wave: look at the last one."
            f" The next is asked for in {REST_SECONDS - seconds:.0f} s."
        )
    return ""


def _request(database: str, one: "OpenBackfill", wave: str, attempt: int) -> dg.RunRequest:
    return dg.RunRequest(
        # Dagster never runs a key twice, not even after a failure: the attempt is part of it.
        run_key=f"{wave}-{attempt}",
        run_config={"ops": {_op_name(database): {"config": {"tables": [one.table]}}}},
        tags={WAVE_TAG: wave, **database_tags(database)},
    )
