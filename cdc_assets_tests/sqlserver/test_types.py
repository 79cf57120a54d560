"""Arrow arrays as the driver gives them, in the declared types: exact or an error."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from cdc_assets.errors import UnsupportedColumnError
from cdc_assets.sqlserver.types import arrow_type, cast_column, delta_type


@pytest.mark.parametrize(
    ("sql_type", "precision", "scale", "expected"),
    [
        ("bit", None, None, "BOOLEAN"),
        ("tinyint", 3, 0, "SMALLINT"),
        ("INT", 10, 0, "INT"),
        ("decimal", 38, 10, "DECIMAL(38,10)"),
        ("numeric", 5, None, "DECIMAL(5,0)"),
        ("money", 19, 4, "DECIMAL(19,4)"),
        ("datetime2", None, None, "TIMESTAMP_NTZ"),
        ("datetimeoffset", None, None, "TIMESTAMP"),
        ("time", None, None, "STRING"),
        ("uniqueidentifier", None, None, "STRING"),
        ("timestamp", None, None, "BINARY"),
    ],
)
def test_delta_types(sql_type: str, precision: int, scale: int, expected: str) -> None:
    assert delta_type(sql_type, precision, scale, column="c") == expected


@pytest.mark.parametrize("sql_type", ["sql_variant", "geography", "geometry", "hierarchyid"])
def test_types_without_a_counterpart_name_the_column(sql_type: str) -> None:
    """B108."""
    with pytest.raises(UnsupportedColumnError, match=r"column shape .*columns"):
        delta_type(sql_type, None, None, column="shape")


def test_tinyint_is_unsigned() -> None:
    """B102."""
    values = pa.array([0, 127, 128, 255, None], pa.uint8())
    assert cast_column(values, "SMALLINT").to_pylist() == [0, 127, 128, 255, None]


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("s", time(23, 59, 59), "23:59:59"),
        ("ms", time(23, 59, 59, 999000), "23:59:59.999"),
        ("ns", 86_399_999_999_900, "23:59:59.9999999"),
        ("ns", 0, "00:00:00.0000000"),
    ],
)
def test_time_keeps_its_digits(unit: str, value: object, expected: str) -> None:
    kind = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    assert cast_column(pa.array([value, None], kind), "STRING").to_pylist() == [expected, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-09-28 13:50:01.1234567 -03:00", datetime(2026, 9, 28, 16, 50, 1, 123456)),
        ("2026-01-01 00:30:00 +14:00", datetime(2025, 12, 31, 10, 30)),
        ("2026-01-01 23:30:00.1 -14:00", datetime(2026, 1, 2, 13, 30, 0, 100000)),
        ("2026-01-01 00:00:00.123 +05:45", datetime(2025, 12, 31, 18, 15, 0, 123000)),
        ("2026-01-01 00:00:00.999999 -00:30", datetime(2026, 1, 1, 0, 30, 0, 999999)),
        ("9999-12-31 23:59:59.9999999 +00:00", datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ("0001-01-01 00:00:00.0000000 +00:00", datetime(1, 1, 1)),
    ],
)
def test_datetimeoffset_is_the_instant(text: str, expected: datetime) -> None:
    """B094, B095."""
    found = cast_column(pa.array([text, None]), "TIMESTAMP")
    assert found.type == pa.timestamp("us", tz="UTC")
    assert found.to_pylist() == [expected.replace(tzinfo=UTC), None]


def test_decimals_and_dates_pass_untouched() -> None:
    big = Decimal("99999999999999999999999999999999999999")
    assert cast_column(pa.array([big]), "DECIMAL(38,0)").to_pylist() == [big]
    assert cast_column(pa.array([date(9999, 12, 31)]), "DATE").to_pylist() == [date(9999, 12, 31)]


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(pa.ArrowInvalid):
        cast_column(pa.array([1 << 40], pa.int64()), "INT")
    assert arrow_type("DECIMAL(9,2)") == pa.decimal128(9, 2)
