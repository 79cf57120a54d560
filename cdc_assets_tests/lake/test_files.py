"""Files written by us: what the log says of them is what delta-rs would say, and all or nothing."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from cdc_assets.contract import Column
from cdc_assets.lake import files
from cdc_assets.lake.files import Place, commit_files, takes_files, write_files
from cdc_assets.lake.tables import query

SCHEMA = pa.schema(
    [
        ("_start_lsn", pa.string()),
        ("_operation", pa.int32()),
        ("_commit_ts", pa.timestamp("us")),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("price", pa.decimal128(12, 4)),
        ("share", pa.float64()),
        ("name", pa.string()),
        ("body", pa.binary()),
        ("nothing", pa.int64()),
    ]
)
ORDERED = ("_start_lsn", "_operation", "_commit_ts", "at", "day")


def row(number: int) -> dict[str, Any]:
    return {
        "_start_lsn": f"0x{number:020X}",
        "_operation": number % 5,
        "_commit_ts": datetime(2026, 1, 1, 10, 0, number, 123_456),
        "at": datetime(9999, 12, 31, 23, 59, number % 60, 999_999, tzinfo=UTC),
        "day": date(1, 1, 1 + number % 28),
        "price": Decimal(number),
        "share": number / 3,
        "name": None if number % 2 else "é" * number,
        "body": bytes(1_000),
        "nothing": None,
    }


def batches(first: int, count: int) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pylist([row(n), row(n + 1)], schema=SCHEMA)
        for n in range(first, first + count, 2)
    ]


def properties(version: int) -> CommitProperties:
    return CommitProperties(
        custom_metadata={"userMetadata": f"batch {version}"},
        app_transactions=[Transaction("t#changes", version)],
    )


def bare(uri: Path) -> DeltaTable:
    return DeltaTable.create(str(uri), SCHEMA)


def append(table: DeltaTable, rows: Iterable[pa.RecordBatch], group_bytes: int = 1 << 20) -> None:
    files = write_files(Place(table.table_uri), SCHEMA, rows, group_bytes)
    commit_files(table, files, properties(1))


def parquet(uri: Path) -> list[Path]:
    return sorted(uri.glob("*.parquet"))


def in_milliseconds(value: Any) -> Any:
    """delta-rs cuts times to them; ours are whole, which no reader can take for less."""
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1_000 * 1_000)
    return value


def test_statistics_are_those_of_delta_rs(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    append(bare(ours), batches(0, 40))
    write_deltalake(bare(theirs), pa.Table.from_batches(batches(0, 40)), mode="append")

    def said(uri: Path) -> dict[str, Any]:
        (found,) = pa.table(DeltaTable(uri).get_add_actions(flatten=True)).to_pylist()
        return {
            key: in_milliseconds(value)
            for key, value in found.items()
            if key == "num_records" or (key.startswith("null_count") and "body" not in key)
            or (key.startswith(("min.", "max.")) and key.split(".", 1)[1] in ORDERED)
        }  # fmt: skip

    assert said(ours) == said(theirs)
    assert said(ours)["max._start_lsn"] == f"0x{39:020X}"
    table = DeltaTable(ours)
    assert table.transaction_version("t#changes") == 1
    assert table.history(1)[0]["userMetadata"] == "batch 1"
    everything = "SELECT * FROM t ORDER BY `_start_lsn`"
    assert query(everything, t=table).to_pylist() == [row(n) for n in range(40)]
    assert query(everything, t=DeltaTable(theirs)).to_pylist() == [row(n) for n in range(40)]


@pytest.mark.parametrize("where", [f"`_start_lsn` > '0x{30:020X}'", "`day` = DATE '0001-01-03'"])
def test_readers_skip_by_them_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(files, "FILE_BYTES", 16_000)
    append(bare(tmp_path / "t"), batches(0, 40), 4_000)
    assert len(parquet(tmp_path / "t")) > 2
    found = query(f"SELECT count(*) AS n FROM t WHERE {where}", t=DeltaTable(tmp_path / "t"))
    wanted = [n for n in range(40) if (n > 30 if "lsn" in where else n % 28 == 2)]
    assert found.to_pylist() == [{"n": len(wanted)}]


def test_rows_that_end_in_an_error_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FILE_BYTES", 8_000)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches(0, 20)
        assert parquet(tmp_path / "t"), "a file was begun before the last row came"
        raise OSError("the connection dropped")

    table = bare(tmp_path / "t")
    with pytest.raises(OSError, match="dropped"):
        append(table, broken(), 4_000)
    assert (parquet(tmp_path / "t"), DeltaTable(tmp_path / "t").version()) == ([], 0)


def test_of_two_writers_of_one_batch_one_loses(tmp_path: Path) -> None:
    """Its file stays: a store may lose its answer to a commit that it made; vacuum finds it."""
    bare(tmp_path / "t")
    one, other = DeltaTable(tmp_path / "t"), DeltaTable(tmp_path / "t")
    append(one, batches(0, 4))
    with pytest.raises(CommitFailedError):
        append(other, batches(0, 4))
    assert len(parquet(tmp_path / "t")) == 2
    assert query("SELECT count(*) AS n FROM t", t=DeltaTable(tmp_path / "t")).to_pylist() == [
        {"n": 4}
    ]
    table = DeltaTable(tmp_path / "t")
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert len(parquet(tmp_path / "t")) == 1


TWO = pa.schema([("id", pa.int32()), ("name", pa.string())])
ID, NAME = Column("id", "INT"), Column("name", "STRING")
GENERATED = pa.field("name", pa.string(), metadata={"delta.generationExpression": "'x'"})


@pytest.mark.parametrize(
    ("columns", "schema", "made_with", "taken"),
    [
        ((ID, NAME), TWO, {}, True),
        ((ID,), TWO, {}, True),
        ((ID, Column("more", "INT")), TWO, {}, False),
        ((Column("id", "BIGINT"), NAME), TWO, {}, False),
        ((ID, NAME), TWO, {"partition_by": ["name"]}, False),
        ((ID, NAME), TWO, {"configuration": {"delta.columnMapping.mode": "name"}}, False),
        ((ID, NAME), TWO, {"configuration": {"delta.appendOnly": "true"}}, True),
        ((ID, NAME), pa.schema([TWO.field("id"), GENERATED]), {}, False),
        ((ID, NAME), pa.schema([pa.field("id", pa.int32(), False), TWO.field("name")]), {}, False),
    ],
)
def test_where_files_may_be_added(
    tmp_path: Path, columns: tuple[Column, ...], schema: pa.Schema, made_with: Any, taken: bool
) -> None:
    table = DeltaTable.create(str(tmp_path / "t"), schema, **made_with)
    assert takes_files(table, columns) is taken


def test_a_constraint_asks_each_row(tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path / "t"), TWO)
    table.alter.add_constraint({"some": "id > 0"})
    assert not takes_files(DeltaTable(tmp_path / "t"), (ID, NAME))
