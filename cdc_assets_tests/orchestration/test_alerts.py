"""A webhook is told of each change once; one that does not answer is told later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from cdc_assets.ingest.losses import acknowledge
from cdc_assets.orchestration import alerts
from cdc_assets.orchestration.translator import Translator
from cdc_assets.settings import load_settings
from cdc_assets.settings.running import WEBHOOK_VARIABLE
from cdc_assets_tests.orchestration.helpers import Deployment
from cdc_assets_tests.orchestration.receiver import SECRET_PATH, Receiver, receiver
from cdc_assets_tests.path.helpers import change_items, create_items, purge
from cdc_assets_tests.path.test_unique_keys import again
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE = "dbo_items"
MISSING = "dbo_missing"


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


@pytest.fixture
def deployment(
    project: Project,
    instance: dg.DagsterInstance,
    hook: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> Deployment:
    create_items(project.source)
    project.tables = {TABLE: None}
    monkeypatch.setenv(WEBHOOK_VARIABLE, hook.url)
    project.extra = {"alerts": {"timeout_seconds": 2}}
    return Deployment(project, instance)


class Ticks:
    """The sensor's ticks, one after the other."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.cursor: str | None = None

    def __call__(self) -> Any:
        found = self.deployment.tick(self.cursor, name="sales_alerts")
        self.cursor = found.cursor
        return found


def test_a_failing_table_is_told_once_and_its_end_too(
    deployment: Deployment, hook: Receiver
) -> None:
    """B181: a state is told, not each run that fails."""
    tick = Ticks(deployment)
    tick()
    assert not hook.documents, "a table that was never loaded has not turned red"
    deployment.project.tables = {TABLE: None, MISSING: None}
    for _ in range(2):
        assert not deployment.run("sales_sync").success
        tick()
    (line,) = [line for line in hook.lines if "job sales_sync" in line]
    assert f"RED sales: job sales_sync of {MISSING} [" in line
    assert len(hook.documents) == 1, "the second run failed for the same reason"
    deployment.project.source.execute("CREATE TABLE dbo.missing (id int NOT NULL PRIMARY KEY)")
    deployment.project.source.enable("missing")
    assert deployment.run("sales_sync").success
    tick()
    assert f"GREEN sales: job sales_sync of {MISSING} is well again." in hook.lines
    tick()
    assert len(hook.documents) == 2


def test_a_webhook_that_does_not_answer_is_told_later(
    deployment: Deployment, hook: Receiver
) -> None:
    """The tick goes on, and what began and ended meanwhile is not told."""
    tick = Ticks(deployment)
    deployment.project.tables = {TABLE: None, MISSING: None}
    assert not deployment.run("sales_sync").success
    hook.status = 503
    for _ in range(2):
        told = str(tick().skip_message)
        assert "could not be told: it answered 503" in told
        assert SECRET_PATH not in told
    hook.status = 200
    tick()
    assert any(MISSING in line for line in hook.lines)
    hook.status = 503
    deployment.project.tables = {TABLE: None}
    assert deployment.run("sales_sync").success
    tick()
    deployment.project.tables = {TABLE: None, MISSING: None}
    assert not deployment.run("sales_sync").success
    hook.status = 200
    tick()
    assert len(hook.documents) == 1


def test_a_gap_is_red_until_it_is_acknowledged(deployment: Deployment, hook: Receiver) -> None:
    defaults = {"on_data_loss": "resnapshot", "finality": deployment.project.finality}
    deployment.project.extra = {**deployment.project.extra, "defaults": defaults}
    tick = Ticks(deployment)
    deployment.run()
    tick()
    before = len(hook.documents)
    change_items(deployment.project.source)
    purge(deployment.project.source)
    deployment.run()
    tick()
    (line,) = [line for line in hook.lines if "check no_gap" in line]
    assert line.startswith(f"RED sales: check no_gap of {TABLE} [no_gap]: Changes between")
    acknowledge(deployment.project.database(), TABLE)
    tick()
    assert f"GREEN sales: check no_gap of {TABLE} is well again." in hook.lines
    assert len(hook.documents) == before + 2


def test_ticks_are_bounded_and_a_lost_cursor_repeats_what_is_red(
    deployment: Deployment, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "CHANGES_PER_TICK_MAX", 1)
    deployment.project.tables = {"dbo_no": None, "dbo_none": None}
    assert not deployment.run("sales_sync").success
    tick = Ticks(deployment)
    for _ in range(3):
        tick()
    assert [d["changes"][0]["tables"] for d in hook.documents] == [["dbo_no"], ["dbo_none"]]
    tick.cursor = "41"
    tick()
    assert hook.documents[2]["changes"] == hook.documents[0]["changes"]


def test_without_a_webhook_there_is_no_such_sensor(deployment: Deployment) -> None:
    deployment.project.extra = {}
    assert not deployment.definitions.get_repository_def().has_sensor_def("sales_alerts")


def test_the_webhook_is_shown_nowhere(deployment: Deployment, hook: Receiver) -> None:
    deployment.project.extra = {"alerts": {"webhook": hook.url}}
    assert SECRET_PATH not in repr(load_settings(deployment.project.write()))


def test_repeated_keys_are_told_by_the_run_that_finds_them(
    deployment: Deployment, hook: Receiver
) -> None:
    project, tick = deployment.project, Ticks(deployment)
    deployment.run()
    again(project, "id = 1")
    for _ in range(2):
        assert deployment.run("sales_health_checks").success
        tick()
    (line,) = [line for line in hook.lines if "check unique_keys" in line]
    assert line.startswith(f"RED sales: check unique_keys of {TABLE} [key_repeated]")
    assert len(hook.documents) == 1
    database = project.database()
    silver = database.lake.silver(database.table(TABLE))
    assert silver is not None
    silver.restore(silver.version() - 1)
    assert deployment.run("sales_health_checks").success
    tick()
    assert hook.lines == [f"GREEN sales: check unique_keys of {TABLE} is well again."]


def test_a_run_speaks_of_its_own_tables(deployment: Deployment) -> None:
    """One of another table says nothing of those; without a choice it was for all."""
    found = load_settings(deployment.project.write()).databases["sales"]
    translator = Translator("sales", found)
    sensor = deployment.definitions.resolve_sensor_def("sales_silver_waves")
    chosen = frozenset({translator.asset_key("silver", "a"), translator.asset_key("bronze", "b")})
    waves = {"ops": {"sales_read_waves": {"config": {"tables": ["c"]}}}}
    runs = [
        dg.DagsterRun(job_name="j", asset_selection=chosen),
        dg.DagsterRun(job_name="j", run_config=waves),
        dg.DagsterRun(job_name="j", asset_selection=frozenset()),
        dg.DagsterRun(job_name="j", run_config={"ops": {}}),
    ]
    of = [alerts.tables_of(run, translator) for run in runs]
    assert of == [{"", "a", "b"}, {"", "c"}, None, None]
    assert alerts.name_of(dg.DagsterRun(job_name=sensor.job_name)) == "sales_silver_waves"
    assert alerts.name_of(dg.DagsterRun(job_name="sales_sync")) == "sales_sync"
