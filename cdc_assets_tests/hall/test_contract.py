"""The contracts and the values that are written by them are one thing."""

from dataclasses import fields

from cdc_assets.contract import (
    BRONZE,
    CONTROL,
    FACTS,
    HISTORY,
    PLANS,
    SILVER,
    Column,
    bronze_columns,
    captured_of_bronze,
    silver_columns,
)
from cdc_assets.planning.records import ControlRow, FactsRow

CAPTURED = (Column("id", "INT"), Column("name", "STRING"))


def test_facts_row_has_the_facts_columns() -> None:
    assert tuple(f.name for f in fields(FactsRow)) == FACTS.names


def test_control_row_has_the_control_columns() -> None:
    assert tuple(f.name for f in fields(ControlRow)) == CONTROL.names


def test_every_column_of_ours_has_a_comment() -> None:
    for contract in (BRONZE, SILVER, HISTORY, FACTS, CONTROL, PLANS):
        assert contract.comment
        assert all(column.comment for column in contract.columns), contract.kind


def test_bronze_columns_stand_around_the_captured_ones() -> None:
    columns = bronze_columns(CAPTURED)
    assert [c.name for c in columns] == [
        *("_capture_instance", "_start_lsn", "_seqval", "_operation", "_command_id", "_commit_ts"),
        *("id", "name"),
        *("_batch_id", "_snapshot", "_chunk"),
    ]
    assert captured_of_bronze(columns) == CAPTURED


def test_silver_columns_end_with_ours() -> None:
    assert [c.name for c in silver_columns(CAPTURED)] == ["id", "name", "_start_lsn", "_commit_ts"]
