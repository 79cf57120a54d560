"""A MERGE looks only at the files that its keys are in; a large one goes range by range."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction, write_deltalake
from deltalake.transaction import CommitProperties

from cdc_assets.contract import SILVER, Column, silver_columns
from cdc_assets.engines.arrow import applying
from cdc_assets.engines.door import Engine
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.opening import ensure_table
from cdc_assets.sqlserver.read import arrow_schema
from cdc_assets_tests.engines.test_apply import KEYS, NOON, S, Table, lsn

ON_ARROW = pytest.mark.parametrize("engine_name", ["arrow"])
V = Column("v", "STRING")
DAY = date(2026, 11, 30)
FRACTION = 999_999
"""Microseconds of a time; statistics of times leave out what is below a millisecond."""


def files_of_merge(table: Table) -> set[int]:
    """How many files the last MERGE has rewritten, and read: Delta's library does not say that."""
    metrics = DeltaTable(str(table.folder / "silver")).history(1)[0]["operationMetrics"]
    names = ("num_target_files_scanned", "num_target_files_removed", "numTargetFilesRemoved")
    found = [int(metrics[name]) for name in names if name in metrics]
    assert len(found) == (2 if table.engine.name == "arrow" else 1)
    return set(found)


def test_bounds_of_each_column_of_a_key_leave_other_files_alone(
    tmp_path: Path, engine: Engine
) -> None:
    """B163, B167: of several files those that hold none of the keys are not even read."""
    keys = (Column("n", "INT"), Column("day", "DATE"), Column("at", "TIMESTAMP_NTZ"))
    table = Table(tmp_path, engine, (*keys, V), ("n", "day", "at"))
    columns = silver_columns(table.captured)
    first, *_, last = times = [
        t.replace(microsecond=FRACTION) for t in (datetime.min, NOON, datetime.max)
    ]
    ensure_table(str(tmp_path / "silver"), SILVER, {}, columns)
    for at in times:
        rows = [{"_start_lsn": lsn(S), "n": n, "day": DAY, "at": at, "v": "old"} for n in (1, 2)]
        silver = pa.Table.from_pylist(rows, schema=arrow_schema(columns))
        write_deltalake(str(tmp_path / "silver"), silver, mode="append")
    for version, at in ((1, first), (2, last)):
        before = set(DeltaTable(str(tmp_path / "silver")).file_uris())
        table.append((4, S + version, 1, 1, 1, DAY, at, "new"))
        result = table.follow(version, S + version - 1)
        assert (result.upserted, files_of_merge(table)) == (1, {1})
        assert len(before & set(DeltaTable(str(tmp_path / "silver")).file_uris())) == 2
    changed = {(1, first), (1, last)}
    assert table.silver() == sorted(
        ((n, DAY, t, "new" if (n, t) in changed else "old") for n in (1, 2) for t in times),
        key=repr,
    )


@ON_ARROW
@pytest.mark.parametrize(
    ("kind", "small", "large"),
    [
        ("DECIMAL(20,0)", Decimal(1), Decimal("92345678901234567899")),
        ("DECIMAL(38,10)", Decimal(1), Decimal("1234567890123456789012345678.9123456789")),
        ("STRING", "a", "\U0010ffff" * 200),
        ("BINARY", b"a", b"\xff" * 200),
        ("DOUBLE", 1.0, 1e300),
    ],
)
def test_what_statistics_do_not_keep_exactly_is_found_all_the_same(
    tmp_path: Path, engine: Engine, kind: str, small: Any, large: Any
) -> None:
    """delta-rs notes a larger decimal as the largest integer, or as a float."""
    table = Table(tmp_path, engine, (Column("k", kind), V), ("k",))
    for version, key in enumerate((small, large), 1):
        table.append((2, S + version, 1, 1, key, "old"))
        table.follow(version, S + version - 1)
    table.append((4, 20, 1, 1, large, "new"))
    assert table.follow(3, 19).upserted == 1
    assert table.silver() == sorted([(small, "old"), (large, "new")], key=repr)


@ON_ARROW
@pytest.mark.parametrize("key", ["INT", "STRING", "TIMESTAMP_NTZ", "DECIMAL(9,2)", "BINARY"])
def test_a_rebuild_range_by_range_ends_as_one_at_once(
    tmp_path: Path, engine: Engine, key: str
) -> None:
    made = {
        "INT": lambda n: n,
        "STRING": lambda n: f"key {n:02}",
        "TIMESTAMP_NTZ": lambda n: NOON.replace(minute=n, microsecond=FRACTION),
        "DECIMAL(9,2)": lambda n: Decimal(n) / 4,
        "BINARY": lambda n: bytes([n]),
    }[key]
    found = []
    for number, rank_rows_max in enumerate((None, 4)):
        captured = (Column("k", key), V)
        table = Table(tmp_path / str(number), engine, captured, ("k",))
        # Silver has keys that the snapshot lacks: among its own, above them, and NULL.
        table.append(*((0, 5, None, None, made(n), "old") for n in range(0, 50, 3)))
        table.append((0, 5, None, None, None, "old"))
        table.apply(1, "`_start_lsn` > '0'", rebuild=True)
        table.append(*((0, S, None, None, made(n), "new") for n in range(20)))
        table.append((1, S + 1, 1, 1, made(7), "new"), (4, S + 1, 1, 1, made(8), "newest"))
        result = table.rebuild(2, rank_rows_max)
        silver = DeltaTable(str(table.folder / "silver"))
        merges = (silver.transaction_version("t#apply") or 0) - 1
        assert result.version == silver.version()
        found.append((table.silver(), result.upserted, result.deleted, merges))
    *at_once, one = found[0]
    *by_ranges, several = found[1]
    assert by_ranges == at_once
    assert one == 1
    # A key without a literal is not cut.
    assert several > 1 or key == "BINARY"


@ON_ARROW
def test_an_apply_by_ranges_of_a_later_key_column_with_null_keys(
    tmp_path: Path, engine: Engine
) -> None:
    """Nearly all rows have one value in the leading column: the other one is cut."""
    table = Table(
        tmp_path, engine, (Column("tenant", "INT"), Column("k", "STRING"), V), ("tenant", "k")
    )
    rows = [(1, None), *((1, f"{n}") for n in range(10)), (None, None), (None, "3")]
    table.append(*((0, S, None, None, *key, "a") for key in rows))
    table.rebuild(1, 3)
    version = DeltaTable(str(table.folder / "silver")).transaction_version("t#apply") or 0
    table.append(*((4, 11, 1, n, *key, "b") for n, key in enumerate(rows)))
    table.append((1, 12, 1, 1, 1, None, "b"), (1, 12, 1, 2, None, "3", "b"))
    result = table.apply(version + 1, "`_start_lsn` > '0'", rank_rows_max=3)
    assert (result.upserted, result.deleted) == (len(rows) - 2, 2)
    kept = [key for key in rows if key not in {(1, None), (None, "3")}]
    assert table.silver() == sorted(((*key, "b") for key in kept), key=repr)
    again = table.apply(result_version(table) + 1, "`_start_lsn` > '0'", rank_rows_max=3)
    assert (again.upserted, again.deleted, again.overtaken) == (0, 0, False)


def result_version(table: Table) -> int:
    return DeltaTable(str(table.folder / "silver")).transaction_version("t#apply") or 0


@ON_ARROW
def test_who_commits_between_two_ranges_ends_the_call(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path, engine, (Column("id", "INT"), V), KEYS)
    table.append(*((0, S, None, None, n, "a") for n in range(9)))

    def commit_elsewhere(point: FaultPoint) -> None:
        if point is not FaultPoint.SILVER_RANGE_MERGED:
            return
        monkeypatch.undo()
        silver = DeltaTable(str(tmp_path / "silver"))
        write_deltalake(
            silver,
            silver.to_pyarrow_table().slice(0, 0),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction("t#apply", 2)]),
        )

    monkeypatch.setattr(applying.faults, "reach", commit_elsewhere)
    assert table.rebuild(1, 3).overtaken
    assert 0 < len(table.silver()) < 9
    assert not table.rebuild(3, 3).overtaken
    assert table.silver() == [(n, "a") for n in range(9)]
