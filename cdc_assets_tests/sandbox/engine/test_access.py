"""Logins, grants, counters and faults."""

from __future__ import annotations

import time

import pytest

from cdc_assets.sandbox.results import SqlError
from cdc_assets_tests.sandbox.harness import Client, Server, captured, max_lsn, recorded

pytestmark = pytest.mark.sqlserver


@pytest.fixture
def reader(db: Client) -> Client:
    db.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int, secret int)",
        "CREATE TABLE u (id int PRIMARY KEY)",
        "EXEC sys.sp_cdc_enable_db",
    )
    captured(db, "t")
    captured(db, "u")
    client = db.reader()
    db.run(
        "GRANT SELECT ON dbo.t TO reader",
        "GRANT SELECT ON OBJECT::cdc.dbo_t_CT TO reader",
        "INSERT t VALUES (1, 2, 3)",
        "INSERT u VALUES (1)",
    )
    recorded(db, 1)
    recorded(db, 1, "dbo_u")
    return client


def test_least_privilege_is_enough(reader: Client) -> None:
    assert reader.rows("SELECT * FROM t") == [(1, 2, 3)]
    assert reader.value("SELECT COUNT(*) FROM cdc.dbo_t_CT") == 1
    assert reader.value("SELECT COUNT(*) FROM cdc.lsn_time_mapping") == 2
    assert max_lsn(reader) is not None
    assert (
        reader.value("SELECT CONVERT(varchar(22), sys.fn_cdc_get_min_lsn('dbo_t'), 1)") > "0x1"[:2]
    )
    assert [r[2] for r in reader.rows("EXEC sys.sp_cdc_help_change_data_capture")] == ["dbo_t"]
    assert len(reader.rows("EXEC sys.sp_cdc_get_captured_columns 'dbo_t'")) == 3
    assert (
        reader.value("SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID('dbo.t')") == 3
    )
    assert len(reader.rows("EXEC sp_spaceused 'dbo.t'")) == 1


def test_min_lsn_of_names_in_a_column(reader: Client) -> None:
    """One statement for many instances; who is unknown or forbidden gets 0x00…."""
    text = "CONVERT(varchar(22), sys.fn_cdc_get_min_lsn({}), 1)"
    names = ["'dbo_t'", "'DBO_T'", "'dbo_u'", "'none'", "CAST(NULL AS sysname)"]
    asked = ", ".join(f"({place}, {name})" for place, name in enumerate(names))
    found = reader.rows(
        f"SELECT {text.format('v.name')} FROM (VALUES {asked}) AS v (place, name) ORDER BY v.place"
    )
    alone = [reader.value(f"SELECT {text.format(name)}") for name in names[:4]]
    zero = "0x" + "0" * 20
    assert [row[0] for row in found] == [*alone, zero]
    assert alone[0] == alone[1] != alone[2] == alone[3] == zero


DENIED = [
    ("SELECT * FROM u", 229),
    ("SELECT * FROM cdc.dbo_u_CT", 229),
    ("SELECT 1 WHERE EXISTS (SELECT 1 FROM u)", 229),
    ("INSERT t VALUES (9, 9, 9)", 229),
    ("UPDATE t SET v = 1", 229),
    ("DELETE t", 229),
    ("TRUNCATE TABLE t", 229),
    ("CREATE TABLE x (a int)", 262),
    ("DROP TABLE t", 3701),
    ("ALTER TABLE t ADD x int", 4902),
    ("GRANT SELECT ON u TO reader", 262),
    ("CREATE LOGIN x WITH PASSWORD = 'x'", 15247),
    ("EXEC sys.sp_cdc_disable_table 'dbo', 't', 'all'", 22904),
    ("EXEC sys.sp_cdc_cleanup_change_table 'dbo_t', NULL", 22904),
    ("EXEC sys.sp_cdc_stop_job 'capture'", 22904),
    ("EXEC sandbox.counters", 229),
    ("EXEC sys.sp_cdc_get_captured_columns 'dbo_u'", 22981),
    ("USE model2", 911),
]


def test_everything_else_is_denied(reader: Client) -> None:
    found = [(text, reader.error(text).number) for text, _ in DENIED]
    assert found == DENIED


def test_the_catalogue_hides_the_rest(reader: Client) -> None:
    assert reader.rows("SELECT name FROM sys.tables WHERE is_ms_shipped = 0") == [("t",)]
    assert reader.value("SELECT OBJECT_ID('dbo.u')") is None
    assert reader.value("SELECT CONVERT(varchar(22), sys.fn_cdc_get_min_lsn('dbo_u'), 1)") == (
        "0x" + "0" * 20
    )
    assert reader.value("SELECT HAS_PERMS_BY_NAME('dbo.t', 'OBJECT', 'SELECT')") == 1
    assert reader.value("SELECT HAS_PERMS_BY_NAME('dbo.t', 'OBJECT', 'UPDATE')") == 0
    assert reader.value("SELECT HAS_PERMS_BY_NAME('dbo.u', 'OBJECT', 'SELECT')") == 0
    assert reader.value("SELECT HAS_PERMS_BY_NAME('dbo.none', 'OBJECT', 'SELECT')") == 0
    assert reader.value("SELECT HAS_PERMS_BY_NAME(NULL, 'OBJECT', 'SELECT')") is None


def test_column_grants_denials_and_revokes(db: Client, reader: Client) -> None:
    db.run("REVOKE SELECT ON t FROM reader", "GRANT SELECT ON t (id, v) TO reader")
    assert reader.rows("SELECT v, id FROM t WHERE id = 1") == [(2, 1)]
    assert reader.error("SELECT secret FROM t").number == 230
    assert reader.error("SELECT id FROM t WHERE secret = 3").number == 230
    assert reader.rows("EXEC sys.sp_cdc_help_change_data_capture") == []
    db.run("DENY SELECT ON t TO reader")
    assert reader.error("SELECT id FROM t").number == 229


def test_gating_role(db: Client, reader: Client) -> None:
    db.run(
        "EXEC sys.sp_cdc_disable_table 'dbo', 't', 'all'",
        "EXEC sys.sp_cdc_enable_table 'dbo', 't', @role_name = 'readers', "
        "@supports_net_changes = 0",
    )
    assert reader.rows("EXEC sys.sp_cdc_help_change_data_capture") == []
    db.run("ALTER ROLE readers ADD MEMBER reader")
    assert len(reader.rows("EXEC sys.sp_cdc_help_change_data_capture")) == 1


def test_roles_carry_grants(db: Client, reader: Client) -> None:
    db.run("CREATE ROLE r", "GRANT SELECT ON u TO r", "ALTER ROLE r ADD MEMBER reader")
    assert reader.rows("SELECT id FROM u") == [(1,)]
    db.run("ALTER ROLE db_datawriter ADD MEMBER reader")
    reader.run("INSERT u VALUES (2)")


@pytest.mark.sandbox
def test_logins(engine_server: Server, db: Client) -> None:
    db.run("CREATE LOGIN [a b] WITH PASSWORD = N'p''w', DEFAULT_DATABASE = shop")
    with pytest.raises(SqlError) as wrong:
        engine_server.client("a b", password="other")
    assert (wrong.value.number, wrong.value.severity) == (18456, 14)
    with pytest.raises(SqlError) as closed:
        engine_server.client("a b", password="p'w")
    assert closed.value.number == 4060
    db.run("CREATE USER [a b] FOR LOGIN [a b]")
    assert (
        engine_server.client("A B", database="", password="p'w").value("SELECT USER_NAME()")
        == "a b"
    )
    db.run("ALTER LOGIN [a b] WITH PASSWORD = 'new'")
    with pytest.raises(SqlError):
        engine_server.client("a b", password="p'w")
    with pytest.raises(SqlError):
        engine_server.client("nobody", password="x")


@pytest.mark.sandbox
def test_counters(db: Client, reader: Client) -> None:
    db.run("INSERT t VALUES (2, 2, 2)", "EXEC sandbox.reset_counters")
    reader.rows("SELECT id FROM t")
    reader.rows("SELECT TOP 1 id FROM t")
    reader.rows("SELECT a.id FROM t AS a INNER JOIN cdc.dbo_t_CT AS c ON c.id = a.id")
    found = {r[0]: r[1:] for r in db.rows("EXEC sandbox.counters")}
    assert found["reader"] == (0, 3, 5)
    tables = {r[:4]: r[4:] for r in db.rows("EXEC sandbox.table_counters")}
    assert tables[("reader", "shop", "dbo", "t")] == (3, 5)
    assert tables[("reader", "shop", "cdc", "dbo_t_CT")] == (1, 2)


@pytest.mark.sandbox
def test_traced_texts(db: Client, reader: Client) -> None:
    db.run("EXEC sandbox.trace @login = 'READER'")
    reader.rows("SELECT id FROM t")
    reader.rows("SET NOCOUNT ON; SELECT 2 AS n -- ü")
    db.rows("SELECT 3 AS other")
    assert db.rows("EXEC sandbox.traced") == [
        (1, "SELECT id FROM t"),
        (2, "SET NOCOUNT ON; SELECT 2 AS n -- ü"),
    ]
    db.run("EXEC sandbox.trace")
    reader.rows("SELECT id FROM t")
    assert db.rows("EXEC sandbox.traced") == []


@pytest.mark.sandbox
def test_faults(db: Client, reader: Client) -> None:
    db.run("EXEC sandbox.fault @kind = 'deadlock', @table = 'dbo.t', @login = 'reader', @after = 1")
    assert reader.value("SELECT COUNT(*) FROM t") == 1
    error = reader.error("SELECT COUNT(*) FROM t")
    assert (error.number, error.severity) == (1205, 13)
    assert reader.value("SELECT COUNT(*) FROM t") == 1

    db.run("EXEC sandbox.fault @kind = 'lock_timeout', @table = 't', @times = 2")
    assert [reader.error("SELECT * FROM t").number for _ in range(2)] == [1222, 1222]
    assert reader.rows("SELECT id FROM t") == [(1,)]

    db.run("EXEC sandbox.fault 'error', @number = 4242, @text = 'planted', @login = 'reader'")
    assert (reader.error("SELECT * FROM t").text) == "planted"

    db.run("EXEC sandbox.fault @kind = 'delay', @table = 't', @seconds = 0.3")
    began = time.monotonic()
    reader.rows("SELECT id FROM t")
    assert time.monotonic() - began >= 0.3

    db.run("EXEC sandbox.fault @kind = 'drop', @table = 't', @rows = 1")
    with pytest.raises(ConnectionAbortedError):
        reader.rows("SELECT id FROM t")
    assert reader.rows("SELECT id FROM t") == [(1,)]
    db.run("EXEC sandbox.fault 'drop'", "EXEC sandbox.clear_faults")
    assert db.rows("EXEC sandbox.faults") == []
    assert db.error("EXEC sandbox.fault @kind = 'nonsense'").number == 50000
    assert db.error("EXEC sandbox.fault @kind = 'execute'").number == 201
    assert db.error("EXEC sandbox.fault @kinds = 'drop'").number == 8145


@pytest.mark.sandbox
def test_a_deadlock_victim_loses_its_transaction(db: Client) -> None:
    db.run("CREATE TABLE w (id int)", "EXEC sandbox.fault 'deadlock', 'w', @after = 1")
    db.run("BEGIN TRAN", "INSERT w VALUES (1)")
    assert db.error("INSERT w VALUES (2)").number == 1205
    assert db.value("SELECT @@TRANCOUNT") == 0
    assert db.rows("SELECT * FROM w") == []
