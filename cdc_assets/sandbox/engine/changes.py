"""What a statement writes into the change log: before and after images, masks, numbers."""

from __future__ import annotations

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.capture import FIRST_CAPTURED
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import types

_DELETE, _INSERT, _BEFORE, _AFTER = 1, 2, 3, 4


def log_rows(work: Work, table: e.Table, operation: int, stage: str, count: int) -> None:
    """Record inserts (2) or deletes (1): `stage` has the rows (rn, c1, c2, …)."""
    for instance in work.current.instances_of(table.id):
        before = work.sequence(instance.database, count)
        command = work.command(instance)
        columns = ", ".join(
            _image(table, column, f"c{column.id}", operation) for column in instance.columns
        )
        work.connection.execute(
            f"INSERT INTO {instance.log} SELECT {work.id}, {before} + rn, {operation}, {command}, "
            f"{_full_mask(instance)}, {columns} FROM {stage}"
        )


def log_updates(work: Work, table: e.Table, stage: str) -> None:
    """Record updates: `stage` has rn, and for each column o<id> before and c<id> after.

    A row of which no captured column changed leaves no trace; one whose unique key changed is
    recorded as a delete and an insert that share their position.
    """
    for instance in work.current.instances_of(table.id):
        live = [c for c in instance.columns if not c.computed and _still(table, c)]
        if not live:
            continue
        changed = " OR ".join(f"o{c.id} IS DISTINCT FROM c{c.id}" for c in live)
        row = work.connection.one(f"SELECT count(*) FROM {stage} WHERE {changed}")
        count = row[0] if row else 0
        if not count:
            continue
        before = work.sequence(instance.database, count)
        command = work.command(instance)
        keys = [c for c in live if c.id in instance.key_columns]
        moved = " OR ".join(f"o{c.id} IS DISTINCT FROM c{c.id}" for c in keys) or "FALSE"
        rows = (
            f"SELECT *, {before} + row_number() OVER (ORDER BY rn) AS position, "
            f"({moved}) AS moved FROM {stage} WHERE {changed}"
        )
        work.connection.execute(
            f"INSERT INTO {instance.log} WITH r AS MATERIALIZED ({rows}) "
            f"{_update_half(work, table, instance, 'o', command)} UNION ALL "
            f"{_update_half(work, table, instance, 'c', command)}"
        )


def _update_half(work: Work, table: e.Table, instance: e.Instance, side: str, command: int) -> str:
    """The before (`o`) or after (`c`) images."""
    moved, kept = (_DELETE, _BEFORE) if side == "o" else (_INSERT, _AFTER)
    images = ", ".join(
        _image(table, column, f"{side}{column.id}", kept) for column in instance.columns
    )
    return (
        f"SELECT {work.id}, position, CASE WHEN moved THEN {moved} ELSE {kept} END, {command}, "
        f"CASE WHEN moved THEN {_full_mask(instance)} ELSE {_mask(table, instance)} END, "
        f"{images} FROM r"
    )


def _image(table: e.Table, column: e.CapturedColumn, text: str, operation: int) -> str:
    """A captured value: computed columns and large objects' old values are NULL."""
    kind = types.physical(column.type)
    if column.computed or not _still(table, column):
        return f"CAST(NULL AS {kind})"
    if column.type.name in ("text", "ntext", "image") and operation in (_DELETE, _BEFORE):
        return f"CAST(NULL AS {kind})"
    if types.is_max(column.type) and operation == _BEFORE:
        # Recorded only when it changed, or when the row went as a delete.
        return (
            f"CASE WHEN moved OR o{column.id} IS DISTINCT FROM c{column.id} THEN o{column.id} END"
        )
    return text


def _still(table: e.Table, column: e.CapturedColumn) -> bool:
    return any(own.id == column.id for own in table.columns)


def _full_mask(instance: e.Instance) -> str:
    bits = (1 << len(instance.columns)) - 1
    return f"unhex('{bits:0{2 * instance.mask_bytes}X}')"


def _mask(table: e.Table, instance: e.Instance) -> str:
    """One bit per captured column, the first one lowest, set where it changed."""
    texts = []
    for first in reversed(range(0, len(instance.columns), 8)):
        bits = " + ".join(
            "0"
            if column.computed or not _still(table, column)
            else f"CASE WHEN o{column.id} IS DISTINCT FROM c{column.id} THEN {1 << i} ELSE 0 END"
            for i, column in enumerate(instance.columns[first : first + 8])
        )
        texts.append(f"format('{{:02X}}', {bits})")
    return f"unhex({' || '.join(texts)})"


def log_table_columns(instance: e.Instance) -> str:
    """The columns of an instance's log table, for CREATE TABLE."""
    captured = ", ".join(
        f"c{FIRST_CAPTURED + i} {types.physical(column.type)}"
        for i, column in enumerate(instance.columns)
    )
    return f"tran BIGINT, seq BIGINT, op INTEGER, cmd INTEGER, mask BLOB, {captured}"
