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
    SILVER_CREATED = "silver.created"
    SILVER_RANGE_MERGED = "silver.range_merged"
    SILVER_MERGED = "silver.merged"
    SILVER_RECORDED = "silver.recorded"
    FACTS_TRIMMED = "facts.trimmed"
    UPKEEP_REWRITTEN = "upkeep.rewritten"
    UPKEEP_RECORDED = "upkeep.recorded"


def reach(point: FaultPoint) -> None:
    """Stop here when this point is armed; else do nothing."""
    if os.environ.get(POINT_VARIABLE) == point:
        _stop()


def _stop() -> None:
    Path(os.environ[FILE_VARIABLE]).write_text(str(os.getpid()))
    time.sleep(STOP_SECONDS_MAX)
