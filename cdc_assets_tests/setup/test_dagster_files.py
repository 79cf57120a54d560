"""dagster.yaml makes an instance, and both files that name the code location name the same one."""

import tomllib
from pathlib import Path

import yaml
from dagster import DagsterInstance
from dagster._core.run_coordinator import QueuedRunCoordinator

from cdc_assets.orchestration.launcher import WatchedRunLauncher

ROOT = Path(__file__).parents[2]


def test_the_instance_is_as_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        assert isinstance(instance.run_coordinator, QueuedRunCoordinator)
        assert instance.run_coordinator.dequeue_interval_seconds == 1
        assert instance.run_monitoring_enabled
        assert isinstance(instance.run_launcher, WatchedRunLauncher)
        assert instance.run_retries_enabled
        assert not instance.telemetry_enabled
        pools = instance.get_concurrency_config().pool_config
        assert pools.default_pool_limit == 1
        assert pools.pool_granularity is not None
        assert pools.pool_granularity.value == "run"


def test_both_files_name_the_same_code_location() -> None:
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text())
    [location] = [entry["python_module"] for entry in workspace["load_from"]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["dg"]["project"]
    assert location["location_name"] == project["code_location_name"]
    assert location["module_name"] == project["code_location_target_module"]
