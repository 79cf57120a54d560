"""Tokens that drivers steer by, on the real engine: DONE's command, transactions, refusals."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
import pytds
import pytest
from pytds import tds_base

from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.sandbox.results import ResultColumn, ResultSet, RowCount, SqlType
from cdc_assets.sandbox.server import TdsServer
from cdc_assets.sandbox.wire.prelogin import parse_prelogin
from cdc_assets_tests.sandbox.wire import packets as p
from cdc_assets_tests.sandbox.wire.canned import PASSWORD, USER, CannedBackend
from cdc_assets_tests.sandbox.wire.clients import RawClient, odbc, read

BEGIN, COMMIT, ROLLBACK, RESET = 8, 9, 10, 18
NO_RESET, RESET_CONNECTION, KEEP_TRANSACTION = 1, 9, 17


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("protocol") / "state") as running:
        running.execute(
            "CREATE DATABASE shop; USE shop;"
            " CREATE TABLE t (id int NOT NULL PRIMARY KEY, v varchar(5) NULL);"
            " INSERT t VALUES (1, 'a'), (2, 'b')",
            "master",
        )
        yield running


@pytest.fixture
def raw(sandbox: Sandbox) -> Iterator[RawClient]:
    with RawClient(sandbox.port) as client:
        said = client.log_in(p.login("sa", sandbox.admin_password, database="shop"))
        assert done(said) == (0, 0, 0)
        yield client


def done(said: bytes) -> tuple[int, int, int]:
    """Status, command and row count of the last DONE."""
    _, status, command, rows = struct.unpack("<BHHQ", said[-13:])
    return status, command, rows


def transaction_changes(said: bytes) -> list[tuple[int, bytes]]:
    """The transaction ENVCHANGEs at the start of a response, each with its descriptor."""
    found = []
    while said[:1] == b"\xe3":
        (size,) = struct.unpack_from("<H", said, 1)
        kind, body = said[3], said[4 : 3 + size]
        if kind in (BEGIN, COMMIT, ROLLBACK):
            found.append((kind, body[1:9] if kind == BEGIN else body[2:10]))
        said = said[3 + size :]
    return found


def number(said: bytes) -> int:
    """The number of the first ERROR."""
    at = said.index(b"\xaa")
    return int.from_bytes(said[at + 3 : at + 7], "little")


@pytest.mark.parametrize(
    ("text", "command", "rows"),
    [
        ("SELECT * FROM t", 0xC1, 2),
        ("DECLARE @x int; SELECT @x = id FROM t", 0xC1, 2),
        ("SELECT * INTO #copy FROM t", 0xC2, 2),
        ("BEGIN TRAN; INSERT t VALUES (3, 'c')", 0xC3, 1),
        ("BEGIN TRAN; DELETE t", 0xC4, 2),
        ("BEGIN TRAN; UPDATE t SET v = 'x'", 0xC5, 2),
        ("BEGIN TRAN; UPDATE t SET v = 'x' OUTPUT inserted.id WHERE id = 2", 0xC5, 1),
        (
            "BEGIN TRAN; MERGE t AS t USING (SELECT 9 AS id) AS s ON t.id = s.id"
            " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id);",
            0x117,
            1,
        ),
    ],
)
def test_done_names_the_command(raw: RawClient, text: str, command: int, rows: int) -> None:
    status, *found = done(raw.ask(p.SQL_BATCH, p.batch(text)))
    assert found == [command, rows]
    assert status == 0x10  # it has a count, and is the last


def test_rows_of_output_are_one_result(sandbox: Sandbox) -> None:
    with sa(sandbox) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN TRAN; UPDATE t SET v = 'y' OUTPUT inserted.id WHERE id = 1")
        assert cursor.fetchall() == [(1,)]
        assert not cursor.nextset()


def sa(sandbox: Sandbox, **options: object) -> pytds.Connection:
    return pytds.connect(
        "127.0.0.1",
        port=sandbox.port,
        user="sa",
        password=sandbox.admin_password,
        database="shop",
        autocommit=True,
        login_timeout=10,
        **options,
    )


def test_nocount_hides_a_count_and_no_rows(backend: CannedBackend, server: TdsServer) -> None:
    batch = pa.record_batch([pa.array([1], pa.int32())], names=["n"])
    columns = (ResultColumn("n", SqlType("int")),)
    backend.results_of("q", lambda: [RowCount(None, "INSERT"), ResultSet(columns, iter([batch]))])
    assert read(odbc(server), "q").num_rows == 1


# --- transactions ------------------------------------------------------------------------------


def test_transactions_of_t_sql_are_announced(raw: RawClient) -> None:
    ((begin, descriptor),) = transaction_changes(raw.ask(p.SQL_BATCH, p.batch("BEGIN TRAN")))
    assert begin == BEGIN
    assert descriptor != bytes(8)
    # Nested ones are nobody's business.
    said = raw.ask(p.SQL_BATCH, p.batch("BEGIN TRAN; COMMIT"))
    assert not transaction_changes(said)
    assert done(said)[1] == 0xD5
    said = raw.ask(p.SQL_BATCH, p.batch("COMMIT"))
    assert transaction_changes(said) == [(COMMIT, descriptor)]
    ((_, other),) = transaction_changes(raw.ask(p.SQL_BATCH, p.batch("BEGIN TRAN")))
    assert other != descriptor
    said = raw.ask(p.SQL_BATCH, p.batch("ROLLBACK"))
    assert transaction_changes(said) == [(ROLLBACK, other)]
    assert done(said)[1] == 0xD2


def test_requests_and_t_sql_share_a_transaction(raw: RawClient) -> None:
    said = raw.ask(p.TRANSACTION, p.transaction(5, b"\x00\x00"))
    ((kind, descriptor),) = transaction_changes(said)
    assert (kind, done(said)[1]) == (BEGIN, 0xD4)
    assert transaction_changes(raw.ask(p.SQL_BATCH, p.batch("COMMIT"))) == [(COMMIT, descriptor)]
    raw.ask(p.SQL_BATCH, p.batch("BEGIN TRAN"))
    # A rollback that begins the next one at once, in another isolation level.
    said = raw.ask(p.TRANSACTION, p.transaction(8, b"\x00\x01\x02\x00"))
    assert [kind for kind, _ in transaction_changes(said)] == [ROLLBACK, BEGIN]


def test_an_error_that_ends_a_transaction_says_so(raw: RawClient) -> None:
    ((_, descriptor),) = transaction_changes(raw.ask(p.SQL_BATCH, p.batch("BEGIN TRAN")))
    said = raw.ask(p.SQL_BATCH, p.batch("SET XACT_ABORT ON"))
    said = raw.ask(p.SQL_BATCH, p.batch("INSERT t VALUES (1, 'dup')"))
    assert transaction_changes(said) == [(ROLLBACK, descriptor)]
    assert number(said) == 2627


def test_implicit_transactions_are_announced(raw: RawClient) -> None:
    raw.ask(p.SQL_BATCH, p.batch("SET IMPLICIT_TRANSACTIONS ON"))
    said = raw.ask(p.SQL_BATCH, p.batch("UPDATE t SET v = 'i' WHERE id = 1"))
    assert [kind for kind, _ in transaction_changes(said)] == [BEGIN]


def test_savepoint_requests(raw: RawClient) -> None:
    name = struct.pack("B", 4) + "s1".encode("utf-16-le")
    assert number(raw.ask(p.TRANSACTION, p.transaction(9, name))) == 628
    raw.ask(p.TRANSACTION, p.transaction(5, b"\x00\x00"))
    assert done(raw.ask(p.TRANSACTION, p.transaction(9, name)))[0] == 0
    assert done(raw.ask(p.TRANSACTION, p.transaction(8, name + b"\x00")))[0] == 0
    raw.ask(p.SQL_BATCH, p.batch("DELETE t"))
    said = raw.ask(p.TRANSACTION, p.transaction(8, name + b"\x00"))
    assert done(said)[0] == 0
    assert not transaction_changes(said)
    assert done(raw.ask(p.SQL_BATCH, p.batch("SELECT * FROM t; ROLLBACK")))[0] == 0
    # Distributed ones, and one that was never told.
    assert number(raw.ask(p.TRANSACTION, p.transaction(6))) == 8501
    assert number(raw.ask(p.TRANSACTION, p.transaction(8, b"\x00\x00"))) == 3903


def test_a_reset_connection_is_as_new(raw: RawClient) -> None:
    begun = "USE master; SET NOCOUNT ON; SET LOCK_TIMEOUT 5; CREATE TABLE #t (a int); BEGIN TRAN"
    raw.ask(p.SQL_BATCH, p.batch(begun))
    text = (
        "IF @@TRANCOUNT = 0 AND @@LOCK_TIMEOUT = -1 AND DB_NAME() = 'shop' SELECT 1"
        " ELSE SELECT 1 FROM nothing"
    )
    said = raw.ask(p.SQL_BATCH, p.batch(text), RESET_CONNECTION)
    assert [kind for kind, _ in transaction_changes(said)] == [ROLLBACK]
    assert b"\xe3\x03\x00\x12\x00\x00" in said
    assert "shop".encode("utf-16-le") in said
    assert done(said) == (0x10, 0xC1, 1)
    assert number(raw.ask(p.SQL_BATCH, p.batch("SELECT * FROM #t"))) == 208


def test_a_reset_may_keep_the_transaction(raw: RawClient) -> None:
    raw.ask(p.SQL_BATCH, p.batch("SET LOCK_TIMEOUT 5; BEGIN TRAN; UPDATE t SET v = 'k'"))
    text = (
        "IF @@TRANCOUNT = 1 AND @@LOCK_TIMEOUT = -1 SELECT 1 FROM t WHERE v = 'k'"
        " ELSE SELECT 1 FROM nothing"
    )
    said = raw.ask(p.SQL_BATCH, p.batch(text), KEEP_TRANSACTION)
    assert not transaction_changes(said)
    assert done(said) == (0x10, 0xC1, 2)
    assert [k for k, _ in transaction_changes(raw.ask(p.SQL_BATCH, p.batch("ROLLBACK")))] == [
        ROLLBACK
    ]


# --- what is refused, and stays in step --------------------------------------------------------


def declared(kind: str) -> bytes:
    """A statement with an int for a parameter that is declared as something else."""
    statement = (p.nvarchar("SELECT @a"), p.nvarchar(f"@a {kind}"))
    return p.call("sp_executesql", *statement, b"\x26\x04\x04\x01\x00\x00\x00")


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (p.RPC, p.call("sp_executesql", p.nvarchar("q"), p.table_valued(), p.nvarchar("x")), 2715),
        (p.RPC, p.call("sp_executesql", b"\x62\x00\x00\x00\x00"), 8009),
        (p.RPC, p.call("sp_executesql", b"\x6c\x11\x27\x26\x00"), 8023),  # numeric(39,38)
        (p.RPC, p.call("sp_executesql", b"\x6c\x11\x0a\x0c\x00"), 8023),  # numeric(10,12)
        (p.RPC, declared("numeric(39,38)"), 2750),
        (p.RPC, declared("decimal(10, 12)"), 183),
        (p.RPC, p.call(99, p.nvarchar("q")), 2812),
        (p.SQL_BATCH, p.batch("INSERT BULK t ([id] int) WITH (TABLOCK)"), 40515),
        (p.BULK, p.bulk(), 40515),
    ],
)
def test_refused_requests_leave_the_connection_in_step(
    raw: RawClient, kind: int, data: bytes, expected: int
) -> None:
    said = raw.ask(kind, data)
    assert number(said) == expected
    assert done(said)[0] & 2
    assert done(raw.ask(p.SQL_BATCH, p.batch("SELECT 1"))) == (0x10, 0xC1, 1)


def test_a_table_valued_parameter_is_named(raw: RawClient) -> None:
    said = raw.ask(p.RPC, p.call("sp_executesql", p.nvarchar("q"), p.table_valued()))
    text = "Column, parameter, or variable #2: Cannot find data type dbo.ids."
    assert text.encode("utf-16-le") in said


def test_an_incorrect_stream_is_told_and_ended(raw: RawClient) -> None:
    assert number(raw.ask(p.RPC, p.call("sp_executesql", p.nvarchar("q"))[:-1])) == 4002
    assert not raw.answer()


# --- logins ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [p.TDS_7_0, p.TDS_7_1, p.TDS_7_2])
@pytest.mark.parametrize("greeted", [True, False])
def test_an_older_tds_is_told_so(sandbox: Sandbox, version: int, greeted: bool) -> None:
    login = p.login("sa", sandbox.admin_password, database="shop", version=version)
    with RawClient(sandbox.port) as client:
        said = client.log_in(login) if greeted else client.ask(p.LOGIN7, login)
        assert not client.answer()
    assert number(said) == 18456
    assert f"TDS version {version:#010x} is older than 7.3".encode("utf-16-le") in said
    # ERROR and DONE are shorter before 7.2.
    size = 3 + struct.unpack_from("<H", said, 1)[0] + (13 if version == p.TDS_7_2 else 9)
    assert len(said) == size


@pytest.mark.parametrize("version", [tds_base.TDS71, tds_base.TDS72])
def test_a_driver_of_an_older_tds_shows_it(sandbox: Sandbox, version: int) -> None:
    with pytest.raises(pytds.Error, match=r"is older than 7\.3"):
        sa(sandbox, tds_version=version)


def test_an_unknown_database_is_4060_and_18456(sandbox: Sandbox) -> None:
    with RawClient(sandbox.port) as client:
        said = client.log_in(p.login("sa", sandbox.admin_password, database="nodb"))
    assert number(said) == 4060
    assert 'Cannot open database "nodb" requested'.encode("utf-16-le") in said
    second = said[3 + struct.unpack_from("<H", said, 1)[0] :]
    assert number(second) == 18456
    assert done(said)[0] == 2


def test_unknown_features_are_declined(sandbox: Sandbox) -> None:
    # SESSIONRECOVERY, UTF8_SUPPORT and one of the future.
    features = b"\x01" + struct.pack("<I", 4) + bytes(4) + b"\x0a\x01\x00\x00\x00\x01"
    features += b"\x7e\x00\x00\x00\x00\xff"
    login = p.login("sa", sandbox.admin_password, database="shop", features=features)
    with RawClient(sandbox.port) as client:
        said = client.log_in(login)
        assert said[-15:-13] == b"\xae\xff"
        assert done(said) == (0, 0, 0)
        assert done(client.ask(p.SQL_BATCH, p.batch("SELECT 1"))) == (0x10, 0xC1, 1)


def test_mars_is_declined_before_the_login(sandbox: Sandbox) -> None:
    with RawClient(sandbox.port) as client:
        answer = parse_prelogin(client.ask(p.PRELOGIN, p.prelogin(mars=1)))
    assert 4 not in answer
    with RawClient(sandbox.port) as client:
        answer = parse_prelogin(client.ask(p.PRELOGIN, p.prelogin(mars=0)))
    assert answer[4] == b"\x00"


def test_a_driver_that_wants_mars_does_without(backend: CannedBackend, server: TdsServer) -> None:
    batch = pa.record_batch([pa.array([1], pa.int32())], names=["n"])
    columns = (ResultColumn("n", SqlType("int")),)
    backend.results_of("q", lambda: [ResultSet(columns, iter([batch]))])
    assert read(odbc(server, MARS_Connection="yes"), "q").num_rows == 1
    with pytds.connect(
        "127.0.0.1", port=server.port, user=USER, password=PASSWORD, use_mars=True
    ) as connection:
        assert not connection.mars_enabled


@pytest.mark.parametrize(
    ("asked", "given"), [(0, 4096), (511, 4096), (512, 512), (4096, 4096), (32_767, 32_767)]
)
def test_packet_sizes(backend: CannedBackend, server: TdsServer, asked: int, given: int) -> None:
    backend.rows_of("q", [("n", SqlType("int"), pa.array(range(20_000), pa.int32()))])
    with RawClient(server.port) as client:
        said = client.log_in(p.login(USER, PASSWORD, packet_bytes=asked))
        assert str(given).encode("utf-16-le") in said
        client.ask(p.SQL_BATCH, p.batch("q"))
        sizes = {len(payload) + 8 for payload in p.payloads(client.received)}
    assert max(sizes) == given
    assert len(sizes) <= 2  # all but the last are full
