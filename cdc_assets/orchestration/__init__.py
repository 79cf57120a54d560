"""Dagster: assets, checks, sensors, schedules; loading them imports and opens nothing heavy."""
