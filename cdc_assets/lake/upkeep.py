"""Upkeep of a Delta table through delta-rs: its files, its old versions, its log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake import CommitProperties, DeltaTable, WriterProperties

from cdc_assets import faults
from cdc_assets.contract import Column
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.features import beyond_reading, beyond_writing, has_marked_rows
from cdc_assets.lake.tables import (
    StorageOptions,
    file_actions,
    file_statistics,
    is_mapped,
    retry_conflicts,
)
from cdc_assets.planning.bounds import is_bounded
from cdc_assets.planning.maintaining import CommitSeen, FileExtent, needs_order
from cdc_assets.planning.plans import MaintainPlan, MaintainResult

OPTIMIZE_ATTEMPTS_MAX = 3
"""Tries to commit files that were written anew, while MERGEs take the old ones."""

OPTIMIZE_MEMORY_BYTES = 1 << 30
"""What ordering a table's rows holds in memory before it spills to disk."""

OPTIMIZE_GROUP_ROWS = 128 << 10
"""Rows of a Parquet row group, after each of which a file's size is looked at: a MERGE writes all
rows of a file anew. By default a group has a million rows, whatever a file's size is to be."""


def beyond_rewriting(table: DeltaTable) -> str:
    """What delta-rs cannot do to write the table's files anew, as the end of a sentence; or ""."""
    if is_mapped(table):
        return "rewrite the files of a table that maps columns by name"
    return beyond_clean_up(table)


def beyond_clean_up(table: DeltaTable) -> str:
    """What delta-rs cannot do to remove the table's old files, as the end of a sentence; or "".

    It takes the files of deletion vectors for those of failed commits.
    """
    if has_marked_rows(table):
        return "clean up a table with deletion vectors"
    return beyond_reading(table) or beyond_writing(table)


def maintain(plan: MaintainPlan, options: StorageOptions) -> MaintainResult:
    """See `engines.door.Engine.maintain`; raises `CommitConflictError` at the limit."""
    with lake_failures(plan.uri):
        result = MaintainResult()
        if plan.target_file_bytes is not None:
            result = retry_conflicts(
                lambda: _optimize(plan, DeltaTable(plan.uri, storage_options=dict(options))),
                where=plan.table,
                attempts_max=OPTIMIZE_ATTEMPTS_MAX,
            )
        if plan.retention_hours is not None:
            table = DeltaTable(plan.uri, storage_options=dict(options))
            return clean_up(table, plan.retention_hours)
        return result


def _optimize(plan: MaintainPlan, table: DeltaTable) -> MaintainResult:
    """Put small files together, or order all of them by key where MERGEs have mixed them up."""
    ordered = orders(plan, table)
    given: dict[str, Any] = {
        "target_size": plan.target_file_bytes,
        "max_spill_size": OPTIMIZE_MEMORY_BYTES,
        "max_concurrent_tasks": 1,
        "commit_properties": CommitProperties(max_commit_retries=0),
        "writer_properties": WriterProperties(
            compression="SNAPPY", max_row_group_size=OPTIMIZE_GROUP_ROWS
        ),
    }
    optimize = table.optimize
    found = optimize.z_order(list(plan.order_by), **given) if ordered else optimize.compact(**given)
    return MaintainResult(found["numFilesAdded"], found["numFilesRemoved"], ordered)


def orders(plan: MaintainPlan, table: DeltaTable) -> bool:
    """Whether the plan's order is due, as the files' statistics say."""
    if not plan.order_by or plan.target_file_bytes is None:
        return False
    # Where rows are marked, a large file is not written anew for one of them.
    splits = not has_marked_rows(table)
    columns = [_extents(table, key) for key in plan.order_by]
    return needs_order(columns, plan.target_file_bytes, splits=splits)


def _extents(table: DeltaTable, key: str) -> list[FileExtent]:
    sizes, extents = file_actions(table, "size_bytes"), file_statistics(table, key)
    return [
        FileExtent(size or 0, low, high) for size, (low, high) in zip(sizes, extents, strict=True)
    ]


def order_of(keys: tuple[str, ...], columns: tuple[Column, ...]) -> tuple[str, ...]:
    """The columns to order by: the key, from its first column up to one without bounds."""
    kinds = {column.name: column for column in columns}
    found = []
    for key in keys:
        if key not in kinds or not is_bounded(kinds[key]):
            break
        found.append(key)
    return tuple(found)


def clean_up(table: DeltaTable, retention_hours: int) -> MaintainResult:
    """Remove what no version of the last hours needs, and the log's entries before a checkpoint.

    All files of the folder are looked at: those of commits that failed are in no log.
    """
    given: dict[str, Any] = {
        "retention_hours": retention_hours,
        "enforce_retention_duration": False,
        "full": True,
    }
    removed = table.vacuum(dry_run=True, **given)
    if removed:
        removed = table.vacuum(dry_run=False, **given)
    faults.reach(FaultPoint.UPKEEP_VACUUMED)
    table.update_incremental()
    table.create_checkpoint()
    faults.reach(FaultPoint.UPKEEP_CHECKPOINTED)
    table.cleanup_metadata()
    return MaintainResult(files_vacuumed=len(removed))


def history_of(table: DeltaTable) -> list[CommitSeen]:
    """What the log still tells of a table's commits."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    return [
        CommitSeen(
            int(entry["version"]),
            str(entry.get("operation", "")),
            epoch + timedelta(milliseconds=int(entry.get("timestamp") or 0)),
        )
        for entry in table.history()
    ]
