"""The names of seed 0019: any spelling finds the row, and a verdict only moves forward."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.contract import CONTROL, Event
from cdc_assets.errors import SettingsError, TableReplacedError
from cdc_assets.finalization import advance, finalized_until, is_final
from cdc_assets.lake.control import Control
from cdc_assets.lake.facts import Facts, FactsEntry
from cdc_assets.lake.opening import ensure_table
from cdc_assets.lsn import Lsn
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets_tests.source import SPARK

NOON = datetime(2026, 2, 1, 12)
TABLE = "/lake/sales/bronze/orders"


def offset(lsn: int, minutes: float) -> dict[str, str]:
    at = NOON + timedelta(minutes=minutes)
    return {"lsn": str(Lsn.of_int(lsn)), "commit_ts": at.isoformat(timespec="milliseconds")}


@pytest.fixture
def control(tmp_path: Path) -> str:
    return str(tmp_path / "sales" / "_cdc" / "control")


def row(control: str) -> ControlRow:
    (found,) = Control(control, {}).read().values()
    return found


def test_a_verdict_moves_forward_only(control: str) -> None:
    assert advance(None, control, TABLE, offset(5, 10)) == NOON
    # The same hour: position and verdict move together.
    assert advance(None, control, TABLE, offset(6, 50)) == NOON
    assert row(control).end_lsn == str(Lsn.of_int(5))
    assert advance(None, control, TABLE, offset(4, -300)) == NOON
    later = advance(None, control, TABLE, offset(7, 61), granularity="minute")
    assert later == NOON + timedelta(minutes=61)
    assert (row(control).end_lsn, row(control).table_name) == (str(Lsn.of_int(7)), TABLE)
    assert finalized_until(None, control, TABLE) == later
    assert is_final(None, control, TABLE, NOON)
    assert not is_final(None, control, TABLE, NOON + timedelta(hours=2))


def test_a_verdict_that_is_null_moves(control: str) -> None:
    """An apply may make the row before bronze has a verdict (seed 0019)."""
    Control(control, {}).update(lambda _: [ControlRow(TABLE, applied_lsn=str(Lsn.of_int(3)))])
    assert finalized_until(None, control, TABLE) is None
    assert advance(None, control, TABLE, offset(5, 1)) == NOON
    assert row(control).applied_lsn == str(Lsn.of_int(3))


@pytest.mark.parametrize("end", [None, {}, {"lsn": str(Lsn.of_int(1)), "commit_ts": ""}])
def test_an_end_that_is_not_known_moves_nothing(control: str, end: Any) -> None:
    assert advance(None, control, TABLE, end) is None
    advance(None, control, TABLE, offset(5, 1))
    assert advance(None, control, TABLE, end) == NOON


@pytest.mark.parametrize("end", [{"commit_ts": "2026-01-01"}, {"lsn": "7", "commit_ts": "2026"}])
def test_an_end_that_is_none(control: str, end: Any) -> None:
    with pytest.raises(ValueError, match="20 hex digits"):
        advance(None, control, TABLE, end)


def test_what_a_sync_keeps_is_the_syncs(control: str) -> None:
    """Its position is where the next poll begins: moved by a stranger, changes would be passed."""
    kept = ControlRow("bronze/orders", finalized_until=NOON, end_lsn="0x05", table_id="an id")
    Control(control, {}).update(lambda _: [kept])
    assert advance(None, control, "bronze/orders", offset(9, 600)) == NOON
    assert row(control).end_lsn == "0x05"


@pytest.mark.parametrize(
    "held_as", ["bronze/orders", "{lake}/bronze/orders", "file:{lake}//bronze/orders/"]
)
@pytest.mark.parametrize(
    "asked_as", ["bronze/orders", "{lake}/bronze/orders/", "file://{lake}/bronze/orders"]
)
def test_any_spelling_finds_the_row(control: str, held_as: str, asked_as: str) -> None:
    lake = control.removesuffix("/_cdc/control")
    held, asked = held_as.format(lake=lake), asked_as.format(lake=lake)
    Control(control, {}).update(lambda _: [ControlRow(held, finalized_until=NOON)])
    assert is_final(None, f"file://{control}/", asked, NOON)
    advance(None, control, asked, offset(5, 90))
    assert (row(control).table_name, row(control).finalized_until) == (
        held,
        NOON + timedelta(hours=1),
    )


def test_a_new_row_has_the_name_that_we_give(control: str) -> None:
    lake = control.removesuffix("/_cdc/control")
    advance(None, control, f"file://{lake}/silver/orders/", offset(5, 1))
    assert row(control).table_name == "silver/orders"


def test_a_table_that_control_does_not_have(control: str) -> None:
    advance(None, control, TABLE, offset(5, 1))
    assert not is_final(None, control, "bronze/other", NOON)
    assert finalized_until(None, control, "ops.other") is None


def test_a_control_table_that_is_not_there(control: str) -> None:
    for name in (control, "ops.control"):
        with pytest.raises(TableReplacedError, match="no control table"):
            is_final(None, name, TABLE, NOON)
    with pytest.raises(SettingsError, match="there is no session"):
        advance(None, "ops.control", TABLE, offset(5, 1))


def test_what_the_facts_know_to_be_lost(control: str) -> None:
    """Those beside control, under any spelling of the table's name."""
    advance(None, control, "bronze/orders", offset(5, 1))
    lake = control.removesuffix("/_cdc/control")
    lost = FactsRow(
        target=f"{lake}/bronze/orders",
        event=str(Event.DATA_SKIPPED),
        max_lsn=str(Lsn.of_int(4)),
        lost_from_ts=NOON - timedelta(hours=3),
        lost_to_ts=NOON - timedelta(hours=2.5),
        written_at=NOON,
    )
    for facts in (f"{lake}/_cdc/facts", f"{lake}/elsewhere"):
        Facts(facts, {}).append([FactsEntry((lost,))])
        named = {} if facts.endswith("_cdc/facts") else {"facts_table": facts}
        final = [
            h
            for h in range(4)
            if is_final(
                None,
                control,
                "bronze/orders",
                NOON - timedelta(hours=h),
                **named,  # type: ignore[arg-type]
            )
        ]
        assert final == [0, 1, 3]
    with pytest.raises(TableReplacedError, match="knows what is lost"):
        is_final(None, control, "bronze/orders", NOON, facts_table=f"{lake}/nowhere")


def test_what_is_lost_of_a_silver_by_any_name(control: str) -> None:
    """As `apply_changes` keeps it: its bronze is to be named, else any table's loss counts."""
    lsn = str(Lsn.of_int(3))
    rows = [ControlRow("gold.orders", finalized_until=NOON, applied_lsn=lsn, snapshot_lsn=lsn)]
    Control(control, {}).update(lambda _: rows)
    lost = FactsRow(
        target="bronze/orders",
        event=str(Event.DATA_SKIPPED),
        max_lsn=str(Lsn.of_int(4)),
        lost_from_ts=NOON - timedelta(hours=3),
        lost_to_ts=NOON - timedelta(hours=2.5),
        written_at=NOON,
    )
    other = FactsRow(target="bronze/other", event=str(Event.BOOTSTRAP), min_lsn=lsn, max_lsn=lsn)
    facts = f"{control.removesuffix('control')}facts"
    Facts(facts, {}).append([FactsEntry((lost, other))])
    for bronze, final in ((None, False), ("bronze/orders", False), ("bronze/other", True)):
        assert is_final(None, control, "Gold.Orders", NOON, bronze_table=bronze) is final
        before = NOON - timedelta(hours=3)
        assert is_final(None, control, "gold.orders", before, bronze_table=bronze)


@pytest.mark.spark
def test_names_of_a_catalog(tmp_path: Path) -> None:
    """A control table by its name, made there; tables by name or place."""
    # Late: the fast tests must run where no PySpark is installed.
    from cdc_assets.engines.spark.config import SessionConfig  # noqa: PLC0415
    from cdc_assets.engines.spark.session import new_session  # noqa: PLC0415
    from cdc_assets.settings.model import SparkSettings  # noqa: PLC0415

    spark = new_session(SessionConfig.of(SparkSettings(**SPARK)))
    spark.sql(f"CREATE SCHEMA finality LOCATION '{tmp_path / 'catalog'}'")
    try:
        name, place = "finality.Verdicts", str(tmp_path / "catalog" / "it's")
        with pytest.raises(TableReplacedError):
            is_final(spark, name, "finality.orders", NOON)
        assert advance(spark, name, "finality.orders", offset(5, 1)) == NOON
        assert spark.table("finality.verdicts").count() == 1
        ensure_table(place, CONTROL, {})  # Any Delta table.
        spark.sql(f'CREATE TABLE finality.orders USING DELTA LOCATION "{place}"')
        for asked in ("finality.orders", "FINALITY.Orders", place, f"file://{place}/"):
            assert is_final(spark, name, asked, NOON)
        assert advance(spark, name, place, offset(9, 61)) == NOON + timedelta(hours=1)
        (found,) = spark.table("finality.verdicts").collect()
        assert found["table_name"] == "finality.orders"
        assert not is_final(spark, name, "finality.verdicts", NOON)
    finally:
        spark.sql("DROP SCHEMA finality CASCADE")
