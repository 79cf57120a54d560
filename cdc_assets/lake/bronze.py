"""What a bronze table and its log say: its change commits, its snapshot rows, its head.

Where only Spark can read a table's rows (`lake.features`), its log says it alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from deltalake import DeltaTable

from cdc_assets.contract import Operation
from cdc_assets.lake.features import unreadable
from cdc_assets.lake.tables import query
from cdc_assets.lsn import Lsn
from cdc_assets.planning.literals import lsn_literal
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import ChangeCommit, ChangeCounts

_HISTORY_STEP = 3
"""Commits of the log that are read first: the one looked for is mostly the newest of all."""

Select = Callable[[str], list[dict[str, Any]]]
"""Gives the rows of a SELECT over a table that it calls `bronze`."""


def change_commits(table: DeltaTable, app_id: str, above: int | None) -> list[ChangeCommit]:
    """The change commits with a version above `above` that the log still tells of, oldest first.

    With `above` None only the newest one: enough to know the position.
    """
    newest = table.transaction_version(app_id)
    if newest is None or (above is not None and newest <= above):
        return []
    found: dict[int, ChangeCommit] = {}
    limit = _HISTORY_STEP
    while True:
        history = table.history(limit)
        for entry in history:
            if str(entry.get("operation", "")).startswith("CREATE"):
                # What lies before it was discarded by a reset.
                limit = len(history) + 1
                break
            commit = ChangeCommit.from_json(entry.get("userMetadata"))
            if commit is not None and commit.app_id == app_id:
                found[commit.batch_id] = commit
        done = (newest if above is None else above + 1) in found
        if done or len(history) < limit:
            break
        limit *= 4
    if above is None:
        return [found[newest]] if newest in found else []
    return [found[version] for version in sorted(found) if version > above]


def commit_of_rows(
    table: DeltaTable, app_id: str, target: str, version: int
) -> ChangeCommit | None:
    """A change commit that the log no longer tells of, as its rows do; None without any.

    Where its range ended beyond them is not known any more, nor which engine read them.
    """
    row = query(
        "SELECT count(*) AS n, min(`_start_lsn`) AS min_lsn, max(`_start_lsn`) AS max_lsn,"
        " min(`_commit_ts`) AS min_ts, max(`_commit_ts`) AS max_ts,"
        + ",".join(
            f" count(*) FILTER (WHERE `_operation` = {operation:d}) AS n{operation:d}"
            for operation in (Operation.DELETE, Operation.INSERT, Operation.AFTER)
        )
        + f" FROM bronze WHERE `_batch_id` = {version:d}",
        bronze=table,
    ).to_pylist()[0]
    if not row["n"]:
        return None
    counts = ChangeCounts(
        rows=row["n"],
        deletes=row[f"n{Operation.DELETE:d}"],
        inserts=row[f"n{Operation.INSERT:d}"],
        updates=row[f"n{Operation.AFTER:d}"],
        min_lsn=Lsn.parse(row["min_lsn"]),
        max_lsn=Lsn.parse(row["max_lsn"]),
        min_commit_ts=row["min_ts"],
        max_commit_ts=row["max_ts"],
    )
    start = Offset(counts.min_lsn.previous(), counts.min_commit_ts)
    end = Offset(counts.max_lsn, counts.max_commit_ts)
    return ChangeCommit(app_id, version, target, start, end, counts, engine="")


def changes_end(table: DeltaTable, app_id: str) -> Offset | None:
    """How far bronze's own change commits reach; None without any.

    Where the log no longer tells of the newest one, its rows do, and of one that another tool has
    written all rows; or nothing of bronze does, and it is also None.
    """
    commits = change_commits(table, app_id, None)
    if commits:
        return commits[0].end
    newest = table.transaction_version(app_id)
    if unreadable(table):
        return None
    which = (
        f"`_operation` <> {Operation.SNAPSHOT:d}" if newest is None else f"`_batch_id` = {newest:d}"
    )
    row = query(
        f"SELECT max(`_start_lsn`) AS lsn, max(`_commit_ts`) AS ts FROM bronze WHERE {which}",
        bronze=table,
    ).to_pylist()[0]
    lsn = Lsn.parse_optional(row["lsn"])
    return None if lsn is None else Offset(lsn, row["ts"])


def newest_batch_id(table: DeltaTable) -> int:
    """The largest batch id of its rows, whoever wrote them; 0 where none can be read."""
    if unreadable(table):
        return 0
    row = query("SELECT max(`_batch_id`) AS newest FROM bronze", bronze=table).to_pylist()[0]
    return row["newest"] or 0


def head_above(
    table: DeltaTable, position: Lsn, app_id: str, changed_lsn: str | None = None
) -> Lsn | None:
    """The newest change LSN above a position; files at or below it are skipped by statistics.

    `app_id` is that of the change commits, and `changed_lsn` what control knows of them: both
    for a table whose rows cannot be read.
    """
    if unreadable(table):
        commits = change_commits(table, app_id, None)
        head = commits[0].counts.max_lsn if commits else Lsn.parse_optional(changed_lsn)
        return head if head is not None and head > position else None
    row = query(
        "SELECT max(`_start_lsn`) AS lsn FROM bronze"
        f" WHERE `_operation` <> 0 AND `_start_lsn` > {lsn_literal(position)}",
        bronze=table,
    ).to_pylist()[0]
    return Lsn.parse_optional(row["lsn"])


def newest_whole_snapshot(table: DeltaTable, above: Lsn | None) -> Lsn | None:
    """The newest whole snapshot whose rows stand in bronze, above a known one."""
    floor = f" AND `_start_lsn` > {lsn_literal(above)}" if above else ""
    row = query(
        "SELECT max(coalesce(`_snapshot`, `_start_lsn`)) AS lsn FROM bronze"
        f" WHERE `_operation` = 0 AND `_chunk` IS NULL{floor}",
        bronze=table,
    ).to_pylist()[0]
    return Lsn.parse_optional(row["lsn"])


def snapshot_time(table: DeltaTable, snapshot: Lsn) -> datetime | None:
    """The commit time of a whole snapshot's LSN, as its rows have it; None without any."""
    s = lsn_literal(snapshot)
    row = query(
        "SELECT max(`_commit_ts`) AS ts FROM bronze WHERE `_operation` = 0"
        f" AND `_start_lsn` = {s} AND coalesce(`_snapshot`, `_start_lsn`) = {s}",
        bronze=table,
    ).to_pylist()[0]
    at: datetime | None = row["ts"]
    return at


def has_chunk_rows(select: Select, above: Lsn | None) -> bool:
    """Whether bronze has rows of a chunked snapshot, stamped above an LSN."""
    floor = f" AND `_start_lsn` > {lsn_literal(above)}" if above else ""
    sql = f"SELECT 1 AS one FROM bronze WHERE `_operation` = 0 AND `_chunk` IS NOT NULL{floor}"
    return first_row(select, sql) is not None


def instances_of_rows(select: Select, rows: str) -> frozenset[str]:
    """The capture instances of some rows."""
    found = select(f"SELECT DISTINCT `_capture_instance` AS name FROM bronze WHERE {rows}")
    return frozenset(row["name"] for row in found if row["name"] is not None)


def first_row(select: Select, sql: str) -> dict[str, Any] | None:
    """The first row of a SELECT over a table named `bronze`."""
    return next(iter(select(f"{sql} LIMIT 1")), None)


def snapshot_rows(table: DeltaTable, snapshot: Lsn) -> int | None:
    """How many rows of a whole snapshot bronze holds; None where nothing tells any more."""
    if unreadable(table):
        return next((n for e in table.history() if (n := _snapshot_rows(e, snapshot)) >= 0), None)
    s = lsn_literal(snapshot)
    row = query(
        f"SELECT count(*) AS n FROM bronze WHERE `_operation` = 0 AND `_start_lsn` = {s}"
        f" AND coalesce(`_snapshot`, `_start_lsn`) = {s}",
        bronze=table,
    ).to_pylist()[0]
    return int(row["n"])


def _snapshot_rows(entry: dict[str, Any], snapshot: Lsn) -> int:
    """How many rows a commit gave to a snapshot; -1 for one that is not the snapshot's."""
    try:
        told = json.loads(entry.get("userMetadata") or "{}")
        metrics = entry["operationMetrics"]
        if "snapshot" not in told or Lsn.parse(told["lsn"]) != snapshot:
            return -1
        # As delta-rs and as Spark call it.
        return int(metrics.get("num_added_rows", metrics.get("numOutputRows")))
    except (KeyError, TypeError, ValueError):
        return -1
