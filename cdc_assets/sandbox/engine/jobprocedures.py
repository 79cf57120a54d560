"""sys.sp_cdc_*: the jobs of a database, and cleanup."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator

from cdc_assets.sandbox.engine import cleanup, jobs
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import rows as made
from cdc_assets.sandbox.engine.cdcprocedures import enabled_database, require_owner
from cdc_assets.sandbox.engine.jobs import CAPTURE, CLEANUP, CaptureJob, CleanupJob
from cdc_assets.sandbox.engine.procedures import Call, Run
from cdc_assets.sandbox.language import types
from cdc_assets.sandbox.results import Result, SqlError

_HELP: made.Described = (
    ("job_id", types.UNIQUEIDENTIFIER),
    ("job_type", types.nvarchar(20)),
    ("job_name", types.SYSNAME),
    ("maxtrans", types.INT),
    ("maxscans", types.INT),
    ("continuous", types.BIT),
    ("pollinginterval", types.BIGINT),
    ("retention", types.BIGINT),
    ("threshold", types.BIGINT),
)
_CAPTURE_PARAMETERS = ("maxtrans", "maxscans", "continuous", "pollinginterval")
_CLEANUP_PARAMETERS = ("retention", "threshold")


def _owned(call: Call) -> e.Database:
    database = enabled_database(call)
    require_owner(call)
    return database


def _kind(call: Call, default: str | None = None) -> str:
    if default is None:
        return jobs.checked_kind(call.required("@job_type"))
    return jobs.checked_kind(call.text("@job_type", default) or default)


def _given(call: Call) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in (*_CAPTURE_PARAMETERS, *_CLEANUP_PARAMETERS):
        value = call.number(f"@{name}")
        if value is not None:
            found[name] = value
    return found


# --- the jobs ----------------------------------------------------------------------------------


def _help(call: Call) -> Iterator[Result]:
    """The jobs with their parameters; without an interval of its own a job has the server's."""
    call.declare()
    database = _owned(call)
    capture = call.session.engine.capture
    rows = []
    for kind in (CAPTURE, CLEANUP):
        job = jobs.find(call.context.catalog, database.id, kind)
        if job is None:
            continue
        number = uuid.uuid5(uuid.NAMESPACE_OID, f"{database.id}/{kind}")
        shown: tuple[object, ...]
        if isinstance(job, CaptureJob):
            interval = job.pollinginterval
            if interval is None:
                interval = math.ceil(capture.interval_seconds)
            shown = (job.maxtrans, job.maxscans, job.continuous, interval, 0, 0)
        else:
            shown = (0, 0, False, 0, job.retention, job.threshold)
        rows.append((str(number).upper(), kind, f"cdc.{database.name}_{kind}", *shown))
    yield made.result(_HELP, rows)


def _change(call: Call) -> Iterator[Result]:
    """New parameters; a running capture job takes them when it is stopped and started."""
    call.declare("@job_type", *(f"@{n}" for n in (*_CAPTURE_PARAMETERS, *_CLEANUP_PARAMETERS)))
    database, kind = _owned(call), _kind(call, CAPTURE)
    job = jobs.existing(call.context.catalog, database, kind)
    call.session.close_reader()
    jobs.keep(call.context.store, database.id, kind, jobs.changed(kind, job, _given(call)))
    yield from ()


def _add(call: Call) -> Iterator[Result]:
    call.declare(
        "@job_type",
        "@start_job",
        *(f"@{name}" for name in (*_CAPTURE_PARAMETERS, *_CLEANUP_PARAMETERS)),
        "@check_for_logreader",
    )
    database, kind = _owned(call), _kind(call)
    if jobs.find(call.context.catalog, database.id, kind) is not None:
        raise SqlError(
            22997, f"The Change Data Capture job 'cdc.{database.name}_{kind}' already exists."
        )
    new: jobs.Job = CaptureJob() if kind == CAPTURE else CleanupJob()
    call.session.close_reader()
    jobs.keep(call.context.store, database.id, kind, jobs.changed(kind, new, _given(call)))
    if kind == CAPTURE:
        on = bool(call.number("@start_job", 1))
        call.session.engine.capture.switch(database.id, on=on)
    yield from ()


def _drop(call: Call) -> Iterator[Result]:
    call.declare("@job_type")
    database, kind = _owned(call), _kind(call)
    jobs.existing(call.context.catalog, database, kind)
    call.session.close_reader()
    jobs.keep(call.context.store, database.id, kind, None)
    call.session.engine.capture.forget(database.id)
    yield from ()


def _start(call: Call) -> Iterator[Result]:
    """The capture job goes on until it is stopped; the cleanup job runs once, and now."""
    call.declare("@job_type")
    database, kind = _owned(call), _kind(call, CAPTURE)
    job = jobs.existing(call.context.catalog, database, kind)
    call.session.close_reader()
    if isinstance(job, CleanupJob):
        cleanup.clean_database(call.context.store, database, job)
    else:
        call.session.engine.capture.switch(database.id, on=True)
    yield from ()


def _stop(call: Call) -> Iterator[Result]:
    call.declare("@job_type")
    database, kind = _owned(call), _kind(call, CAPTURE)
    jobs.existing(call.context.catalog, database, kind)
    call.session.close_reader()
    if kind == CAPTURE:
        call.session.engine.capture.switch(database.id, on=False)
    yield from ()


# --- cleanup -----------------------------------------------------------------------------------


def _cleanup(call: Call) -> Iterator[Result]:
    call.declare("@capture_instance", "@low_water_mark", "@threshold", "@fCleanupFailed")
    database = _owned(call)
    name = call.required("@capture_instance")
    instance = call.context.catalog.instance(database.id, name)
    if instance is None:
        raise SqlError(
            22920,
            f"The named capture instance {name} does not exist for database {database.name}.",
        )
    mark = call.binary("@low_water_mark")
    threshold = call.number("@threshold", 5000) or 5000
    call.session.close_reader()
    cleanup.clean(call.context.store, instance, mark, threshold)
    yield from ()


PROCEDURES: dict[str, Run] = {
    "sp_cdc_help_jobs": _help,
    "sp_cdc_change_job": _change,
    "sp_cdc_add_job": _add,
    "sp_cdc_drop_job": _drop,
    "sp_cdc_start_job": _start,
    "sp_cdc_stop_job": _stop,
    "sp_cdc_cleanup_change_table": _cleanup,
}
