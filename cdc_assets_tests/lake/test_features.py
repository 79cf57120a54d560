"""Which Delta features delta-rs can do: our lists say exactly what it says itself."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from cdc_assets.errors import TableFeatureError
from cdc_assets.lake.features import READABLE, WRITABLE
from cdc_assets.lake.tables import beyond_arrow, query

OF_WRITERS = (
    *("appendOnly", "invariants", "checkConstraints", "generatedColumns", "changeDataFeed"),
    *("allowColumnDefaults", "identityColumns", "rowTracking", "domainMetadata", "clustering"),
    *("icebergCompatV1", "icebergCompatV2", "inCommitTimestamp", "unheard-of"),
)
OF_READERS = (
    *("columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"),
    *("variantType", "variantType-preview", "variantShredding-preview"),
    *("typeWidening", "typeWidening-preview", "vacuumProtocolCheck"),
)


def create(folder: Path, feature: str) -> DeltaTable:
    """A table whose protocol has one feature: its log by hand, since delta-rs may refuse it."""
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [feature] if feature in OF_READERS else [],
        "writerFeatures": [feature],
    }
    column = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    metadata = {
        "id": feature,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [column]}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    actions = [{"protocol": protocol}, {"metaData": metadata}]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return DeltaTable(str(folder))


@pytest.mark.parametrize("feature", [*OF_WRITERS, *OF_READERS])
def test_what_delta_rs_can_do(tmp_path: Path, feature: str) -> None:
    table = create(tmp_path / "t", feature)
    try:
        write_deltalake(table, pa.table({"id": [1]}), mode="append")
        written = True
    except DeltaError:
        written = False
    assert written == (feature in WRITABLE)
    assert written == (beyond_arrow(table, ()) == "")
    if feature in OF_WRITERS or feature in READABLE:
        assert query("SELECT count(*) AS n FROM t", t=table).to_pylist() == [{"n": int(written)}]
    else:
        with pytest.raises(TableFeatureError, match=f"cannot read .* {feature}"):
            query("SELECT * FROM t", t=table)
