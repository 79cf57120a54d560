"""A sync is asked for when the source has moved, and not before."""

from typing import Any

import dagster as dg
import pytest

from cdc_assets.orchestration.asking import ATTEMPTS_MAX
from cdc_assets_tests.orchestration.helpers import Deployment
from cdc_assets_tests.path.changing import commit
from cdc_assets_tests.path.helpers import create_items
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver


@pytest.fixture
def deployment(project: Project, instance: dg.DagsterInstance) -> Deployment:
    create_items(project.source)
    project.tables = {"dbo_items": None}
    return Deployment(project, instance)


def tick(deployment: Deployment) -> Any:
    return deployment.tick(name="sales_source_moved")


def test_it_asks_while_a_table_is_behind_the_source(deployment: Deployment) -> None:
    commit(deployment.project.source, "UPDATE dbo.items SET name = N'a' WHERE id = 1")
    assert len(tick(deployment).run_requests) == 1
    deployment.run("sales_sync")
    rest = tick(deployment)
    assert not rest.run_requests
    assert "read up to" in str(rest.skip_message)
    commit(deployment.project.source, "UPDATE dbo.items SET name = N'b' WHERE id = 1")
    assert len(tick(deployment).run_requests) == 1
    assert len(tick(deployment).run_requests) == 1, "a lost request is made again"
    job = deployment.definitions.resolve_job_def("sales_sync")
    run = deployment.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    assert run.run_id in str(tick(deployment).skip_message)


def test_a_table_that_stays_behind_is_not_asked_for_for_ever(deployment: Deployment) -> None:
    deployment.project.tables["dbo_missing"] = None
    commit(deployment.project.source, "UPDATE dbo.items SET name = N'a' WHERE id = 1")
    for _ in range(ATTEMPTS_MAX):
        (asked,) = tick(deployment).run_requests
        assert not deployment.run("sales_sync", tags=asked.tags).success
    assert "dbo_missing" in str(tick(deployment).skip_message)
    commit(deployment.project.source, "UPDATE dbo.items SET name = N'b' WHERE id = 1")
    assert len(tick(deployment).run_requests) == 1
