"""Named fault points: the places where a process may die between two durable writes.

In production each is one comparison. A test arms one through the environment, the process stops
there and says so in a file, and the test kills it (and its JVM) with SIGKILL.
"""

from __future__ import annotations

import os
import time
from enum import StrEnum
from pathlib import Path

POINT_VARIABLE = "CDC_FAULT_POINT"
FILE_VARIABLE = "CDC_FAULT_FILE"
STOP_SECONDS_MAX = 600.0
"""A process nobody kills goes on after this long, so that a forgotten variable cannot hang it."""


class FaultPoint(StrEnum):
    """Every place where one durable write has happened and the next has not."""

    TABLE_CREATED = "table.created"
    TABLE_ALTERED = "table.altered"
    TABLE_MIGRATED = "table.migrated"
    LOSS_RECORDED = "loss.recorded"
    SNAPSHOT_OPENED = "snapshot.opened"
    SNAPSHOT_APPENDED = "snapshot.appended"
    PLAN_STORED = "plan.stored"
    PLAN_TOLD = "plan.told"
    BOUND_STORED = "bound.stored"
    WAVE_APPENDED = "wave.appended"
    WAVE_TOLD = "wave.told"
    BACKFILL_COMPLETED = "backfill.completed"
    RESET_RECORDED = "reset.recorded"
    BRONZE_APPENDED = "bronze.appended"
    INSTANCE_SEEN = "instance.seen"
    FACTS_WRITTEN = "facts.written"
    GENERATION_WRITTEN = "generation.written"
    STREAM_RECORDED = "stream.recorded"
    SILVER_FORGOTTEN = "silver.forgotten"
    SILVER_CREATED = "silver.created"
    SILVER_PREPARED = "silver.prepared"
    SILVER_RANGE_MERGED = "silver.range_merged"
    SILVER_MERGED = "silver.merged"
    SILVER_RECORDED = "silver.recorded"
    HISTORY_FORGOTTEN = "history.forgotten"
    HISTORY_CREATED = "history.created"
    HISTORY_MERGED = "history.merged"
    HISTORY_RECORDED = "history.recorded"
    FACTS_TRIMMED = "facts.trimmed"
    BOOKKEEPING_REWRITTEN = "bookkeeping.rewritten"
    UPKEEP_REWRITTEN = "upkeep.rewritten"
    UPKEEP_RECORDED = "upkeep.recorded"
    UPKEEP_VACUUMED = "upkeep.vacuumed"
    UPKEEP_CHECKPOINTED = "upkeep.checkpointed"


def reach(point: FaultPoint) -> None:
    """Stop here when this point is armed; else do nothing."""
    if os.environ.get(POINT_VARIABLE) == point:
        _stop()


def _stop() -> None:
    Path(os.environ[FILE_VARIABLE]).write_text(str(os.getpid()))
    time.sleep(STOP_SECONDS_MAX)
