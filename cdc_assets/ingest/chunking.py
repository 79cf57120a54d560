"""The chunks of a table's chunked snapshot: planned from the source once, kept in the lake.

A table's extent is asked for when its snapshot is opened, once its LSN is known: a key above the
largest one then came later, and the changes bring it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cdc_assets.errors import BookkeepingError, SchemaChangedError, SettingsError
from cdc_assets.ingest.ranges import (
    Query,
    bound_of,
    integer_range,
    is_integer,
    key_columns,
    table_rows,
)
from cdc_assets.lake.plans import Plans
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName, folded
from cdc_assets.planning.chunks import (
    Chunk,
    ChunkPlan,
    Extent,
    Sizing,
    Slice,
    integer_chunks,
    keyset_chunks,
)
from cdc_assets.planning.keysets import Compared, Key, KeyType, keeps_order
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.sqlserver import keys as keysets
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.catalog import Captured
from cdc_assets.sqlserver.chunk_queries import count_slices
from cdc_assets.sqlserver.connection import Connection
from cdc_assets.sqlserver.keys import KeyColumn

_RESNAPSHOT = " (cdc-assets snapshot, or CdcStream.snapshot with resnapshot=True)"


def extent_of(
    connection: Connection, instance: CaptureInstance, columns: Captured, chosen: str | None
) -> Extent:
    """What a table is to be cut on, and its largest key now: one seek of its index.

    That is the `chosen` column, else its unique index; nothing where that cannot be cut exactly.
    Raises `SettingsError` for a chosen column that cannot be.
    """
    keys = _wanted_keys(instance, columns, chosen)
    if not keys:
        return Extent()
    table = (instance.schema, instance.table)
    rows = connection.rows(keysets.largest_key(table, keys))
    largest = bound_of(rows[0]) if rows else (None,) * len(keys)
    return Extent(tuple(key.name for key in keys), largest, _types(keys))


def plan_chunks(
    connection: Connection,
    instance: CaptureInstance,
    columns: Captured,
    extent: Extent,
    snapshot: Lsn,
    sizing: Sizing,
) -> ChunkPlan:
    """All chunks of a snapshot, of about as many rows; asks the source, and writes nothing.

    Raises `SettingsError` for too many chunks, and `SchemaChangedError` as `chunk_query` does.
    """
    keys, rows_max = _planned_keys(instance, columns, extent), sizing.rows
    seeks = _Seeks(connection, (instance.schema, instance.table), keys, extent.largest, rows_max)
    if not keys:
        chunks: tuple[Chunk, ...] = (Chunk(0, None, None, table_rows(connection, instance)),)
    elif is_integer(keys) and extent.largest != (None,):
        whole = seeks.whole(table_rows(connection, instance))
        chunks = integer_chunks(whole, rows_max, seeks.slices(whole), where=instance.name)
    else:
        is_unique = extent.keys == instance.index_columns
        chunks = keyset_chunks(seeks, rows_max, is_unique=is_unique, where=instance.name)
    plan_id, types = uuid.uuid4().hex, _types(keys)
    return ChunkPlan(plan_id, snapshot, extent.keys, chunks, extent.largest, types, sizing)


def plan_is_readable(
    plans: Plans,
    table: TableName,
    snapshot: Lsn,
    seen: tuple[CaptureInstance, Captured],
    *,
    is_told: bool,
) -> bool:
    """Whether a snapshot's plan is whole, and what it cuts, or will cut, is there as it was.

    `is_told` says that the facts tell of one.
    """
    try:
        planned = plans.plan(table, snapshot)
        if planned is None and is_told:
            return False
        stored = planned or plans.extent(table, snapshot)
        if stored is not None:
            _planned_keys(*seen, stored)
    except (BookkeepingError, SchemaChangedError):
        return False
    return True


def last_bound(
    connection: Connection, instance: CaptureInstance, columns: Captured, plan: ChunkPlan
) -> ChunkPlan:
    """The plan as it is to be read now: its last chunk ends before what came above it since.

    Where nothing was above the largest key when it was planned, that chunk is open; a table that
    grows at the top would pile up there. Asked before each wave, until there is something.
    """
    *before, last = plan.chunks
    if last.upper is not None or not plan.keys:
        return plan
    keys = _planned_keys(instance, columns, plan)
    end = _Seeks(connection, (instance.schema, instance.table), keys, plan.largest).end()
    return replace(plan, chunks=(*before, replace(last, upper=end)))


def chunk_query(
    instance: CaptureInstance, columns: Captured, plan: ChunkPlan, chunk: Chunk
) -> Query:
    """The SELECT of a chunk's rows.

    Raises `SchemaChangedError` where the columns that the plan cuts are there no more, or have
    another order.
    """
    table, names = (instance.schema, instance.table), columns.selected
    keys = _planned_keys(instance, columns, plan)
    if not keys:
        return queries.read_table(*table, names), ()
    if is_integer(keys):
        low, high = (bound[0] if bound else None for bound in (chunk.lower, chunk.upper))
        return integer_range(table, names, keys[0], (low, high))
    return keysets.read_range(table, names, keys, chunk.lower, chunk.upper)


@dataclass(frozen=True)
class _Seeks:
    """What the server is asked of a key, as `planning.chunks.KeySeeks`."""

    connection: Connection
    table: tuple[str, str]
    keys: Sequence[KeyColumn]
    largest: Key
    rows: int = 0

    def bound(self, lower: Key | None) -> Key | None:
        return self._first(
            keysets.next_bound(self.table, self.keys, lower, self.rows, largest=self.largest)
        )

    def next(self, key: Key) -> Key | None:
        return self._first(
            keysets.next_bound(
                self.table, self.keys, key, 0, start=Compared.ABOVE, largest=self.largest
            )
        )

    def end(self) -> Key | None:
        start = Compared.ABOVE
        return self._first(keysets.next_bound(self.table, self.keys, self.largest, 0, start=start))

    def count(self, lower: Key | None, upper: Key | None) -> int:
        query = keysets.count_range(self.table, self.keys, lower, upper)
        return int(self.connection.rows(*query)[0]["row_count"])

    def whole(self, rows: int) -> Slice:
        """An integer key up to its largest at the open, of about so many rows."""
        extent = self.connection.rows(queries.key_extent(*self.table, self.keys[0].name))[0]
        return Slice(extent["low"], int(self.largest[0] or 0), rows)

    def slices(self, whole: Slice) -> Callable[[Slice, int], list[Slice]]:
        """Counts rows on a grid; those of `whole` from below it on, NULL among them."""

        def counted(found: Slice, width: int) -> list[Slice]:
            query = count_slices(
                self.table, self.keys[0].name, found, width, is_first=found is whole
            )
            return [
                Slice(*values)
                for batch in self.connection.read(*query)
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True)
            ]

        return counted

    def _first(self, query: Query) -> Key | None:
        rows = self.connection.rows(*query)
        return bound_of(rows[0]) if rows else None


def _wanted_keys(
    instance: CaptureInstance, columns: Captured, chosen: str | None
) -> tuple[KeyColumn, ...]:
    if chosen is None:
        keys = key_columns(columns, instance.index_columns)
        return keys if keys and _fits(keys) else ()
    # As it is called at the source, else in the lake, else without regard to case.
    named = (
        [c.source_name for c in columns.columns if chosen == c.source_name]
        or [c.source_name for c in columns.columns if chosen == c.name]
        or [c.source_name for c in columns.columns if folded(chosen) == folded(c.source_name)]
    )
    keys = key_columns(columns, named) if len(named) == 1 else ()
    if not keys:
        raise SettingsError(
            f"it cannot be cut into chunks on the column {chosen}",
            where=instance.name,
            hint="Name another one as `chunk_column`: captured and loaded, not computed, and of a"
            " type with an order: no time, text, xml or (max).",
        )
    return keys


def _planned_keys(
    instance: CaptureInstance, columns: Captured, planned: Extent | ChunkPlan
) -> tuple[KeyColumn, ...]:
    """What is cut on; a range of another order would leave rows out, and nobody would see it."""
    names = planned.keys
    keys = key_columns(columns, names)
    if len(keys) != len(names):
        raise SchemaChangedError(
            f"its chunked snapshot is cut on {', '.join(names)}, which cannot be read any more",
            where=instance.name,
            hint=f"Take a new snapshot of it{_RESNAPSHOT}.",
        )
    for key, before in zip(keys, planned.types, strict=True):
        if not keeps_order(before, key.type):
            raise SchemaChangedError(
                f"its chunked snapshot is cut on {key.name} as {before}, and it is {key.type} now",
                where=instance.name,
                hint=f"Take a new snapshot of it{_RESNAPSHOT}, or give the column its type again.",
            )
    return keys


def _types(keys: Sequence[KeyColumn]) -> tuple[KeyType, ...]:
    return tuple(key.type for key in keys)


def _fits(keys: Sequence[KeyColumn]) -> bool:
    """Whether the server takes a range's parameters: pieces of dozens of columns have too many."""
    lower, upper = (("0",) * len(keys), ("1",) * len(keys))
    _, values = keysets.count_range(("s", "t"), keys, lower, upper)
    return len(values) <= queries.PARAMETERS_MAX
