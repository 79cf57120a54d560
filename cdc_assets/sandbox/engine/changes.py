"""What a statement writes into the change log: before and after images, masks, numbers."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.capture import FIRST_CAPTURED
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import collation, types

_COLLAPSED = "temp.collapsed"
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


def log_updates(work: Work, table: e.Table, stage: str, count: int, written: set[int]) -> None:
    """Record updates: `stage` has rn, and for each column o<id> before and c<id> after.

    A row of which no captured column changed leaves no trace; one whose unique key changed is
    recorded as a delete and an insert that share their position. Where a statement of several
    rows moves keys, a key that one row leaves and another takes is an update of that key: SQL
    Server's plan splits the rows into deletes and inserts, sorts them by key and collapses what
    meets (showplan's operators Split, Sort and Collapse).
    """
    for instance in work.current.instances_of(table.id):
        live = [c for c in instance.columns if not c.computed and _still(table, c)]
        keys = [c for c in live if c.id in instance.key_columns]
        if not live:
            continue
        if count > 1 and written & {c.id for c in keys}:
            _collapse(work, table, stage, keys)
            log = _Update(work, table, instance, _COLLAPSED, _Sides.collapsed(live))
            work.record(instance, log.insert, 2 * count)
            continue
        log = _Update(work, table, instance, stage, _Sides.of(live, keys))
        work.record(instance, log.insert, count)


def _collapse(work: Work, table: e.Table, stage: str, keys: list[e.CapturedColumn]) -> None:
    """Stage old and new rows side by side where their keys meet; one of the two where not.

    The rows of a pair keep one position; an insert whose row's delete met another has its own.
    """
    own = [table.by_id(c.id) for c in keys]
    meet = " AND ".join(
        f"{collation.equality_key(f'a.o{c.id}', c.type)} IS NOT DISTINCT FROM "
        f"{collation.equality_key(f'b.c{c.id}', c.type)}"
        for c in own
    )
    columns = table.columns
    old = ", ".join(f"a.o{c.id} AS o{c.id}" for c in columns)
    new = ", ".join(f"b.c{c.id} AS c{c.id}" for c in columns)
    work.connection.stage(
        "collapsed",
        "SELECT CASE WHEN p.here AND p.leaving THEN 2 * p.newer ELSE 2 * p.older - 1 END AS rn, "
        "* EXCLUDE (here, leaving, newer, older) FROM ("
        "SELECT coalesce(a.rn, b.rn) AS older, b.rn AS newer, a.rn IS NULL AS here, "
        f"b.rn IN (SELECT a.rn FROM {stage} AS a JOIN {stage} AS b ON {meet}) AS leaving, "
        f"a.rn IS NOT NULL AS was, b.rn IS NOT NULL AS becomes, {old}, {new} "
        f"FROM {stage} AS a FULL JOIN {stage} AS b ON {meet}) AS p",
    )


@dataclass(frozen=True, slots=True)
class _Sides:
    """Which images of a row are recorded: as a move (1, 2) or as an update (3, 4)."""

    moved: str
    recorded: str

    @classmethod
    def of(cls, live: list[e.CapturedColumn], keys: list[e.CapturedColumn]) -> _Sides:
        """Both images of every row that changed."""
        return cls(_differ(keys), _differ(live))

    @classmethod
    def collapsed(cls, live: list[e.CapturedColumn]) -> _Sides:
        """The images that there are; both where two rows met and differ."""
        alone = "(was AND NOT becomes AND side = 0) OR (becomes AND NOT was AND side = 1)"
        return cls(
            "(NOT was OR NOT becomes)", f"({alone} OR (was AND becomes AND {_differ(live)}))"
        )


class _Update:
    """The text that records an UPDATE in one instance's log."""

    def __init__(
        self,
        work: Work,
        table: e.Table,
        instance: e.Instance,
        stage: str,
        sides: _Sides,
    ) -> None:
        self._tran = work.id
        self._table = table
        self._instance = instance
        self._stage = stage
        self._recorded = sides.recorded
        self._moved = sides.moved

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
            f"WHERE {self._recorded}"
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
