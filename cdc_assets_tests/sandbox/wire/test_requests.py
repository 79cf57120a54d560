"""Batches, RPCs, parameters and transactions, as the drivers send them."""

from __future__ import annotations

import datetime
import struct
import uuid
from collections.abc import Iterator, Sequence
from decimal import Decimal

import arrow_odbc
import pyarrow as pa
import pytds
import pytest

from cdc_assets.sandbox.results import (
    MAX_LENGTH,
    DatabaseChanged,
    Failed,
    Message,
    OutputParameters,
    Parameter,
    Result,
    ResultColumn,
    ResultSet,
    RowCount,
    SqlError,
    SqlType,
)
from cdc_assets.sandbox.server import TdsServer
from cdc_assets.sandbox.wire.byte_reader import ByteReader
from cdc_assets.sandbox.wire.parameters import read_typed_value
from cdc_assets_tests.sandbox.remote import results_of, tokens_of
from cdc_assets_tests.sandbox.wire.canned import CannedBackend, CannedSession
from cdc_assets_tests.sandbox.wire.clients import connection_string, odbc, read, tds

INT = SqlType("int")


def one(value: int) -> ResultSet:
    batch = pa.record_batch([pa.array([value], pa.int32())], names=["n"])
    return ResultSet((ResultColumn("n", INT),), iter([batch]))


def failing(values: Sequence[int], error: SqlError) -> ResultSet:
    """Rows that end in an error."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array(values, pa.int32())], names=["n"])
        raise error

    return ResultSet((ResultColumn("n", INT),), batches())


@pytest.mark.parametrize(
    "text", ["", "a", "Ελλάδα 😀", "x" * 4000, "y" * 4001, "z" * 100_000, None]
)
def test_text_parameters_of_arrow_odbc(
    backend: CannedBackend, server: TdsServer, text: str | None
) -> None:
    backend.results_of("select @P1, @P2", lambda: [one(1)])
    # The driver numbers the question marks itself.
    assert read(odbc(server), "select ?, ?", [text, "b"]).num_rows == 1
    first, second = backend.sessions[0].parameters[0]
    assert (first.name, first.value) == ("@P1", text)
    assert (second.name, second.value) == ("@P2", "b")
    assert first.type.name in ("nvarchar", "ntext")


def test_parameters_of_pytds(backend: CannedBackend, server: TdsServer) -> None:
    sent = (
        2**40,
        "ü",
        Decimal("-12345.6789"),
        pytds.Binary(b"\x00\xff"),
        datetime.date(2026, 11, 30),
        datetime.datetime(2026, 11, 30, 10, 0, 0, 123456),
        uuid.UUID(int=7),
        True,
        0.1,
    )
    text = "select " + ", ".join(f"@P{i}" for i in range(1, len(sent) + 1))
    backend.results_of(text, lambda: [one(1)])
    with tds(server) as connection, connection.cursor() as cursor:
        cursor.execute("select " + ", ".join(["%s"] * len(sent)), sent)
        assert cursor.fetchall() == [(1,)]
    values = [parameter.value for parameter in backend.sessions[0].parameters[0]]
    expected = list(sent)
    expected[5] = "2026-11-30 10:00:00.123456"
    assert values == expected


TYPED = [
    (b"\x38" + struct.pack("<i", -5), SqlType("int"), -5),
    (b"\x26\x01\x01\xff", SqlType("tinyint"), 255),
    (b"\x26\x08\x00", SqlType("bigint"), None),
    (b"\x68\x01\x01\x01", SqlType("bit"), True),
    (b"\x6e\x08\x08" + struct.pack("<iI", -1, 0xFFFFFFFF), SqlType("money"), Decimal("-0.0001")),
    (b"\x7a" + struct.pack("<i", 10_000), SqlType("smallmoney"), Decimal("1.0000")),
    (b"\x6f\x08\x08" + struct.pack("<iI", 1, 1), SqlType("datetime"), "1900-01-02 00:00:00.003"),
    (b"\x6f\x04\x04" + struct.pack("<HH", 0, 61), SqlType("smalldatetime"), "1900-01-01 01:01:00"),
    (b"\x28\x03\x00\x00\x00", SqlType("date"), datetime.date(1, 1, 1)),
    (b"\x29\x07\x05" + (864 * 10**9 - 1).to_bytes(5, "little"), SqlType("time", scale=7),
     "23:59:59.9999999"),
    (b"\x2a\x00\x06\x01\x00\x00\x00\x00\x00", SqlType("datetime2", scale=0), "0001-01-01 00:00:01"),
    (b"\x2b\x03\x09" + bytes(4) + b"\x01\x00\x00" + struct.pack("<h", -90),
     SqlType("datetimeoffset", scale=3), "0001-01-01 22:30:00.000 -01:30"),
    (b"\x6a\x11\x26\x00\x11\x01" + (10**38 - 1).to_bytes(16, "little"),
     SqlType("decimal", precision=38, scale=0), Decimal("9" * 38)),
    (b"\x6a\x11\x26\x02\x02\x00\x96", SqlType("decimal", precision=38, scale=2),
     Decimal("-1.50")),
    (b"\xe7\xff\xff" + bytes(5) + b"\xff" * 8, SqlType("nvarchar", length=MAX_LENGTH), None),
    (b"\xe7\xff\xff" + bytes(5) + struct.pack("<QI", 2**64 - 2, 2) + b"a\0" + bytes(4),
     SqlType("nvarchar", length=MAX_LENGTH), "a"),
    (b"\xa7\x08\x00\x08\x04\xd0\x00\x00\x01\x00\xd9", SqlType("varchar", length=8), "Ω"),
    (b"\xa5\x08\x00\x02\x00\x01\x02", SqlType("varbinary", length=8), b"\x01\x02"),
    (b"\x63\xff\xff\xff\x7f" + bytes(5) + b"\x02\0\0\0x\0", SqlType("ntext"), "x"),
    (b"\x24\x10\x10" + uuid.UUID(int=9).bytes_le, SqlType("uniqueidentifier"), uuid.UUID(int=9)),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "sql_type", "value"), TYPED, ids=lambda x: str(x)[:30])
def test_typed_values(raw: bytes, sql_type: SqlType, value: object) -> None:
    reader = ByteReader(raw)
    assert read_typed_value(reader) == (sql_type, value)
    assert reader.at_end()


def test_an_unknown_parameter_type_is_8009() -> None:
    with pytest.raises(SqlError, match="Data type 0xF3 is unknown"):
        read_typed_value(ByteReader(b"\xf3\x00"))


def test_procedures_with_output_parameters(backend: CannedBackend, server: TdsServer) -> None:
    outputs = (
        ("@n", INT, 42),
        ("@t", SqlType("nvarchar", length=20), "Ελλάδα"),
        ("@d", SqlType("datetime2", scale=7), "2026-11-30 10:00:00.1234560"),
    )

    def answer(_: CannedSession, parameters: Sequence[Parameter]) -> Iterator[Result]:
        assert [parameter.value for parameter in parameters][:1] == ["in"]
        yield OutputParameters(3, outputs)

    backend.procedures["dbo.p"] = answer
    with tds(server) as connection, connection.cursor() as cursor:
        kinds = ("int", "nvarchar(20)", "datetime2(7)")
        given = ("in", *(pytds.output(param_type=kind) for kind in kinds))
        answered = cursor.callproc("dbo.p", given)
        assert cursor.get_proc_return_status() == 3
        moment = datetime.datetime(2026, 11, 30, 10, 0, 0, 123456)
        assert list(answered[1:]) == [42, "Ελλάδα", moment]


def test_an_unknown_procedure(server: TdsServer) -> None:
    problem = pytest.raises(pytds.Error, match="Could not find stored procedure 'nope'")
    with tds(server) as connection, connection.cursor() as cursor, problem:
        cursor.callproc("nope", ())


@pytest.mark.parametrize(
    ("number", "state"),
    [
        (208, "42S02"),
        (207, "42S22"),
        (547, "23000"),
        (2601, "23000"),
        (2627, "23000"),
        (1205, "40001"),
        (1222, "42000"),
        (3960, "42000"),
        (229, "42000"),
    ],
)
def test_error_numbers_become_sqlstates(
    backend: CannedBackend, server: TdsServer, number: int, state: str
) -> None:
    def fail(_: CannedSession, __: Sequence[Parameter]) -> Iterator[Result]:
        raise SqlError(number, "canned")
        yield

    backend.answers["q"] = fail
    connection = odbc(server)
    for parameters in (None, ["x"]):
        with pytest.raises(arrow_odbc.Error, match=rf"{state}.*{number}.*canned"):
            read(connection, "q", parameters)
    backend.results_of("fine", lambda: [one(1)])
    assert read(connection, "fine").num_rows == 1


def test_an_error_after_rows(backend: CannedBackend, server: TdsServer) -> None:
    error = SqlError(1205, "deadlocked")
    backend.results_of("q", lambda: [failing(range(10_000), error), Failed(error)])
    with pytest.raises(arrow_odbc.Error, match=r"40001.*1205.*deadlocked"):
        read(odbc(server), "q")


def test_a_failure_of_the_engine_is_50000_and_logged(
    backend: CannedBackend, server: TdsServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: CannedSession, __: Sequence[Parameter]) -> Iterator[Result]:
        raise ZeroDivisionError("oops")
        yield

    backend.answers["q"] = fail
    with pytest.raises(arrow_odbc.Error, match=r"50000.*ZeroDivisionError"):
        read(odbc(server), "q")
    assert "a request failed inside the sandbox" in caplog.text


def test_several_results_of_a_batch(backend: CannedBackend, server: TdsServer) -> None:
    backend.results_of(
        "q",
        lambda: [
            RowCount(None),
            Message(0, "printed"),
            RowCount(3),
            one(1),
            DatabaseChanged("other"),
            OutputParameters(0),
            one(2),
        ],
    )
    with tds(server) as connection, connection.cursor() as cursor:
        cursor.execute("q")
        seen = []
        while True:
            if cursor.description:
                seen.append(cursor.fetchall())
            if not cursor.nextset():
                break
        assert seen == [[(1,)], [(2,)]]


def test_what_a_statement_tells_follows_the_results_before_it(
    backend: CannedBackend, server: TdsServer
) -> None:
    """Where an error's DONE ends with 3621, every other message begins its own statement."""
    printed, ended = Message(0, "printed"), Message(3621, "The statement has been terminated.")
    failed = Failed(SqlError(547, "conflict"))
    backend.results_of("q", lambda: [one(1), printed, RowCount(2), failed, ended, printed])
    with tds(server) as connection:
        found = list(results_of(tokens_of(connection), "q"))
    rows, told, count, error, *rest = found
    assert (rows[1], told.text, count.rows) == ([(1,)], "printed", 2)
    assert (error.error.number, [m.number for m in rest]) == (547, [3621, 0])


def test_a_statement_that_counts_nothing_does_not_hide_rows(
    backend: CannedBackend, server: TdsServer
) -> None:
    backend.results_of("q", lambda: [RowCount(None), one(1)])
    assert read(odbc(server), "q").num_rows == 1
    assert read(odbc(server), "q", ["x"]).num_rows == 1


def test_row_counts(backend: CannedBackend, server: TdsServer) -> None:
    backend.results_of("q", lambda: [RowCount(3)])
    with tds(server) as connection, connection.cursor() as cursor:
        cursor.execute("q")
        assert cursor.rowcount == 3


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_transactions(backend: CannedBackend, server: TdsServer, end: str) -> None:
    backend.results_of("q", lambda: [RowCount(1)])
    with tds(server, autocommit=False) as connection:
        for _ in range(2):
            with connection.cursor() as cursor:
                cursor.execute("q")
            getattr(connection, end)()
    # The driver asks to begin the next with each end.
    assert backend.sessions[0].log[:6] == ["begin", "q", end, "begin", "q", end]


def test_odbc_transactions(backend: CannedBackend, server: TdsServer) -> None:
    backend.results_of("q", lambda: [RowCount(1)])
    connection = arrow_odbc.connect(connection_string(server), autocommit=False)
    connection.execute("q")
    connection.commit()
    connection.execute("q")
    connection.rollback()
    log = [entry for entry in backend.sessions[0].log if entry != "begin"]
    assert log == ["q", "commit", "q", "rollback"]


def test_errors_of_single_statements_come_between_the_results(
    backend: CannedBackend, server: TdsServer
) -> None:
    duplicate = SqlError(2627, "Violation of PRIMARY KEY constraint.", 14)
    duplicate.line = 3
    ended = Message(3621, "The statement has been terminated.", 0, 0)
    backend.results_of("batch", lambda: [one(1), Failed(duplicate), ended, RowCount(2), one(3)])
    with tds(server) as connection, connection.cursor() as cursor:
        cursor.execute("batch")
        assert cursor.fetchall() == [(1,)]
        with pytest.raises(pytds.IntegrityError) as caught:
            cursor.nextset()
        assert (caught.value.number, caught.value.line) == (2627, 3)
        found = []
        while cursor.nextset():
            found.append(cursor.fetchall() if cursor.description else cursor.rowcount)
        assert found[-1] == [(3,)]


def test_rows_that_end_in_an_error_never_look_complete(
    backend: CannedBackend, server: TdsServer
) -> None:
    error = SqlError(8134, "Divide by zero error encountered.")
    backend.results_of("cut", lambda: [failing([1, 2], error), Failed(error), one(3)])
    with pytest.raises(arrow_odbc.Error, match="Divide by zero"):
        read(odbc(server), "cut")
    backend.results_of("caught", lambda: [failing([1, 2], error), one(3)])
    with tds(server) as connection, connection.cursor() as cursor:
        cursor.execute("caught")
        assert cursor.fetchall() == [(1,), (2,)]
        assert cursor.nextset()
        assert cursor.fetchall() == [(3,)]
