"""Chunked snapshots are read to their end by runs that a sensor asks for, whatever dies."""

from typing import Any

import dagster as dg
import pytest

from cdc_assets.orchestration import backfills
from cdc_assets.orchestration.asking import ATTEMPTS_MAX, TAG_LENGTH_MAX, tag_value
from cdc_assets_tests.orchestration.helpers import STORAGES, Deployment
from cdc_assets_tests.path.chunking import TABLE, chunked
from cdc_assets_tests.path.helpers import COLUMNS
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

JOB = "sales_backfill"


@pytest.fixture
def deployment(project: Project, instance: dg.DagsterInstance) -> Deployment:
    chunked(project)
    made = Deployment(project, instance)
    made.run("sales_sync")
    return made


def tick(deployment: Deployment) -> Any:
    return deployment.tick(name="sales_backfill_waves")


def request(deployment: Deployment) -> dg.RunRequest:
    (found,) = tick(deployment).run_requests or []
    return found


def run(deployment: Deployment, asked: dg.RunRequest) -> dg.ExecuteInProcessResult:
    return deployment.run(JOB, run_config=asked.run_config, tags=asked.tags)


@STORAGES
def test_it_is_read_to_its_end_and_silver_follows(deployment: Deployment) -> None:
    result = run(deployment, request(deployment))
    assert result.success
    observed = [
        e.asset_observation_data.asset_observation.metadata
        for e in result.all_events
        if e.event_type_value == "ASSET_OBSERVATION"
    ]
    done = [told["cdc/chunks_done"].value for told in observed]
    total = observed[-1]["cdc/chunks_total"].value
    assert done == sorted(set(done))
    assert done[-1] == total > 1
    shown = observed[-1]["cdc/progress"].value
    assert f"{total} of {total} chunks" in shown
    assert "rows/s, wave by wave" in shown
    assert "No chunked snapshot is open" in str(tick(deployment).skip_message)
    deployment.run()
    deployment.project.assert_identical(TABLE, COLUMNS)


def test_a_run_that_came_back_early_is_followed_by_the_next(deployment: Deployment) -> None:
    deployment.project.tables[TABLE]["max_waves"] = 1
    keys = set()
    while asked := tick(deployment).run_requests:
        keys.add(asked[0].run_key)
        assert run(deployment, asked[0]).success
    assert len(keys) > 1
    deployment.run()
    deployment.project.assert_identical(TABLE, COLUMNS)


def test_a_failing_run_is_asked_for_again_with_a_rest(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = deployment.project.tables
    deployment.project.tables = {TABLE: {**tables[TABLE], "capture_instance": "dbo_gone"}}
    for _ in range(ATTEMPTS_MAX):
        assert not run(deployment, request(deployment)).success
    assert "look at the last one" in str(tick(deployment).skip_message)
    monkeypatch.setattr(backfills, "REST_SECONDS", 0)
    deployment.project.tables = tables
    assert run(deployment, request(deployment)).success
    assert not tick(deployment).run_requests


def test_it_waits_for_a_run_that_is_at_it(deployment: Deployment) -> None:
    asked = request(deployment)
    job = deployment.definitions.resolve_job_def(JOB)
    begun = deployment.instance.create_run_for_job(
        job,
        tags=asked.tags,
        run_config=asked.run_config,
        status=dg.DagsterRunStatus.STARTED,
    )
    assert begun.run_id in str(tick(deployment).skip_message)


def test_a_long_name_fits_a_tag_and_two_stay_two() -> None:
    """Keys of tables have up to 100 letters, and values of tags 63."""
    one, other = (tag_value("x" * 100 + end) for end in ("-1", "-2"))
    assert one != other
    assert len(one) == len(other) == TAG_LENGTH_MAX
    assert tag_value("short") == "short"
