"""Checks and final hours are reported without a run, when they change, and each hour once."""

import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from cdc_assets.orchestration import finality
from cdc_assets.orchestration.translator import HOUR_FORMAT
from cdc_assets_tests.orchestration.helpers import STORAGES, WIDE, Deployment, hours_without_commits
from cdc_assets_tests.path.helpers import change_items, create_items
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE = "dbo_items"
FINAL = dg.AssetKey(["sales", "final", TABLE])
HOURS = {"granularity": "hour", "allowed_delay": "15m"}


@pytest.fixture
def deployment(project: Project, instance: dg.DagsterInstance) -> Deployment:
    create_items(project.source)
    project.tables = {TABLE: None}
    made = Deployment(project, instance)
    made.run()
    return made


def tick(deployment: Deployment, cursor: str | None = None) -> tuple[Any, str]:
    """A tick, and its events written as the daemon writes them."""
    found = deployment.tick(cursor, name="sales_finality")
    for event in found.asset_events:
        deployment.instance.report_runless_asset_event(event)
    return found, found.cursor


def checks(found: Any) -> dict[str, tuple[bool, str]]:
    return {
        e.check_name: (e.passed, e.metadata["cdc/reason"].value)
        for e in found.asset_events
        if isinstance(e, dg.AssetCheckEvaluation)
    }


def hours(found: Any) -> list[str]:
    return [e.partition for e in found.asset_events if isinstance(e, dg.AssetMaterialization)]


def hours_pass(deployment: Deployment, count: int) -> list[str]:
    """Control's rows as syncs of the next hours would leave them; the hours that are final."""
    database = deployment.project.database()
    name = database.table(TABLE)
    end = database.lake.control.read()[name.bronze].end_commit_ts
    assert end is not None
    begin = end.replace(minute=0, second=0, microsecond=0)
    until = begin + timedelta(hours=1 + count)
    for row in (name.bronze, name.silver):
        database.lake.control.change(row, lambda old: replace(old, finalized_until=until))
    return [(begin + timedelta(hours=1 + n)).strftime(HOUR_FORMAT) for n in range(count)]


@STORAGES
def test_a_stopped_capture_is_reported_and_so_is_its_end(deployment: Deployment) -> None:
    """With capture stopped nothing is pending and nothing runs: that is when it matters."""
    source = deployment.project.source
    deployment.project.finality = WIDE
    time.sleep(1.1)  # The verdict waits until the second of the snapshot's last read is over.
    change_items(source)
    deployment.run()
    first, cursor = tick(deployment)
    assert checks(first) == {
        "finalized": (True, "on_time"),
        "retention_headroom": (True, "on_time"),
        "capture_alive": (True, "on_time"),
    }
    assert not tick(deployment, cursor)[0].asset_events
    source.stop_capture()
    source.execute("UPDATE dbo.items SET name = N'waits' WHERE id = 1")
    deployment.run("sales_sync")
    hours_without_commits(deployment.project, TABLE)
    found, cursor = tick(deployment, cursor)
    stopped = (False, "capture_stopped")
    assert checks(found) == {"finalized": stopped, "capture_alive": stopped}
    assert not tick(deployment, cursor)[0].asset_events
    source.start_capture()
    source.execute("UPDATE dbo.items SET name = N'goes on' WHERE id = 2")
    source.captured()
    deployment.run()
    assert set(checks(tick(deployment, cursor)[0]).values()) == {(True, "on_time")}


def test_nothing_loaded_is_red_with_what_to_do(deployment: Deployment) -> None:
    deployment.project.tables = {TABLE: None, "dbo_other": None}
    found, _ = tick(deployment)
    of_other = [e for e in found.asset_events if e.asset_key.path[-1] == "dbo_other"]
    assert {e.metadata["cdc/reason"].value for e in of_other} == {"never_loaded"}
    assert all("run the sync job" in e.description for e in of_other)


@STORAGES
def test_an_hour_is_released_once_it_is_final(deployment: Deployment) -> None:
    """A lost tick, a deleted cursor or a cursor of another release repeat and leave out nothing."""
    deployment.project.finality = HOURS
    found, cursor = tick(deployment)
    assert hours(found) == []
    final = hours_pass(deployment, 3)
    found, cursor = tick(deployment, cursor)
    assert hours(found) == final
    assert hours(tick(deployment, cursor)[0]) == []
    assert deployment.instance.get_materialized_partitions(FINAL) == set(final)
    for lost in (None, "41", cursor[:-8]):
        assert hours(tick(deployment, lost)[0]) == []
    more = hours_pass(deployment, 5)
    assert hours(tick(deployment, None)[0]) == more[3:]


def test_hours_are_released_in_bounded_ticks(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finality, "HOURS_PER_TICK_MAX", 2)
    deployment.project.finality = HOURS
    final = hours_pass(deployment, 5)
    found, cursor = [], None
    for _ in range(3):
        told, cursor = tick(deployment, cursor)
        found.append(hours(told))
    assert found == [final[:2], final[2:4], final[4:]]


def test_other_granularities_have_no_hours(deployment: Deployment) -> None:
    deployment.project.finality = WIDE
    hours_pass(deployment, 3)
    assert hours(tick(deployment)[0]) == []
    assert not deployment.definitions.resolve_asset_graph().has(FINAL)


def test_hours_begin_at_the_first_day_of_the_settings(deployment: Deployment) -> None:
    later = (datetime.now() + timedelta(days=2)).date()
    deployment.project.finality = {**HOURS, "final_from": later}
    hours_pass(deployment, 3)
    assert hours(tick(deployment)[0]) == []
