"""What a tick needs: no server, and no event that it would have to see."""

from typing import Any

import dagster as dg
import pytest
from tenacity import RetryCallState

from cdc_assets.sqlserver import connection
from cdc_assets_tests.orchestration.helpers import Deployment, request_of
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE = "dbo_items"
ON_BY_DEFAULT = ("sales_silver_waves", "sales_backfill_waves", "sales_finality")
NOBODY = "Server=tcp:127.0.0.1,1;Database=sales;UID=x;PWD=x"


@pytest.fixture
def deployment(project: Project, instance: dg.DagsterInstance) -> Deployment:
    create_items(project.source)
    project.tables = {TABLE: None}
    made = Deployment(project, instance)
    made.run("sales_sync")
    return made


def test_a_run_for_silver_counts_no_keys(deployment: Deployment) -> None:
    """It says how complete the table is; what reads all keys is for the night."""
    (asked,) = request_of(deployment).asset_check_keys or ()
    assert asked == dg.AssetCheckKey(dg.AssetKey(["sales", "silver", TABLE]), "finalized")


def test_a_run_that_a_person_repeats_breaks_no_tick(deployment: Deployment) -> None:
    """B171: it has the tags of the first one; the next tick's key is another one all the same."""
    deployment.project.tables = {TABLE: {"keys": ["no_such_column"]}}
    first = request_of(deployment)
    assert request_of(deployment).run_key == first.run_key, "nothing was done in between"
    for _ in range(2):
        assert not deployment.launch(first).success
    deployment.project.tables = {TABLE: None}
    again = request_of(deployment)
    assert again.run_key != first.run_key
    assert again.tags == first.tags
    assert deployment.launch(again).success
    assert not deployment.tick().run_requests


def test_one_tick_asks_for_all_that_was_written_since_the_last(deployment: Deployment) -> None:
    """B173: several tables, and several batches of one, are one request."""
    source = deployment.project.source
    source.execute("CREATE TABLE dbo.other (id int NOT NULL PRIMARY KEY)")
    source.enable("other")
    deployment.project.tables["dbo_other"] = None
    for base in (100, 300):
        change_items(source, base=base)
        deployment.run("sales_sync")
    asked = request_of(deployment)
    assert {key.path[-1] for key in asked.asset_selection or ()} == {TABLE, "dbo_other"}
    assert deployment.launch(asked).success
    assert not deployment.tick().run_requests
    deployment.project.assert_identical(TABLE, COLUMNS)
    deployment.project.assert_identical("dbo_other", ("id",))


def test_a_tick_needs_no_server(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """B172: one that waits for a login per table would outlast the tick."""
    deployment.project.extra = {"connection": NOBODY, "connect_timeout_seconds": 1}
    ticks: dict[str, Any] = {name: deployment.tick(name=name) for name in ON_BY_DEFAULT}
    assert len(ticks["sales_silver_waves"].run_requests) == 1
    assert ticks["sales_finality"].asset_events
    attempts: list[int] = []

    def no_wait(state: RetryCallState) -> float:
        attempts.append(state.attempt_number)
        return 0.0

    monkeypatch.setattr(connection, "retry_wait_seconds", no_wait)
    said = str(deployment.tick(name="sales_source_moved").skip_message)
    assert "[source_unavailable]" in said
    assert attempts == [1], "the next tick asks again"


def test_checks_are_told_while_runs_are_at_them(deployment: Deployment) -> None:
    """B182: they are judged from control and the facts, not from what runs have told of checks."""
    for name in ("sales_sync_and_apply", "sales_health_checks"):
        job = deployment.definitions.resolve_job_def(name)
        deployment.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    told = {event.check_name for event in deployment.tick(name="sales_finality").asset_events}
    assert told == {"finalized", "retention_headroom", "capture_alive"}
