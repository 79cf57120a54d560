"""A copy's values become what a read of the server gives, or are refused."""

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdc_assets.contract import Column
from cdc_assets.engines.copies import CopyRows, as_reader, places_of
from cdc_assets.errors import SeedRefusedError
from cdc_assets.sqlserver.catalog import Captured, CapturedColumn
from cdc_assets.sqlserver.types import SqlType

GUID = "0E984725-C51C-4BF4-9960-E1C80E27ABA0"
AT = datetime(1969, 12, 31, 23, 59, 59, 123456)


def column(sql: str, declared: str, name: str = "c", **options: Any) -> CapturedColumn:
    scale = options.pop("time_scale", None)
    return CapturedColumn(Column(name, declared), SqlType(sql, time_scale=scale), **options)


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
    "no guid": (pa.array([GUID, "{x}"]), column("uniqueidentifier", "STRING"), "no GUID"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "of", "said"), REFUSED.values(), ids=REFUSED)
def test_what_does_not(given: pa.Array, of: CapturedColumn, said: str) -> None:
    with pytest.raises(SeedRefusedError, match=said):
        one(given, of)


def test_columns_are_known_by_either_name_in_any_case() -> None:
    wanted = (
        column("int", "INT", name="id"),
        column("int", "INT", name="unit_price", source="Unit Price"),
        column("int", "INT", name="sum", is_computed=True),
    )
    copy = pa.table({"more": ["x"], "UNIT PRICE": [2], "ID": [1], "sum": [9]})
    assert fitted(copy, *wanted).to_pylist() == [{"id": 1, "unit_price": 2, "sum": None}]
    with pytest.raises(SeedRefusedError, match=r"not one column Unit Price. It has: more, id"):
        fitted(pa.table({"more": ["x"], "id": [1]}), *wanted)


def test_a_pandas_frame_and_what_is_none() -> None:
    pd = pytest.importorskip("pandas", reason="pandas comes with the extra `spark`")
    frame = pd.DataFrame({"c": [1.0, None]})
    assert fitted(frame, column("int", "INT"))["c"].to_pylist() == [1, None]
    with pytest.raises(SeedRefusedError, match="a list gives no Arrow data"):
        as_reader([1])  # type: ignore[arg-type]
