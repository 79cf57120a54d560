"""The plans table: the chunks of chunked snapshots, each written once and never changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_assets.clock import utc_now
from cdc_assets.contract import PLANS
from cdc_assets.errors import BookkeepingError
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.opening import ensure_table, open_table
from cdc_assets.lake.tables import StorageOptions, query, retry_conflicts
from cdc_assets.lsn import Lsn
from cdc_assets.names import Command, TableName
from cdc_assets.planning.absent import ChunkRanges
from cdc_assets.planning.chunks import Chunk, ChunkPlan, Extent, Sizing
from cdc_assets.planning.keysets import Key, KeyType


@dataclass(frozen=True, slots=True)
class _Row:
    """One row; field names are the contract's column names."""

    target: str
    snapshot: str
    keys: str
    largest: str
    written_at: datetime
    plan_id: str | None = None
    chunk: int | None = None
    lower: str | None = None
    upper: str | None = None
    rows: int | None = None
    sizing: str | None = None


class Plans:
    """The plans table of one database."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self._uri = uri
        self._options = options

    def store_extent(self, table: TableName, snapshot: Lsn, extent: Extent) -> Extent:
        """Record the largest key at the open, once; gives what is recorded."""
        found = self.extent(table, snapshot)
        if found is None:
            self._append([_row(table, snapshot, extent)], table.extent_app(snapshot))
        return found or self.extent(table, snapshot) or extent

    def extent(self, table: TableName, snapshot: Lsn) -> Extent | None:
        """What was recorded at the open of a snapshot, if anything was."""
        for row in self._rows(table, snapshot, "plan_id IS NULL"):
            return Extent(*_keys(row))
        return None

    def store(self, table: TableName, plan: ChunkPlan) -> ChunkPlan:
        """Write a snapshot's plan, once; gives the one that is written, which may be another's.

        What is there of the table's earlier snapshots goes: they are complete or given up, and
        nothing reads their plans. So a table has one plan, or two where a run died here.
        """
        # Looked for by its rows too: Delta may be told to forget transactions after a while.
        if (found := self.plan(table, plan.snapshot)) is not None:
            return found
        row = _row(table, plan.snapshot, Extent(plan.keys, plan.largest, plan.types))
        rows = [
            replace(
                row,
                plan_id=plan.plan_id,
                chunk=chunk.number,
                lower=_text(chunk.lower),
                upper=_text(chunk.upper),
                rows=chunk.rows,
                sizing=json.dumps(asdict(plan.sizing)) if plan.sizing else None,
            )
            for chunk in plan.chunks
        ]
        self._append(rows, table.plan_app(plan.snapshot))
        stored = self.plan(table, plan.snapshot)
        if stored is None:
            raise _lacking(plan.plan_id, table, self._uri)
        self._forget_before(table, plan.snapshot)
        return stored

    def _forget_before(self, table: TableName, snapshot: Lsn) -> None:
        earlier = f"target = {_quoted(table.bronze)} AND snapshot < '{snapshot}'"

        def attempt() -> None:
            plans = ensure_table(self._uri, PLANS, self._options)
            found = query(f"SELECT count(*) AS n FROM plans WHERE {earlier}", plans=plans)
            if found["n"][0].as_py():
                plans.delete(earlier, commit_properties=CommitProperties(max_commit_retries=0))

        with lake_failures(self._uri):
            retry_conflicts(attempt, where=self._uri)

    def close(self, table: TableName, plan: ChunkPlan) -> ChunkPlan:
        """Record the bound that closes a plan's last chunk, once; gives the plan as it is recorded.

        Before a wave is read with it: a reader of that chunk then knows where it ended.
        """
        found = self.plan(table, plan.snapshot, plan.plan_id)
        if found is not None and found.chunks[-1].upper is None:
            row = _row(table, plan.snapshot, Extent(plan.keys, plan.largest, plan.types))
            upper = _text(plan.chunks[-1].upper)
            row = replace(row, plan_id=plan.plan_id, upper=upper)
            self._append([row], table.bound_app(plan.snapshot))
            found = self.plan(table, plan.snapshot, plan.plan_id)
        if found is None:
            raise _lacking(plan.plan_id, table, self._uri)
        return found

    def plan(self, table: TableName, snapshot: Lsn, plan_id: str | None = None) -> ChunkPlan | None:
        """A snapshot's plan, None where it has none yet; its bounds are those it is read by.

        Asked after the facts have told of a chunk, that chunk's `lower` and `upper` are the range
        that was read under its stamp: a key of it that bronze has no row of was not there. A last
        chunk without `upper` was read without an end. Raises `BookkeepingError` for a plan that is
        not whole, or that is not the named one.
        """
        # The bound of the last chunk may have been written by a clock that was behind.
        order = "plan_id IS NOT NULL ORDER BY chunk IS NULL, written_at, chunk"
        rows = self._rows(table, snapshot, order)
        if not rows and plan_id is None:
            return None
        found = plan_id or rows[0].plan_id or ""
        rows = [row for row in rows if row.plan_id == found]
        chunks = tuple(
            Chunk(row.chunk, _bound(row.lower), _bound(row.upper), row.rows or 0)
            for row in rows
            if row.chunk is not None
        )
        if chunks and chunks[-1].upper is None and rows[-1].chunk is None:
            chunks = (*chunks[:-1], replace(chunks[-1], upper=_bound(rows[-1].upper)))
        ends = zip([None, *(c.upper for c in chunks)], chunks, strict=False)
        if not chunks or any(c.lower != end or c.number != n for n, (end, c) in enumerate(ends)):
            raise _lacking(found, table, self._uri)
        keys, largest, types = _keys(rows[0])
        sizing = Sizing(**json.loads(rows[0].sizing)) if rows[0].sizing else None
        return ChunkPlan(found, snapshot, keys, chunks, largest, types, sizing)

    def ranges(
        self, table: TableName, snapshot: Lsn, plan_id: str, first: int, last: int
    ) -> ChunkRanges | None:
        """The ranges of some chunks of a plan, from `first` to `last`; None where it has none.

        Asked after the facts have told of them, they are those that were read, as `plan` says. Of
        a chunk that the plan lacks nothing is said.
        """
        quoted = plan_id.replace("'", "''")
        where = f"plan_id = '{quoted}' AND (chunk BETWEEN {first:d} AND {last:d} OR chunk IS NULL)"
        rows = self._rows(table, snapshot, f"{where} ORDER BY chunk")
        chunks = {
            row.chunk: Chunk(row.chunk, _bound(row.lower), _bound(row.upper), row.rows or 0)
            for row in rows
            if row.chunk is not None
        }
        if not chunks:
            return None
        newest = chunks[max(chunks)]
        ends = [row for row in rows if row.chunk is None]
        if newest.upper is None and ends:
            chunks[newest.number] = replace(newest, upper=_bound(ends[0].upper))
        keys, _, types = _keys(rows[0])
        return ChunkRanges(keys, types, chunks)

    def _append(self, rows: Sequence[_Row], app_id: str) -> None:
        def attempt() -> None:
            table = ensure_table(self._uri, PLANS, self._options)
            if table.transaction_version(app_id) is not None:
                return
            write_deltalake(
                table,
                _to_arrow(table, rows),
                mode="append",
                commit_properties=CommitProperties(
                    # A conflict must come back to us: another writer may have written the same.
                    max_commit_retries=0,
                    app_transactions=[Transaction(app_id, 0)],
                ),
            )

        with lake_failures(self._uri):
            retry_conflicts(attempt, where=self._uri)

    def _rows(self, of: TableName, snapshot: Lsn, where: str) -> list[_Row]:
        table = open_table(self._uri, PLANS, self._options)
        if table is None:
            return []
        names = ", ".join(f"`{name}`" for name in PLANS.names)
        found = query(
            f"SELECT {names} FROM plans WHERE target = {_quoted(of.bronze)}"
            f" AND snapshot = '{snapshot}' AND {where}",
            plans=table,
        )
        return [_Row(**row) for row in found.to_pylist()]


def _row(table: TableName, snapshot: Lsn, extent: Extent) -> _Row:
    named = zip(extent.keys, extent.types, strict=True)
    keys = [{"name": name, **asdict(type_)} for name, type_ in named]
    largest = json.dumps(extent.largest)
    return _Row(table.bronze, str(snapshot), json.dumps(keys), largest, utc_now())


def _keys(row: _Row) -> tuple[tuple[str, ...], Key, tuple[KeyType, ...]]:
    """The columns of a key, its largest value at the open, and their types."""
    keys = json.loads(row.keys)
    types = tuple(KeyType(key["declared"], key["collation"]) for key in keys)
    return tuple(key["name"] for key in keys), _key(row.largest), types


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _text(key: Key | None) -> str | None:
    return None if key is None else json.dumps(key)


def _bound(text: str | None) -> Key | None:
    return None if text is None else _key(text)


def _key(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text))


def _lacking(plan_id: str, table: TableName, uri: str) -> BookkeepingError:
    return BookkeepingError(
        f"the plan {plan_id} of its chunked snapshot is not whole",
        where=str(table),
        hint="If a newer snapshot or a reset has given this one up meanwhile, nothing is lost: the"
        f" next run goes on with the newer one. Were rows removed from {uri} by hand? Restore it,"
        f" or take a new snapshot: {table.command(Command.RESNAPSHOT)}.",
    )


def _to_arrow(table: DeltaTable, rows: Sequence[_Row]) -> pa.Table:
    schema = pa.schema(table.schema().to_arrow())
    data: dict[str, list[Any]] = {n: [getattr(row, n) for row in rows] for n in PLANS.names}
    return pa.table(data, schema=pa.schema([schema.field(name) for name in PLANS.names]))
