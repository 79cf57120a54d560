"""The capture and the cleanup job of a database: their parameters, and whether they exist."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.catalog import Catalog
from cdc_assets.sandbox.engine.store import Store
from cdc_assets.sandbox.results import SqlError

CAPTURE, CLEANUP = "capture", "cleanup"
_DROPPED = "dropped"
_DAY_SECONDS = 86_400
_LONGEST_RETENTION = 52_594_800
_MOST_ROWS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class CaptureJob:
    """`pollinginterval` in seconds, None for the server's; a step moves `maxtrans` x `maxscans`."""

    maxtrans: int = 500
    maxscans: int = 10
    continuous: bool = True
    pollinginterval: int | None = None


@dataclass(frozen=True, slots=True)
class CleanupJob:
    """`retention` in minutes, `threshold` in rows per DELETE."""

    retention: int = 4320
    threshold: int = 5000


Job = CaptureJob | CleanupJob
_KINDS: dict[str, type[Job]] = {CAPTURE: CaptureJob, CLEANUP: CleanupJob}


def checked_kind(name: str) -> str:
    """A @job_type; raises Msg 22992."""
    if name.lower() not in _KINDS:
        raise SqlError(
            22992,
            f"The specified @job_type, {name}, is not supported. The value specified for the "
            "parameter @job_type must be N'capture' to indicate a capture job, or N'cleanup' to "
            "indicate a cleanup job.",
        )
    return name.lower()


def _setting(database: int, kind: str) -> str:
    return f"job/{database}/{kind}"


def find(catalog: Catalog, database: int, kind: str) -> Job | None:
    """A database's job; it comes with the first capture instance, and may have been dropped."""
    stored = catalog.setting(_setting(database, kind), "")
    if stored == _DROPPED or (not stored and not catalog.instances(database)):
        return None
    return _KINDS[kind](**json.loads(stored or "{}"))


def existing(catalog: Catalog, database: e.Database, kind: str) -> Job:
    """The job; raises Msg 22993 without it."""
    found = find(catalog, database.id, kind)
    if found is None:
        raise SqlError(
            22993,
            "The Change Data Capture job table containing job information for database "
            f"'{database.name}' cannot be found in the msdb system database. Run the stored "
            "procedure 'sys.sp_cdc_add_job' to create the appropriate CDC capture or cleanup job. "
            "The stored procedure will create the required job table.",
        )
    return found


def changed(kind: str, job: Job, given: dict[str, int]) -> Job:
    """The job with other parameters; raises Msg 22970, 22990, 22991, 22994 to 22996 or 22998."""
    for name in given:
        if name not in {field.name for field in dataclasses.fields(job)}:
            other = CLEANUP if kind == CAPTURE else CAPTURE
            raise SqlError(
                22995 if kind == CAPTURE else 22996,
                f"A value for the parameter @{name} cannot be specified when the job type is "
                f"'{kind}'. Specify NULL for the parameter, or a job of type '{other}'.",
            )
    for name, value in given.items():
        _check(name, value)
    values: dict[str, object] = dict(given)
    if "continuous" in given:
        values["continuous"] = bool(given["continuous"])
    return dataclasses.replace(job, **values)  # type: ignore[arg-type]


def _check(name: str, value: int) -> None:
    number, wrong, text = {
        "maxtrans": (22991, value <= 0, "@maxtrans must be greater than 0."),
        "maxscans": (
            22970,
            value <= 0,
            "@maxscans specified for the Change Data Capture job must be greater than 0.",
        ),
        "continuous": (22998, value not in (0, 1), "@continuous must be 0 or 1."),
        "pollinginterval": (
            22990,
            not 0 <= value < _DAY_SECONDS,
            "@pollinginterval must be greater than or equal to 0 and less than 24 hours(Max: 86399 "
            "seconds). Specify a polling interval (in seconds) that is less than 24 hours (86,400 "
            "seconds).",
        ),
        "retention": (
            22994,
            not 0 < value <= _LONGEST_RETENTION,
            "@retention must be greater than 0 and less than or equal to 52594800 minutes.",
        ),
        "threshold": (
            22850,
            not 0 < value <= _MOST_ROWS,
            f"@threshold must be greater than 0 and at most {_MOST_ROWS}.",
        ),
    }[name]
    if wrong:
        raise SqlError(number, f"The value specified for the parameter {text}")


def keep(store: Store, database: int, kind: str, job: Job | None) -> None:
    """Store a job's parameters; None drops the job."""
    value = _DROPPED if job is None else json.dumps(dataclasses.asdict(job))
    with store.transaction() as connection:
        store.catalog = store.catalog.put(connection, e.Setting(_setting(database, kind), value))


def settings_of(catalog: Catalog, database: int) -> list[e.Setting]:
    """Every server setting that speaks of a database: they go with it."""
    names = (
        f"capture/{database}",
        f"lsn/{database}",
        _setting(database, CAPTURE),
        _setting(database, CLEANUP),
    )
    return [item for item in catalog.of_kind(e.Setting) if item.name in names]
