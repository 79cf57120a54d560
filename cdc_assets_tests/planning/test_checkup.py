"""What `cdc-assets doctor` decides, from values."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from cdc_assets.lsn import Lsn
from cdc_assets.planning.checkup import (
    Level,
    ServerRead,
    judge_capture,
    judge_clock,
    judge_packages,
    judge_server,
    judge_times,
    judge_tls,
)
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.table_checkup import SourceColumn, TableRead, judge_table
from cdc_assets.settings import DatabaseSettings

NOON = datetime(2026, 3, 1, 12)
OK, WARN, FAIL, HIDDEN = Level.OK, Level.WARN, Level.FAIL, Level.HIDDEN
ID = SourceColumn("id", "int", is_known=True, is_max=False, is_computed=False)
TABLE = TableRead("orders", ("orders",), (ID,), ("id",), created=NOON - timedelta(days=9))
SERVER = ServerRead("16.0.1", "x", "db", "[r]", "", True, False, True, 4320)


def settings(**table: Any) -> DatabaseSettings:
    return DatabaseSettings.model_validate({"tables": {"orders": table}})


def levels(read: TableRead, largest: int | None = -1, **table: Any) -> dict[str, Level]:
    return {f.check: f.level for f in judge_table("db", read, settings(**table), largest)}


def at(number: int, hours: float = 0) -> Offset:
    return Offset(Lsn.of_int(number), NOON + timedelta(hours=hours))


def test_packages() -> None:
    """B189: an import that fails is a version that does not fit; what is not installed is none."""
    pins = {"dagster": "1.13.27", "deltalake": "1.6.6", "pyspark": "4.2.0"}
    (fine,) = judge_packages(pins, {"dagster": "1.13.27", "deltalake": "1.6.6", "pyspark": None})
    assert (fine.level, fine.text) == (OK, "dagster 1.13.27, deltalake 1.6.6")
    (wrong,) = judge_packages(pins, {**pins, "deltalake": "1.7.0"})
    assert (wrong.level, wrong.about) == (FAIL, "deltalake")
    assert wrong.next_step == "pip install 'deltalake==1.6.6'"


@pytest.mark.parametrize(
    ("pairs", "level"),
    [
        ({}, OK),
        ({"encrypt": "strict"}, OK),
        ({"encrypt": "Optional"}, WARN),
        ({"encrypt": "no"}, WARN),
        ({"trustservercertificate": "Yes"}, WARN),
    ],
)
def test_tls(pairs: dict[str, str], level: Level) -> None:
    assert judge_tls("db", pairs, "/x/libmsodbcsql-18.so").level is level
    assert judge_tls("db", pairs, "FreeTDS").level is HIDDEN


def test_server() -> None:
    def found(isolation: str = "read_committed", **changes: Any) -> dict[str, Level]:
        judged = judge_server("db", replace(SERVER, **changes), isolation)
        return {f.check: f.level for f in judged}

    assert found() == {"login": OK, "cdc": OK, "cleanup job": OK}
    assert found(retention_minutes=None)["cleanup job"] is HIDDEN
    assert found(has_too_much="sysadmin")["grants"] is WARN
    assert judge_times("db", SERVER).next_step == "GRANT SELECT ON cdc.lsn_time_mapping TO [r]"
    assert found(isolation="snapshot")["isolation"] is FAIL
    assert "isolation" not in found(isolation="snapshot", allows_snapshot=True)
    assert found(is_captured=False) == {"login": OK, "cdc": FAIL}


def test_capture() -> None:
    """B013, B014: a job that died reads as caught up; its lag tells, where idleness is noted."""
    assert judge_capture("db", None, NOON, 16).level is FAIL
    late = Offset(Lsn.of_int(1), NOON - timedelta(minutes=16))
    assert judge_capture("db", at(1), NOON, 16).level is OK
    assert judge_capture("db", late, NOON, 16).level is FAIL
    old = judge_capture("db", late, NOON, 15)
    assert old.level is WARN
    assert "heartbeat" in old.next_step


def test_clock() -> None:
    assert [f.level for f in judge_clock("db", -3.0, "UTC", None)] == [OK]
    (behind,) = judge_clock("db", -90.0, "UTC", None)
    assert (behind.level, "90 s behind ours" in behind.text) == (WARN, True)
    assert [f.level for f in judge_clock("db", 0, None, None)] == [OK, WARN]
    assert [f.level for f in judge_clock("db", 0, None, "Romance Standard Time")] == [OK]


def test_a_table_as_it_should_be() -> None:
    assert levels(TABLE) == {"table": OK, "key": OK, "retention": OK}


def test_position() -> None:
    old, low = replace(TABLE, newest=Lsn.of_int(90)), NOON - timedelta(hours=40)
    read = replace(old, position=at(50), low=Lsn.of_int(51), low_ts=low)
    assert levels(read)["retention"] is OK
    assert levels(replace(read, low=Lsn.of_int(52)))["retention"] is FAIL
    assert levels(replace(read, position=at(91)))["retention"] is FAIL
    near = replace(read, low_ts=NOON - timedelta(hours=2))
    assert levels(near)["retention"] is WARN
    assert levels(near, min_headroom_hours=1)["retention"] is OK
    assert levels(replace(near, created=near.low_ts))["retention"] is OK, "cleanup never ran"


def test_columns_and_what_capture_leaves_out() -> None:
    """B053: partitions may be switched out without a row that says so."""

    def of(kind: str, **changes: Any) -> TableRead:
        column = replace(SourceColumn("c", kind, True, False, False), **changes)
        return replace(TABLE, columns=(ID, column))

    assert levels(of("geography", is_known=False))["columns"] is FAIL
    assert "columns" not in levels(of("geography", is_known=False), columns=["id"])
    assert levels(of("int", is_computed=True))["columns"] is WARN
    assert levels(of("ntext"))["columns"] is WARN
    assert levels(of("nvarchar", is_max=True), 65_536)["large values"] is WARN
    assert levels(of("nvarchar", is_max=True), None)["large values"] is HIDDEN
    assert "large values" not in levels(of("nvarchar", is_max=True), -1)
    assert "large values" not in levels(of("nvarchar"), 65_536)
    assert levels(replace(TABLE, partitions=3))["partitions"] is WARN
    assert "partitions" not in levels(replace(TABLE, partitions=1))
    assert levels(replace(TABLE, has_command_id=False))["columns"] is FAIL
    assert "columns" not in levels(replace(TABLE, has_command_id=False), include_command_id=False)


def test_key() -> None:
    assert levels(replace(TABLE, index_columns=()))["key"] is FAIL
    assert "key" not in levels(replace(TABLE, index_columns=()), keys=["id"])
    computed = replace(ID, is_computed=True)
    assert levels(replace(TABLE, columns=(computed,)))["key"] is FAIL
