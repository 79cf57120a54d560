"""The check `unique_keys`: made by a run, once for each state of silver, and by no tick."""

import dagster as dg
import pytest

from cdc_assets.orchestration.uniqueness import CHECKED, UNIQUE_KEYS
from cdc_assets_tests.orchestration.helpers import Deployment
from cdc_assets_tests.path.helpers import create_items
from cdc_assets_tests.path.test_unique_keys import again
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

JOB = "sales_health_checks"


def test_its_result_says_what_to_do_and_what_was_read(
    project: Project, instance: dg.DagsterInstance
) -> None:
    create_items(project.source)
    project.tables = {"dbo_items": None}
    deployment = Deployment(project, instance)
    assert deployment.run().success
    found = []
    for _ in range(2):
        assert deployment.run(JOB).success
        found.append(deployment.check("silver", UNIQUE_KEYS))
    assert [one.passed for one in found] == [True, True]
    assert [one.metadata["cdc/reason"].value for one in found] == ["on_time", "on_time"]
    assert found[0].metadata[CHECKED].value == found[1].metadata[CHECKED].value
    again(project, "id = 1")
    assert deployment.run(JOB).success, "it is no reason for a run to fail"
    red = deployment.check("silver", UNIQUE_KEYS)
    assert (red.passed, red.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert red.metadata["cdc/reason"].value == "key_repeated"
    assert red.metadata["cdc/runbook"].value.endswith("#key_repeated")
    assert red.metadata["cdc/repeated_keys"].value == 1
    assert CHECKED not in red.metadata
    (
        project.folder / "lake/sales/silver/dbo_items/_delta_log/00000000000000000001.json"
    ).write_text("{")
    assert deployment.run(JOB).success
    unknown = deployment.check("silver", UNIQUE_KEYS)
    assert (unknown.passed, unknown.metadata["cdc/code"].value) == (False, "lake_damaged")
    told = {event.check_name for event in deployment.tick(name="sales_finality").asset_events}
    assert UNIQUE_KEYS not in told
