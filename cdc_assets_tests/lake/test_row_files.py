"""What the log says of bronze's files answers as the rows do, or leaves it to them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets.contract import BRONZE, Column, bronze_columns
from cdc_assets.lake.bronze import (
    has_chunk_rows,
    head_above,
    instances_of_rows,
    newest_whole_snapshot,
)
from cdc_assets.lake.opening import ensure_table
from cdc_assets.lake.rowfiles import RowFiles
from cdc_assets.lake.tables import query
from cdc_assets.lsn import Lsn
from cdc_assets.sqlserver.read import arrow_schema

COLUMNS = bronze_columns((Column("id", "INT"),))
KINDS = {"snapshot": (0,), "changes": (1, 2, 3, 4), "both": (0, 2)}
LSNS = 6


def bronze(folder: Path, seed: int) -> DeltaTable:
    """A bronze of up to three files, each of a snapshot, of changes, or of both."""
    drawn = random.Random(seed)
    table = ensure_table(str(folder / "t"), BRONZE, {}, COLUMNS)
    for _ in range(drawn.randint(0, 3)):
        operations = KINDS[drawn.choice(list(KINDS))]
        rows = [_row(drawn, drawn.choice(operations)) for _ in range(drawn.randint(1, 4))]
        data = pa.Table.from_pylist(rows, arrow_schema(COLUMNS))
        write_deltalake(table, data, mode="append")
    return table


def _row(drawn: random.Random, operation: int) -> dict[str, object]:
    is_chunk = operation == 0 and drawn.random() < 0.5
    return {column.name: None for column in COLUMNS} | {
        "_start_lsn": str(Lsn.of_int(drawn.randint(1, LSNS))),
        "_operation": operation,
        "_capture_instance": drawn.choice(["dbo_t", "dbo_t", "dbo_t_2"]),
        "_chunk": 1 if is_chunk else None,
        "_snapshot": str(Lsn.of_int(1)) if is_chunk else None,
    }


@pytest.mark.parametrize("seed", range(20))
def test_as_the_rows_do(tmp_path: Path, seed: int) -> None:
    table = bronze(tmp_path, seed)
    files = RowFiles.of(table)

    def select(sql: str) -> list[dict[str, object]]:
        return query(sql, bronze=table).to_pylist()

    for number in range(LSNS + 1):
        above = Lsn.of_int(number)
        told = files.head_above(above)
        if told is not None:
            assert told[0] == head_above(table, above, "t#changes")
        if not files.may_hold_snapshot_rows(above):
            assert newest_whole_snapshot(table, above) is None
            assert not has_chunk_rows(select, above)
        instances = files.instances_from(above)
        if instances is not None:
            assert instances >= instances_of_rows(select, f"`_start_lsn` >= '{above}'")
    if not files.may_hold_snapshot_rows(None):
        assert newest_whole_snapshot(table, None) is None


def test_files_of_changes_alone_need_no_row(tmp_path: Path) -> None:
    """The usual batch: the position, the snapshots and the instances come from the log."""
    table = ensure_table(str(tmp_path / "t"), BRONZE, {}, COLUMNS)
    for lsn, operation in ((1, 0), (2, 2), (3, 4)):
        row = _row(random.Random(0), operation) | {"_start_lsn": str(Lsn.of_int(lsn))}
        row["_capture_instance"] = "dbo_t"
        write_deltalake(table, pa.Table.from_pylist([row], arrow_schema(COLUMNS)), mode="append")
    files = RowFiles.of(table)
    assert files.head_above(Lsn.of_int(1)) == (Lsn.of_int(3),)
    assert files.head_above(Lsn.of_int(3)) == (None,)
    assert files.instances_from(Lsn.of_int(2)) == {"dbo_t"}
    assert files.may_hold_snapshot_rows(None)
    assert not files.may_hold_snapshot_rows(Lsn.of_int(1))
