"""Calls of CDC's procedures and functions: what they answer, and the number each wrong one gets."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from cdc_assets_tests.sandbox.harness import Client, Server, captured, max_lsn, recorded

pytestmark = pytest.mark.sqlserver

ENABLE = "EXEC sys.sp_cdc_enable_table "


@pytest.fixture(scope="module")
def odd(shared: Client) -> Client:
    """A captured table `t`, one without a key, one with two indexes, one that is not captured."""
    shared.run(
        "EXEC sys.sp_cdc_enable_db",
        "CREATE TABLE t (id int NOT NULL CONSTRAINT pk_t PRIMARY KEY, v varchar(10) NULL)",
        "CREATE TABLE keyless (a int)",
        "CREATE TABLE indexed (a int NOT NULL PRIMARY KEY, b int NOT NULL, c int)",
        "CREATE UNIQUE INDEX ub ON indexed (b)",
        "CREATE INDEX ic ON indexed (c)",
        "CREATE TABLE reserved ([__$operation] int)",
    )
    captured(shared, "t")
    return shared


WRONG = [
    (ENABLE + "'dbo', 'nothing', NULL", 22931),
    (ENABLE + "'dbo', '', NULL", 22963),
    (ENABLE + "NULL, 't', NULL", 22963),
    (ENABLE + "'dbo', 'keyless', ''", 22907),
    (ENABLE + "'dbo', 'keyless'", 201),
    (ENABLE + "'cdc', 'dbo_t_CT', NULL", 22974),
    (ENABLE + "'dbo', 't', NULL", 22926),
    (ENABLE + f"'dbo', 'keyless', NULL, '{'x' * 101}'", 22927),
    (ENABLE + "'dbo', 'keyless', NULL, @supports_net_changes = 1", 22939),
    (ENABLE + "'dbo', 'indexed', NULL, @index_name = 'nope'", 22928),
    (ENABLE + "'dbo', 'indexed', NULL, @index_name = 'ic'", 22929),
    (ENABLE + "'dbo', 'indexed', NULL, @captured_column_list = 'a, z'", 22930),
    (
        ENABLE + "'dbo', 'indexed', NULL, @supports_net_changes = 1, "
        "@captured_column_list = 'b, c'",
        22943,
    ),
    (ENABLE + "'dbo', 'keyless', NULL, @filegroup_name = 'fast'", 22973),
    (ENABLE + "'dbo', 'reserved', NULL", 22975),
    (ENABLE + "'dbo', 't', NULL, @nonsense = 1", 8145),
    ("EXEC sys.sp_cdc_disable_table 'dbo', 'nothing', 'all'", 22931),
    ("EXEC sys.sp_cdc_disable_table 'dbo', 'keyless', 'all'", 22985),
    ("EXEC sys.sp_cdc_disable_table 'dbo', 't', 'other'", 22960),
    ("EXEC sys.sp_cdc_help_change_data_capture 'dbo'", 22972),
    ("EXEC sys.sp_cdc_help_change_data_capture 'dbo', 'nothing'", 22981),
    ("EXEC sys.sp_cdc_help_change_data_capture 'dbo', 'keyless'", 22985),
    ("EXEC sys.sp_cdc_get_captured_columns 'nothing'", 22981),
    ("EXEC sys.sp_cdc_get_ddl_history 'nothing'", 22981),
    ("EXEC sys.sp_cdc_cleanup_change_table 'nothing', NULL", 22920),
    ("EXEC sys.sp_cdc_cleanup_change_table 'dbo_t', 0xFF", 22957),
    ("EXEC sys.sp_cdc_start_job 'nonsense'", 22992),
    ("EXEC sys.sp_cdc_change_job 'capture', @maxtrans = 0", 22991),
    ("EXEC sys.sp_cdc_change_job 'capture', @maxscans = 0", 22970),
    ("EXEC sys.sp_cdc_change_job 'capture', @pollinginterval = 86400", 22990),
    ("EXEC sys.sp_cdc_change_job 'capture', @continuous = 2", 22998),
    ("EXEC sys.sp_cdc_change_job 'capture', @retention = 5", 22995),
    ("EXEC sys.sp_cdc_change_job 'cleanup', @maxtrans = 5", 22996),
    ("EXEC sys.sp_cdc_change_job 'cleanup', @retention = 0", 22994),
    ("EXEC sys.sp_cdc_add_job 'capture'", 22997),
    ("ALTER TABLE t DROP CONSTRAINT pk_t", 22979),
    ("SELECT sys.fn_cdc_get_max_lsn(1)", 8144),
    ("SELECT sys.fn_cdc_get_min_lsn()", 313),
    ("SELECT sys.fn_cdc_map_time_to_lsn('nearest', GETDATE())", 313),
    ("SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_t(0x01, 0x02)", 313),
    ("SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_t(0x01, 0x02, 'all', 1)", 8144),
    ("SELECT * FROM cdc.fn_cdc_get_all_changes_nothing(0x01, 0x02, 'all')", 208),
    ("SELECT * FROM cdc.fn_cdc_get_net_changes_dbo_t(0x01, 0x02, 'all')", 208),
]


@pytest.mark.parametrize(("text", "number"), WRONG)
def test_a_wrong_call_has_its_number(odd: Client, text: str, number: int) -> None:
    assert odd.error(text).number == number


def test_enabling_twice_is_a_message(odd: Client) -> None:
    (told,) = odd.messages("EXEC sys.sp_cdc_enable_db")
    assert told.startswith(f"Database '{odd.database}' is already enabled for Change Data Capture.")


def test_a_schema_or_user_named_cdc_is_in_the_way(odd: Client) -> None:
    odd.run("CREATE DATABASE taken", "USE taken", "CREATE SCHEMA cdc")
    assert odd.error("EXEC sys.sp_cdc_enable_db").number == 22906
    assert odd.error("EXEC sys.sp_cdc_disable_db").number == 22901
    odd.run(f"USE {odd.database}", "DROP DATABASE taken")


def test_an_index_of_an_instance_stays(odd: Client) -> None:
    odd.run(ENABLE + "'dbo', 'indexed', NULL, @index_name = 'ub', @supports_net_changes = 1")
    assert odd.error("DROP INDEX ub ON indexed").number == 22983
    (row,) = odd.rows("EXEC sys.sp_cdc_help_change_data_capture 'dbo', 'indexed'")
    assert (row[7], row[10], row[13]) == (True, "ub", "[b]")
    odd.run("EXEC sys.sp_cdc_disable_table 'dbo', 'indexed', 'dbo_indexed'")


# --- jobs --------------------------------------------------------------------------------------

JOBS = "EXEC sys.sp_cdc_help_jobs"


@pytest.fixture
def t(db: Client) -> Client:
    db.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v varchar(10) NULL)")
    db.run("EXEC sys.sp_cdc_enable_db")
    assert db.rows(JOBS) == []  # they come with the first instance
    db.run(ENABLE + "'dbo', 't', NULL, @supports_net_changes = 1")
    return db


@pytest.mark.sandbox
def test_help_and_change_job(engine_server: Server, t: Client) -> None:
    assert [row[1:] for row in t.rows(JOBS)] == [
        ("capture", f"cdc.{t.database}_capture", 500, 10, True, 0, 0, 0),
        ("cleanup", f"cdc.{t.database}_cleanup", 0, 0, False, 0, 4320, 5000),
    ]
    t.run(
        "EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 7, @maxtrans = 2",
        "EXEC sys.sp_cdc_change_job 'cleanup', @retention = 60, @threshold = 10",
    )
    engine_server.restart()
    assert [row[3:] for row in engine_server.client().rows(JOBS)] == [
        (2, 10, True, 7, 0, 0),
        (0, 0, False, 0, 60, 10),
    ]


@pytest.mark.sandbox
def test_a_changed_job_counts_from_its_next_start(t: Client) -> None:
    number, capture = t.session.context.current.id, t.engine.capture
    t.run("INSERT t VALUES (1, 'a')")
    t.run("EXEC sys.sp_cdc_change_job 'capture', @pollinginterval = 3600, @maxtrans = 1")
    t.run("EXEC sys.sp_cdc_change_job 'capture', @maxscans = 2")
    assert capture.interval(number) == 0
    t.run("EXEC sys.sp_cdc_stop_job")
    for i in range(2, 7):
        t.run(f"INSERT t VALUES ({i}, 'b')")
    assert capture.interval(number) == 3600
    assert capture.step(number) == 2  # maxtrans x maxscans
    assert t.value("SELECT COUNT(*) FROM cdc.dbo_t_CT") == 3
    assert t.value("EXEC sandbox.capture_now") == 3
    assert t.value("SELECT COUNT(*) FROM cdc.dbo_t_CT") == 6


@pytest.mark.sandbox
def test_a_dropped_job_does_not_run(t: Client) -> None:
    t.run("EXEC sys.sp_cdc_drop_job 'capture'", "INSERT t VALUES (1, 'a')")
    assert [row[1] for row in t.rows(JOBS)] == ["cleanup"]
    assert max_lsn(t) is None
    assert t.error("EXEC sys.sp_cdc_start_job 'capture'").number == 22993
    t.run("EXEC sys.sp_cdc_add_job 'capture', @pollinginterval = 0")
    assert t.value("SELECT COUNT(*) FROM cdc.dbo_t_CT") == 1


@pytest.mark.sandbox
def test_the_cleanup_job_keeps_its_retention(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a'), (2, 'b')", "INSERT t VALUES (3, 'c')")
    t.run("EXEC sys.sp_cdc_start_job 'cleanup'")
    assert t.value("SELECT COUNT(*) FROM cdc.dbo_t_CT") == 3
    t.run("EXEC sandbox.set_clock @shift_seconds = 259300", "INSERT t VALUES (4, 'd')")
    t.run("EXEC sys.sp_cdc_start_job 'cleanup'")  # three days: the last old commit stays
    assert t.rows("SELECT id FROM cdc.dbo_t_CT ORDER BY id") == [(3,), (4,)]


def test_only_the_owner_sees_jobs_and_scans(t: Client) -> None:
    reader = t.reader()
    for text, number in (
        (JOBS, 22904),
        ("EXEC sys.sp_cdc_change_job 'capture', @maxtrans = 1", 22904),
        ("EXEC sys.sp_cdc_enable_db", 22902),
        ("EXEC sys.sp_cdc_disable_db", 22902),
        ("SELECT * FROM sys.dm_cdc_log_scan_sessions", 262),
    ):
        assert reader.error(text).number == number


@pytest.mark.sandbox
def test_log_scan_sessions(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a'), (2, 'b')", "UPDATE t SET v = 'c'")
    rows = t.rows(
        "SELECT tran_count, command_count, latency, error_count FROM "
        "sys.dm_cdc_log_scan_sessions WHERE tran_count > 0 ORDER BY session_id"
    )
    assert rows == [(1, 2, 0, 0), (1, 4, 0, 0)]
    assert t.rows("SELECT * FROM sys.dm_cdc_errors") == []


# --- functions ---------------------------------------------------------------------------------


@pytest.mark.sandbox
def test_time_to_lsn_and_back(t: Client) -> None:
    for i in range(4):
        t.run(
            f"EXEC sandbox.set_clock @utc = '2026-03-01T10:00:0{i}'", f"INSERT t VALUES ({i}, 'a')"
        )
    known = t.rows(
        "SELECT CONVERT(varchar(22), start_lsn, 1), CONVERT(varchar(30), tran_end_time, 126) "
        "FROM cdc.lsn_time_mapping ORDER BY start_lsn"
    )
    times = [datetime.fromisoformat(text) for _, text in known]
    assert len(times) == 4
    lsns = [lsn for lsn, _ in known]

    def passing(test: Callable[[datetime], bool]) -> list[str]:
        return [lsn for lsn, at in zip(lsns, times, strict=True) if test(at)]

    forms: dict[str, Callable[[datetime], list[str]]] = {
        "largest less than": lambda at: passing(lambda x: x < at)[-1:],
        "largest less than or equal": lambda at: passing(lambda x: x <= at)[-1:],
        "smallest greater than": lambda at: passing(lambda x: x > at)[:1],
        "smallest greater than or equal": lambda at: passing(lambda x: x >= at)[:1],
    }
    asked = [*times, times[0] - timedelta(seconds=1), times[-1] + timedelta(seconds=1)]
    for (form, model), at in itertools.product(forms.items(), asked):
        text = at.isoformat(timespec="milliseconds")
        found = t.value(
            f"SELECT CONVERT(varchar(22), sys.fn_cdc_map_time_to_lsn('{form}', '{text}'), 1)"
        )
        assert [found] == (model(at) or [None]), (form, at)
    for lsn, text in known:
        assert (
            t.value(f"SELECT CONVERT(varchar(30), sys.fn_cdc_map_lsn_to_time({lsn}), 126)") == text
        )
    assert t.value("SELECT sys.fn_cdc_map_lsn_to_time(0x01)") is None


def test_lsns_step(t: Client) -> None:
    up, down = "sys.fn_cdc_increment_lsn", "sys.fn_cdc_decrement_lsn"
    one = "0x000000000000000000FF"
    assert t.value(f"SELECT CONVERT(varchar(22), {up}({one}), 1)") == "0x00000000000000000100"
    assert t.value(f"SELECT CONVERT(varchar(22), {down}({up}({one})), 1)") == one
    assert t.value(f"SELECT {up}(NULL)") is None


def test_columns_by_ordinal_and_mask(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')", "UPDATE t SET v = 'b'")
    recorded(t, 3)
    changed = "SELECT sys.fn_cdc_has_column_changed('dbo_t', '{}', [__$update_mask]) FROM "
    of = "cdc.dbo_t_CT WHERE [__$operation] = 4"
    assert t.value(changed.format("v") + of) is True
    assert t.value(changed.format("id") + of) is False
    assert t.value(changed.format("nothing") + of) is None
    assert t.value("SELECT sys.fn_cdc_get_column_ordinal('dbo_t', 'V')") == 2
    assert t.value("SELECT sys.fn_cdc_get_column_ordinal('dbo_t', 'nothing')") is None


@pytest.mark.sandbox
def test_an_ordinal_is_of_a_name_that_is_given(t: Client) -> None:
    refused = "SELECT sys.fn_cdc_get_column_ordinal('dbo_t', name) FROM sys.columns"
    assert t.error(refused).number == 40515


ALL = (
    "SELECT [__$operation], id, v FROM cdc.fn_cdc_get_all_changes_dbo_t({}, {}, N'{}') "
    "ORDER BY [__$start_lsn], [__$seqval], [__$operation]"
)
FROM, TO = "sys.fn_cdc_get_min_lsn('dbo_t')", "sys.fn_cdc_get_max_lsn()"


def test_all_changes_refuses_what_it_cannot_answer(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')", "UPDATE t SET v = 'b'")
    recorded(t, 3)
    assert t.rows(ALL.format(FROM, TO, " ALL ")) == [(2, 1, "a"), (4, 1, "b")]
    assert len(t.rows(ALL.format(FROM, TO, "all update old"))) == 3
    for low, high, option in (
        (f"sys.fn_cdc_decrement_lsn({FROM})", TO, "all"),
        (FROM, f"sys.fn_cdc_increment_lsn({TO})", "all"),
        (TO, FROM, "all"),
        ("NULL", TO, "all"),
        (FROM, TO, "all with mask"),
    ):
        assert t.error(ALL.format(low, high, option)).number == 313


def test_all_changes_before_the_first_capture(t: Client) -> None:
    assert t.error(ALL.format("0x01", "0xFF", "all")).number == 313


@pytest.mark.sandbox
def test_net_changes_are_what_a_model_says(t: Client) -> None:
    """Every history of one key of up to four changes, before and inside the range."""
    net = (
        "SELECT [__$operation], v FROM cdc.fn_cdc_get_net_changes_dbo_t({}, {}, N'{}') "
        "WHERE id = {}"
    )
    numbers = itertools.count(1)
    texts = {"i": "INSERT t VALUES ({0}, 'v{1}')", "u": "UPDATE t SET v = 'v{1}' WHERE id = {0}"}
    texts["d"] = "DELETE t WHERE id = {0}"
    histories = [
        (existed, history)
        for length in (1, 2, 3)
        for existed in (False, True)
        for history in itertools.product("iud", repeat=length)
        if _possible(history, existed=existed)
    ]
    keys = [(next(numbers), *case) for case in histories]
    for key, existed, _ in keys:
        if existed:
            t.run(texts["i"].format(key, "before"))
    t.run("EXEC sandbox.capture_now @idle = 1")
    low = max_lsn(t)
    for place in range(3):
        for key, _, history in keys:
            if place < len(history):
                t.run(texts[history[place]].format(key, place))
    for key, existed, history in keys:
        asked = (f"sys.fn_cdc_increment_lsn({low})", TO)
        last = f"v{len(history) - 1}"
        expected: list[tuple[int, object]] = []
        if history[-1] == "d":
            if existed:
                held = next(
                    (f"v{i}" for i in reversed(range(len(history))) if history[i] != "d"), "vbefore"
                )
                expected = [(1, held)]
        else:
            expected = [(4 if existed else 2, last)]
        assert t.rows(net.format(*asked, "all", key)) == expected, (existed, history)
        merged = [(1 if op == 1 else 5, v) for op, v in expected]
        assert t.rows(net.format(*asked, "all with merge", key)) == merged


def _possible(history: tuple[str, ...], *, existed: bool) -> bool:
    there = existed
    for step in history:
        if there == (step == "i"):
            return False
        there = step != "d"
    return True


def test_net_changes_with_mask(t: Client) -> None:
    t.run("ALTER TABLE t ADD w int NULL")
    t.run(
        "EXEC sys.sp_cdc_disable_table 'dbo', 't', 'all'",
        ENABLE + "'dbo', 't', NULL, @supports_net_changes = 1",
        "INSERT t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
    )
    recorded(t, 3)
    low = max_lsn(t)
    t.run("UPDATE t SET v = 'x' WHERE id = 1", "UPDATE t SET w = 9 WHERE id = 1")
    t.run("UPDATE t SET w = 8 WHERE id = 2", "DELETE t WHERE id = 3")
    recorded(t, 10)
    assert t.rows(
        "SELECT [__$operation], [__$update_mask], id FROM cdc.fn_cdc_get_net_changes_dbo_t("
        f"sys.fn_cdc_increment_lsn({low}), {TO}, N'all with mask') ORDER BY id"
    ) == [(4, b"\x06", 1), (4, b"\x04", 2), (1, None, 3)]


def test_a_login_without_the_role_may_not_read_changes(t: Client) -> None:
    t.run(
        "EXEC sys.sp_cdc_disable_table 'dbo', 't', 'all'",
        ENABLE + "'dbo', 't', 'gate', @supports_net_changes = 1",
        "INSERT t VALUES (1, 'a')",
    )
    reader = t.reader()
    t.run("GRANT SELECT ON t TO reader")
    recorded(t, 1)
    net = ALL.replace("[__$seqval]", "id").replace("get_all", "get_net").format(FROM, TO, "all")
    high = max_lsn(t)
    for text in (ALL.format(high, high, "all"), net, "SELECT * FROM cdc.dbo_t_CT"):
        assert reader.error(text).number == 229
    assert reader.value(f"SELECT CONVERT(varchar(22), {FROM}, 1)") == "0x" + "0" * 20
    t.run("ALTER ROLE gate ADD MEMBER reader")
    assert reader.rows(ALL.format(FROM, TO, "all")) == [(2, 1, "a")]
    assert reader.rows(net) == [(2, 1, "a")]
    t.run("ALTER ROLE gate DROP MEMBER reader")
    assert reader.error(ALL.format(high, high, "all")).number == 229


def test_space_used_of_a_table_and_of_the_database(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a')")
    recorded(t, 1)
    ((name, rows, reserved, *_),) = t.rows("EXEC sys.sp_spaceused N'dbo.t'")
    assert (name, rows.strip(), reserved) == ("t", "1", "24 KB")
    (whole, parts) = t.sets("EXEC sys.sp_spaceused")
    assert whole[0][0] == t.database
    assert [text.endswith(" KB") for text in parts[0]] == [True] * 4
    assert t.error("EXEC sys.sp_spaceused 'nothing'").number == 15009
