"""What sensors and schedules ask Dagster before they ask it for a run."""

import hashlib
from collections.abc import Sequence
from datetime import datetime

import dagster as dg

from cdc_assets.clock import utc_now

ATTEMPTS_MAX = 3
"""Runs asked for one piece of work, one after the other; after that a person has to look."""

TAG_LENGTH_MAX = 63
"""Characters that Dagster takes in the value of a tag."""

WAVE_TAG = "cdc/wave"
"""The piece of work that a run was asked for."""

DATABASE_TAG = "cdc/database"
"""Which database a run is about."""

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def tag_value(text: str) -> str:
    """A text as the value of a tag: of one that is too long the end is told by a digest."""
    if len(text) <= TAG_LENGTH_MAX:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: TAG_LENGTH_MAX - len(digest) - 1]}-{digest}"


def database_tags(database: str) -> dict[str, str]:
    """The tags of a database's runs."""
    return {DATABASE_TAG: tag_value(database)}


def earlier_runs(instance: dg.DagsterInstance, wave: str) -> list[dg.RunRecord]:
    """The runs that were asked for a piece of work, newest first."""
    return list(instance.get_run_records(dg.RunsFilter(tags={WAVE_TAG: wave})))


def running(runs: Sequence[dg.RunRecord]) -> str | None:
    """The id of one that is not over yet."""
    ids = (r.dagster_run.run_id for r in runs if r.dagster_run.status in UNFINISHED)
    return next(ids, None)


def running_job(instance: dg.DagsterInstance, job: str) -> str | None:
    """The id of a job's run that is queued or not over yet."""
    filters = dg.RunsFilter(job_name=job, statuses=UNFINISHED)
    return next(iter(instance.get_run_ids(filters, limit=1)), None)


def seconds_since(run: dg.RunRecord) -> float:
    """How long ago a run was last heard of."""
    told: datetime = run.update_timestamp
    return (utc_now() - told.replace(tzinfo=None)).total_seconds()
