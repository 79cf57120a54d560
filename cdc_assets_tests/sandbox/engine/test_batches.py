"""Parameters and results as the engine takes and gives them: Arrow's types, bounded batches."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from cdc_assets.sandbox.engine.rows import arrow_type
from cdc_assets.sandbox.engine.session import BATCH_ROWS
from cdc_assets.sandbox.engine.systypes import SYSTEM_TYPES
from cdc_assets.sandbox.results import Parameter, ResultSet, SqlType
from cdc_assets_tests.sandbox.engine.test_types import TYPES, at
from cdc_assets_tests.sandbox.harness import Client


def test_batches_have_the_types_of_their_columns(shared: Client) -> None:
    listed = ", ".join(f"v{i} {written} NULL" for i, (written, _, _) in enumerate(TYPES))
    shared.run(f"CREATE TABLE t ({listed})")
    try:
        shared.run(f"INSERT t VALUES ({', '.join(cases[0][0] for _, _, cases in TYPES)})")
        for result in shared.session.execute("SELECT * FROM t"):
            assert isinstance(result, ResultSet)
            expected = [arrow_type(column.type) for column in result.columns]
            assert [batch.schema.types for batch in result.batches] == [expected]
    finally:
        shared.run("DROP TABLE t")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (SqlType("int"), 5, 5),
        (SqlType("bigint"), 2**62, 2**62),
        (SqlType("nvarchar", length=4), "it's\0", "it's\0"),
        (
            SqlType("decimal", precision=38, scale=2),
            Decimal("12345678901234567890.12"),
            Decimal("12345678901234567890.12"),
        ),
        (SqlType("varbinary", length=3), b"\x00'\\", b"\x00'\\"),
        (SqlType("bit"), True, True),
        (SqlType("float"), 0.1, 0.1),
        (SqlType("date"), datetime.date(2026, 1, 2), datetime.date(2026, 1, 2)),
        (
            SqlType("datetime2", scale=7),
            "2026-01-02 03:04:05.1234567",
            at(2026, 1, 2, 110_451_234_567),
        ),
        (SqlType("time", scale=7), "03:04:05.1234567", 110_451_234_567),
        (
            SqlType("uniqueidentifier"),
            "00112233-4455-6677-8899-aabbccddeeff",
            "00112233-4455-6677-8899-AABBCCDDEEFF",
        ),
        (SqlType("nvarchar", length=1), None, None),
    ],
)
def test_parameters_of_every_kind(
    shared: Client, kind: SqlType, value: object, expected: object
) -> None:
    for result in shared.session.execute("SELECT @p AS v", [Parameter("@p", kind, value)]):
        assert shared.read(result)[1] == [(expected,)]


def test_batches_have_bounded_size(shared: Client) -> None:
    crossed = " CROSS JOIN ".join(f"sys.types AS t{i}" for i in range(4))
    for result in shared.session.execute(f"SELECT t0.name FROM {crossed}"):
        assert isinstance(result, ResultSet)
        sizes = [batch.num_rows for batch in result.batches]
        assert sum(sizes) == len(SYSTEM_TYPES) ** 4
        assert max(sizes) <= BATCH_ROWS
