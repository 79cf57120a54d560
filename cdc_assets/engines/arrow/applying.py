"""Silver's MERGE: DataFusion ranks, delta-rs merges."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from cdc_assets.contract import Column
from cdc_assets.engines.arrow.appending import all_columns
from cdc_assets.lake.failures import is_conflict
from cdc_assets.lake.tables import StorageOptions, commit_properties, query
from cdc_assets.planning.merging import key_bounds, quoted
from cdc_assets.planning.plans import ApplyPlan, ApplyResult
from cdc_assets.sqlserver.read import arrow_schema


def apply(plan: ApplyPlan, options: StorageOptions) -> ApplyResult:
    """See `engines.door.Engine.apply`."""
    silver = DeltaTable(plan.silver_uri, storage_options=dict(options))
    if (silver.transaction_version(plan.tag.app_id) or 0) != plan.tag.version - 1:
        return ApplyResult(overtaken=True)
    bronze = DeltaTable(plan.bronze_uri, version=plan.bronze_version, storage_options=dict(options))
    tables = {"bronze": bronze, **({"silver": silver} if plan.texts.reads_silver else {})}
    ranked = _bare(query(plan.texts.ranking, **tables))
    try:
        metrics = _merge(silver, plan, ranked)
        if not metrics.changed:
            _commit_nothing(silver, plan)
    except DeltaError as error:
        if is_conflict(error):
            return ApplyResult(overtaken=True)
        raise
    return ApplyResult(
        overtaken=False,
        version=silver.version(),
        upserted=metrics.upserted,
        deleted=metrics.deleted,
    )


@dataclass(frozen=True, slots=True)
class _Metrics:
    changed: bool
    upserted: int
    deleted: int


def _bare(rows: pa.Table) -> pa.Table:
    """Rows without bronze's comments: merged into silver's schema, they would contradict its."""
    return rows.cast(pa.schema([pa.field(f.name, f.type) for f in rows.schema]))


def _merge(silver: DeltaTable, plan: ApplyPlan, ranked: pa.Table) -> _Metrics:
    known = {f.name for f in silver.schema().fields}
    every = {quoted(c.name): f"s.{quoted(c.name)}" for c in plan.columns}
    before = silver.version()
    texts = plan.texts
    merger = (
        silver.merge(
            ranked,
            _with_bounds(plan, ranked),
            source_alias="s",
            target_alias="t",
            merge_schema=any(c.name not in known for c in plan.columns),
            streamed_exec=False,
            commit_properties=commit_properties(plan.tag, retries=0),
        )
        .when_matched_delete(f"{texts.newer} AND {texts.is_delete}")
        .when_matched_update(every, f"{texts.newer} AND {texts.is_upsert}")
        .when_not_matched_insert(every, texts.is_upsert)
    )
    if plan.rebuild:
        merger = merger.when_not_matched_by_source_delete()
    found = merger.execute()
    return _Metrics(
        changed=silver.version() != before,
        upserted=found["num_target_rows_inserted"] + found["num_target_rows_updated"],
        deleted=found["num_target_rows_deleted"],
    )


def _with_bounds(plan: ApplyPlan, ranked: pa.Table) -> str:
    """The match condition with the source's key bounds, so that file statistics prune.

    A rebuild looks at every target row, so there is nothing to prune.
    """
    if plan.rebuild or ranked.num_rows == 0:
        return plan.texts.matched
    types = {column.name: column for column in plan.columns}
    bounds = [_bounds(types[key], ranked[key]) for key in plan.keys]
    return " AND ".join([plan.texts.matched, *(b for b in bounds if b)])


def _bounds(key: Column, values: pa.ChunkedArray) -> str | None:
    extent = pc.min_max(values).as_py()
    if extent["min"] is None:
        return None
    return key_bounds(key, extent["min"], extent["max"], values.null_count > 0)


def _commit_nothing(silver: DeltaTable, plan: ApplyPlan) -> None:
    """Carry the transaction where the MERGE changed nothing: delta-rs then commits nothing."""
    write_deltalake(
        silver,
        arrow_schema(all_columns(silver, plan.columns)).empty_table(),
        mode="append",
        commit_properties=commit_properties(plan.tag, retries=0),
    )
