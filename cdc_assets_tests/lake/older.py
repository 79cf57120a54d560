"""The tables as they were written before they had a version: by the design's first releases.

Nothing here comes from today's contract, and none of it is changed when that grows: it writes,
through delta-rs alone, what lies in lakes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Field, Schema, TableFeatures, write_deltalake
from deltalake.schema import PrimitiveType

ARROW = {
    "string": pa.string(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "timestamp_ntz": pa.timestamp("us"),
}

BRONZE_BEFORE = {
    "_capture_instance": "string",
    "_start_lsn": "string",
    "_seqval": "string",
    "_operation": "integer",
    "_command_id": "integer",
    "_commit_ts": "timestamp_ntz",
}
BRONZE_AFTER = {"_batch_id": "integer"}
"""Before chunked snapshots: without `_snapshot` and `_chunk`."""

SILVER_AFTER = {"_start_lsn": "string", "_commit_ts": "timestamp_ntz"}

FACTS = {
    "app_id": "string",
    "batch_id": "long",
    "rows": "long",
    "min_lsn": "string",
    "max_lsn": "string",
    "min_commit_ts": "timestamp_ntz",
    "max_commit_ts": "timestamp_ntz",
    "deletes": "long",
    "inserts": "long",
    "updates": "long",
    "started_at": "timestamp_ntz",
    "duration_ms": "long",
    "source_rtt_ms": "double",
    "event": "string",
    "lost_from_ts": "timestamp_ntz",
    "lost_to_ts": "timestamp_ntz",
    "end_lsn": "string",
    "end_commit_ts": "timestamp_ntz",
    "target": "string",
    "written_at": "timestamp_ntz",
}
"""Before the events had a payload: without `detail`, and without the newer measurements."""

CONTROL = {
    "table_name": "string",
    "finalized_until": "timestamp_ntz",
    "end_lsn": "string",
    "end_commit_ts": "timestamp_ntz",
    "updated_at": "timestamp_ntz",
}
"""Before silver had a position."""


PLANS = {
    "target": "string",
    "snapshot": "string",
    "plan_id": "string",
    "chunk": "integer",
    "lower": "string",
    "upper": "string",
    "rows": "long",
    "keys": "string",
    "largest": "string",
    "written_at": "timestamp_ntz",
}
"""As they were first written; no release has lacked their version."""


def write(
    uri: str,
    columns: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]] = (),
    *,
    properties: Mapping[str, str] | None = None,
) -> DeltaTable:
    """A table of these columns with these rows; what a row lacks is NULL."""
    fields = [Field(name, PrimitiveType(kind)) for name, kind in columns.items()]
    DeltaTable.create(
        uri, Schema(fields), configuration=dict(properties or {}), raise_if_key_not_exists=False
    )
    if "delta.columnMapping.mode" in (properties or {}):
        DeltaTable(uri).alter.add_feature(
            [TableFeatures.ColumnMapping], allow_protocol_versions_increase=True
        )
    if rows:
        data = {n: pa.array([r.get(n) for r in rows], ARROW[k]) for n, k in columns.items()}
        write_deltalake(uri, pa.table(data), mode="append")
    return DeltaTable(uri)


def tables(captured: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The columns of every kind of table, for a source table of these columns."""
    return {
        "bronze": {**BRONZE_BEFORE, **captured, **BRONZE_AFTER},
        "silver": {**captured, **SILVER_AFTER},
        "facts": FACTS,
        "control": CONTROL,
        "plans": PLANS,
    }
