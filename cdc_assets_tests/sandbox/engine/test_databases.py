"""Several databases: names, collations, LSNs, jobs and clocks of their own, and what outlives."""

from __future__ import annotations

import pytest

from cdc_assets_tests.sandbox.harness import Client, Server, captured, max_lsn

TABLE = "CREATE TABLE t (id int NOT NULL PRIMARY KEY, v varchar(10))"


@pytest.fixture
def both(db: Client) -> Client:
    """Captured tables `t` in `shop` and `other`; the session is in `shop`."""
    db.run("CREATE DATABASE other COLLATE Latin1_General_CS_AS")
    for name in ("other", "shop"):
        db.run(f"USE {name}", TABLE, "EXEC sys.sp_cdc_enable_db")
        captured(db, "t")
    return db


def test_names_and_collations(both: Client) -> None:
    assert both.rows(
        "SELECT name, collation_name, is_cdc_enabled FROM sys.databases WHERE database_id > 4"
    ) == [("shop", "SQL_Latin1_General_CP1_CI_AS", True), ("other", "Latin1_General_CS_AS", True)]
    both.run("INSERT other.dbo.t VALUES (1, 'a'), (2, 'A')", "INSERT t VALUES (1, 'a'), (2, 'A')")
    assert both.rows("SELECT COUNT(*) FROM other.dbo.t WHERE v = 'a'") == [(1,)]
    assert both.rows("SELECT COUNT(*) FROM t WHERE v = 'a'") == [(2,)]
    both.run("USE other")
    assert both.value("SELECT DB_NAME()") == "other"
    assert both.value("SELECT DB_NAME(DB_ID('shop'))") == "shop"
    assert both.value("SELECT DATABASEPROPERTYEX('other', 'Collation')") == "Latin1_General_CS_AS"
    both.run("ALTER DATABASE other COLLATE Latin1_General_BIN2", "CREATE TABLE u (c char(1))")
    assert both.rows(
        "SELECT OBJECT_NAME(object_id), collation_name FROM other.sys.columns "
        "WHERE collation_name IS NOT NULL AND OBJECT_NAME(object_id) IN ('t', 'u')"
    ) == [("t", "Latin1_General_CS_AS"), ("u", "Latin1_General_BIN2")]


def test_one_transaction_over_two_databases(both: Client) -> None:
    """Each database gets the changes of its own tables, once, under an LSN of its own."""
    both.run("BEGIN TRAN; INSERT t VALUES (1, 'here'); INSERT other.dbo.t VALUES (2, 'there')")
    both.run("COMMIT")
    assert both.rows("SELECT [__$operation], id FROM cdc.dbo_t_CT") == [(2, 1)]
    assert both.rows("SELECT [__$operation], id FROM other.cdc.dbo_t_CT") == [(2, 2)]
    both.run("BEGIN TRAN; DELETE t; DELETE other.dbo.t; ROLLBACK")
    assert both.value("SELECT COUNT(*) FROM other.dbo.t") == 1


def test_capture_and_lsns_are_a_databases_own(both: Client) -> None:
    both.run("EXEC other.sys.sp_cdc_stop_job 'capture'")
    assert both.value("SELECT DB_NAME()") == "shop"
    for i in range(3):
        both.run(f"INSERT t VALUES ({i}, 'x')", f"INSERT other.dbo.t VALUES ({i}, 'x')")
    assert both.value("SELECT COUNT(*) FROM cdc.dbo_t_CT") == 3
    assert both.value("SELECT COUNT(*) FROM other.cdc.dbo_t_CT") == 0
    assert both.value("SELECT other.sys.fn_cdc_get_max_lsn()") is None
    both.run("EXEC other.sys.sp_cdc_start_job 'capture'", "DELETE other.dbo.t WHERE id = 0")
    assert both.rows(
        "SELECT id, [__$operation] FROM other.cdc.fn_cdc_get_all_changes_dbo_t("
        "other.sys.fn_cdc_get_min_lsn('dbo_t'), other.sys.fn_cdc_get_max_lsn(), 'all') "
        "ORDER BY [__$start_lsn]"
    ) == [(0, 2), (1, 2), (2, 2), (0, 1)]
    both.run("EXEC other.sys.sp_cdc_change_job 'capture', @pollinginterval = 5")
    intervals = {
        name: [r[6] for r in both.rows(f"EXEC {name}.sys.sp_cdc_help_jobs") if r[1] == "capture"]
        for name in ("shop", "other")
    }
    assert intervals == {"shop": [0], "other": [5]}


def test_a_dropped_database_leaves_nothing_to_the_next(both: Client) -> None:
    """The next one gets its number, and none of its commits, jobs, backups or LSNs."""
    both.run("EXEC other.sys.sp_cdc_stop_job 'capture'", "INSERT other.dbo.t VALUES (1, 'left')")
    both.run("EXEC other.sandbox.backup_database 'b'", "DROP DATABASE other")
    assert both.error("SELECT * FROM other.dbo.t").number == 911
    both.run("CREATE DATABASE other", "USE other", TABLE, "EXEC sys.sp_cdc_enable_db")
    captured(both, "t")
    assert max_lsn(both) is None
    assert both.error("EXEC sandbox.restore_database 'b'").number == 3201
    both.run("INSERT t VALUES (5, 'new')")
    assert both.rows("SELECT id FROM cdc.dbo_t_CT") == [(5,)]
    assert both.value("SELECT COUNT(*) FROM cdc.lsn_time_mapping") == 1


def test_a_database_in_use_stays(both: Client) -> None:
    other = both.another(database="other")
    for text, number in (
        ("DROP DATABASE other", 3702),
        ("ALTER DATABASE other MODIFY NAME = another", 5030),
        ("ALTER DATABASE other MODIFY NAME = shop", 1801),
        ("DROP DATABASE master", 3708),
        ("DROP DATABASE nothing", 3701),
        ("CREATE DATABASE OTHER", 1801),
        ("USE nothing", 911),
    ):
        assert both.error(text).number == number, text
    other.session.close()
    both.run("ALTER DATABASE other MODIFY NAME = another", "INSERT another.dbo.t VALUES (1, 'a')")
    assert both.rows("SELECT id FROM another.cdc.dbo_t_CT") == [(1,)]


def test_restart_keeps_every_database(engine_server: Server, both: Client) -> None:
    both.run(
        "INSERT other.dbo.t VALUES (1, 'a')",
        "EXEC other.sys.sp_cdc_stop_job 'capture'",
        "EXEC other.sys.sp_cdc_change_job 'cleanup', @retention = 77",
        "INSERT other.dbo.t VALUES (2, 'waits')",
        "EXEC sandbox.set_clock @zone = 'India Standard Time', @shift_seconds = 3600",
        "EXEC sandbox.backup_database 'early'",
        "INSERT t VALUES (1, 'a')",
        "EXEC sandbox.set_capture @idle_seconds = 1000",
    )
    before = {name: [max_lsn(both), both.run(f"USE {name}")][0] for name in ("other", "shop")}
    engine_server.restart()
    db = engine_server.client()
    after = {name: [max_lsn(db), db.run(f"USE {name}")][0] for name in ("other", "shop")}
    assert after == before
    assert db.rows("SELECT id FROM other.cdc.dbo_t_CT") == [(1,)]
    assert db.value("EXEC other.sandbox.capture_now") == 1
    assert [r[7] for r in db.rows("EXEC other.sys.sp_cdc_help_jobs")] == [0, 77]
    assert db.value("SELECT CURRENT_TIMEZONE_ID()") == "India Standard Time"
    assert db.value("SELECT DATEDIFF(minute, SYSUTCDATETIME(), SYSDATETIME())") == 330
    db.run("EXEC sandbox.restore_database 'early'")
    assert db.rows("SELECT * FROM t") == []
    assert db.rows("SELECT id FROM other.dbo.t ORDER BY id") == [(1,), (2,)]
