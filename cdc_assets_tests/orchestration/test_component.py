"""The same definitions from a `defs.yaml` of somebody else's `dg` project."""

import subprocess
import sys
import tomllib
from pathlib import Path

import dagster as dg
import pytest
from dagster.components.core.component_tree import ComponentTreeException
from dagster.components.core.package_entry import DG_PLUGIN_ENTRY_POINT_GROUP
from dagster.components.testing import create_defs_folder_sandbox

import cdc_assets
from cdc_assets.errors import SettingsError
from cdc_assets.orchestration.component import TABLES_FILE
from cdc_assets.settings import load_settings
from cdc_assets_tests.orchestration.test_definitions import HEAVY

ROOT = Path(__file__).parents[2]

SETTINGS = """\
databases:
  sales:
    connection: Server=tcp:192.0.2.1,1433
    tables:
      dbo_orders:
"""


def built(settings: str) -> dg.Definitions:
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(
            component_cls=cdc_assets.SqlServerCdcComponent,
            defs_yaml_contents={
                "type": "cdc_assets.SqlServerCdcComponent",
                "attributes": {"tables": "our_tables.yaml"},
            },
        )
        (folder / "our_tables.yaml").write_text(settings)
        with sandbox.build_all_defs() as definitions:
            return definitions


def test_a_defs_yaml_gives_the_assets_of_its_tables() -> None:
    definitions = built(SETTINGS)
    keys = {k.to_user_string() for k in definitions.resolve_asset_graph().get_all_asset_keys()}
    layers = ("sqlserver", "bronze", "silver", "final")
    assert keys == {f"sales/{layer}/dbo_orders" for layer in layers}
    assert definitions.get_repository_def().has_sensor_def("sales_silver_waves")


def test_a_broken_file_is_told_with_its_line() -> None:
    with pytest.raises(ComponentTreeException) as told:
        built(SETTINGS.replace("dbo_orders:", "dbo_orders: {key: [id]}"))
    error: BaseException | None = told.value
    while error is not None and not isinstance(error, SettingsError):
        error = error.__cause__
    assert "our_tables.yaml:5: unknown key" in str(error)


def test_dg_finds_it_by_the_name_that_the_page_tells() -> None:
    """Its type is the entry point's module and its name; looking for it imports nothing heavy."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"][DG_PLUGIN_ENTRY_POINT_GROUP].values()
    code = (
        f"import sys, {module}\n"
        "from dagster.components.core.package_entry import get_package_objects_in_module\n"
        f"print(*(name for name, _ in get_package_objects_in_module({module})))\n"
        f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["SqlServerCdcComponent", ""]
    page = (ROOT / "docs" / "component.md").read_text()
    assert f"type: {module}.SqlServerCdcComponent" in page


def test_scaffolding_writes_settings_that_load() -> None:
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(component_cls=cdc_assets.SqlServerCdcComponent)
        assert load_settings(folder / TABLES_FILE).databases["sales"].tables.keys() == {
            "dbo_orders"
        }
        with sandbox.build_all_defs() as definitions:
            assert definitions.get_repository_def().has_job("sales_sync")
