"""The same assets inside somebody else's `dg` project: docs/component.md.

# src/my_project/defs/cdc/defs.yaml
type: cdc_assets.SqlServerCdcComponent
attributes:
  tables: tables.yaml
"""

from typing import Any

import dagster as dg

from cdc_assets.orchestration.build import build_definitions
from cdc_assets.settings import load_settings

TABLES_FILE = "tables.yaml"

TABLES_TEXT = """\
# What is loaded from where. One line adds a table; its key is its capture instance.
databases:
  sales:
    # An ODBC connection string without Driver=, or file:PATH of a file that holds one.
    connection: env:CDC_SALES_CONNECTION
    lake: lake
    tables:
      dbo_orders:
"""
"""What a new component begins with."""


class TablesScaffolder(dg.Scaffolder[Any]):
    """Writes `tables.yaml` beside `defs.yaml`, where there is none."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Both files, for `dg scaffold defs`."""
        dg.scaffold_component(request, {"tables": TABLES_FILE})
        file = request.target_path / TABLES_FILE
        if not file.exists():
            file.write_text(TABLES_TEXT)


@dg.scaffold_with(TablesScaffolder)
class SqlServerCdcComponent(dg.Component, dg.Model, dg.Resolvable):
    """SQL Server tables in a Delta lake, and for each one up to when it is complete."""

    tables: str = TABLES_FILE
    """The settings, relative to the component's folder."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """All definitions of the settings; raises `SettingsError` for what they may not say."""
        file = (context.path / self.tables).resolve()
        return build_definitions(load_settings(file), file)
