"""The code location: `tables.yaml` as Dagster definitions."""

import gc

import dagster as dg

from cdc_assets.orchestration.build import build_definitions
from cdc_assets.settings import find_settings, load_settings

# What is imported by now stays as long as the process: without this a run's own imports and rows
# make the collector look through all of Dagster again, for a tenth of a second or more.
gc.freeze()


@dg.definitions
def defs() -> dg.Definitions:
    """What Dagster loads."""
    path = find_settings()
    return build_definitions(load_settings(path), path)
