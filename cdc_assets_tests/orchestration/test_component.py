"""The same definitions from a `defs.yaml` of somebody else's `dg` project."""

import dagster as dg
import pytest
from dagster.components.core.component_tree import ComponentTreeException
from dagster.components.testing import create_defs_folder_sandbox

import cdc_assets
from cdc_assets.errors import SettingsError

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
