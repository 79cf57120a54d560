"""An append is one commit of all ranges with its transaction, or nothing."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_assets.contract import BRONZE as CONTRACT
from cdc_assets.contract import Column, bronze_columns
from cdc_assets.errors import DataLossError, SourceBusyError, UnsupportedColumnError
from cdc_assets.lake.files import takes_files
from cdc_assets.lake.opening import ensure_table
from cdc_assets.lsn import Lsn
from cdc_assets.planning.plans import AppendPlan, CommitTag, Guard, ReadRange
from cdc_assets.sqlserver.connection import SourceConnection
from cdc_assets.sqlserver.odbc_errors import ValueTooLargeError
from cdc_assets_tests.engines.spark.helpers import (
    BRONZE,
    CAPTURED,
    LiteralEngine,
    Tables,
    lsn,
    read,
)

BY_FILES, BY_ROWS = "tasks write", "Delta's library writes"


@pytest.fixture(params=[BY_FILES, BY_ROWS])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    """A table to whose files ours may be added, and one where each row must be looked at."""
    found = Tables(tmp_path).create()
    if request.param == BY_ROWS:
        one = {"operations": "`_operation` IS NULL OR `_operation` >= 0"}
        DeltaTable(found.bronze).alter.add_constraint(one)
    return found


FIRST, SECOND = ReadRange("first"), ReadRange("second")


def newest(uri: str) -> dict[str, object]:
    return DeltaTable(uri).history(1)[0]


def two_ranges(tables: Tables) -> dict[str, pa.RecordBatch]:
    return {
        "first": tables.changes((1, 2, {"id": 1, "name": "a"}), (1, 2, {"id": 2, "name": "b"})),
        "second": tables.changes((2, 2, {"id": 3, "name": None})),
    }


def test_all_ranges_are_one_commit_with_its_transaction(
    engine: LiteralEngine, tables: Tables
) -> None:
    rows, before = two_ranges(tables), DeltaTable(tables.bronze).version()
    engine.read = lambda source, planned, size: iter([rows[planned.text]])

    result = engine.append(tables.append_plan(7, FIRST, SECOND))

    assert result.committed
    assert result.rows == 3
    assert result.read_mb == pytest.approx(sum(b.nbytes for b in rows.values()) / 1e6)
    assert 0 < result.read_seconds < 60
    assert [row["id"] for row in read(tables.bronze)] == [1, 2, 3]
    table = DeltaTable(tables.bronze)
    assert table.version() == before + 1
    assert table.transaction_version("t#changes") == 7
    assert newest(tables.bronze)["userMetadata"] == "batch 7"
    by_spark = "Spark" in str(newest(tables.bronze).get("engineInfo", ""))
    assert by_spark == (not takes_files(table, BRONZE))


def test_what_gave_no_rows_is_a_commit_where_the_plan_keeps_it(
    engine: LiteralEngine, tables: Tables
) -> None:
    """An empty wave of a snapshot; it is made when it may be, and not at all after an error."""
    engine.read, before = lambda *_: iter([]), DeltaTable(tables.bronze).version()
    plan = replace(tables.append_plan(4, FIRST, SECOND), keeps_empty=True)

    def not_now() -> None:
        assert DeltaTable(tables.bronze).version() == before
        raise SourceBusyError("not now", where="shop")

    with pytest.raises(SourceBusyError):
        engine.append(plan, not_now)
    assert DeltaTable(tables.bronze).version() == before
    result = engine.append(plan)
    assert (result.committed, result.rows) == (True, 0)
    table = DeltaTable(tables.bronze)
    assert (table.version(), table.transaction_version("t#changes")) == (before + 1, 4)
    assert newest(tables.bronze)["userMetadata"] == "batch 4"


def test_a_known_version_reads_nothing(engine: LiteralEngine, tables: Tables) -> None:
    rows = two_ranges(tables)
    engine.read = lambda source, planned, size: iter([rows[planned.text]])
    engine.append(tables.append_plan(2, FIRST))

    engine.read = refuse
    for version in (1, 2):
        assert not engine.append(tables.append_plan(version, FIRST)).committed
    assert DeltaTable(tables.bronze).transaction_version("t#changes") == 2


def refuse(source: SourceConnection, planned: ReadRange, size: int) -> Iterator[pa.RecordBatch]:
    raise AssertionError("nothing should be read")


def test_a_version_another_writer_took_before_the_write_is_not_ours(tables: Tables) -> None:
    """Spark's library skips it without a word."""
    rows = two_ranges(tables)

    class Late(LiteralEngine):
        def range_reader(self, columns, large_value_bytes):  # type: ignore[no-untyped-def]
            tables.commit_elsewhere(tables.bronze, "t#changes", 1, "another's range")
            return super().range_reader(columns, large_value_bytes)

    engine = Late()
    engine.read = lambda source, planned, size: iter([rows[planned.text]])

    assert not engine.append(tables.append_plan(1, FIRST)).committed
    assert DeltaTable(tables.bronze).to_pyarrow_table().num_rows == 0
    assert newest(tables.bronze)["userMetadata"] == "another's range"


def test_a_version_another_writer_took_during_the_read_is_not_ours(
    engine: LiteralEngine, tables: Tables
) -> None:
    rows = two_ranges(tables)

    def slow(source: SourceConnection, planned: ReadRange, size: int) -> Iterator[pa.RecordBatch]:
        yield rows["first"]
        tables.commit_elsewhere(tables.bronze, "t#changes", 1, "another's range")

    engine.read = slow
    assert not engine.append(tables.append_plan(1, FIRST)).committed
    assert DeltaTable(tables.bronze).to_pyarrow_table().num_rows == 0


@pytest.mark.parametrize(
    "error",
    [
        DataLossError("5 rows gave 4 of `näme`", where="shop", hint='Take a "new" snapshot.'),
        SourceBusyError("deadlock", where="shop"),
    ],
    ids=lambda error: error.code,
)
def test_what_a_task_raises_arrives_typed_and_nothing_is_committed(
    engine: LiteralEngine, tables: Tables, error: DataLossError
) -> None:
    rows = two_ranges(tables)

    def lossy(source: SourceConnection, planned: ReadRange, size: int) -> Iterator[pa.RecordBatch]:
        yield rows[planned.text]
        if planned.text == "second":
            raise error

    engine.read, before = lossy, DeltaTable(tables.bronze).version()
    with pytest.raises(type(error)) as caught:
        engine.append(tables.append_plan(1, FIRST, SECOND))

    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert (caught.value.what, caught.value.hint) == (error.what, error.hint)
    assert DeltaTable(tables.bronze).version() == before


def test_a_value_too_large_is_read_again_with_a_larger_buffer(
    engine: LiteralEngine, tables: Tables
) -> None:
    rows = two_ranges(tables)

    def picky(source: SourceConnection, planned: ReadRange, size: int) -> Iterator[pa.RecordBatch]:
        yield rows[planned.text]
        if size < 100_000:
            raise ValueTooLargeError("a value is too large")

    engine.read = picky
    assert engine.append(tables.append_plan(1, FIRST)).rows == 2
    assert len(read(tables.bronze)) == 2


def test_a_value_above_every_buffer_says_so(engine: LiteralEngine, tables: Tables) -> None:
    def never(source: SourceConnection, planned: ReadRange, size: int) -> Iterator[pa.RecordBatch]:
        raise ValueTooLargeError("a value is too large")
        yield

    engine.read = never
    with pytest.raises(UnsupportedColumnError, match="max_value_bytes: 67,108,864"):
        engine.append(tables.append_plan(1, FIRST))


def test_no_rows_count_as_no_commit(engine: LiteralEngine, tables: Tables) -> None:
    engine.read = lambda source, planned, size: iter(())
    assert not engine.append(tables.append_plan(1, FIRST)).committed
    assert not engine.append(tables.append_plan(2)).committed


def test_every_declared_type_arrives_as_declared(engine: LiteralEngine, tmp_path: Path) -> None:
    values: dict[str, object] = {
        "BOOLEAN": True,
        "SMALLINT": -32768,
        "INT": 2**31 - 1,
        "BIGINT": -(2**63),
        "FLOAT": 0.5,
        "DOUBLE": 0.1,
        "DECIMAL(38,10)": Decimal("-1234567890123456789012345678.0123456789"),
        "DATE": date(1, 1, 1),
        "TIMESTAMP_NTZ": datetime(9999, 12, 31, 23, 59, 59, 999999),
        "TIMESTAMP": datetime(1900, 1, 1, tzinfo=UTC),
        "STRING": "Zoë \U0001f600 'x' \\n",
        "BINARY": b"\x00\xff",
    }
    columns = tuple(Column(f"c_{i}", kind) for i, kind in enumerate(values))
    tables = Tables(tmp_path, columns=columns, keys=("c_2",)).create()
    row = dict(zip((c.name for c in columns), values.values(), strict=True))
    batch = tables.rows([{**row, "_start_lsn": lsn(1), "_operation": 2}, {"_operation": 0}])
    engine.read = lambda source, planned, size: iter([batch])

    assert engine.append(tables.append_plan(1, FIRST)).rows == 2

    table = DeltaTable(tables.bronze)
    found = table.to_pyarrow_table()
    assert found.schema.types == batch.schema.types
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, batch.to_pylist()))


def test_a_new_column_is_merged_in_and_comments_stay(engine: LiteralEngine, tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    ensure_table(tables.bronze, CONTRACT, {}, bronze_columns(CAPTURED))
    before = DeltaTable(tables.bronze).schema().fields
    wider = Tables(tmp_path, columns=(*CAPTURED, Column("note", "STRING")))
    batch = wider.changes((1, 2, {"id": 1, "name": "a", "note": "new"}))
    engine.read = lambda source, planned, size: iter([batch])

    assert engine.append(wider.append_plan(1, FIRST)).rows == 1

    after = {field.name: field for field in DeltaTable(tables.bronze).schema().fields}
    assert {field.name: field for field in before}.items() <= after.items()
    assert read(tables.bronze)[0]["note"] == "new"


def test_tables_appended_at_once_keep_their_own_transactions(
    engine: LiteralEngine, tmp_path: Path
) -> None:
    """Threads share the JVM; sessions, sources and transactions must not leak between them."""
    every = [Tables(tmp_path / str(n)).create() for n in range(4)]
    batches = {
        str(n): t.changes(*((1, 2, {"id": n, "name": str(i)}) for i in range(n + 1)))
        for n, t in enumerate(every)
    }
    engine.read = lambda source, planned, size: iter([batches[planned.text]])
    results: dict[int, int] = {}

    def work(n: int) -> None:
        tag = CommitTag(f"t{n}#changes", n + 10, f"of {n}")
        guard = Guard("dbo_t", Lsn(lsn(1)), None) if n % 2 else None
        ranges = (ReadRange(str(n), guard=guard),)
        columns = bronze_columns(CAPTURED)
        plan = AppendPlan(f"t{n}", every[n].bronze, columns, ranges, tag)
        results[n] = engine.append(plan).rows

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == {n: n + 1 for n in range(4)}
    for n, tables in enumerate(every):
        assert {row["id"] for row in read(tables.bronze)} == {n}
        table = DeltaTable(tables.bronze)
        assert table.transaction_version(f"t{n}#changes") == n + 10
        assert newest(tables.bronze)["userMetadata"] == f"of {n}"
