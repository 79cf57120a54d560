"""Runs and ticks of a project's definitions on an instance."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import dagster as dg
import pytest

from cdc_assets.orchestration.build import build_definitions
from cdc_assets.planning.records import ControlRow
from cdc_assets.settings import load_settings
from cdc_assets_tests.source import Project

STORAGES = pytest.mark.parametrize(
    "storage", ["sqlite", pytest.param("postgres", marks=pytest.mark.clients)]
)
"""A test on an instance of each storage; that in Postgres is one of `make test-clients`."""
WIDE = {"granularity": "second", "allowed_delay": "15m"}
"""Nothing is late by it, however slow the machine."""
LATE = timedelta(hours=1)
"""A table that has seen no commit for so long is late by `WIDE`."""


class Deployment:
    """A project's definitions on a Dagster instance."""

    def __init__(self, project: Project, instance: dg.DagsterInstance) -> None:
        self.project = project
        self.instance = instance

    @property
    def definitions(self) -> dg.Definitions:
        """Built anew each time, as a restarted code location would."""
        file = self.project.write()
        return build_definitions(load_settings(file), file)

    def run(self, job: str = "sales_sync_and_apply", **options: Any) -> dg.ExecuteInProcessResult:
        """Run a job in this process."""
        found = self.definitions.resolve_job_def(job)
        return found.execute_in_process(instance=self.instance, raise_on_error=False, **options)

    def tick(self, cursor: str | None = None, name: str = "sales_silver_waves") -> Any:
        """One tick of a sensor, as the daemon would make it."""
        definitions = self.definitions
        sensor = definitions.resolve_sensor_def(name)
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=cursor,
            definitions=definitions,
            resources=definitions.resources,
        ) as context:
            return sensor.evaluate_tick(context)

    def tick_of_schedule(self, name: str = "sales_sync_every_minute") -> Any:
        """One tick of a schedule.

        The context ends here. One that is left to the collector puts Dagster's storage of then back
        when that comes along: in the midst of another test, whose instance it hides.
        """
        schedule = self.definitions.resolve_schedule_def(name)
        with dg.build_schedule_context(instance=self.instance) as context:
            return schedule.evaluate_tick(context)

    def launch(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        """Do what the daemon does with a request: run the selected assets with its tags."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            instance=self.instance,
            asset_selection=request.asset_selection,
            tags=request.tags,
            raise_on_error=False,
        )

    def check(self, layer: str, name: str, table: str = "dbo_items") -> Any:
        """The last evaluation of a check."""
        key = dg.AssetCheckKey(dg.AssetKey(["sales", layer, table]), name)
        record = self.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])
        return record[key].event.dagster_event.event_specific_data


def materialized(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """The metadata of each materialization, by layer/table."""
    found = {}
    for event in result.get_asset_materialization_events():
        materialization = event.step_materialization_data.materialization
        values = {name: value.value for name, value in materialization.metadata.items()}
        found["/".join(materialization.asset_key.path[1:])] = values
    return found


def hours_without_commits(project: Project, table: str) -> None:
    """Control's rows as they are where capture has processed nothing for `LATE`, and syncs look."""
    database = project.database()
    name = database.table(table)

    def older(row: ControlRow) -> ControlRow:
        at, until = row.end_commit_ts, row.finalized_until
        return replace(row, end_commit_ts=at and at - LATE, finalized_until=until and until - LATE)

    for row in (name.bronze, name.silver):
        database.lake.control.change(row, older)


def request_of(deployment: Deployment, cursor: str | None = None) -> dg.RunRequest:
    """The one run that a tick of `silver_waves` asks for."""
    (request,) = deployment.tick(cursor).run_requests or []
    return request
