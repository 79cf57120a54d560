"""Silver's MERGE: DataFusion ranks, delta-rs merges; at once, or key range by key range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from cdc_assets import faults
from cdc_assets.engines.arrow.appending import all_columns
from cdc_assets.engines.arrow.cutting import key_ranges
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.failures import is_conflict
from cdc_assets.lake.tables import StorageOptions, commit_properties, query
from cdc_assets.planning.bounds import Extent, KeyRange, Times, key_bounds
from cdc_assets.planning.literals import quoted
from cdc_assets.planning.merging import REMOVED
from cdc_assets.planning.plans import ApplyPlan, ApplyResult, CommitTag
from cdc_assets.sqlserver.read import arrow_schema

_TIMES = Times.DATAFUSION


def apply(
    plan: ApplyPlan, options: StorageOptions, bronze: DeltaTable | None = None
) -> ApplyResult:
    """See `engines.door.Engine.apply`."""
    given = dict(options)
    silver = DeltaTable(plan.silver_uri, storage_options=given)
    if (silver.transaction_version(plan.tag.app_id) or 0) != plan.tag.version - 1:
        return ApplyResult(overtaken=True)
    bronze = bronze or DeltaTable(
        plan.bronze_uri, version=plan.bronze_version, storage_options=given
    )
    ranges = key_ranges(plan, bronze) if plan.limit is not None else ()
    work = _Apply(plan, bronze, silver)
    try:
        if len(ranges) > 1:
            for keys in ranges:
                work.merge_range(keys)
        else:
            work.merge_all()
        if not work.commits:
            _commit_nothing(silver, plan)
    except DeltaError as error:
        if is_conflict(error):
            return ApplyResult(overtaken=True)
        raise
    return ApplyResult(
        overtaken=False,
        version=silver.version(),
        upserted=work.upserted,
        deleted=work.deleted,
    )


@dataclass(slots=True)
class _Apply:
    """The MERGEs of one call, each on the version that the one before has left, and their counts.

    A MERGE that changes nothing makes no commit.
    """

    plan: ApplyPlan
    bronze: DeltaTable
    silver: DeltaTable
    commits: int = 0
    upserted: int = 0
    deleted: int = 0

    def merge_all(self) -> None:
        """Rank all rows and merge them; a rebuild looks at every target row."""
        plan = self.plan
        ranked = self._query(f"{plan.texts.ranking}{self._order()}")
        matched = plan.texts.matched if plan.rebuild else _with_bounds(plan, ranked)
        self._merge(ranked, matched, removes_others=plan.rebuild)

    def merge_range(self, keys: KeyRange) -> None:
        """The same for the keys of one range, in a MERGE that looks at those alone.

        A rebuild names the keys to remove: a MERGE that removes what its source lacks would hold
        every target row that it does not change in memory.
        """
        plan = self.plan
        rows = self._query(
            f"SELECT * FROM ({plan.texts.ranking}) AS `of_keys` WHERE {keys.holds(_TIMES)}"
            f"{self._order()}"
        )
        if plan.rebuild:
            rows = pa.concat_tables([rows, self._removed(rows, keys)])
        if rows.num_rows:
            self._merge(rows, _with_bounds(plan, rows), removes_others=False)
            faults.reach(FaultPoint.SILVER_RANGE_MERGED)

    def _removed(self, ranked: pa.Table, keys: KeyRange) -> pa.Table:
        """A row for each silver key of the range that the ranking lacks, which deletes it."""
        names, texts = list(self.plan.keys), self.plan.texts
        others = [f"{value} AS {quoted(name)}" for name, value in texts.others.items()]
        there = _bare(
            query(
                f"SELECT {', '.join([*map(quoted, names), *others])} FROM `silver` AS t"
                f" WHERE ({keys.holds(_TIMES)}) AND {texts.is_other}",
                silver=self.silver,
            )
        )
        gone = _without(there, ranked.select(names))
        given: Mapping[str, pa.Array] = {
            **{name: gone[name] for name in gone.column_names},
            "_operation": pa.repeat(pa.scalar(REMOVED, pa.int32()), gone.num_rows),
        }
        columns = [
            given[f.name].cast(f.type) if f.name in given else pa.nulls(gone.num_rows, f.type)
            for f in ranked.schema
        ]
        return pa.table(columns, schema=ranked.schema)

    def _order(self) -> str:
        """What lets a rebuild write rows in the order of the key: most of them are new."""
        by = ", ".join(quoted(key) for key in self.plan.keys)
        return f" ORDER BY {by}" if self.plan.rebuild else ""

    def _query(self, sql: str) -> pa.Table:
        tables = {"silver": self.silver} if self.plan.texts.reads_silver else {}
        return _bare(query(sql, bronze=self.bronze, **tables))

    def _merge(self, ranked: pa.Table, matched: str, *, removes_others: bool) -> None:
        plan, texts, silver = self.plan, self.plan.texts, self.silver
        known = {f.name for f in silver.schema().fields}
        every = {quoted(c.name): f"s.{quoted(c.name)}" for c in plan.columns}
        before = silver.version()
        merger = (
            silver.merge(
                ranked,
                matched,
                source_alias="s",
                target_alias="t",
                merge_schema=any(c.name not in known for c in plan.columns),
                streamed_exec=False,
                commit_properties=commit_properties(self._tag(), retries=0),
            )
            .when_matched_update(every, f"{texts.newer} AND {texts.is_upsert}")
            .when_not_matched_insert(every, texts.inserts)
        )
        if texts.marked:
            mark = {quoted(name): every[quoted(name)] for name in texts.marked}
            merger = merger.when_matched_update(mark, f"{texts.newer} AND {texts.is_delete}")
        else:
            merger = merger.when_matched_delete(f"{texts.newer} AND {texts.is_delete}")
        if removes_others and texts.others:
            others = {quoted(name): value for name, value in texts.others.items()}
            merger = merger.when_not_matched_by_source_update(others, texts.is_other)
        elif removes_others:
            merger = merger.when_not_matched_by_source_delete(texts.is_other)
        found = merger.execute()
        self.commits += silver.version() != before
        self.upserted += found["num_target_rows_inserted"] + found["num_target_rows_updated"]
        self.deleted += found["num_target_rows_deleted"]

    def _tag(self) -> CommitTag:
        return replace(self.plan.tag, version=self.plan.tag.version + self.commits)


def _bare(rows: pa.Table) -> pa.Table:
    """Rows without bronze's comments: merged into silver's schema, they would contradict its."""
    return rows.cast(pa.schema([pa.field(f.name, f.type) for f in rows.schema]))


def _without(rows: pa.Table, others: pa.Table) -> pa.Table:
    """The rows whose key is not among the others; NULL equals NULL, as it does in the MERGE."""
    # Each row as one number: the place of its values among those of the others, or NULL.
    place = other_place = pa.chunked_array([], pa.int64())
    for at, name in enumerate(others.column_names):
        here, there = _places(rows[name], others[name])
        if at:
            width = len(others[name].unique())
            here = pc.add(pc.multiply(place, width), here)
            there = pc.add(pc.multiply(other_place, width), there)
            here, there = _places(here, there)
        place, other_place = here, there
    return rows.filter(pc.is_null(place))


def _places(
    values: pa.ChunkedArray, others: pa.ChunkedArray
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Where among the different ones of the others each value stands, and each of the others."""
    known = others.unique()
    here, there = (pc.index_in(column, value_set=known) for column in (values, others))
    return here.cast(pa.int64()), there.cast(pa.int64())


def _with_bounds(plan: ApplyPlan, ranked: pa.Table) -> str:
    """The match condition with the source's key bounds, so that file statistics prune."""
    if ranked.num_rows == 0:
        return plan.texts.matched
    types = {column.name: column for column in plan.columns}
    bounds = [key_bounds(types[key], _extent(ranked[key]), _TIMES) for key in plan.keys]
    return " AND ".join([plan.texts.matched, *(b for b in bounds if b)])


def _extent(values: pa.ChunkedArray) -> Extent:
    found = pc.min_max(values).as_py()
    return Extent(found["min"], found["max"], values.null_count > 0)


def _commit_nothing(silver: DeltaTable, plan: ApplyPlan) -> None:
    """Carry the transaction where the MERGE changed nothing: delta-rs then commits nothing."""
    write_deltalake(
        silver,
        arrow_schema(all_columns(silver, plan.columns)).empty_table(),
        mode="append",
        commit_properties=commit_properties(plan.tag, retries=0),
    )
