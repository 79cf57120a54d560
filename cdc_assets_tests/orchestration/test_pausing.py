"""A paused table: no sensor asks for it, runs leave it out, and all its checks say so."""

from typing import Any

import dagster as dg
import pytest

from cdc_assets_tests.orchestration.helpers import Deployment, materialized
from cdc_assets_tests.path.changing import commit
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE, OTHER = "dbo_items", "dbo_others"
CHECKS = {
    "no_gap": "bronze",
    "schema_fits": "bronze",
    "finalized": "silver",
    "retention_headroom": "bronze",
    "capture_alive": "sqlserver",
    "unique_keys": "silver",
}


@pytest.fixture
def deployment(project: Project, instance: dg.DagsterInstance) -> Deployment:
    """Two tables that were loaded; then one is paused, and changes come."""
    source = project.source
    create_items(source)
    source.execute("CREATE TABLE dbo.others (id int NOT NULL PRIMARY KEY)")
    source.enable("others")
    project.tables = {TABLE: None, OTHER: None}
    made = Deployment(project, instance)
    assert made.run().success
    change_items(source)
    assert made.run("sales_sync").success, "so that silver has work"
    project.tables[TABLE] = {"paused": True}
    change_items(source, base=300)
    commit(source, "INSERT dbo.others (id) VALUES (1)")
    return made


def reasons(deployment: Deployment) -> dict[str, tuple[bool, str]]:
    found = {}
    for name, layer in CHECKS.items():
        told = deployment.check(layer, name)
        assert told.severity is dg.AssetCheckSeverity.WARN
        metadata = told.metadata
        code = metadata.get("cdc/reason") or metadata["cdc/code"]
        assert metadata["cdc/runbook"].value.endswith(f"#{code.value}")
        found[name] = (told.passed, code.value)
    return found


def test_runs_leave_it_out_and_its_checks_say_so(deployment: Deployment) -> None:
    result = deployment.run()
    assert result.success
    assert set(materialized(result)) == {f"bronze/{OTHER}", f"silver/{OTHER}"}
    assert deployment.run("sales_health_checks").success
    paused = (False, "paused")
    assert reasons(deployment) == {
        "no_gap": paused,
        "schema_fits": paused,
        "finalized": paused,
        "retention_headroom": (True, "paused"),
        "capture_alive": paused,
        "unique_keys": paused,
    }
    found = deployment.tick(name="sales_finality")
    told = {
        (e.asset_key.path[-1], e.check_name): e.metadata["cdc/reason"].value
        for e in found.asset_events
    }
    assert {reason for (table, _), reason in told.items() if table == TABLE} == {"paused"}
    assert "paused" not in {reason for (table, _), reason in told.items() if table == OTHER}
    job = deployment.definitions.resolve_job_def("sales_sync_and_apply")
    deployment.project.tables[OTHER] = {"paused": True}
    deployment.project.write()
    result = job.execute_in_process(instance=deployment.instance)
    assert result.success, "the definitions are from before it was paused"
    assert materialized(result) == {}
    assert "paused" in str(deployment.tick_of_schedule().skip_message)


def test_no_sensor_asks_for_it(deployment: Deployment) -> None:
    def asked(name: str) -> Any:
        return deployment.tick(name=name).run_requests

    assert len(asked("sales_source_moved")) == 1
    assert deployment.run("sales_sync").success
    assert not asked("sales_source_moved"), "its changes alone are not read"
    (request,) = asked("sales_silver_waves")
    assert request.asset_selection == [dg.AssetKey(["sales", "silver", OTHER])]
    assert deployment.launch(request).success
    assert not asked("sales_silver_waves")
    deployment.project.tables = {TABLE: None, OTHER: None}
    assert len(asked("sales_source_moved")) == 1
    assert deployment.run().success
    deployment.project.assert_identical(TABLE, COLUMNS)
