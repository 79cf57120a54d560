"""A copy's values become what a read of the server gives, or are refused."""

from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdc_assets.contract import Column
from cdc_assets.engines.copies import CopyRows, as_reader, looked_at, places_of
from cdc_assets.errors import SeedRefusedError
from cdc_assets.sqlserver.catalog import Captured, CapturedColumn
from cdc_assets.sqlserver.types import SqlType

GUID = "0E984725-C51C-4BF4-9960-E1C80E27ABA0"
AT = datetime(1969, 12, 31, 23, 59, 59, 123456)


def column(sql: str, declared: str, name: str = "c", **options: Any) -> CapturedColumn:
    of = {o: options.pop(o, None) for o in ("time_scale", "length", "collation")}
    return CapturedColumn(Column(name, declared), SqlType(sql, **of), **options)


def char(length: int, collation: str | None = "SQL_Latin1_General_CP1_CI_AS") -> CapturedColumn:
    return column("char", "STRING", length=length, collation=collation)


NCHAR = column("nchar", "STRING", length=3)
TIME_3 = column("time", "STRING", time_scale=3)
DATETIME = column("datetime", "TIMESTAMP_NTZ", time_scale=3)


def fitted(copy: Any, *columns: CapturedColumn) -> pa.Table:
    captured = Captured(columns)
    reader = as_reader(copy)
    places = places_of(reader.schema, captured)
    rows = CopyRows(reader, captured.declared, captured, places, {})
    return pa.Table.from_batches(rows.batches())


def one(values: pa.Array, of: CapturedColumn) -> list[Any]:
    return fitted(pa.table({"c": values}), of)["c"].to_pylist()


FITTING = {
    "small": (pa.array([1, None], pa.int64()), column("tinyint", "SMALLINT"), [1, None]),
    "pandas": (pa.array([1.0, None]), column("int", "INT"), [1, None]),
    "decimal": (
        pa.array([Decimal("1.50000")]),
        column("decimal", "DECIMAL(12,4)"),
        [Decimal("1.5000")],
    ),
    "real": (pa.array([0.5, float("inf"), None]), column("real", "FLOAT"), [0.5, np.inf, None]),
    "float": (pa.array([1, 2]), column("float", "DOUBLE"), [1.0, 2.0]),
    "dictionary": (
        pa.array(["a", None]).dictionary_encode(),
        column("nvarchar", "STRING"),
        ["a", None],
    ),
    "large text": (pa.array(["é"], pa.large_string()), column("varchar", "STRING"), ["é"]),
    "guid": (pa.array([GUID.lower(), None]), column("uniqueidentifier", "STRING"), [GUID, None]),
    "nulls": (pa.nulls(2), column("uniqueidentifier", "STRING"), [None, None]),
    "time(7)": (
        pa.array([time(1, 2, 3, 4)]),
        column("time", "STRING", time_scale=7),
        ["01:02:03.0000040"],
    ),
    "time(0)": (pa.array([time(1, 2, 3)]), column("time", "STRING", time_scale=0), ["01:02:03"]),
    "100 ns": (
        pa.array([-876543100], pa.timestamp("ns")),
        column("datetime2", "TIMESTAMP_NTZ"),
        [AT],
    ),
    "time as text": (
        pa.array(["01:02:03", "01:02:03.1", "01:02:03.1230000", None]),
        TIME_3,
        ["01:02:03.000", "01:02:03.100", "01:02:03.123", None],
    ),
    "an integer for a short decimal": (
        pa.array([12, None]),
        column("numeric", "DECIMAL(4,1)"),
        [Decimal("12.0"), None],
    ),
    "the largest exact": (
        pa.array([2.0**53 - 1, -(2.0**53 - 1)]),
        column("bigint", "BIGINT"),
        [2**53 - 1, -(2**53 - 1)],
    ),
    "char": (pa.array(["a", "é", "abc", None]), char(3), ["a  ", "é  ", "abc", None]),
    "char in two bytes": (pa.array(["あa", "ｱ"]), char(4, "Japanese_CI_AS"), ["あa ", "ｱ   "]),
    "char in UTF-8": (
        pa.array(["é", "a"]),
        char(3, "Latin1_General_100_CI_AS_SC_UTF8"),
        ["é ", "a  "],
    ),
    "char of ASCII": (pa.array(["a"]), char(2, None), ["a "]),
    "nchar": (pa.array(["é", "😀", None]), NCHAR, ["é  ", "😀 ", None]),
    "varchar": (pa.array(["a"]), column("varchar", "STRING", length=3), ["a"]),
    "binary": (pa.array([b"\1", None]), column("binary", "BINARY", length=3), [b"\1\0\0", None]),
    "datetime": (
        pa.array([AT.replace(microsecond=7000)]),
        DATETIME,
        [AT.replace(microsecond=7000)],
    ),
    "bytes": (pa.array([b"\1"], pa.binary(1)), column("binary", "BINARY"), [b"\1"]),
    "date": (pa.array([date(1, 1, 1)]), column("date", "DATE"), [date(1, 1, 1)]),
}


@pytest.mark.parametrize(("given", "of", "expected"), FITTING.values(), ids=FITTING)
def test_what_fits(given: pa.Array, of: CapturedColumn, expected: list[Any]) -> None:
    assert one(given, of) == expected


REFUSED = {
    "text for a number": (pa.array(["1"]), column("int", "INT"), "is string in the copy, and int"),
    "a zone": (
        pa.array([AT], pa.timestamp("us", "UTC")),
        column("datetime", "TIMESTAMP_NTZ"),
        "tz",
    ),
    "no zone": (pa.array([AT]), column("datetimeoffset", "TIMESTAMP"), "is timestamp"),
    "too large": (pa.array([1 << 31]), column("int", "INT"), "INT cannot hold"),
    "a fraction": (pa.array([1.5]), column("int", "INT"), "INT cannot hold"),
    "digits": (pa.array([Decimal("1.00001")]), column("money", "DECIMAL(10,4)"), "cannot hold"),
    "a double": (pa.array([0.1]), column("real", "FLOAT"), "FLOAT cannot hold"),
    "beyond 53 bits": (pa.array([float(2**53 + 1), None]), column("bigint", "BIGINT"),
        "one value for several"),
    "beyond 24 bits": (pa.array([2**24], pa.float32()), column("int", "INT"), "for several"),
    "half the digits": (pa.array([0.1], pa.float32()), column("float", "DOUBLE"), "is float in"),
    "an integer no float has": (pa.array([2**53 + 1]), column("float", "DOUBLE"), "DOUBLE cannot"),
    "an integer too long": (pa.array([1000]), column("numeric", "DECIMAL(4,1)"), "cannot hold"),
    "char too long": (pa.array(["abcd"]), char(3), r"longer than char\(3\)"),
    "nchar too long": (pa.array(["😀😀"]), NCHAR, r"longer than nchar\(3\)"),
    "no code page": (pa.array(["é"]), char(3, None), "collation is not known"),
    "not in the code page": (pa.array(["😀"]), char(3, "Korean_CI_AS"), "cannot hold"),
    "binary too long": (pa.array([b"1234"]), column("binary", "BINARY", length=3), "longer"),
    "no time": (pa.array(["1:02:03"]), TIME_3, "no time in the form"),
    "digits of a time": (pa.array([time(1, 2, 3, 400)]), TIME_3, r"than time\(3\) keeps"),
    "digits of a datetime": (pa.array([AT]), DATETIME, "than datetime keeps"),
    "100 ns of a ms": (pa.array([100], pa.timestamp("ns")), DATETIME, "than datetime keeps"),
    "seconds": (pa.array([AT.replace(microsecond=0)]),
        column("smalldatetime", "TIMESTAMP_NTZ", time_scale=0), "than smalldatetime keeps"),
    "no guid": (pa.array([GUID, "{x}"]), column("uniqueidentifier", "STRING"), "no GUID"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "of", "said"), REFUSED.values(), ids=REFUSED)
def test_what_does_not(given: pa.Array, of: CapturedColumn, said: str) -> None:
    with pytest.raises(SeedRefusedError, match=said):
        one(given, of)


def test_columns_are_known_by_either_name_in_any_case() -> None:
    """A computed one, and one that the table has no more, are none of the copy's."""
    wanted = (
        column("int", "INT", name="id"),
        column("int", "INT", name="unit_price", source="Unit Price"),
        column("int", "INT", name="sum", is_computed=True),
        column("int", "INT", name="gone", is_missing=True),
    )
    copy = pa.table({"more": ["x"], "UNIT PRICE": [2], "ID": [1], "sum": [9], "gone": ["x"]})
    assert fitted(copy, *wanted).to_pylist() == [
        {"id": 1, "unit_price": 2, "sum": None, "gone": None}
    ]
    with pytest.raises(SeedRefusedError, match=r"not one column Unit Price. It has: more, id"):
        fitted(pa.table({"more": ["x"], "id": [1]}), *wanted)


def test_a_pandas_frame_and_what_is_none() -> None:
    pd = pytest.importorskip("pandas", reason="pandas comes with the extra `spark`")
    frame = pd.DataFrame({"c": [1.0, None]})
    assert fitted(frame, column("int", "INT"))["c"].to_pylist() == [1, None]
    with pytest.raises(SeedRefusedError, match="a list gives no Arrow data"):
        as_reader([1])  # type: ignore[arg-type]


def test_the_first_rows_are_looked_at_and_none_is_lost() -> None:
    of = Captured((column("int", "INT"),))
    schema = pa.schema({"c": pa.int64()})

    def batches(*values: list[int]) -> pa.RecordBatchReader:
        arrays = [pa.record_batch([pa.array(v, pa.int64())], schema=schema) for v in values]
        return pa.RecordBatchReader.from_batches(schema, arrays)

    found = looked_at(batches([], [1, 2], [], [1 << 31]), of, {"c": 0})
    assert [batch.to_pydict() for batch in found] == [{"c": [1, 2]}, {"c": []}, {"c": [1 << 31]}]
    with pytest.raises(SeedRefusedError, match="INT cannot hold"):
        looked_at(batches([], [1 << 31]), of, {"c": 0})
    assert list(looked_at(batches([]), of, {"c": 0})) == []


def test_a_copy_that_cannot_be_read_is_told_as_that() -> None:
    """Beside a write its error would pass for one of the lake."""
    schema = pa.schema({"c": pa.int64()})

    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([1])], schema=schema)
        raise OSError("No such file or directory: copy-2.parquet")

    reader = pa.RecordBatchReader.from_batches(schema, failing())
    found = looked_at(reader, Captured((column("int", "INT"),)), {"c": 0})
    with pytest.raises(SeedRefusedError, match=r"the copy cannot be read: .*copy-2"):
        list(found)


def test_only_what_the_copy_gave_is_counted_as_read() -> None:
    captured = Captured((column("int", "INT"),))
    ours = (*captured.declared, Column("_snapshot", "STRING"))
    copy = as_reader(pa.table({"c": pa.array([1, 2], pa.int32())}))
    rows = CopyRows(copy, ours, captured, {"c": 0}, {"_snapshot": "0x00000000000000000001"})
    (batch,) = rows.batches()
    assert rows.bytes == batch.column("c").nbytes < batch.nbytes
