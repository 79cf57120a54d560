"""The plan of one MERGE, from what was decided."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.contract import Column
from cdc_assets.planning.absent import absent_ranges, range_key
from cdc_assets.planning.applying import ApplyWork
from cdc_assets.planning.bounds import Times
from cdc_assets.planning.merging import AbsentKeys, merge_texts, work_rows
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import ApplyPlan, CommitTag, EngineChoice
from cdc_assets.settings import EngineName
from cdc_assets.silver.reading import Read

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Merging:
    """What a MERGE is made into, as version `version` of silver's applies, and by whom.

    `gone` is since when a rebuild's source lacks a row, where silver keeps those that are deleted.
    """

    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    version: int
    choice: EngineChoice
    gone: Offset | None = None


def merge_plan(read: Read, work: ApplyWork, into: Merging) -> ApplyPlan:
    """The MERGE of bronze as it was read."""
    name, bronze = read.table.name, read.bronze
    metadata = {"applied_lsn": str(work.position.applied), "bronze_version": bronze.version()}
    if work.waves:
        metadata["snapshot_wave"] = work.waves[-1].wave
    texts = merge_texts(
        into.columns,
        into.keys,
        work_rows(work),
        above=work.above if work.waves and not work.is_rebuild else None,
        absent=_absent(read, work, into),
        gone=into.gone,
        times=Times.SPARK if into.choice.name == EngineName.SPARK else Times.DATAFUSION,
    )
    return ApplyPlan(
        table=str(name),
        bronze_uri=name.bronze_uri,
        bronze_version=bronze.version(),
        silver_uri=name.silver_uri,
        columns=into.columns,
        keys=into.keys,
        texts=texts,
        rebuild=work.is_rebuild,
        tag=call_tag(name.apply_app, into.version, metadata),
    )


def call_tag(app_id: str, version: int, told: Mapping[str, Any]) -> CommitTag:
    """The tag of a MERGE that is this call's alone, whatever another one plans.

    Spark skips a version that another call has committed without a word, and the commit is
    recognised by its text: two calls may be for the same bronze and do different things.
    """
    return CommitTag(app_id, version, json.dumps({**told, "call": uuid.uuid4().hex}))


def _absent(read: Read, work: ApplyWork, into: Merging) -> AbsentKeys | None:
    """The keys that the waves have found to be gone; a rebuild removes such by itself.

    The plan is asked after the facts: its ranges are then those that were read (decision 0022).
    Where it does not say them, the keys wait for the rebuild.
    """
    opened = read.snapshots.open_chunked
    numbers = [number for wave in work.waves for number in wave.chunks]
    plan_id = next((wave.plan_id for wave in work.waves if wave.plan_id), None)
    if work.is_rebuild or opened is None or not numbers or plan_id is None:
        return None
    cut = read.table.lake.plans.ranges(
        read.table.name, opened.at.lsn, plan_id, min(numbers), max(numbers)
    )
    if cut is None:
        _log.warning("%s: the plan %s says no ranges; stale keys wait", read.table.name, plan_id)
        return None
    key = range_key(into.keys, opened.keys, cut, into.columns, read.table.renamed)
    ranges = absent_ranges(work.waves, cut) if key is not None else ()
    if key is None or not ranges:
        return None
    at = {wave.stamp: wave.stamped_at for wave in work.waves if wave.stamped_at is not None}
    return AbsentKeys(key, ranges, at)
