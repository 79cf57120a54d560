"""Writers wait for writers of the same row or key: till these end, patience ends, or a circle."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from cdc_assets.sandbox.engine import locks, work
from cdc_assets.sandbox.results import SqlError
from cdc_assets.sandbox.wire.watcher import RunningRequest
from cdc_assets_tests.sandbox.harness import Client, captured

WAIT_SECONDS = 30.0


@pytest.fixture
def t(db: Client) -> Client:
    db.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v varchar(5) NULL)")
    db.run("EXEC sys.sp_cdc_enable_db")
    captured(db, "t")
    db.run("INSERT t VALUES (1, 'a'), (2, 'b')")
    return db


@pytest.fixture
def other(t: Client) -> Client:
    return t.another()


def in_the_background(client: Client, *texts: str) -> Future[SqlError | None]:
    """Run statements in a thread; the error they end with."""
    found: Future[SqlError | None] = Future()

    def run() -> None:
        try:
            client.run(*texts)
        except SqlError as error:
            found.set_result(error)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            found.set_exception(error)
        else:
            found.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    return found


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def until_somebody_waits(client: Client, count: int = 1) -> None:
    until(lambda: len(client.engine.store.locks._waiting) >= count)


def test_a_writer_waits_and_sees_what_the_first_one_left(t: Client, other: Client) -> None:
    t.run("BEGIN TRAN; UPDATE t SET v = v + 'x' WHERE id = 1")
    waits = in_the_background(other, "UPDATE t SET v = v + 'y' WHERE id = 1")
    until_somebody_waits(t)
    assert not waits.done()
    t.run("COMMIT")
    assert waits.result(WAIT_SECONDS) is None
    assert t.rows("SELECT v FROM t WHERE id = 1") == [("axy",)]


def test_nobody_waits_for_a_row_of_his_own(t: Client, other: Client) -> None:
    """Each transaction numbers the rows that it inserted by itself: alike, but not the same."""
    for client, row in ((t, 10), (other, 20)):
        client.run("SET LOCK_TIMEOUT 0", "BEGIN TRAN", f"INSERT t VALUES ({row}, 'new')")
    for client, row in ((t, 10), (other, 20)):
        client.run(f"UPDATE t SET v = 'mine' WHERE id = {row}")
    for client in (t, other):
        client.run("COMMIT")
    assert t.rows("SELECT v FROM t WHERE id >= 10") == [("mine",), ("mine",)]


def test_a_rollback_lets_the_waiter_go_on(t: Client, other: Client) -> None:
    t.run("BEGIN TRAN; UPDATE t SET v = 'x' WHERE id = 1")
    other.run("BEGIN TRAN; UPDATE t SET v = 'z' WHERE id = 2")
    waits = in_the_background(other, "UPDATE t SET v = v + 'y' WHERE id = 1; COMMIT")
    until_somebody_waits(t)
    t.run("ROLLBACK")
    assert waits.result(WAIT_SECONDS) is None
    assert t.rows("SELECT v FROM t ORDER BY id") == [("ay",), ("z",)]


def test_patience_ends_with_1222_and_the_transaction_stays(t: Client, other: Client) -> None:
    t.run("BEGIN TRAN; UPDATE t SET v = 'x' WHERE id = 1")
    other.run("SET LOCK_TIMEOUT 50; BEGIN TRAN; INSERT t VALUES (5, 'o')")
    began = time.monotonic()
    error = other.error("DELETE t WHERE id = 1")
    assert (error.number, error.severity) == (1222, 16)
    assert time.monotonic() - began >= 0.05
    assert other.value("SELECT @@TRANCOUNT") == 1
    other.run("COMMIT", "SET LOCK_TIMEOUT 0")
    assert other.error("UPDATE t SET v = 'q'").number == 1222
    t.run("COMMIT")
    assert t.rows("SELECT id, v FROM t ORDER BY id") == [(1, "x"), (2, "b"), (5, "o")]


def test_a_circle_of_waiters_has_one_victim(t: Client, other: Client) -> None:
    t.run("BEGIN TRAN; UPDATE t SET v = 't' WHERE id = 1")
    other.run("BEGIN TRAN; UPDATE t SET v = 'o' WHERE id = 2")
    waits = in_the_background(t, "UPDATE t SET v = v + 't' WHERE id = 2; COMMIT")
    until_somebody_waits(other)
    error = other.error("UPDATE t SET v = 'o' WHERE id = 1")
    assert (error.number, error.severity) == (1205, 13)
    assert other.value("SELECT @@TRANCOUNT") == 0
    assert waits.result(WAIT_SECONDS) is None
    assert t.rows("SELECT v FROM t ORDER BY id") == [("t",), ("bt",)]


@pytest.mark.parametrize(("end", "number"), [("COMMIT", 2627), ("ROLLBACK", None)])
def test_a_key_is_waited_for(t: Client, other: Client, end: str, number: int | None) -> None:
    t.run("BEGIN TRAN; INSERT t VALUES (7, 'x')")
    waits = in_the_background(other, "INSERT t VALUES (7, 'y')")
    until_somebody_waits(t)
    t.run(end)
    error = waits.result(WAIT_SECONDS)
    assert (error.number if error else None) == number
    assert t.rows("SELECT v FROM t WHERE id = 7") == [("x" if number else "y",)]


def test_a_key_that_goes_is_waited_for(t: Client, other: Client) -> None:
    t.run("BEGIN TRAN; DELETE t WHERE id = 1")
    waits = in_the_background(other, "INSERT t VALUES (1, 'new')")
    until_somebody_waits(t)
    t.run("COMMIT")
    assert waits.result(WAIT_SECONDS) is None
    assert t.rows("SELECT v FROM t WHERE id = 1") == [("new",)]


def test_readers_and_writers_of_other_rows_do_not_wait(t: Client, other: Client) -> None:
    t.run("BEGIN TRAN; UPDATE t SET v = 'x' WHERE id = 1; INSERT t VALUES (3, 'x')")
    assert other.rows("SELECT v FROM t ORDER BY id") == [("a",), ("b",)]
    other.run("UPDATE t SET v = 'y' WHERE id = 2", "INSERT t VALUES (4, 'y')")
    t.run("COMMIT")
    assert t.rows("SELECT v FROM t ORDER BY id") == [("x",), ("y",), ("x",), ("y",)]


def test_after_a_wait_a_table_changed_before_is_a_conflict(t: Client, other: Client) -> None:
    """Where SQL Server would go on with the newer row: the sandbox says 3960 instead."""
    other.run("BEGIN TRAN; INSERT t VALUES (9, 'o')")
    t.run("BEGIN TRAN; UPDATE t SET v = 'x' WHERE id = 1")
    waits = in_the_background(other, "UPDATE t SET v = 'y' WHERE id = 1")
    until_somebody_waits(t)
    t.run("COMMIT")
    error = waits.result(WAIT_SECONDS)
    assert error is not None and error.number == 3960
    assert other.value("SELECT @@TRANCOUNT") == 0
    assert t.rows("SELECT id, v FROM t ORDER BY id") == [(1, "x"), (2, "b")]


def test_an_attention_ends_the_wait(t: Client, other: Client) -> None:
    t.run("BEGIN TRAN; UPDATE t SET v = 'x' WHERE id = 1")
    waits = in_the_background(other, "UPDATE t SET v = 'y' WHERE id = 1")
    until_somebody_waits(t)
    other.session.cancel()
    error = waits.result(WAIT_SECONDS)
    assert error is not None and error.number == 0
    t.run("ROLLBACK")


def test_an_attention_before_its_statement_is_not_lost(t: Client, other: Client) -> None:
    """The client gave up while its request was still being taken apart."""
    t.run("BEGIN TRAN; UPDATE t SET v = 'x' WHERE id = 1")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = RunningRequest(ours, other.session)
        request.cancel()
        waits = in_the_background(other, "UPDATE t SET v = 'y' WHERE id = 1")
        error = waits.result(WAIT_SECONDS)
        request.end()
        assert error is not None and error.number == 0
        t.run("COMMIT")
        RunningRequest(ours, other.session)
        other.run("UPDATE t SET v = 'y' WHERE id = 1")


def test_a_closed_session_gives_its_locks_back(t: Client, other: Client) -> None:
    other.run("BEGIN TRAN; UPDATE t SET v = 'x'")
    other.session.close()
    t.run("SET LOCK_TIMEOUT 0", "UPDATE t SET v = 'y'")
    assert t.engine.store.locks._tables == {}


def test_many_rows_take_the_table(
    t: Client, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "ROW_LOCKS", 1)
    t.run("BEGIN TRAN; UPDATE t SET v = 'x'")
    other.run("SET LOCK_TIMEOUT 0")
    assert other.error("INSERT t VALUES (50, 'o')").number == 1222
    t.run("COMMIT")
    other.run("INSERT t VALUES (50, 'o')")
    assert locks.ROW_LOCKS > 1000


def test_many_writers_of_one_row_lose_no_update(t: Client) -> None:
    t.run("CREATE TABLE n (id int PRIMARY KEY, v int)", "INSERT n VALUES (1, 0)")

    def add(_: int) -> None:
        client = t.another()
        for _ in range(6):
            client.run("UPDATE n SET v = v + 1 WHERE id = 1")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    assert t.rows("SELECT v FROM n") == [(24,)]
