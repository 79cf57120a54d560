"""Rows of snapshots that the facts tell of, held against bronze's transaction ids."""

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_assets.errors import TableReplacedError
from cdc_assets.lake.told import ToldSnapshot, check_told
from cdc_assets.lsn import Lsn
from cdc_assets.names import DatabaseName
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.snapshots import Snapshot

TABLE = DatabaseName("sales", "lake").table("t")
TOLD = [ToldSnapshot(Snapshot(Offset(Lsn.of_int(7), datetime(2026, 11, 30)), ()), "t#snap", 1)]
FORGETS = {"delta.setTransactionRetentionDuration": "interval 7 days"}


def bronze(folder: Path, version: int | None, configuration: dict[str, str | None]) -> DeltaTable:
    ids = [] if version is None else [Transaction("t#snap", version)]
    write_deltalake(
        folder,
        pa.table({"n": [1]}),
        configuration=configuration,
        commit_properties=CommitProperties(app_transactions=ids),
    )
    return DeltaTable(folder)


@pytest.mark.parametrize("version", [1, 2])
def test_bronze_may_be_ahead(tmp_path: Path, version: int) -> None:
    check_told(bronze(tmp_path, version, {}), TABLE, TOLD)


@pytest.mark.parametrize("version", [None, 0])
def test_bronze_that_is_behind_is_refused(tmp_path: Path, version: int | None) -> None:
    with pytest.raises(TableReplacedError, match="the facts know commit 1 of its snapshot"):
        check_told(bronze(tmp_path, version, {}), TABLE, TOLD)


def test_what_delta_was_told_to_forget_is_not_lost(tmp_path: Path) -> None:
    check_told(bronze(tmp_path / "forgotten", None, FORGETS), TABLE, TOLD)
    with pytest.raises(TableReplacedError, match="bronze ends with 0"):
        check_told(bronze(tmp_path / "older", 0, FORGETS), TABLE, TOLD)
