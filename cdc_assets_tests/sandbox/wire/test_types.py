"""Each type's ends and NULL, through Microsoft's driver and arrow-odbc."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from cdc_assets.sandbox.results import MAX_LENGTH, ResultColumn, ResultSet, SqlType
from cdc_assets.sandbox.server import TdsServer
from cdc_assets.sandbox.wire.type_info import arrow_type
from cdc_assets_tests.sandbox.wire.canned import CannedBackend
from cdc_assets_tests.sandbox.wire.clients import odbc, read, tds

DAY = 864_000_000_000
EPOCH = 719_162 * DAY
"""1970-01-01 in 100 ns since 0001-01-01."""


def exact(number: int, scale: int) -> Decimal:
    """A decimal whatever the context's precision."""
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


T = SqlType
date = datetime.date
TEXT = ["", "a", "x" * 50, "käse €"]
WIDE = [*TEXT, "Ελλάδα", "漢字", "😀" * 25, "a\x00b"]
GUIDS = ["00112233-4455-6677-8899-AABBCCDDEEFF", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"]

# The type, the values sent, the values arrow-odbc shows (the same where None).
CASES = [
    (T("bit"), [True, False], None),
    (T("tinyint"), [0, 255], None),
    (T("smallint"), [-(2**15), 2**15 - 1], None),
    (T("int"), [-(2**31), 2**31 - 1], None),
    (T("bigint"), [-(2**63), 2**63 - 1], None),
    (T("real"), [-3.4028234663852886e38, 1.401298464324817e-45, 0.5], None),
    (T("float"), [-1.7976931348623157e308, 2.2250738585072014e-308, 0.1], None),
    *(
        (T("decimal", precision=p, scale=s), [exact(10**p - 1, s), exact(-1, s)], None)
        for p, s in ((1, 0), (9, 2), (10, 0), (18, 18), (19, 4), (20, 0), (28, 5), (29, 1), (38, 0))
    ),
    (T("numeric", precision=15, scale=2), [Decimal("-9999999999999.99"), Decimal("0.00")], None),
    (T("money"), [Decimal("-922337203685477.5808"), Decimal("922337203685477.5807")], None),
    (T("smallmoney"), [Decimal("-214748.3648"), Decimal("214748.3647")], None),
    (T("date"), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)], None),
    (T("time", scale=0), [0, DAY - 10**7], [0, 86_399]),
    (T("time", scale=3), [10_000, DAY - 10_000], [1, 86_399_999]),
    (T("time", scale=7), [1, DAY - 1], [100, (DAY - 1) * 100]),
    (
        T("datetime"),
        [639_905 * DAY, 3_652_059 * DAY - 30_000],  # .997 is the last
        [(639_905 * DAY - EPOCH) // 10_000, (3_652_059 * DAY - EPOCH) // 10_000 - 3],
    ),
    (
        T("smalldatetime"),
        [693_595 * DAY, (693_595 + 65_535) * DAY + DAY - 600_000_000],
        [
            (693_595 * DAY - EPOCH) // 10**7,
            ((693_595 + 65_536) * DAY - EPOCH) // 10**7 - 60,
        ],
    ),
    (
        T("datetime2", scale=0),
        [0, 3_652_059 * DAY - 10**7],
        [-EPOCH // 10**7, (3_652_059 * DAY - EPOCH) // 10**7 - 1],
    ),
    (
        T("datetime2", scale=3),
        [10_000, 3_652_059 * DAY - 10_000],
        [1 - EPOCH // 10_000, (3_652_059 * DAY - EPOCH) // 10_000 - 1],
    ),
    (
        T("datetime2", scale=6),
        [10, 3_652_059 * DAY - 10],
        [1 - EPOCH // 10, (3_652_059 * DAY - EPOCH) // 10 - 1],
    ),
    (T("datetime2", scale=7), [EPOCH - 1, EPOCH + 1], [-100, 100]),
    (
        T("datetimeoffset", scale=7),
        [
            {"ticks": EPOCH + 1, "offset_minutes": 120},
            {"ticks": 840 * 600_000_000, "offset_minutes": -840},
        ],
        ["1970-01-01 02:00:00.0000001 +02:00", "0001-01-01 00:00:00.0000000 -14:00"],
    ),
    (T("char", length=50), TEXT, [text.ljust(50) for text in TEXT]),
    (T("varchar", length=50), TEXT, None),
    (T("varchar", length=50, collation="Greek_CI_AS"), ["Ελλάδα", "a"], None),
    (T("varchar", length=MAX_LENGTH), TEXT, None),
    (T("nchar", length=4), ["", "ab", "漢字", "😀"], ["    ", "ab  ", "漢字  ", "😀  "]),
    (T("nvarchar", length=50), WIDE, None),
    (T("nvarchar", length=MAX_LENGTH), WIDE, None),
    (T("text"), TEXT, None),
    (T("ntext"), WIDE, None),
    (T("xml"), ["<a>ü</a>", "<b/>"], None),
    (T("uniqueidentifier"), GUIDS, None),
    (T("binary", length=4), [b"\x00\x01\x02\x03", b"\xff"], [b"\x00\x01\x02\x03", b"\xff\0\0\0"]),
    (T("varbinary", length=8), [b"", b"\x00\xff" * 4], None),
    (T("varbinary", length=MAX_LENGTH), [b"", b"\x00\xff" * 4], None),
    (T("image"), [b"", b"\x00\xff" * 4], None),
    (T("rowversion"), [bytes(8), b"\xff" * 8], None),
]


@pytest.mark.parametrize(("sql_type", "sent", "shown"), CASES, ids=lambda x: str(x)[:40])
def test_ends_and_null(
    backend: CannedBackend, server: TdsServer, sql_type: SqlType, sent: list, shown: list | None
) -> None:
    values = [sent[0], None, *sent[1:]]
    backend.rows_of("q", [("c", sql_type, pa.array(values, arrow_type(sql_type)))])
    expected = [None if value is None else value for value in (shown or sent)]
    expected.insert(1, None)
    # A text column without a limit would make arrow-odbc reserve a gigabyte for each row.
    table = read(odbc(server), "q", max_text_size=200, max_binary_size=200)
    column = table.column("c").combine_chunks()
    if pa.types.is_temporal(column.type) and not pa.types.is_date(column.type):
        width = pa.int32() if column.type.bit_width == 32 else pa.int64()
        column = column.view(width)
    assert column.to_pylist() == expected


@pytest.mark.parametrize("name", ["bit", "tinyint", "smallint", "int", "bigint", "float", "money"])
def test_not_null_columns(backend: CannedBackend, server: TdsServer, name: str) -> None:
    numbers = [Decimal(1), Decimal(0), Decimal(1)] if name == "money" else [1, 0, 1]
    array = pa.array(numbers).cast(arrow_type(SqlType(name)))
    batch = pa.record_batch([array, pa.array(["x", "y", "z"])], names=["c", "t"])
    columns = (
        ResultColumn("c", SqlType(name), nullable=False),
        ResultColumn("t", SqlType("varchar", length=1), nullable=False),
    )
    backend.results_of("q", lambda: [ResultSet(columns, iter([batch]))])
    table = read(odbc(server), "q")
    assert table.column("c").combine_chunks().equals(array)
    assert not table.schema.field("c").nullable
    with tds(server) as connection, connection.cursor() as cursor:
        cursor.execute("q")
        assert [row[1] for row in cursor.fetchall()] == ["x", "y", "z"]


def test_long_values(backend: CannedBackend, server: TdsServer) -> None:
    text, raw = "aü€" * 350_000, bytes(range(256)) * 4096
    backend.rows_of(
        "q",
        [
            ("t", SqlType("nvarchar", length=MAX_LENGTH), pa.array([text, "", None])),
            ("b", SqlType("varbinary", length=MAX_LENGTH), pa.array([raw, b"", None])),
        ],
    )
    connection = odbc(server, Encrypt="yes", HostNameInCertificate="localhost")
    table = read(connection, "q", batch_size=3, max_text_size=1_100_000, max_binary_size=1_100_000)
    assert table.to_pydict() == {"t": [text, "", None], "b": [raw, b"", None]}


def test_a_value_that_does_not_fit_is_an_error_after_the_rows_before(
    backend: CannedBackend, server: TdsServer
) -> None:
    backend.rows_of("q", [("c", SqlType("varchar", length=2), pa.array(["ab", "abc"]))])
    with tds(server) as connection, connection.cursor() as cursor:
        with pytest.raises(Exception, match=r"EncodingError: column c: row 1.*varchar\(2\)"):
            cursor.execute("q")
            cursor.fetchall()
        backend.rows_of("q", [("c", SqlType("int"), pa.array([1], pa.int32()))])
        cursor.execute("q")
        assert cursor.fetchall() == [(1,)]
