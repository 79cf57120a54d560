"""How many rows of a bronze lie above a position: what an apply is planned by."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cdc_assets.contract import BRONZE, Column, bronze_columns
from cdc_assets.lake.opening import ensure_table
from cdc_assets.lake.rowfiles import RowFiles
from cdc_assets.lsn import Lsn
from cdc_assets.sqlserver.read import arrow_schema


@pytest.mark.parametrize("name", ["a", "a b"], ids=["plain", "mapped"])
def test_files_above_a_position_whatever_its_columns_are_called(tmp_path: Path, name: str) -> None:
    """A table that maps its columns by name has other names in its statistics."""
    columns = bronze_columns((Column(name, "INT"),))
    table = ensure_table(str(tmp_path / "t"), BRONZE, {}, columns)
    schema = arrow_schema(columns)
    assert RowFiles.of(table).rows_above(Lsn.of_int(0)) == 0
    for lsn, rows in ((1, 3), (2, 5)):
        row = {column.name: None for column in columns} | {"_start_lsn": str(Lsn.of_int(lsn))}
        write_deltalake(table, pa.Table.from_pylist([row] * rows, schema), mode="append")
    assert [RowFiles.of(table).rows_above(Lsn.of_int(n)) for n in (0, 1, 2)] == [8, 5, 0]
