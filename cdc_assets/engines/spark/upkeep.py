"""Upkeep of a table by Delta's library, in a session of its own."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from cdc_assets.engines.spark.merging import delta_path
from cdc_assets.engines.spark.storage import location
from cdc_assets.planning.literals import quoted
from cdc_assets.planning.plans import MaintainPlan, MaintainResult

_OPTIMIZE = "spark.databricks.delta.optimize"
_SETTINGS = {
    # VACUUM lists a folder in as many tasks, by default 10,000; ours have no folders in them.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    # The settings have limits of their own, and a wrong order is none.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    f"{_OPTIMIZE}.zorder.checkStatsCollection.enabled": "false",
}


def maintain(session: SparkSession, plan: MaintainPlan, *, ordered: bool) -> MaintainResult:
    """OPTIMIZE, VACUUM or both; Spark writes checkpoints and cleans the log up by itself.

    VACUUM lists the folder, so that files of failed commits go too.
    """
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    target = delta_path(location(plan.uri))
    added = removed = 0
    if plan.target_file_bytes is not None:
        for side in ("minFileSize", "maxFileSize"):
            session.conf.set(f"{_OPTIMIZE}.{side}", str(plan.target_file_bytes))
        order = f" ZORDER BY ({', '.join(map(quoted, plan.order_by))})" if ordered else ""
        metrics: Any = session.sql(f"OPTIMIZE {target}{order}").collect()[0]["metrics"]
        added, removed = metrics["numFilesAdded"], metrics["numFilesRemoved"]
    if plan.retention_hours is not None:
        session.sql(f"VACUUM {target} RETAIN {plan.retention_hours} HOURS").collect()
    return MaintainResult(added, removed, ordered, files_vacuumed=None)
