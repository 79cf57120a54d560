"""A table with deletion vectors is Spark's to maintain: delta-rs takes theirs for orphans."""

from __future__ import annotations

import os
from pathlib import Path

from deltalake import DeltaTable, write_deltalake

from cdc_assets.contract import silver_columns
from cdc_assets.engines.spark.commits import DELETION_VECTORS
from cdc_assets.engines.spark.merging import delta_path
from cdc_assets.engines.spark.session import new_session
from cdc_assets.lake.tables import query
from cdc_assets.lake.upkeep import beyond_clean_up
from cdc_assets.planning.plans import MaintainPlan
from cdc_assets_tests.engines.spark.helpers import CAPTURED, LiteralEngine, Tables, as_table, lsn

HOURS = 168
ROWS = 100


def rows(uri: str) -> int:
    return int(query("SELECT count(*) AS n FROM s", s=DeltaTable(uri)).to_pylist()[0]["n"])


def test_deletion_vectors_are_kept_and_then_written_into_files(
    engine: LiteralEngine, tables: Tables
) -> None:
    session = new_session(engine._config)
    given = [{"id": i, "name": "a", "_start_lsn": lsn(1)} for i in range(ROWS)]
    write_deltalake(tables.silver, as_table(given, silver_columns(CAPTURED)), mode="append")
    target = delta_path(tables.silver)
    session.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('{DELETION_VECTORS}' = 'true')")
    session.sql(f"DELETE FROM {target} WHERE id % 7 = 3")
    left = rows(tables.silver)
    (vector,) = Path(tables.silver).glob("deletion_vector_*.bin")
    for file in Path(tables.silver).glob("*.*"):
        os.utime(file, (0, 0))

    assert "deletion vectors" in beyond_clean_up(DeltaTable(tables.silver))
    would_go = DeltaTable(tables.silver).vacuum(HOURS, dry_run=True, full=True)
    assert would_go == [vector.name], "delta-rs knows them now: upkeep needs no Spark for them"

    engine.maintain(MaintainPlan("t", tables.silver, retention_hours=HOURS))
    assert vector.exists()
    assert rows(tables.silver) == left < ROWS
