"""Runs on an instance on disk: what a materialization tells, and what the checks say."""

import logging
import time

import dagster as dg
import pytest

from cdc_assets_tests.orchestration.helpers import (
    STORAGES,
    WIDE,
    Deployment,
    hours_without_commits,
    materialized,
)
from cdc_assets_tests.path.changing import commit
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE = "dbo_items"
NUMBERS = [
    *("cdc/rows", "cdc/inserts", "cdc/updates", "cdc/deletes", "cdc/lag_seconds"),
    *("cdc/capture_lag_seconds", "cdc/read_mb", "cdc/duration_seconds"),
    *("cdc/retention_headroom_hours", "cdc/chunks_done", "cdc/chunks_total"),
]


@pytest.fixture
def deployment(project: Project, instance: dg.DagsterInstance) -> Deployment:
    create_items(project.source)
    project.tables = {TABLE: None}
    return Deployment(project, instance)


@STORAGES
def test_a_run_loads_and_tells_what_it_did(deployment: Deployment) -> None:
    result = deployment.run()
    assert result.success
    told = materialized(result)
    assert told[f"bronze/{TABLE}"]["cdc/rows"] == 5
    time.sleep(1.1)  # The verdict waits until the second of the snapshot's last read is over.
    change_items(deployment.project.source)
    told = materialized(deployment.run())
    bronze, silver = told[f"bronze/{TABLE}"], told[f"silver/{TABLE}"]
    assert {name: type(bronze[name]) in (int, float) for name in NUMBERS} == dict.fromkeys(
        NUMBERS, True
    )
    assert (bronze["cdc/inserts"], bronze["cdc/updates"], bronze["cdc/deletes"]) == (4, 3, 3)
    assert bronze["cdc/start_lsn"] < bronze["cdc/end_lsn"]
    assert bronze["cdc/min_commit_ts"] <= bronze["cdc/max_commit_ts"]
    assert bronze["cdc/engine"].startswith("arrow")
    assert silver["cdc/finalized_until"] != ""
    assert "| inserts | 4 | `█" in bronze["cdc/batch"]
    assert "| upserted | " in silver["cdc/batch"]
    for layer, source in ((bronze, "sqlserver"), (silver, "bronze")):
        names = [column.name for column in layer["dagster/column_schema"].columns]
        assert set(COLUMNS) < set(names)
        (origin,) = layer["dagster/column_lineage"].deps_by_column["price"]
        assert (origin.asset_key.path[1], origin.column_name) == (source, "price")
    deployment.project.assert_identical(TABLE, COLUMNS)


def test_the_log_tells_of_all_tables_at_once(deployment: Deployment) -> None:
    """A line of its own for each would be an event for each, in a database of Dagster's."""
    source = deployment.project.source
    source.execute("CREATE TABLE dbo.more (id int NOT NULL PRIMARY KEY)")
    source.execute("INSERT INTO dbo.more (id) VALUES (1), (2)")
    source.enable("more")
    deployment.project.tables = {TABLE: None, "dbo_more": None}
    result = deployment.run()
    logged = deployment.instance.all_logs(result.run_id)
    told = [e for e in logged if not e.is_dagster_event and e.level == logging.INFO]
    assert [entry.user_message for entry in told] == [
        f"{TABLE}: 5 rows, snapshot\ndbo_more: 2 rows, snapshot",
        f"{TABLE}: 5 upserted, 0 deleted\ndbo_more: 2 upserted, 0 deleted",
    ]


def test_a_quiet_run_materializes_nothing_in_bronze(deployment: Deployment) -> None:
    deployment.run()
    assert f"bronze/{TABLE}" not in materialized(deployment.run())


@pytest.mark.sandbox
def test_a_quiet_table_is_told_of_once_an_hour_has_ended_for_it(deployment: Deployment) -> None:
    project = deployment.project
    project.finality = {"granularity": "hour", "allowed_delay": "15m"}
    deployment.run("sales_sync")
    assert not materialized(deployment.run("sales_sync"))
    project.source.execute(
        "CREATE TABLE dbo.beats (id int NOT NULL PRIMARY KEY)",
        "EXEC sandbox.set_clock @shift_seconds = 3700",
    )
    project.source.enable("beats")
    commit(project.source, "INSERT INTO dbo.beats (id) VALUES (1)")
    (told,) = materialized(deployment.run("sales_sync")).values()
    assert (told["cdc/rows"], told["cdc/work"]) == (0, "quiet")
    assert told["cdc/finalized_until"] != ""
    assert not materialized(deployment.run("sales_sync"))


def test_a_failing_table_fails_alone(deployment: Deployment) -> None:
    """B016, B176: the others are written, and the failure names the one."""
    deployment.project.tables = {"dbo_missing": None, TABLE: None}
    result = deployment.run()
    assert not result.success
    assert set(materialized(result)) == {f"bronze/{TABLE}", f"silver/{TABLE}"}
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    assert "dbo_missing" in str(failed.step_failure_data.user_failure_data.description)


def test_a_gap_turns_no_gap_red(deployment: Deployment) -> None:
    """B175: the run fails, and silver of the table is left as it is."""
    source = deployment.project.source
    deployment.run()
    assert deployment.check("bronze", "no_gap").passed
    change_items(source)
    newest = source.captured()
    source.execute("UPDATE dbo.items SET name = N'x' WHERE id = 1")
    source.captured(minimum=newest)
    source.execute(
        "DECLARE @to binary(10); SET @to = sys.fn_cdc_get_max_lsn();"
        f" EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'{TABLE}',"
        " @low_water_mark = @to"
    )
    result = deployment.run()
    assert not result.success
    assert materialized(result) == {}
    check = deployment.check("bronze", "no_gap")
    assert not check.passed
    assert "cleanup" in check.description


def test_a_type_that_bronze_cannot_hold_turns_schema_fits_red(deployment: Deployment) -> None:
    """B143: nothing was read, so that nobody knows of a gap."""
    source = deployment.project.source
    assert deployment.run().success
    assert deployment.check("bronze", "schema_fits").passed
    commit(
        source,
        "ALTER TABLE dbo.items ALTER COLUMN price decimal(18,4) NULL",
        "UPDATE dbo.items SET price = 1.5 WHERE id = 1",
    )
    assert not deployment.run().success
    check = deployment.check("bronze", "schema_fits")
    assert (check.passed, check.metadata["cdc/code"].value) == (False, "schema_changed")
    assert check.severity is dg.AssetCheckSeverity.ERROR
    assert "price" in check.description
    unknown = deployment.check("bronze", "no_gap")
    assert (unknown.passed, unknown.severity) == (False, dg.AssetCheckSeverity.WARN)


def test_stopped_capture_turns_finalized_red_and_names_it(deployment: Deployment) -> None:
    """B014: commits wait, max_lsn stands still, and nothing fails."""
    source = deployment.project.source
    deployment.project.finality = WIDE
    deployment.run()
    time.sleep(1.1)  # The verdict waits until the second of the snapshot's last read is over.
    change_items(source)
    deployment.run()
    deployment.run("sales_health_checks")
    assert deployment.check("silver", "finalized").passed
    source.stop_capture()
    source.execute("UPDATE dbo.items SET name = N'waits' WHERE id = 1")
    assert deployment.run().success
    hours_without_commits(deployment.project, TABLE)
    assert deployment.run("sales_health_checks").success
    for check in (
        deployment.check("silver", "finalized"),
        deployment.check("sqlserver", "capture_alive"),
    ):
        assert not check.passed
        assert check.metadata["cdc/reason"].value == "capture_stopped"
        assert "capture" in check.description
    source.start_capture()
    source.execute("UPDATE dbo.items SET name = N'goes on' WHERE id = 2")
    source.captured()
    deployment.run()
    deployment.run("sales_health_checks")
    assert deployment.check("silver", "finalized").passed
