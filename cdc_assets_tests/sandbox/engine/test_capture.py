"""Change data capture: what is recorded, when it shows, what cleanup leaves."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.lsn import Lsn
from cdc_assets.sandbox.engine import cleanup, lsns
from cdc_assets.sandbox.engine.capture import Capture
from cdc_assets_tests.sandbox.harness import (
    CAPTURE_SECONDS_MAX,
    Client,
    captured,
    max_lsn,
    recorded,
    serving,
)

pytestmark = pytest.mark.sqlserver

LOG = (
    "SELECT CONVERT(varchar(22), [__$start_lsn], 1), CONVERT(varchar(22), [__$seqval], 1), "
    "[__$operation], [__$command_id], id, v FROM cdc.dbo_t_CT ORDER BY [__$start_lsn], "
    "[__$command_id], [__$seqval], [__$operation]"
)


def min_lsn(client: Client, name: str = "dbo_t") -> str | None:
    found: str | None = client.value(
        "SELECT CONVERT(varchar(22), sys.fn_cdc_get_min_lsn(@P1), 1)", name
    )
    return found


@pytest.fixture
def t(db: Client) -> Client:
    db.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v varchar(10) NULL)")
    db.run("EXEC sys.sp_cdc_enable_db")
    captured(db, "t")
    return db


def changes(client: Client, count: int = 0) -> list[tuple[object, ...]]:
    """What the change table holds, once it holds so many."""
    recorded(client, count)
    return [row[2:] for row in client.rows(LOG)]


def test_operations_and_images(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')", "UPDATE t SET v = 'b'", "DELETE t")
    assert changes(t, 4) == [(2, 1, 1, "a"), (3, 1, 1, "a"), (4, 1, 1, "b"), (1, 1, 1, "b")]


def test_one_lsn_per_commit_and_order_within_it(t: Client) -> None:
    t.run(
        "BEGIN TRAN; INSERT t VALUES (1, 'a'), (2, 'b'); UPDATE t SET v = 'x' WHERE id = 1; "
        "DELETE t WHERE id = 2; COMMIT",
        "INSERT t VALUES (3, 'c')",
    )
    recorded(t, 6)
    rows = t.rows(LOG)
    assert len({r[0] for r in rows}) == 2
    first = [r for r in rows if r[0] == rows[0][0]]
    assert [r[2:] for r in first] == [
        (2, 1, 1, "a"),
        (2, 1, 2, "b"),
        (3, 2, 1, "a"),
        (4, 2, 1, "x"),
        (1, 3, 2, "b"),
    ]
    assert [r[1] for r in first] == sorted(r[1] for r in first)
    assert first[2][1] == first[3][1]  # both images of an update share their position
    assert all(r[1] < r[0] for r in rows)  # a change lies before its commit


def test_key_update_is_delete_and_insert(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a'), (2, 'b')", "UPDATE t SET id = id + 10, v = 'z'")
    recorded(t, 6)
    rows = t.rows(LOG)[2:]
    assert sorted(r[2:] for r in rows) == [
        (1, 1, 1, "a"),
        (1, 1, 2, "b"),
        (2, 1, 11, "z"),
        (2, 1, 12, "z"),
    ]
    pairs: dict[str, list[int]] = {}
    for row in rows:
        pairs.setdefault(row[1], []).append(row[2])
    assert [sorted(operations) for operations in pairs.values()] == [[1, 2], [1, 2]]


def test_keys_may_swap_in_one_statement(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a'), (2, 'b')", "UPDATE t SET id = 3 - id")
    assert t.rows("SELECT id, v FROM t ORDER BY id") == [(1, "b"), (2, "a")]


def test_an_update_that_changes_nothing_leaves_no_trace(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')")
    recorded(t, 1)
    before = max_lsn(t)
    t.run("UPDATE t SET v = 'a'", "UPDATE t SET v = 'q' WHERE id = 99")
    assert len(changes(t)) == 1
    assert max_lsn(t) == before
    t.run("UPDATE t SET v = 'A'")  # equal under the collation, yet another value
    assert changes(t, 3)[1:] == [(3, 1, 1, "a"), (4, 1, 1, "A")]


def test_update_masks(db: Client) -> None:
    names = [f"c{i}" for i in range(1, 11)]
    db.run(f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(f'{n} int' for n in names)})")
    db.run("EXEC sys.sp_cdc_enable_db")
    captured(db, "t")
    db.run("INSERT t(id) VALUES (1)", "UPDATE t SET c1 = 1, c9 = 9, c2 = NULL")
    recorded(db, 3)
    masks = [r[0] for r in db.rows("SELECT [__$update_mask] FROM cdc.dbo_t_CT")]
    assert masks == [b"\x07\xff", b"\x02\x02", b"\x02\x02"]
    ordinal = "sys.fn_cdc_get_column_ordinal('dbo_t', 'c9')"
    assert db.rows(
        f"SELECT sys.fn_cdc_is_bit_set({ordinal}, [__$update_mask]), "
        "sys.fn_cdc_is_bit_set(3, [__$update_mask]) FROM cdc.dbo_t_CT WHERE [__$operation] = 4"
    ) == [(True, False)]


def test_two_instances_columns_and_computed_ones(db: Client) -> None:
    db.run("CREATE TABLE t (id int PRIMARY KEY, a int, b int, c AS a + b)")
    db.run("EXEC sys.sp_cdc_enable_db")
    captured(db, "t")
    db.run(
        "EXEC sys.sp_cdc_enable_table 'dbo', 't', NULL, @capture_instance = 'second', "
        "@supports_net_changes = 0, @captured_column_list = 'b, [id]'"
    )
    db.run("INSERT t VALUES (1, 2, 3)", "UPDATE t SET a = 20", "UPDATE t SET b = 30")
    assert db.rows("SELECT id, a, b, c FROM t") == [(1, 20, 30, 50)]
    recorded(db, 5)
    recorded(db, 3, "second")
    assert db.rows("SELECT [__$operation], a, b, c FROM cdc.dbo_t_CT") == [
        (2, 2, 3, None),
        (3, 2, 3, None),
        (4, 20, 3, None),
        (3, 20, 3, None),
        (4, 20, 30, None),
    ]
    assert db.rows("SELECT [__$operation], id, b FROM cdc.second_CT") == [
        (2, 1, 3),
        (3, 1, 3),
        (4, 1, 30),
    ]
    third = "EXEC sys.sp_cdc_enable_table 'dbo', 't', NULL, 'third', 0"
    assert db.error(third).number == 22962
    db.run("EXEC sys.sp_cdc_disable_table 'dbo', 't', 'second'", third)
    assert db.error("SELECT * FROM cdc.second_CT").number == 208


def test_large_objects_old_values(db: Client) -> None:
    db.run("CREATE TABLE t (id int PRIMARY KEY, n int, m varchar(max), x text)")
    db.run("EXEC sys.sp_cdc_enable_db")
    captured(db, "t")
    db.run("INSERT t VALUES (1, 1, 'm', 'x')", "UPDATE t SET n = 2", "UPDATE t SET m = 'q'")
    db.run("DELETE t")
    recorded(db, 6)
    assert db.rows("SELECT [__$operation], n, m, x FROM cdc.dbo_t_CT") == [
        (2, 1, "m", "x"),
        (3, 1, None, None),
        (4, 2, "m", "x"),
        (3, 2, "m", None),
        (4, 2, "q", "x"),
        (1, 2, "q", None),
    ]


def test_a_column_added_or_dropped_later(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')", "ALTER TABLE t ADD w int NULL", "INSERT t VALUES (2, 'b', 5)")
    t.run("ALTER TABLE t DROP COLUMN v", "INSERT t(id, w) VALUES (3, 6)", "DELETE t WHERE id = 1")
    assert changes(t, 4) == [(2, 1, 1, "a"), (2, 1, 2, "b"), (2, 1, 3, None), (1, 1, 1, None)]
    assert [r[4] for r in t.rows("EXEC sys.sp_cdc_get_ddl_history 'dbo_t'")] == [
        "ALTER TABLE t ADD w int NULL",
        "ALTER TABLE t DROP COLUMN v",
    ]


def test_a_captured_column_gets_another_type(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')", "ALTER TABLE t ALTER COLUMN v nvarchar(30) NOT NULL")
    t.run("INSERT t VALUES (2, N'Ж')")
    assert [r[3] for r in changes(t, 2)] == ["a", "Ж"]
    assert t.types("SELECT v FROM cdc.dbo_t_CT") == ["nvarchar(30)"]
    assert t.rows("EXEC sys.sp_cdc_get_ddl_history 'dbo_t'")[0][3] is True


@pytest.mark.sandbox
def test_capture_lags_behind_commits(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')")
    before = max_lsn(t)
    t.run("EXEC sys.sp_cdc_stop_job @job_type = N'capture'")
    t.run("INSERT t VALUES (2, 'b')", "UPDATE t SET v = 'c' WHERE id = 2")
    assert max_lsn(t) == before
    assert len(changes(t)) == 1
    assert t.value("EXEC sandbox.capture_now") == 2
    assert [r[0] for r in changes(t)] == [2, 2, 3, 4]
    t.run("INSERT t VALUES (3, 'd')")
    newest = max_lsn(t)
    assert len(changes(t)) == 4
    t.run("EXEC sys.sp_cdc_start_job @job_type = N'capture'")
    assert len(changes(t)) == 5
    assert max_lsn(t) > str(newest)


@pytest.mark.sandbox
def test_the_capture_job_outlives_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing is captured any more, and whoever waits for an LSN waits in vain."""
    with serving(tmp_path / "s", capture_interval_seconds=0.05) as server:
        client = server.client()
        client.run("CREATE TABLE t (id int PRIMARY KEY)", "EXEC sys.sp_cdc_enable_db")
        captured(client, "t")
        step, failed = Capture.step, threading.Event()

        def fails_once(*arguments: Any, **options: Any) -> int:
            monkeypatch.setattr(Capture, "step", step)
            failed.set()
            raise RuntimeError("this look fails")

        monkeypatch.setattr(Capture, "step", fails_once)
        assert failed.wait(CAPTURE_SECONDS_MAX)
        client.run("INSERT t VALUES (1)")
        recorded(client, 1)


@pytest.mark.sandbox
def test_capture_on_its_own_interval(tmp_path: Path) -> None:
    with serving(tmp_path / "s", capture_interval_seconds=0.2) as server:
        t = server.client()
        t.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(10))", "EXEC sys.sp_cdc_enable_db")
        captured(t, "t")
        t.run("INSERT t VALUES (1, 'a')")
        deadline = time.monotonic() + 5
        while not changes(t) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert changes(t) == [(2, 1, 1, "a")]


def test_a_new_instance_has_no_min_lsn_until_capture_reached_it(t: Client) -> None:
    start = t.rows("EXEC sys.sp_cdc_help_change_data_capture")[0][5]
    assert min_lsn(t) is None
    assert max_lsn(t) is None
    t.run("INSERT t VALUES (1, 'a')")
    recorded(t, 1)
    assert min_lsn(t) == "0x" + start.hex().upper()
    assert min_lsn(t, "DBO_T") == min_lsn(t)
    assert min_lsn(t, "nothing") == "0x" + "0" * 20
    assert str(max_lsn(t)) > str(min_lsn(t))


@pytest.mark.sandbox
def test_idle_entries(t: Client) -> None:
    assert t.value("EXEC sandbox.capture_now") == 0
    assert max_lsn(t) is None
    t.run("EXEC sandbox.set_clock @shift_seconds = 299", "EXEC sandbox.capture_now")
    assert max_lsn(t) is None
    t.run("EXEC sandbox.set_clock @shift_seconds = 301", "EXEC sandbox.capture_now")
    first = max_lsn(t)
    assert first is not None
    assert min_lsn(t) is not None
    t.run("EXEC sandbox.capture_now")
    assert max_lsn(t) == first
    t.run("EXEC sandbox.capture_now @idle = 1")
    assert str(max_lsn(t)) > first
    assert changes(t) == []


def test_cleanup_moves_the_watermark_and_deletes_below(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')", "INSERT t VALUES (2, 'b')", "INSERT t VALUES (3, 'c')")
    recorded(t, 3)
    marks = [r[0] for r in t.rows(LOG)]
    cleanup = (
        "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_t', @low_water_mark = "
    )
    t.run(cleanup + marks[1])
    assert min_lsn(t) == marks[1]
    assert [r[0] for r in t.rows(LOG)] == marks[1:]
    assert t.rows("EXEC sys.sp_cdc_help_change_data_capture")[0][5].hex().upper() in marks[1]
    assert t.value("SELECT COUNT(*) FROM cdc.lsn_time_mapping") == 2
    assert t.error(cleanup + marks[0]).number == 22957
    assert t.error(cleanup + "0x00000000000000000001").number == 22957
    t.run(cleanup + "NULL")
    assert len(t.rows(LOG)) == 2


@pytest.mark.sandbox
def test_cleanup_commits_the_watermark_before_it_deletes(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')", "INSERT t VALUES (2, 'b')")
    marks = [r[0] for r in t.rows(LOG)]
    seen: list[tuple[str | None, int]] = []
    store = t.engine.store
    instance = store.catalog.instance(t.session.context.current.id, "dbo_t")
    assert instance is not None
    cleanup.clean(
        store,
        instance,
        lsns.to_bytes(Lsn(marks[1])),
        between=lambda: seen.append((min_lsn(t), len(t.rows(LOG)))),
    )
    assert seen == [(marks[1], 2)]
    assert len(t.rows(LOG)) == 1


def test_the_documented_function_has_no_command_id(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')", "UPDATE t SET v = 'b'")
    recorded(t, 3)
    text = (
        "SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_t(sys.fn_cdc_get_min_lsn('dbo_t'), "
        "sys.fn_cdc_get_max_lsn(), N'{}')"
    )
    assert [c.name for c in t.columns(text.format("all"))] == [
        "__$start_lsn",
        "__$seqval",
        "__$operation",
        "__$update_mask",
        "id",
        "v",
    ]
    assert [r[2] for r in t.rows(text.format("all"))] == [2, 4]
    assert [r[2] for r in t.rows(text.format("all update old"))] == [2, 3, 4]
    below = text.replace("sys.fn_cdc_get_min_lsn('dbo_t')", "0x00000000000000000001")
    assert t.error(below.format("all")).number == 313


def test_refusals(t: Client) -> None:
    assert t.error("TRUNCATE TABLE t").number == 4711
    assert t.error("EXEC sys.sp_cdc_enable_table 'dbo', 'nothing', NULL").number == 22931
    assert t.error("EXEC sys.sp_cdc_enable_table 'dbo', 't', NULL").number == 22926
    t.run("USE master")
    assert t.error("EXEC sys.sp_cdc_enable_db").number == 22989
    assert t.error("EXEC sys.sp_cdc_help_change_data_capture").number == 22901


@pytest.mark.sandbox
def test_a_change_table_is_written_by_capture_alone(t: Client) -> None:
    assert t.error("INSERT cdc.dbo_t_CT DEFAULT VALUES").number == 40515


@pytest.mark.sandbox
def test_databases_have_lsns_of_their_own(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')", "CREATE DATABASE other", "USE other")
    t.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(10))", "EXEC sys.sp_cdc_enable_db")
    captured(t, "t")
    t.run("INSERT t VALUES (7, 'x')")
    assert changes(t) == [(2, 1, 7, "x")]
    t.run("EXEC sys.sp_cdc_disable_db")
    assert t.error("SELECT * FROM cdc.lsn_time_mapping").number == 208
    assert t.rows(f"SELECT id FROM [{t.database}].dbo.t") == [(1,)]
    t.run(f"USE [{t.database}]")
    assert changes(t) == [(2, 1, 1, "a")]


@pytest.mark.sandbox
def test_capture_and_the_end_of_capture_wait_for_each_other(t: Client) -> None:
    """Both remove the commits that are not moved yet; a step falls into each of the procedures."""
    capture, database = t.session.engine.capture, t.session.context.current.id
    capture.interval_seconds = 60.0
    over = threading.Event()

    def steps() -> None:
        while not over.is_set():
            capture.step(database)

    with ThreadPoolExecutor(1) as pool:
        stepping = pool.submit(steps)
        try:
            for round_ in range(20):
                t.run(f"INSERT t VALUES ({round_}, 'a')")
                if round_ % 2:
                    t.run("EXEC sys.sp_cdc_disable_table 'dbo', 't', 'all'")
                else:
                    t.run("EXEC sys.sp_cdc_disable_db", "EXEC sys.sp_cdc_enable_db")
                captured(t, "t")
        finally:
            over.set()
        stepping.result()


@pytest.mark.sandbox
def test_a_writer_gives_way_to_a_new_instance(db: Client) -> None:
    db.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(10))", "EXEC sys.sp_cdc_enable_db")
    other = db.another()
    other.run("BEGIN TRAN; INSERT t VALUES (1, 'unrecorded')")
    captured(db, "t")
    assert other.error("COMMIT").number == 3960
    assert db.rows("SELECT * FROM t") == []


@pytest.mark.sandbox
def test_what_was_committed_unrecorded_is_below_the_low_watermark(t: Client) -> None:
    t.run("CREATE TABLE late (id int PRIMARY KEY)", "BEGIN TRAN")
    captured(t, "late")
    other = t.another()
    other.run("BEGIN TRAN; INSERT late VALUES (1); INSERT t VALUES (1, 'a'); COMMIT")
    t.run("COMMIT", "INSERT late VALUES (2)")
    assert t.rows("SELECT id FROM cdc.dbo_late_CT") == [(2,)]
    low = "(SELECT start_lsn FROM cdc.change_tables WHERE capture_instance = 'dbo_late')"
    assert t.value(f"SELECT COUNT(*) FROM cdc.dbo_t_CT WHERE [__$start_lsn] < {low}") == 1
    assert t.value(f"SELECT COUNT(*) FROM cdc.dbo_late_CT WHERE [__$start_lsn] > {low}") == 1
