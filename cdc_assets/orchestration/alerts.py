"""The sensor `alerts`: it tells one webhook what turned red or green again, once for each change.

It compares what is wrong now with what was delivered, so that a webhook that does not answer is
told at a later tick, of what is wrong then.
"""

from collections.abc import Mapping
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.definitions.target import (
    ANONYMOUS_ASSET_JOB_PREFIX,  # how Dagster calls the job of a sensor that names assets alone
)

from cdc_assets.clock import utc_now
from cdc_assets.orchestration.asking import database_tags
from cdc_assets.orchestration.checks import CHECKS
from cdc_assets.orchestration.cursors import Alerted
from cdc_assets.orchestration.failing import ERRORS
from cdc_assets.orchestration.jobs import health_name
from cdc_assets.orchestration.metadata import RUNBOOK
from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.sync_checks import NO_GAP
from cdc_assets.orchestration.translator import Translator
from cdc_assets.orchestration.uniqueness import UNIQUE_KEYS
from cdc_assets.planning.alerts import (
    Kind,
    Subject,
    Trouble,
    changes,
    document,
    is_gone,
    told_after,
)

if TYPE_CHECKING:
    from cdc_assets.quality.health import TableHealth

TICK_SECONDS = 29
CHANGES_PER_TICK_MAX = 500
"""Changes told in one tick; the rest follow at the next."""
RUNS_PER_TICK_MAX = 50
"""Runs looked at in one tick, the oldest first."""
LOOK_BACK = timedelta(hours=1)
"""How far back runs are looked at where the cursor knows none."""
RUN_FAILED = "run_failed"
"""Reason of a run that said nothing of tables: its process died, or it was never started."""


def alerts_sensor(translator: Translator) -> dg.SensorDefinition:
    """The sensor of one database whose settings name a webhook."""
    database = translator.database

    @dg.sensor(
        name=f"{database.key}_alerts",
        minimum_interval_seconds=TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells the webhook of the settings when a check turns red or green again, or"
        " runs fail for a new reason.",
    )
    def alerts(context: dg.SensorEvaluationContext, cdc: CdcResource) -> dg.SensorResult:
        tables = cdc.health(database.key)
        known = _with_runs(context.instance, translator, Alerted.read(context.cursor))
        wrong = _wrong(tables) | known.failing
        wrong = {s: trouble for s, trouble in wrong.items() if not is_gone(s, tables)}
        found = list(islice(changes(wrong, known.told, tables), CHANGES_PER_TICK_MAX))
        problem = None
        if found:
            problem = cdc.alert(database.key, document(database.key, found, RUNBOOK))
        if problem is not None:
            context.log.warning(f"The webhook was not told of {len(found)} changes: {problem}.")
        told = told_after(known.told, [] if problem else found, tables)
        return dg.SensorResult(
            skip_reason=f"{len(found)} changes could not be told: {problem}."
            if problem
            else f"{len(found)} changes were told.",
            cursor=Alerted(told, known.failing, known.seen).text(),
        )

    return alerts


def _wrong(tables: "Mapping[str, TableHealth]") -> dict[Subject, Trouble]:
    """The checks that are red."""
    wrong = {}
    for table, health in tables.items():
        for check in CHECKS:
            found = check.judge(health)
            if not found.passed:
                subject = Subject(Kind.CHECK, check.name, table)
                wrong[subject] = Trouble(str(found.reason), found.text).cut()
        if health.gap is not None:
            subject = Subject(Kind.CHECK, NO_GAP, table)
            wrong[subject] = Trouble(NO_GAP, str(health.gap)).cut()
    return wrong


def _with_runs(instance: dg.DagsterInstance, translator: Translator, known: Alerted) -> Alerted:
    """What is known with the runs that ended since: the newest of a job decides for its tables."""
    since = known.seen or utc_now() - LOOK_BACK
    filters = dg.RunsFilter(
        tags=database_tags(translator.database.key),
        statuses=[dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE],
        updated_after=since,
    )
    failing, seen = dict(known.failing), since
    for record in instance.get_run_records(
        filters, limit=RUNS_PER_TICK_MAX, order_by="update_timestamp", ascending=True
    ):
        run, seen = record.dagster_run, record.update_timestamp.replace(tzinfo=None)
        of = tables_of(run, translator)
        failing = {
            subject: trouble
            for subject, trouble in failing.items()
            if subject.name != name_of(run) or not (of is None or subject.table in of)
        }
        if run.status == dg.DagsterRunStatus.FAILURE:
            failing.update(_troubles(instance, run))
        elif run.job_name == health_name(translator.database.key):
            failing = _with_keys(instance, run, translator, failing)
    return Alerted(known.told, failing, seen)


def _with_keys(
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    translator: Translator,
    failing: Mapping[Subject, Trouble],
) -> dict[Subject, Trouble]:
    """With what a run has found of `unique_keys`, which no small table tells."""
    found = dict(failing)
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION):
        check = entry.get_dagster_event().asset_check_evaluation_data
        if check.check_name != UNIQUE_KEYS:
            continue
        subject = Subject(Kind.CHECK, UNIQUE_KEYS, translator.table_of(check.asset_key))
        found.pop(subject, None)
        if not check.passed:
            told = check.metadata.get("cdc/reason") or check.metadata.get("cdc/code")
            reason = str(told.value) if told is not None else UNIQUE_KEYS
            found[subject] = Trouble(reason, check.description or "").cut()
    return found


def name_of(run: dg.DagsterRun) -> str:
    """What people call a run's job: of one that a sensor asks for assets, the sensor."""
    return run.job_name.removeprefix(f"{ANONYMOUS_ASSET_JOB_PREFIX}_")


def tables_of(run: dg.DagsterRun, translator: Translator) -> set[str] | None:
    """The tables that a run was for, and "" for it as a whole; None for all."""
    if run.asset_selection:
        return {"", *(translator.table_of(key) for key in run.asset_selection)}
    ops = run.run_config.get("ops")
    for op in ops.values() if isinstance(ops, Mapping) else ():
        if tables := op.get("config", {}).get("tables"):
            return {"", *tables}
    return None


def _troubles(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dict[Subject, Trouble]:
    """Why a run failed: by table where it says so."""
    found = {}
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE):
        data = entry.get_dagster_event().step_failure_data
        told = data.user_failure_data.metadata.get(ERRORS) if data.user_failure_data else None
        if isinstance(told, dg.JsonMetadataValue) and isinstance(told.data, list):
            for error in told.data:
                trouble = Trouble(error["code"], error["text"]).cut()
                for table in error["tables"]:
                    found[Subject(Kind.JOB, name_of(run), table)] = trouble
        elif data.error is not None:
            # Of an error that nobody foresaw the class alone: its text may show what was loaded.
            cause = data.error.cause or data.error
            text = f"An unexpected {cause.cls_name}: look at run {run.run_id}."
            found[Subject(Kind.JOB, name_of(run), "")] = Trouble(cause.cls_name or RUN_FAILED, text)
    text = f"Its process died, or was never started: look at run {run.run_id}."
    return found or {Subject(Kind.JOB, name_of(run), ""): Trouble(RUN_FAILED, text)}
