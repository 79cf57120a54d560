"""Silver always arrives: the sensor looks at a level (B170-B173, B183)."""

import dagster as dg
import pytest

from cdc_assets.orchestration.asking import ATTEMPTS_MAX
from cdc_assets.quality import making
from cdc_assets_tests.orchestration.helpers import STORAGES, Deployment, request_of
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE = "dbo_items"


@pytest.fixture
def deployment(project: Project, instance: dg.DagsterInstance) -> Deployment:
    create_items(project.source)
    project.tables = {TABLE: None}
    made = Deployment(project, instance)
    made.run("sales_sync")
    return made


def test_it_asks_for_silver_and_then_rests(deployment: Deployment) -> None:
    request = request_of(deployment)
    assert request.asset_selection == [dg.AssetKey(["sales", "silver", TABLE])]
    assert deployment.launch(request).success
    rest = deployment.tick()
    assert not rest.run_requests
    assert "head" in str(rest.skip_message)
    deployment.project.assert_identical(TABLE, COLUMNS)


def test_bronze_moves_twice_while_silver_runs(deployment: Deployment) -> None:
    first = request_of(deployment)
    change_items(deployment.project.source)
    deployment.run("sales_sync")
    deployment.launch(first)
    change_items(deployment.project.source, base=300)
    deployment.run("sales_sync")
    again = request_of(deployment)
    assert again.run_key != first.run_key
    deployment.launch(again)
    assert not deployment.tick().run_requests
    deployment.project.assert_identical(TABLE, COLUMNS)


@STORAGES
def test_a_failed_run_is_asked_for_again_and_not_for_ever(deployment: Deployment) -> None:
    keys = set()
    deployment.project.tables = {TABLE: {"keys": ["no_such_column"]}}
    for _ in range(ATTEMPTS_MAX):
        request = request_of(deployment)
        keys.add(request.run_key)
        assert not deployment.launch(request).success
    assert len(keys) == ATTEMPTS_MAX
    assert "look at the last" in str(deployment.tick().skip_message)
    deployment.project.tables = {TABLE: None}
    change_items(deployment.project.source)
    deployment.run("sales_sync")
    assert deployment.launch(request_of(deployment)).success
    deployment.project.assert_identical(TABLE, COLUMNS)


def test_a_deleted_cursor_changes_nothing(deployment: Deployment) -> None:
    with_cursor, without = request_of(deployment, "41"), request_of(deployment, None)
    assert with_cursor.run_key == without.run_key
    deployment.launch(without)
    assert not deployment.tick(None).run_requests
    deployment.project.assert_identical(TABLE, COLUMNS)


def test_it_waits_for_a_run_that_is_at_it(deployment: Deployment) -> None:
    request = request_of(deployment)
    job = deployment.definitions.resolve_implicit_global_asset_job_def()
    run = deployment.instance.create_run_for_job(
        job, tags=request.tags, status=dg.DagsterRunStatus.STARTED
    )
    assert run.run_id in str(deployment.tick().skip_message)


@STORAGES
def test_the_schedule_waits_for_a_running_sync(deployment: Deployment) -> None:
    assert len(deployment.tick_of_schedule().run_requests) == 1
    job = deployment.definitions.resolve_job_def("sales_sync")
    run = deployment.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    assert run.run_id in str(deployment.tick_of_schedule().skip_message)


def test_another_key_is_work_though_nothing_changes(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at until all are made as they are wanted, and then no more."""
    assert deployment.launch(request_of(deployment)).success
    rest = deployment.tick()
    assert not rest.run_requests
    with monkeypatch.context() as unread:
        unread.setattr(making, "look", pytest.fail)
        assert deployment.tick(rest.cursor).cursor == rest.cursor
    deployment.project.tables = {TABLE: {"keys": ["name"], "keys_unchecked": True}}
    found = deployment.tick(rest.cursor)
    (request,) = found.run_requests
    again = deployment.tick(found.cursor)
    assert len(again.run_requests) == 1, "a lost request is made again"
    assert deployment.launch(request).success
    rest = deployment.tick(again.cursor)
    assert not rest.run_requests
    deployment.project.tables = {TABLE: None}
    (back,) = deployment.tick(rest.cursor).run_requests
    assert back.run_key != request.run_key
    assert deployment.launch(back).success
    assert not deployment.tick(rest.cursor).run_requests
    deployment.project.assert_identical(TABLE, COLUMNS)


def test_few_silvers_are_looked_at_in_a_tick(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waits keeps none of the others from being found."""
    monkeypatch.setattr(making, "LOOKS_PER_TICK_MAX", 1)
    source = deployment.project.source
    source.execute("CREATE TABLE dbo.others (a int NOT NULL PRIMARY KEY, b int NOT NULL)")
    source.enable("others")
    deployment.project.tables = {TABLE: None, "dbo_others": None}
    assert deployment.run().success
    database = deployment.project.database
    deployment.project.tables = {TABLE: {"keys": ["name"]}, "dbo_others": {"keys": ["b"]}}
    found, cursor = [], ""
    for _ in range(4):
        looked = making.made_otherwise(database(), cursor)
        cursor = looked.cursor
        found.append([work.table for work in looked.pending])
    assert found == [[TABLE], ["dbo_others"], [TABLE], ["dbo_others"]]
    deployment.project.tables = {TABLE: None, "dbo_others": None}
    for _ in range(2):
        looked = making.made_otherwise(database(), looked.cursor)
        assert looked.pending == ()
    with monkeypatch.context() as unread:
        unread.setattr(making, "look", pytest.fail)
        assert making.made_otherwise(database(), looked.cursor).pending == ()
