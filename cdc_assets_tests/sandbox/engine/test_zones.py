"""AT TIME ZONE where the clock is moved, as the documentation's own examples have it."""

from __future__ import annotations

import pytest

from cdc_assets_tests.sandbox.harness import Client

pytestmark = pytest.mark.sqlserver

ZONE = "AT TIME ZONE 'Central European Standard Time'"


@pytest.mark.parametrize(
    ("local", "shown"),
    [
        ("2022-03-27T01:01:00", "2022-03-27 01:01:00 +01:00"),
        ("2022-03-27T02:01:00", "2022-03-27 03:01:00 +02:00"),
        ("2022-03-27T03:01:00", "2022-03-27 03:01:00 +02:00"),
        ("2022-10-30T01:01:00", "2022-10-30 01:01:00 +02:00"),
        ("2022-10-30T02:00:00", "2022-10-30 02:00:00 +02:00"),
        ("2022-10-30T02:59:59", "2022-10-30 02:59:59 +02:00"),
        ("2022-10-30T03:01:00", "2022-10-30 03:01:00 +01:00"),
        ("2022-10-31T02:01:00", "2022-10-31 02:01:00 +01:00"),
        ("2022-07-01T00:00:00", "2022-07-01 00:00:00 +02:00"),
    ],
)
def test_a_local_time(shared: Client, local: str, shown: str) -> None:
    """One that comes twice is read the first time; one that never was is moved on."""
    value = f"CONVERT(datetime2(0), '{local}', 126)"
    assert shared.value(f"SELECT CONVERT(varchar(40), {value} {ZONE})") == shown
    text = f"SELECT CONVERT(varchar(40), v {ZONE}) FROM (VALUES ({value}), (NULL)) AS t(v)"
    assert shared.rows(text) == [(shown,), (None,)]


@pytest.mark.parametrize(
    ("instant", "shown"),
    [
        ("2022-10-30T00:30:00+00:00", "2022-10-30 02:30:00 +02:00"),
        ("2022-10-30T01:30:00+00:00", "2022-10-30 02:30:00 +01:00"),
        ("2022-03-27T01:00:00+00:00", "2022-03-27 03:00:00 +02:00"),
    ],
)
def test_an_instant(shared: Client, instant: str, shown: str) -> None:
    value = f"CAST('{instant}' AS datetimeoffset(0))"
    assert shared.value(f"SELECT CONVERT(varchar(40), {value} {ZONE})") == shown


def test_a_datetime_keeps_milliseconds(shared: Client) -> None:
    """It counts 1/300 s, which a datetimeoffset(3) has no place for."""
    value = "CAST('2022-07-01T00:00:00.003' AS datetime)"
    text = f"SELECT CAST({value} {ZONE} AS datetime2(7)) FROM (VALUES (1)) AS t(one)"
    assert shared.value(f"SELECT CONVERT(varchar(40), ({text}), 121)") == (
        "2022-07-01 00:00:00.0030000"
    )


def test_expressions_inside_expressions(shared: Client) -> None:
    """Each is computed once: written out at each use, twenty of them would never end."""
    value = "v"
    for _ in range(20):
        value = f"DATEADD(hour, 1, CAST({value} {ZONE} AS datetime2(0)))"
    text = f"SELECT {value} FROM (VALUES (CAST('2022-07-01' AS datetime2(0)))) AS t(v)"
    assert shared.value(f"SELECT CONVERT(varchar(40), ({text}), 120)") == "2022-07-01 20:00:00"
