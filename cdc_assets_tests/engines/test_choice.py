"""Which engine does a piece of work, and what the lake's store says to that."""

from typing import Any

import pytest

from cdc_assets.engines.choice import choose
from cdc_assets.errors import TableFeatureError
from cdc_assets.settings import DatabaseSettings

BEYOND = "add the column 'a b' to a table that maps columns by name"
CLUSTER = {"master": "spark://127.0.0.1:7077", "min_rows": 1_000}


def settings(engine: str, lake: str = "./lake", **spark: object) -> DatabaseSettings:
    return DatabaseSettings.model_validate(
        {"lake": lake, "defaults": {"engine": engine}, "spark": spark, "tables": {"t": None}}
    )


def in_full(*values: object) -> Any:
    """A case in which Spark is chosen, so it must be installed."""
    return pytest.param(*values, marks=pytest.mark.spark)


@pytest.mark.parametrize(
    ("given", "beyond", "rows", "name", "reason"),
    [
        (settings("arrow"), "", None, "arrow", "settings"),
        (settings("spark"), BEYOND, None, "spark", "settings"),
        (settings("auto"), "", 10**9, "arrow", "one machine"),
        in_full(settings("auto"), BEYOND, 1, "spark", "arrow cannot add the column"),
        (settings("auto", **CLUSTER), "", 999, "arrow", "below 1,000 rows"),
        (settings("auto", **CLUSTER), "", None, "arrow", "below 1,000 rows"),
        in_full(settings("auto", **CLUSTER), "", 1_000, "spark", "1,000 rows, from 1,000"),
        (settings("arrow", **CLUSTER), "", 10**9, "arrow", "settings"),
        (settings("auto", "s3://lake/x"), "", 10**9, "arrow", "one machine"),
    ],
)
def test_the_engine_and_why(
    given: DatabaseSettings, beyond: str, rows: int | None, name: str, reason: str
) -> None:
    choice = choose(given, "t", beyond, rows)
    assert (choice.name, reason in choice.reason) == (name, True)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (settings("arrow"), "`engine: spark` or `auto`"),
        (settings("auto", "s3://lake/x"), "`engine: spark` for the table"),
    ],
)
def test_what_is_beyond_arrow_is_refused_where_arrow_is_all_there_may_be(
    given: DatabaseSettings, hint: str
) -> None:
    with pytest.raises(TableFeatureError, match="arrow engine cannot add") as refused:
        choose(given, "t", BEYOND)
    assert hint in refused.value.hint
