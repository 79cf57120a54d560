"""Faults of the engine as the real drivers meet them: every kind, staged from a test."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import arrow_odbc
import pyarrow as pa
import pytds
import pytest
from arrow_odbc import TextEncoding

from cdc_assets.sandbox.handle import Sandbox
from cdc_assets_tests.sandbox.wire.clients import driver

ROWS = 10
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("faults") / "state") as sandbox:
        yield sandbox


@dataclass(frozen=True)
class Shop:
    """A database with a captured table `t` of ten rows, all of them changes too."""

    sandbox: Sandbox
    name: str

    def execute(self, text: str) -> None:
        self.sandbox.execute(text, self.name)

    def odbc(self) -> Any:
        text = self.sandbox.connection_string(self.name)
        return arrow_odbc.connect(f"Driver={driver()};{text};TrustServerCertificate=yes")

    def plant(self, text: str) -> None:
        self.execute(f"EXEC sandbox.fault {text}")

    def waiting(self) -> list[str]:
        return [fault.kind for fault in self.sandbox.engine.faults.waiting()]


@pytest.fixture
def shop(running: Sandbox) -> Iterator[Shop]:
    made = Shop(running, f"shop{next(_numbers)}")
    running.execute(f"CREATE DATABASE {made.name}", "master")
    made.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); EXEC sys.sp_cdc_enable_db;"
        "EXEC sys.sp_cdc_enable_table 'dbo', 't', NULL, @supports_net_changes = 0;"
        + "".join(f"INSERT t VALUES ({i}, 0);" for i in range(1, ROWS + 1))
        + "CREATE USER reader FOR LOGIN reader; GRANT SELECT ON t TO reader;"
        "GRANT SELECT ON cdc.dbo_t_CT TO reader",
    )
    yield made
    made.execute(
        "EXEC sandbox.clear_faults; EXEC sandbox.set_clock @zone = 'UTC', @shift_seconds = 0"
    )


def batches(connection: Any, text: str, size: int = 100) -> Any:
    return connection.read_arrow_batches(
        text, batch_size=size, payload_text_encoding=TextEncoding.UTF16
    )


def column(connection: Any, text: str) -> list[Any]:
    reader = batches(connection, text).into_pyarrow_record_batch_reader()
    return reader.read_all().column(0).to_pylist()  # type: ignore[no-any-return]


MAX_LSN = "SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)"
ITEMS = "SELECT id, v FROM t ORDER BY id"
CHANGES = "SELECT id FROM cdc.dbo_t_CT ORDER BY [__$start_lsn]"
CLEAN = (
    "DECLARE @to binary(10); SET @to = sys.fn_cdc_get_max_lsn(); "
    "EXEC sys.sp_cdc_cleanup_change_table ''dbo_t'', @to"
)


@pytest.mark.parametrize(
    ("kind", "state"), [("deadlock", "40001"), ("lock_timeout", "42000"), ("drop", "08S01")]
)
def test_a_statement_fails_before_its_rows(shop: Shop, kind: str, state: str) -> None:
    shop.plant(f"'{kind}', 't', @login = 'reader'")
    with pytest.raises((arrow_odbc.Error, pa.ArrowException), match=state):
        column(shop.odbc(), ITEMS)
    assert shop.waiting() == []
    assert column(shop.odbc(), ITEMS) == list(range(1, ROWS + 1))


@pytest.mark.parametrize(
    ("kind", "state"), [("deadlock", "40001"), ("error", "HY000|42000"), ("drop", "08S01")]
)
@pytest.mark.parametrize("rows", [1, 4, ROWS])
def test_exactly_so_many_rows_arrive_before_it(
    shop: Shop, kind: str, state: str, rows: int
) -> None:
    shop.plant(f"'{kind}', 't', @login = 'reader', @rows = {rows}")
    got: list[int] = []
    with pytest.raises((arrow_odbc.Error, pa.ArrowException), match=state):
        for batch in batches(shop.odbc(), ITEMS, size=1):
            got += batch.column(0).to_pylist()
    # This driver shows a row once it has seen what follows; `pytds` below shows every one.
    shown = rows - 1 if kind == "drop" else rows
    assert got == list(range(1, shown + 1))


def test_pytds_sees_the_same_rows(shop: Shop) -> None:
    shop.plant("'drop', 't', @login = 'reader', @rows = 3")
    connection = pytds.connect(
        "127.0.0.1",
        port=shop.sandbox.port,
        user="reader",
        password=shop.sandbox.reader_password,
        database=shop.name,
        autocommit=True,
    )
    got = []
    with connection.cursor() as cursor:
        cursor.execute(ITEMS)
        with pytest.raises((pytds.Error, OSError)):
            while row := cursor.fetchone():
                got.append(row[0])
    assert got == [1, 2, 3]


def test_a_result_too_short_leaves_the_fault_waiting(shop: Shop) -> None:
    shop.plant(f"'drop', 't', @rows = {ROWS + 1}")
    assert len(column(shop.odbc(), ITEMS)) == ROWS
    assert shop.waiting() == ["drop"]


def test_delay_in_the_middle(shop: Shop) -> None:
    shop.plant("'delay', 't', @rows = 5, @seconds = 0.3")
    began = time.monotonic()
    assert len(column(shop.odbc(), ITEMS)) == ROWS
    assert time.monotonic() - began >= 0.3


def test_a_commit_between_the_recorded_lsn_and_the_read(shop: Shop) -> None:
    shop.plant("'execute', 't', @login = 'reader', @text = 'UPDATE t SET v = 7 WHERE id = 3'")
    connection = shop.odbc()
    (stamp,) = column(connection, MAX_LSN)
    rows = batches(connection, ITEMS).into_pyarrow_record_batch_reader().read_all().to_pylist()
    assert {"id": 3, "v": 7} in rows
    later = f"SELECT COUNT(*) FROM cdc.dbo_t_CT WHERE [__$start_lsn] > {stamp}"
    assert column(shop.odbc(), later) == [2]


def test_a_commit_during_the_read_is_not_seen_by_it(shop: Shop) -> None:
    shop.plant("'execute', 't', @rows = 2, @login = 'reader', @text = 'UPDATE t SET v = 7'")
    rows = batches(shop.odbc(), ITEMS).into_pyarrow_record_batch_reader().read_all()
    assert rows.column(1).to_pylist() == [0] * ROWS
    assert set(column(shop.odbc(), "SELECT v FROM t")) == {7}


def test_cleanup_before_the_read_of_changes(shop: Shop) -> None:
    shop.plant(f"'execute', 'cdc.dbo_t_CT', @login = 'reader', @text = '{CLEAN}'")
    assert column(shop.odbc(), CHANGES) == [ROWS]


@pytest.mark.parametrize("rows", [1, 4, ROWS - 1])
def test_cleanup_during_the_read_of_changes(shop: Shop, rows: int) -> None:
    """What was sent stays sent, of the rest only what cleanup left arrives."""
    shop.plant(
        f"'execute', 'cdc.dbo_t_CT', @login = 'reader', @rows = {rows}, @text = '{CLEAN}'",
    )
    assert column(shop.odbc(), CHANGES) == [*range(1, rows + 1), ROWS]
    assert column(shop.odbc(), CHANGES) == [ROWS]


def test_cleanup_during_a_read_by_function_is_no_error(shop: Shop) -> None:
    """The range was good when the call began: what is gone is missing, and Msg 313 comes later."""
    (low,) = column(shop.odbc(), "SELECT CONVERT(varchar(22), sys.fn_cdc_get_min_lsn('dbo_t'), 1)")
    text = (
        f"SELECT id FROM cdc.fn_cdc_get_all_changes_dbo_t({low}, sys.fn_cdc_get_max_lsn(), 'all')"
    )
    shop.plant(f"'execute', 'cdc.dbo_t_CT', @login = 'reader', @rows = 4, @text = '{CLEAN}'")
    assert column(shop.odbc(), text) == [1, 2, 3, 4, ROWS]
    with pytest.raises((arrow_odbc.Error, pa.ArrowException), match="insufficient number"):
        column(shop.odbc(), text)


def test_cleanup_is_not_seen_by_a_snapshot(shop: Shop) -> None:
    shop.execute("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
    shop.plant(f"'execute', 'cdc.dbo_t_CT', @login = 'reader', @rows = 4, @text = '{CLEAN}'")
    text = f"SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; {CHANGES}"
    assert column(shop.odbc(), text) == list(range(1, ROWS + 1))


def test_a_text_that_fails_is_an_error(shop: Shop) -> None:
    shop.plant("'execute', 't', @text = 'SELECT * FROM nothing'")
    with pytest.raises((arrow_odbc.Error, pa.ArrowException), match=r"planted fault failed.*208"):
        column(shop.odbc(), ITEMS)


def test_capture_stopped(shop: Shop) -> None:
    connection = shop.odbc()
    shop.execute("EXEC sys.sp_cdc_stop_job 'capture'")
    (before,) = column(connection, MAX_LSN)
    shop.execute("UPDATE t SET v = 1")
    assert column(connection, MAX_LSN) == [before]
    assert len(column(connection, CHANGES)) == ROWS
    shop.execute("EXEC sys.sp_cdc_start_job 'capture'")
    assert len(column(connection, CHANGES)) == 3 * ROWS


def test_a_restored_backup_takes_lsns_back(shop: Shop) -> None:
    connection = shop.odbc()
    shop.execute("EXEC sandbox.backup_database 'monday'")
    (then,) = column(connection, MAX_LSN)
    shop.execute("DELETE t WHERE id > 2; CREATE TABLE u (a int); DROP TABLE u")
    (later,) = column(connection, MAX_LSN)
    assert later > then
    shop.execute("EXEC sandbox.restore_database 'monday'")
    assert column(connection, MAX_LSN) == [then]
    assert len(column(connection, ITEMS)) == len(column(connection, CHANGES)) == ROWS
    shop.execute("UPDATE t SET v = 9 WHERE id = 1")
    (again,) = column(connection, MAX_LSN)
    # The new history's commits are none of the old one's, in about the same place of the log.
    assert then < again != later
    assert again[:-4] <= later[:-4]
    assert len(column(connection, CHANGES)) == ROWS + 2


def test_a_restart_breaks_connections_and_keeps_the_rest(shop: Shop) -> None:
    idle, busy = shop.odbc(), shop.odbc()
    reader = iter(batches(busy, ITEMS, size=1))
    next(reader)
    port, (before,) = shop.sandbox.port, column(shop.odbc(), MAX_LSN)
    shop.sandbox.restart()
    assert shop.sandbox.port == port
    with pytest.raises((arrow_odbc.Error, pa.ArrowException), match=r"08S01|08003"):
        column(idle, ITEMS)
    del reader
    assert column(shop.odbc(), MAX_LSN) == [before]
    assert len(column(shop.odbc(), ITEMS)) == ROWS


def test_the_repeated_hour(shop: Shop) -> None:
    """In the night clocks go back, commit times do too, and LSNs do not."""
    shop.execute(
        "EXEC sandbox.set_clock @zone = 'W. Europe Standard Time', @utc = '2026-10-25T00:59:58';"
        "UPDATE t SET v = 1 WHERE id = 1;"
        "EXEC sandbox.set_clock @utc = '2026-10-25T01:00:01'; UPDATE t SET v = 2 WHERE id = 1",
    )
    connection = shop.odbc()
    times = column(
        connection,
        "SELECT TOP 2 CONVERT(varchar(19), tran_end_time, 126) FROM cdc.lsn_time_mapping "
        "ORDER BY start_lsn DESC",
    )
    assert times == ["2026-10-25T02:00:01", "2026-10-25T02:59:58"]
    assert column(connection, "SELECT CURRENT_TIMEZONE_ID()") == ["W. Europe Standard Time"]
    offsets = column(connection, "SELECT DATEPART(tz, SYSDATETIMEOFFSET())")
    assert offsets == [60]
    shop.execute("EXEC sandbox.set_clock @utc = '2026-10-25T00:59:58'")
    assert column(shop.odbc(), "SELECT DATEPART(tz, SYSDATETIMEOFFSET())") == [120]
