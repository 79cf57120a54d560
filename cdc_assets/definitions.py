"""The code location: `tables.yaml` as Dagster definitions."""

import dagster as dg

from cdc_assets.orchestration.build import build_definitions
from cdc_assets.settings import find_settings, load_settings


@dg.definitions
def defs() -> dg.Definitions:
    """What Dagster loads."""
    path = find_settings()
    return build_definitions(load_settings(path), path)
