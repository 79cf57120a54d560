"""Cleanup: the low watermark moves and commits first, the rows below it go afterwards.

A reader that looks at the watermark after its read therefore notices every row it missed.
"""

from __future__ import annotations

from collections.abc import Callable

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.store import Store
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
    for a mark outside the timeline.
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
        if not known[2] or low_water_mark < present:
            high = bytes(known[1] or bytes(10)).hex()
            raise SqlError(
                22957,
                f"LSN {{{low_water_mark.hex()}}}, specified as the new low end point for the "
                f"change table of capture instance '{instance.name}', is not within the Change "
                f"Data Capture timeline [{present.hex()}, {high}].",
            )
        connection.execute(
            "UPDATE catalog.watermarks SET start_lsn = ? WHERE instance = ?",
            [low_water_mark, instance.table],
        )
        return low_water_mark


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
