"""Plots of letters, and columns under Dagster's keys, from values alone."""

from __future__ import annotations

import dagster as dg
import pytest

from cdc_assets.contract import DELETED_AT, Column, bronze_columns, silver_columns
from cdc_assets.orchestration.columns import bronze_columns_metadata, silver_columns_metadata
from cdc_assets.orchestration.markdown import BAR_LENGTH, bar, rows_table, sparkline
from cdc_assets.orchestration.translator import Translator
from cdc_assets.settings import DatabaseSettings

CAPTURED = (Column("id", "INT"), Column("Preis", "DECIMAL(12,4)"))


@pytest.mark.parametrize(
    ("value", "whole", "full"),
    [(0, 10, 0), (5, 10, 10), (10, 10, 20), (1, 10_000, 1), (0, 0, 0), (30, 10, 20)],
)
def test_a_bar_is_as_full_as_its_share(value: int, whole: int, full: int) -> None:
    shown = bar(value, whole)
    assert (len(shown), shown.count("█")) == (BAR_LENGTH, full)


@pytest.mark.parametrize(
    ("values", "shown"),
    [([], ""), ([0.0, 0.0], "▁▁"), ([1.0], "█"), ([0.0, 50.0, 100.0], "▁▅█")],
)
def test_a_sparkline_has_a_letter_a_value(values: list[float], shown: str) -> None:
    assert sparkline(values) == shown


def test_a_table_of_rows() -> None:
    shown = rows_table({"inserts": 1234, "updates": 0}, {"lag": "1.0 s"}).splitlines()
    assert f"| inserts | 1,234 | `{'█' * BAR_LENGTH}` |" in shown
    assert f"| updates | 0 | `{'░' * BAR_LENGTH}` |" in shown
    assert shown[-1] == "| lag | 1.0 s |"


@pytest.fixture
def translator() -> Translator:
    tables = {"dbo_t": {"rename": {"Price": "preis"}}}
    return Translator("sales", DatabaseSettings.model_validate({"tables": tables}))


def lineage(metadata: object) -> dict[str, tuple[str, str]]:
    assert isinstance(metadata, dg.TableColumnLineageMetadataValue)
    deps = metadata.column_lineage.deps_by_column
    return {name: (of.asset_key.path[1], of.column_name) for name, (of,) in deps.items()}


def test_bronzes_columns_come_from_the_source_by_its_names(translator: Translator) -> None:
    found = bronze_columns_metadata(translator, "dbo_t", bronze_columns(CAPTURED))
    assert lineage(found["dagster/column_lineage"]) == {
        "id": ("sqlserver", "id"),
        "Preis": ("sqlserver", "Price"),
    }
    schema = found["dagster/column_schema"]
    assert isinstance(schema, dg.TableSchemaMetadataValue)
    types = {column.name: column.type for column in schema.schema.columns}
    assert types["Preis"] == "decimal(12,4)"
    assert types["_operation"] == "int"


def test_silvers_columns_come_from_bronze_and_its_key_is_said(translator: Translator) -> None:
    columns = silver_columns(CAPTURED, keeps_deleted=True)
    found = silver_columns_metadata(translator, "dbo_t", columns, ["ID"])
    of = lineage(found["dagster/column_lineage"])
    assert of["Preis"] == ("bronze", "Preis")
    assert of[DELETED_AT.name] == ("bronze", "_commit_ts")
    assert {origin for _, origin in of.values()} <= {c.name for c in bronze_columns(CAPTURED)}
    schema = found["dagster/column_schema"]
    assert isinstance(schema, dg.TableSchemaMetadataValue)
    assert [c.name for c in schema.schema.columns if "key" in c.constraints.other] == ["id"]


def test_nothing_is_said_of_columns_that_nobody_looked_at(translator: Translator) -> None:
    assert bronze_columns_metadata(translator, "dbo_t", ()) == {}
    assert silver_columns_metadata(translator, "dbo_t", (), ()) == {}
