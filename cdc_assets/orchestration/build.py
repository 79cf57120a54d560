"""From settings to definitions."""

from pathlib import Path

import dagster as dg

from cdc_assets.orchestration.alerts import alerts_sensor
from cdc_assets.orchestration.assets import database_assets
from cdc_assets.orchestration.backfills import backfill_job, backfill_sensor
from cdc_assets.orchestration.checks import health_checks
from cdc_assets.orchestration.finality import finality_sensor
from cdc_assets.orchestration.jobs import database_jobs, main_job, sync_schedule
from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.silver_waves import silver_sensor
from cdc_assets.orchestration.source_moved import source_sensor
from cdc_assets.orchestration.translator import Translator
from cdc_assets.orchestration.uniqueness import unique_schedule
from cdc_assets.orchestration.upkeep import maintenance_job, maintenance_schedule
from cdc_assets.settings import Settings


def build_definitions(settings: Settings, settings_file: Path) -> dg.Definitions:
    """All assets, checks, jobs, sensors and schedules of the settings; connects to nothing."""
    merged = dg.Definitions(
        resources={"cdc": CdcResource(settings_file=str(settings_file))},
        # One run is one process: engines do the parallel work, and Spark starts once.
        executor=dg.in_process_executor,
    )
    for key, database in settings.databases.items():
        translator = Translator(key, database)
        jobs, maintenance = database_jobs(translator), maintenance_job(translator)
        backfill = backfill_job(translator)
        merged = dg.Definitions.merge(
            merged,
            dg.Definitions(
                assets=[
                    *(translator.source_spec(table) for table in database.tables),
                    database_assets(translator),
                    *(translator.final_spec(table) for table in translator.hourly_tables()),
                ],
                asset_checks=[health_checks(translator)],
                jobs=[*jobs.values(), backfill, maintenance],
                sensors=[
                    silver_sensor(translator),
                    backfill_sensor(translator, backfill),
                    finality_sensor(translator),
                    source_sensor(translator, main_job(translator, jobs)),
                    *([alerts_sensor(translator)] if database.alerts else []),
                ],
                schedules=[
                    sync_schedule(translator, main_job(translator, jobs)),
                    unique_schedule(translator, jobs["health"]),
                    maintenance_schedule(maintenance),
                ],
            ),
        )
    return merged
