"""The plan of one MERGE, from what was decided."""

from __future__ import annotations

import json

from deltalake import DeltaTable

from cdc_assets.contract import Column
from cdc_assets.names import TableName
from cdc_assets.planning.applying import ApplyWork
from cdc_assets.planning.merging import changes_above, merge_texts, rebuild_from
from cdc_assets.planning.plans import ApplyPlan, CommitTag


def merge_plan(
    table: TableName,
    bronze: DeltaTable,
    columns: tuple[Column, ...],
    keys: tuple[str, ...],
    work: ApplyWork,
    version: int,
) -> ApplyPlan:
    """The MERGE of bronze as it was read, as version `version` of silver's applies."""
    rows = changes_above(work.above) if work.rows_of is None else rebuild_from(work.rows_of)
    metadata = {"applied_lsn": str(work.position.applied), "bronze_version": bronze.version()}
    return ApplyPlan(
        table=str(table),
        bronze_uri=table.bronze_uri,
        bronze_version=bronze.version(),
        silver_uri=table.silver_uri,
        columns=columns,
        keys=keys,
        texts=merge_texts(columns, keys, rows),
        rebuild=work.is_rebuild,
        tag=CommitTag(table.apply_app, version, json.dumps(metadata)),
    )
