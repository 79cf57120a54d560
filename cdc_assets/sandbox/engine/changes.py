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
        columns = ", ".join(
            _image(table, column, f"c{column.id}", operation) for column in instance.columns
        )
        mask, log = _full_mask(instance), instance.log

        def insert(
            before: int, command: int, into: str = log, rest: str = f"{mask}, {columns}"
        ) -> str:
            return (
                f"INSERT INTO {into} SELECT {work.id}, {before} + rn, {operation}, {command}, "
                f"{rest} FROM {stage}"
            )

        work.record(instance, insert, count)


def log_updates(work: Work, table: e.Table, stage: str, count: int) -> None:
    """Record updates: `stage` has rn, and for each column o<id> before and c<id> after.

    A row of which no captured column changed leaves no trace; one whose unique key changed is
    recorded as a delete and an insert that share their position.
    """
    for instance in work.current.instances_of(table.id):
        live = [c for c in instance.columns if not c.computed and _still(table, c)]
        if live:
            work.record(instance, _Update(work, table, instance, stage, live).insert, count)


class _Update:
    """The text that records an UPDATE in one instance's log."""

    def __init__(
        self,
        work: Work,
        table: e.Table,
        instance: e.Instance,
        stage: str,
        live: list[e.CapturedColumn],
    ) -> None:
        self._tran = work.id
        self._table = table
        self._instance = instance
        self._stage = stage
        self._changed = _differ(live)
        self._moved = _differ([c for c in live if c.id in instance.key_columns])

    def insert(self, before: int, command: int) -> str:
        """Both images of each row: `side` 0 is before, 1 after."""
        operation = f"CASE WHEN {self._moved} THEN {_DELETE} + side ELSE {_BEFORE} + side END"
        mask = (
            f"CASE WHEN {self._moved} THEN {_full_mask(self._instance)} "
            f"ELSE {_mask(self._table, self._instance)} END"
        )
        images = ", ".join(self._both(column) for column in self._instance.columns)
        return (
            f"INSERT INTO {self._instance.log} SELECT {self._tran}, {before} + rn, {operation}, "
            f"{command}, {mask}, {images} FROM {self._stage}, (VALUES (0), (1)) AS v(side) "
            f"WHERE {self._changed}"
        )

    def _both(self, column: e.CapturedColumn) -> str:
        """A captured value's two images; a large object's old one only where it changed."""
        after = _image(self._table, column, f"c{column.id}", _AFTER)
        before = _image(self._table, column, f"o{column.id}", _BEFORE)
        if types.is_max(column.type) and before == f"o{column.id}":
            kept = f"{self._moved} OR o{column.id} IS DISTINCT FROM c{column.id}"
            before = f"CASE WHEN {kept} THEN {before} END"
        return f"CASE WHEN side = 0 THEN {before} ELSE {after} END"


def _differ(columns: list[e.CapturedColumn]) -> str:
    """Whether one of the columns changed."""
    tests = " OR ".join(f"o{c.id} IS DISTINCT FROM c{c.id}" for c in columns)
    return f"({tests})" if tests else "FALSE"


def _image(table: e.Table, column: e.CapturedColumn, text: str, operation: int) -> str:
    """A captured value: computed columns and large objects' old values are NULL."""
    kind = types.physical(column.type)
    if column.computed or not _still(table, column):
        return f"CAST(NULL AS {kind})"
    if column.type.name in ("text", "ntext", "image") and operation in (_DELETE, _BEFORE):
        return f"CAST(NULL AS {kind})"
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
