"""Loading the definitions: what there is, by name, and that it imports and opens nothing."""

import json
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.errors import SettingsError
from cdc_assets.orchestration.build import build_definitions
from cdc_assets.settings import load_settings

SETTINGS = """\
databases:
  sales:
    connection: Server=tcp:192.0.2.1,1433;UID=reader;PWD=canary-92b
    lake: lake
    tables:
      dbo_orders: {owner: "team:sales", tags: {team/domain: billing, pii: ""}}
      dbo_customer:
"""
HEAVY = ["pyspark", "pyarrow", "arrow_odbc", "deltalake", "pandas", "numpy", "duckdb", "sqlglot"]


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    file = tmp_path / "tables.yaml"
    file.write_text(SETTINGS)
    return file


@pytest.fixture
def definitions(settings_file: Path) -> dg.Definitions:
    return build_definitions(load_settings(settings_file), settings_file)


def test_they_load(definitions: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(definitions)


def test_assets_by_name(definitions: dg.Definitions) -> None:
    """A renamed key loses history: it shows here."""
    graph = definitions.resolve_asset_graph()
    assert {key.to_user_string(): node.group_name for key, node in
            ((n.key, n) for n in graph.asset_nodes)} == {
        "sales/sqlserver/dbo_orders": "sales/sqlserver",
        "sales/bronze/dbo_orders": "sales/bronze",
        "sales/silver/dbo_orders": "sales/silver",
        "sales/final/dbo_orders": "sales/final",
        "sales/sqlserver/dbo_customer": "sales/sqlserver",
        "sales/bronze/dbo_customer": "sales/bronze",
        "sales/silver/dbo_customer": "sales/silver",
        "sales/final/dbo_customer": "sales/final",
    }  # fmt: skip
    silver = graph.get(dg.AssetKey(["sales", "silver", "dbo_orders"]))
    assert silver.parent_keys == {dg.AssetKey(["sales", "bronze", "dbo_orders"])}
    for layer in ("sqlserver", "bronze", "silver", "final"):
        node = graph.get(dg.AssetKey(["sales", layer, "dbo_orders"]))
        assert node.owners == ["team:sales"]
        assert {"team/domain": "billing", "pii": ""}.items() <= node.tags.items()


def test_checks_jobs_sensor_and_schedule(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    assert {(k.asset_key.path[1], k.name) for k in graph.asset_check_keys} == {
        ("bronze", "no_gap"),
        ("bronze", "schema_fits"),
        ("bronze", "retention_headroom"),
        ("silver", "finalized"),
        ("silver", "unique_keys"),
        ("sqlserver", "capture_alive"),
    }
    repository = definitions.get_repository_def()
    assert {"sales_sync", "sales_apply", "sales_sync_and_apply"} <= set(repository.job_names)
    assert repository.has_sensor_def("sales_silver_waves")
    assert repository.has_schedule_def("sales_sync_every_minute")


def test_a_run_is_one_process(definitions: dg.Definitions) -> None:
    """B179: a step in a process of its own would start a Spark of its own."""
    repository = definitions.get_repository_def()
    executors = {job.executor_def.name for job in repository.get_all_jobs()}
    assert executors == {dg.in_process_executor.name}


def test_nothing_runs_for_a_partition_that_is_missing(definitions: dg.Definitions) -> None:
    """B180: what runs has no partitions, what has them does not run, and nothing is automated."""
    nodes = list(definitions.resolve_asset_graph().asset_nodes)
    assert [node.key for node in nodes if node.automation_condition is not None] == []
    assert {node.key.path[1] for node in nodes if node.is_executable} == {"bronze", "silver"}
    assert {node.key.path[1] for node in nodes if node.is_partitioned} == {"final"}


def test_loading_imports_nothing_heavy_and_connects_to_nothing(settings_file: Path) -> None:
    """The address is one that never answers: a connection would hang, not pass."""
    code = (
        "import json, sys\n"
        "import dagster as dg\n"
        "from cdc_assets.definitions import defs\n"
        "dg.Definitions.validate_loadable(defs())\n"
        f"print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"CDC_TABLES": str(settings_file), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_a_broken_file_is_told_at_load(settings_file: Path) -> None:
    settings_file.write_text(SETTINGS.replace("lake:", "lakes:"))
    with pytest.raises(SettingsError, match=r"tables.yaml:4: unknown key .*Did you mean lake\?"):
        load_settings(settings_file)
