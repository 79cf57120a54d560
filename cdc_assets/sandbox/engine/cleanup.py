"""Cleanup: the low watermark moves and commits first, the rows below it go afterwards.

A reader that looks at the watermark after its read therefore notices every row it missed.
"""

from __future__ import annotations

from collections.abc import Callable

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.jobs import CleanupJob
from cdc_assets.sandbox.engine.store import Store
from cdc_assets.sandbox.language.values import TICKS_PER_SECOND
from cdc_assets.sandbox.results import SqlError


def clean(
    store: Store,
    instance: e.Instance,
    low_water_mark: bytes | None,
    threshold: int = 5000,
    between: Callable[[], None] | None = None,
) -> int:
    """Remove an instance's changes below a mark (None: below its present one); how many rows.

    `between` runs after the watermark is committed and before a row is deleted. Raises Msg 22957
    for a mark outside the timeline, 22964 for one that is no commit's.
    """
    mark = move_watermark(store, instance, low_water_mark)
    if between is not None:
        between()
    removed = 0
    while True:
        with store.transaction() as connection:
            # In portions, as the real job does: `threshold` rows per statement.
            count = connection.one(
                f"DELETE FROM data.t{instance.table} WHERE rowid IN (SELECT rowid FROM "
                f"data.t{instance.table} WHERE c1 < ? LIMIT {threshold})",
                [mark],
            )
        deleted = int(count[0]) if count else 0
        removed += deleted
        if deleted < threshold:
            break
    _clean_mapping(store, instance.database)
    return removed


def move_watermark(store: Store, instance: e.Instance, low_water_mark: bytes | None) -> bytes:
    """Move the watermark; the mark that holds now."""
    mapping = store.catalog.mapping(instance.database)
    if mapping is None:
        raise SqlError(22901, "The database is not enabled for Change Data Capture.")
    with store.transaction() as connection:
        row = connection.one(
            "SELECT start_lsn FROM catalog.watermarks WHERE instance = ?", [instance.table]
        )
        present = bytes(row[0]) if row else bytes(10)
        if low_water_mark is None:
            return present
        known = connection.one(
            f"SELECT min(c1), max(c1), count(*) FILTER (c1 = ?) FROM {mapping.physical}",
            [low_water_mark],
        ) or (None, None, 0)
        _check_mark(instance, low_water_mark, (present, bytes(known[1] or bytes(10))), known[2])
        connection.execute(
            "UPDATE catalog.watermarks SET start_lsn = ? WHERE instance = ?",
            [low_water_mark, instance.table],
        )
        return low_water_mark


def _check_mark(
    instance: e.Instance, mark: bytes, timeline: tuple[bytes, bytes], entries: int
) -> None:
    """Raise Msg 22957 for a mark outside the timeline, 22964 for one that is no commit's."""
    low, high = timeline
    if not low <= mark <= high:
        raise SqlError(
            22957,
            f"LSN {_shown(mark)}, specified as the new low end point for the change table "
            f"associated with capture instance '{instance.name}', is not within the Change Data "
            f"Capture timeline [{_shown(low)}, {_shown(high)}].",
        )
    if not entries:
        raise SqlError(
            22964,
            f"LSN {_shown(mark)}, specified as the new low end point for change table cleanup must "
            "represent the start_lsn value of a current entry in the cdc.lsn_time_mapping table. "
            "Choose an LSN value that satisfies this requirement.",
        )


def _shown(lsn: bytes) -> str:
    digits = lsn.hex()
    return f"{{{digits[:8]}:{digits[8:16]}:{digits[16:]}}}"


def clean_database(store: Store, database: e.Database, job: CleanupJob) -> int:
    """What the cleanup job does: changes older than its retention go; how many rows."""
    mapping = store.catalog.mapping(database.id)
    if mapping is None:
        return 0
    oldest = store.clock.local() - job.retention * 60 * TICKS_PER_SECOND
    connection = store.connect()
    try:
        row = connection.one(f"SELECT max(c1) FROM {mapping.physical} WHERE c3 <= ?", [oldest])
    finally:
        connection.close()
    if row is None or row[0] is None:
        return 0
    mark, removed = bytes(row[0]), 0
    for instance in store.catalog.instances(database.id):
        if mark > _present(store, instance):
            removed += clean(store, instance, mark, job.threshold)
    return removed


def _present(store: Store, instance: e.Instance) -> bytes:
    connection = store.connect()
    try:
        row = connection.one(
            "SELECT start_lsn FROM catalog.watermarks WHERE instance = ?", [instance.table]
        )
    finally:
        connection.close()
    return bytes(row[0]) if row else bytes(10)


def _clean_mapping(store: Store, database: int) -> None:
    """Times that no instance needs any more go too, except the newest."""
    mapping = store.catalog.mapping(database)
    numbers = ",".join(str(i.table) for i in store.catalog.instances(database))
    if mapping is None or not numbers:
        return
    with store.transaction() as connection:
        connection.execute(
            f"DELETE FROM {mapping.physical} WHERE c1 < (SELECT min(start_lsn) FROM "
            f"catalog.watermarks WHERE instance IN ({numbers})) AND c1 < (SELECT max(c1) FROM "
            f"{mapping.physical})"
        )
