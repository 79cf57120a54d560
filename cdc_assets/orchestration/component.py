"""The same assets inside somebody else's `dg` project: docs/component.md.

# src/my_project/defs/cdc/defs.yaml
type: cdc_assets.SqlServerCdcComponent
attributes:
  tables: tables.yaml
"""

import dagster as dg

from cdc_assets.orchestration.build import build_definitions
from cdc_assets.settings import load_settings


class SqlServerCdcComponent(dg.Component, dg.Model, dg.Resolvable):
    """SQL Server tables in a Delta lake, and for each one up to when it is complete."""

    tables: str = "tables.yaml"
    """The settings, relative to the component's folder."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """All definitions of the settings; raises `SettingsError` for what they may not say."""
        file = (context.path / self.tables).resolve()
        return build_definitions(load_settings(file), file)
