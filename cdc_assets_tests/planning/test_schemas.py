"""What bronze's types hold (B111, B143, B146)."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest

from cdc_assets.contract import Column
from cdc_assets.errors import SchemaChangedError
from cdc_assets.lsn import Lsn
from cdc_assets.names import DatabaseName
from cdc_assets.planning.schemas import DdlChange, check_silver, each_once, fit
from cdc_assets.planning.widening import holds, widened
from cdc_assets.sqlserver.types import arrow_type, cast_column

T = DatabaseName("sales", "/lake").table("t")
HELD = [
    ("INT", "SMALLINT", [-32768, 32767]),
    ("BIGINT", "INT", [-(2**31), 2**31 - 1]),
    ("BIGINT", "BOOLEAN", [True, False]),
    ("DOUBLE", "FLOAT", [1.5, -0.25]),
    ("DOUBLE", "INT", [-(2**31), 2**31 - 1]),
    ("DECIMAL(12,4)", "DECIMAL(9,2)", ["1234567.89", "-0.01"]),
    ("DECIMAL(19,4)", "DECIMAL(10,4)", ["123456.7891"]),
    ("DECIMAL(9,4)", "SMALLINT", [-32768, 32767]),
    ("DECIMAL(19,0)", "BIGINT", [-(2**63), 2**63 - 1]),
    ("TIMESTAMP_NTZ", "DATE", [datetime(1, 1, 1).date(), datetime(9999, 12, 31).date()]),
]
REFUSED = [
    ("INT", "BIGINT"),
    ("SMALLINT", "INT"),
    ("FLOAT", "DOUBLE"),
    ("FLOAT", "INT"),
    ("DECIMAL(9,2)", "DECIMAL(18,4)"),
    ("DECIMAL(18,4)", "DECIMAL(18,2)"),
    ("DECIMAL(12,4)", "INT"),
    ("STRING", "INT"),
    ("INT", "STRING"),
    ("BINARY", "STRING"),
    ("TIMESTAMP_NTZ", "TIMESTAMP"),
    ("DATE", "TIMESTAMP_NTZ"),
    ("BOOLEAN", "SMALLINT"),
]


@pytest.mark.parametrize(("held", "given", "values"), HELD)
def test_what_is_held_is_cast_without_a_loss(held: str, given: str, values: list[object]) -> None:
    assert holds(held, given)
    array = pa.array(values)
    array = array.cast(arrow_type(given)) if given != "BOOLEAN" else array
    back = cast_column(array, held).cast(array.type)
    assert back.equals(array)


@pytest.mark.parametrize(("held", "given"), REFUSED)
def test_what_is_not_held_is_refused(held: str, given: str) -> None:
    assert not holds(held, given)
    with pytest.raises(SchemaChangedError, match=r"sales.t: column a is .* cannot hold"):
        fit([Column("a", held)], [Column("A", given)], T)


def test_new_columns_come_last_and_case_makes_none() -> None:
    bronze = [Column("_batch_id", "INT"), Column("Status", "INT"), Column("gone", "INT")]
    fitted = fit(bronze, [Column("status", "SMALLINT"), Column("b", "STRING")], T)
    assert fitted == (*bronze, Column("b", "STRING"))


def test_two_instances_tell_of_one_statement_once() -> None:
    at = datetime(2026, 1, 1)
    first = DdlChange("a", Lsn.of_int(5), at, "ALTER")
    other = DdlChange("b", Lsn.of_int(5), at, "ALTER")
    later = DdlChange("b", Lsn.of_int(9), at, "ALTER")
    assert each_once([later, first, other]) == (first, later)
    assert DdlChange.from_dict(first.to_dict()) == first


@pytest.mark.parametrize(
    ("held", "given", "target"),
    [
        ("SMALLINT", "INT", "INT"),
        ("INT", "BIGINT", "BIGINT"),
        ("SMALLINT", "FLOAT", "DOUBLE"),
        ("FLOAT", "INT", "DOUBLE"),
        ("FLOAT", "DOUBLE", "DOUBLE"),
        ("DATE", "TIMESTAMP_NTZ", "TIMESTAMP_NTZ"),
        ("DECIMAL(9,2)", "DECIMAL(18,4)", "DECIMAL(18,4)"),
        ("DECIMAL(18,4)", "DECIMAL(18,2)", "DECIMAL(20,4)"),
        ("DECIMAL(9,2)", "INT", "DECIMAL(12,2)"),
        ("SMALLINT", "DECIMAL(9,2)", "DECIMAL(12,2)"),
        ("BIGINT", "DECIMAL(9,2)", "DECIMAL(22,2)"),
        ("DECIMAL(38,0)", "DECIMAL(38,4)", None),
        ("BIGINT", "DOUBLE", None),
        ("DECIMAL(9,2)", "DOUBLE", None),
        ("STRING", "INT", None),
        ("INT", "STRING", None),
        ("BOOLEAN", "SMALLINT", None),
        ("TIMESTAMP_NTZ", "TIMESTAMP", None),
    ],
)
def test_what_delta_can_widen(held: str, given: str, target: str | None) -> None:
    assert widened(held, given) == target
    if target is not None:
        assert holds(target, held)
        assert holds(target, given)


def test_the_hint_names_every_column_and_only_what_helps() -> None:
    bronze = [Column("a", "INT"), Column("b", "DECIMAL(9,2)"), Column("c", "INT")]
    wider = [Column("a", "BIGINT"), Column("b", "DECIMAL(18,4)")]
    with pytest.raises(SchemaChangedError) as stopped:
        fit(bronze, wider, T)
    bronze_uri, silver_uri = (f"delta.`/lake/sales/{layer}/t`" for layer in ("bronze", "silver"))
    for text in ("`a` TYPE BIGINT;", "`b` TYPE DECIMAL(18,4);"):
        assert f"ALTER TABLE {bronze_uri} ALTER COLUMN {text}" in stopped.value.hint
        assert f"ALTER TABLE {silver_uri} ALTER COLUMN {text}" in stopped.value.hint
    with pytest.raises(SchemaChangedError) as stopped:
        fit(bronze, [*wider, Column("c", "STRING")], T)
    assert "ALTER" not in stopped.value.hint
    assert "cdc-assets reset sales t" in stopped.value.hint


def test_silver_that_was_not_widened_with_bronze() -> None:
    with pytest.raises(SchemaChangedError, match="a is BIGINT in bronze, which silver's INT"):
        check_silver([Column("a", "INT")], [Column("a", "BIGINT")], T)
    with pytest.raises(SchemaChangedError, match="Remove /lake/sales/silver/t"):
        check_silver([Column("a", "INT")], [Column("a", "STRING")], T)
    check_silver([Column("a", "BIGINT"), Column("gone", "INT")], [Column("A", "INT")], T)
