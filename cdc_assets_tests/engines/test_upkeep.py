"""Upkeep of one table on either engine: small files, order, orphans; what delta-rs must not do."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from cdc_assets.contract import SILVER, Column, silver_columns
from cdc_assets.engines.door import Engine
from cdc_assets.lake.opening import ensure_table
from cdc_assets.lake.tables import file_statistics, query
from cdc_assets.lake.upkeep import order_of
from cdc_assets.planning.maintaining import OVERLAP_MAX, FileExtent, overlap
from cdc_assets.planning.plans import MaintainPlan

KEY = Column("id", "INT")
COLUMNS = silver_columns((KEY, Column("name", "STRING")))
HOURS = 168
ROWS, FILES = 20_000, 4


def depth(uri: str) -> float:
    """In how many files a key may be."""
    return overlap(
        [FileExtent(0, low, high) for low, high in file_statistics(DeltaTable(uri), "id")]
    )


def test_mixed_files_are_ordered_and_orphans_go(tmp_path: Path, engine: Engine) -> None:
    uri = str(tmp_path / "silver")
    table = ensure_table(uri, SILVER, {}, COLUMNS)
    keys = random.Random(7).sample(range(FILES * ROWS), FILES * ROWS)
    for number in range(FILES):
        some = pa.array(keys[number * ROWS : (number + 1) * ROWS], pa.int32())
        names = pa.array([f"name {key}" for key in some.to_pylist()])
        lsns = pa.repeat("0x1", ROWS)
        write_deltalake(
            table,
            pa.table({"_start_lsn": lsns, "id": some, "name": names}),
            mode="append",
            schema_mode="merge",
        )
    assert depth(uri) > OVERLAP_MAX
    bytes_of_all = sum(pa.table(DeltaTable(uri).get_add_actions())["size_bytes"].to_pylist())

    rewrite = MaintainPlan("t", uri, order_of(("id",), COLUMNS), bytes_of_all // FILES)
    assert engine.maintain(rewrite).ordered
    assert len(DeltaTable(uri).file_uris()) > 1
    assert depth(uri) <= OVERLAP_MAX
    version = DeltaTable(uri).version()
    assert not engine.maintain(rewrite).ordered, "they are in order"

    orphan = tmp_path / "silver" / "part-of-a-commit-that-failed.parquet"
    for old in (orphan, *map(Path, DeltaTable(uri, version=FILES).file_uris())):
        old.touch()
        os.utime(old, (0, 0))
    engine.maintain(MaintainPlan("t", uri, retention_hours=HOURS))
    assert not orphan.exists()
    assert all(Path(kept).exists() for kept in DeltaTable(uri, version=FILES).file_uris())
    assert DeltaTable(uri).version() <= version + 4
    found = query("SELECT count(DISTINCT id) AS n FROM s", s=DeltaTable(uri)).to_pylist()
    assert found == [{"n": FILES * ROWS}]


def test_order_is_by_the_columns_that_statistics_know() -> None:
    columns = (KEY, Column("raw", "BINARY"), Column("name", "STRING"))
    assert order_of(("id", "name"), columns) == ("id", "name")
    assert order_of(("id", "raw", "name"), columns) == ("id",)
    assert order_of(("raw", "id"), columns) == ()
    assert order_of((), columns) == ()
