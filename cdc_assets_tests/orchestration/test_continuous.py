"""One run that keeps polling, and silver in the run of bronze: what they bring, and who waits."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import dagster as dg
import pytest

from cdc_assets.orchestration import continuous
from cdc_assets.quality import following
from cdc_assets.settings import load_settings
from cdc_assets_tests.orchestration.helpers import Deployment, materialized
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE = "dbo_items"
JOB = "sales_continuous"
THREE_TURNS = {"ops": {"sales_keep_polling": {"config": {"minutes": 3, "poll_seconds": 0.1}}}}
"""By the fixture's clock, on which a turn takes a minute."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count(step=60)
    monkeypatch.setattr(continuous, "monotonic", lambda: float(next(seconds)))


@pytest.fixture
def deployment(project: Project, instance: dg.DagsterInstance) -> Deployment:
    create_items(project.source)
    project.tables = {TABLE: None}
    project.extra = {"continuous": {"minutes": 5, "poll_seconds": 0.1}}
    return Deployment(project, instance)


def told(result: dg.ExecuteInProcessResult) -> Counter[str]:
    return Counter(
        event.asset_key.to_user_string()
        for event in result.all_events
        if event.event_type_value == "ASSET_MATERIALIZATION" and event.asset_key
    )


def at_turn(monkeypatch: pytest.MonkeyPatch, number: int, happening: Callable[[], object]) -> None:
    """Let something happen before one of the looks at the source, the first of which is 1."""
    look, turns = following.source_moved, count(1)

    def before(database: Any) -> Any:
        if next(turns) == number:
            happening()
        return look(database)

    monkeypatch.setattr(following, "source_moved", before)


def test_it_brings_bronze_and_silver_along_and_a_quiet_table_yields_nothing(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = deployment.project
    at_turn(monkeypatch, 2, lambda: change_items(project.source))
    result = deployment.run(JOB, run_config=THREE_TURNS)
    assert result.success
    layers = {f"sales/bronze/{TABLE}": 2, f"sales/silver/{TABLE}": 2}
    assert told(result) == layers, "the load, and the changes"
    project.assert_identical(TABLE, COLUMNS)
    checks = Counter(check.check_name for check in result.get_asset_check_evaluations())
    assert checks == {"no_gap": 1, "schema_fits": 1}
    versions = {
        deployment.instance.get_latest_data_version_record(dg.AssetKey(["sales", layer, TABLE]))
        is not None
        for layer in ("bronze", "silver")
    }
    assert versions == {True}
    assert len(deployment.tick_of_schedule().run_requests) == 1
    assert told(deployment.run(JOB, run_config=THREE_TURNS)) == {}


@pytest.mark.sandbox
def test_its_turns_share_a_connection(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = deployment.project.source
    deployment.run("sales_sync_and_apply")
    source.counters()
    at_turn(monkeypatch, 2, lambda: change_items(source))
    assert told(deployment.run(JOB, run_config=THREE_TURNS))
    assert source.counters().connections == 1


def test_what_another_run_left_undone_is_done(deployment: Deployment) -> None:
    deployment.run("sales_sync")
    assert told(deployment.run(JOB, run_config=THREE_TURNS)) == {f"sales/silver/{TABLE}": 1}
    deployment.project.assert_identical(TABLE, COLUMNS)


def test_a_failing_table_ends_it_once_the_others_are_told(deployment: Deployment) -> None:
    deployment.project.tables = {"dbo_missing": None, TABLE: None}
    result = deployment.run(JOB)
    assert not result.success
    assert told(result) == {f"sales/bronze/{TABLE}": 1, f"sales/silver/{TABLE}": 1}
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    assert "dbo_missing" in str(failed.step_failure_data.user_failure_data.description)
    assert deployment.tick_of_schedule().run_requests, "the schedule starts the next one"


def test_while_it_runs_nobody_else_is_asked_for(deployment: Deployment) -> None:
    deployment.run("sales_sync")
    job = deployment.definitions.resolve_job_def(JOB)
    run = deployment.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    for tick in (
        deployment.tick_of_schedule(),
        deployment.tick(),
        deployment.tick(name="sales_source_moved"),
    ):
        assert not tick.run_requests
        assert run.run_id in str(tick.skip_message)
    assert job.op_retry_policy is None
    pools = {node.definition.pool for node in job.nodes}
    syncs = deployment.definitions.resolve_job_def("sales_sync")
    assert pools == {node.definition.pool for node in syncs.nodes} == {"sales_sync"}


RUN = """\
import sys
from pathlib import Path
import dagster as dg
from cdc_assets.orchestration.build import build_definitions
from cdc_assets.settings import load_settings
file = Path(sys.argv[1])
job = build_definitions(load_settings(file), file).resolve_job_def("sales_continuous")
with dg.DagsterInstance.local_temp(sys.argv[2]) as instance:
    job.execute_in_process(instance=instance, raise_on_error=False)
"""


def test_a_stop_signal_ends_it(deployment: Deployment) -> None:
    """As Dagster's Terminate sends it; what was committed stands, and the next one goes on."""
    home = deployment.project.folder / "home"
    home.mkdir()
    with (
        dg.DagsterInstance.local_temp(str(home)) as instance,
        subprocess.Popen(
            [sys.executable, "-c", RUN, str(deployment.project.write()), str(home)],
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stderr is not None
        for line in process.stderr:
            if f"Materialized value sales silver {TABLE}" in line:
                (record,) = instance.get_run_records()
                instance.report_run_canceling(record.dagster_run)
                process.send_signal(signal.SIGTERM)
                break
        rest = process.stderr.read()
        process.wait(timeout=60)
        (record,) = instance.get_run_records()
    assert "RUN_CANCELED" in rest
    assert record.dagster_run.status is dg.DagsterRunStatus.CANCELED
    change_items(deployment.project.source)
    assert deployment.run(JOB, run_config=THREE_TURNS).success
    deployment.project.assert_identical(TABLE, COLUMNS)


def test_silver_comes_in_the_run_of_bronze(deployment: Deployment) -> None:
    """And of a table without changes neither is written; what was missed the sensor asks for."""
    project = deployment.project
    project.extra = {"silver": "same_run"}
    schedule = deployment.definitions.resolve_schedule_def("sales_sync_every_minute")
    assert schedule.job_name == "sales_sync_and_apply"
    assert set(materialized(deployment.run(schedule.job_name))) == {
        f"bronze/{TABLE}",
        f"silver/{TABLE}",
    }
    assert materialized(deployment.run(schedule.job_name)) == {}
    job = deployment.definitions.resolve_job_def(schedule.job_name)
    change_items(project.source)
    deployment.run("sales_sync")
    run = deployment.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    assert run.run_id in str(deployment.tick().skip_message)
    deployment.instance.report_run_canceled(run)
    assert len(deployment.tick().run_requests) == 1
    assert set(materialized(deployment.run(schedule.job_name))) == {f"silver/{TABLE}"}
    project.assert_identical(TABLE, COLUMNS)


def test_settings_say_what_they_may_be(deployment: Deployment) -> None:
    deployment.project.extra = {"silver": "same_run", "continuous": {}}
    found = load_settings(deployment.project.write()).databases["sales"].continuous
    assert found is not None
    assert (found.minutes, found.poll_seconds) == (60, 5)
