"""Any spelling of a table's name finds its row, and no other table's."""

import pytest

from cdc_assets.planning.spellings import (
    bronze_of,
    canonical,
    find_row,
    is_history,
    lake_of,
    spelled,
)

LAKE = "/lake/sales"


def place_of(name: str) -> str | None:
    if name == "ops.orders":
        return f"{LAKE}/silver/orders"
    if "/" not in name:
        return None
    found = spelled(name)
    return f"{LAKE}/{found}" if not found.startswith("/") else found


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/a//b/", "/a/b"),
        ("//a/./b/../c", "/a/c"),
        ("file:///a/b%20c/", "/a/b c"),
        ("FILE:/a/b", "/a/b"),
        ("delta.`/a/b``c`", "/a/b`c"),
        ("s3a://Bucket/x/", "s3://Bucket/x"),
        ("S3://Bucket", "s3://Bucket"),
        ("abfs://box@store/x//y", "abfss://box@store/x/y"),
        ("dbfs:/x/y/", "dbfs:/x/y"),
        ("bronze/t/", "bronze/t"),
    ],
)
def test_a_place_in_one_spelling(text: str, place: str) -> None:
    assert spelled(text) == place
    assert spelled(place) == place


def test_the_lake_is_where_control_is() -> None:
    assert lake_of("/lake/sales/_cdc/control") == LAKE
    assert lake_of("s3://b/sales/_cdc/control") == "s3://b/sales"
    assert lake_of("/ops/control") is None


def test_what_a_table_is_called() -> None:
    assert canonical(f"{LAKE}/silver/t", LAKE) == "silver/t"
    assert canonical(f"{LAKE}/silver/t", None) == f"{LAKE}/silver/t"
    assert canonical(f"{LAKE}/other/t", LAKE) == f"{LAKE}/other/t"
    assert canonical("/lake/sales2/silver/t", LAKE) == "/lake/sales2/silver/t"
    assert bronze_of("silver/t") == "bronze/t"
    assert bronze_of("/a/silver/t") == "/a/bronze/t"
    assert bronze_of("/a/history/t") == "/a/bronze/t"
    for name in ("gold/t", "oldsilver/t", "silver/", "silver", "t"):
        assert bronze_of(name) is None
    assert [is_history(name) for name in ("history/t", "/a/history/t", "silver/t")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("rows", "wanted", "found"),
    [
        (["silver/orders"], "silver/orders", "silver/orders"),
        (["silver/orders"], f"file://{LAKE}/silver/orders/", "silver/orders"),
        (["silver/orders"], "ops.orders", "silver/orders"),
        ([f"{LAKE}/silver/orders"], "silver/orders", f"{LAKE}/silver/orders"),
        (["ops.orders"], f"{LAKE}/silver/orders", "ops.orders"),
        ([f"{LAKE}/silver/orders", "silver/orders"], "ops.orders", "silver/orders"),
        (["Ops.Unknown"], "ops.unknown", "Ops.Unknown"),
        (["silver/orders2", "bronze/orders"], "silver/orders", None),
        (["ops.orders2"], "ops.unknown", None),
    ],
)
def test_the_row_of_a_spelling(rows: list[str], wanted: str, found: str | None) -> None:
    assert find_row(rows, wanted, place_of) == found
