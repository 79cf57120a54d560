"""Transactions: visibility, rollback, conflicts, and the errors that leave them open."""

from __future__ import annotations

import threading

import pytest

from cdc_assets.sandbox.results import SqlError
from cdc_assets_tests.sandbox.harness import Client, captured, max_lsn, recorded

pytestmark = pytest.mark.sqlserver


@pytest.fixture
def t(db: Client) -> Client:
    db.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v varchar(5) NULL)")
    db.run("EXEC sys.sp_cdc_enable_db")
    captured(db, "t")
    db.run("INSERT t VALUES (1, 'a')")
    recorded(db, 1)
    return db


def test_readers_see_only_committed_rows(t: Client) -> None:
    other = t.another()
    before = max_lsn(t)
    t.run("BEGIN TRAN", "INSERT t VALUES (2, 'b')", "UPDATE t SET v = 'x' WHERE id = 1")
    assert t.rows("SELECT id, v FROM t ORDER BY id") == [(1, "x"), (2, "b")]
    assert other.rows("SELECT id, v FROM t") == [(1, "a")]
    assert max_lsn(other) == before
    t.run("COMMIT")
    assert other.rows("SELECT id, v FROM t ORDER BY id") == [(1, "x"), (2, "b")]
    recorded(t, 4)
    assert str(max_lsn(other)) > str(before)


def test_read_committed_sees_later_commits_in_an_open_transaction(t: Client) -> None:
    other = t.another()
    other.run("BEGIN TRAN")
    assert other.value("SELECT COUNT(*) FROM t") == 1
    t.run("INSERT t VALUES (2, 'b')")
    assert other.value("SELECT COUNT(*) FROM t") == 2
    other.run("COMMIT")


def test_snapshot_isolation(t: Client) -> None:
    other = t.another()
    other.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
    for asked in (
        "SELECT COUNT(*) FROM t",
        "SELECT * FROM cdc.change_tables",
        "SELECT sys.fn_cdc_get_max_lsn()",
        "IF EXISTS (SELECT * FROM t) PRINT ''",
        "UPDATE t SET v = 'x'",
        "BEGIN TRAN; SELECT COUNT(*) FROM t",
    ):
        assert other.error(asked).number == 3952, asked
    # What reads no table of the database goes on, and so may the session.
    assert other.value("IF @@TRANCOUNT = 1 ROLLBACK; SELECT @@TRANCOUNT") == 0
    other.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    assert other.value("SELECT COUNT(*) FROM t") == 1
    other.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
    t.run(f"ALTER DATABASE [{t.database}] SET ALLOW_SNAPSHOT_ISOLATION ON")
    other.run("BEGIN TRAN")
    assert other.value("SELECT COUNT(*) FROM t") == 1
    t.run("INSERT t VALUES (2, 'b')")
    assert other.value("SELECT COUNT(*) FROM t") == 1
    other.run("COMMIT")
    assert other.value("SELECT COUNT(*) FROM t") == 2


def test_rollback_leaves_nothing(t: Client) -> None:
    before = max_lsn(t)
    t.run("BEGIN TRAN; INSERT t VALUES (2, 'b'); UPDATE t SET v = 'x'; DELETE t WHERE id = 1")
    assert t.value("SELECT @@TRANCOUNT") == 1
    t.run("ROLLBACK")
    assert t.rows("SELECT id, v FROM t") == [(1, "a")]
    assert t.value("SELECT COUNT(*) FROM cdc.dbo_t_CT") == 1
    assert max_lsn(t) == before


@pytest.mark.sandbox
def test_definitions_roll_back_too(t: Client) -> None:
    other = t.another()
    t.run("BEGIN TRAN; CREATE TABLE u (a int); INSERT u VALUES (1); ALTER TABLE t ADD w int")
    assert t.rows("SELECT a FROM u") == [(1,)]
    assert other.error("SELECT a FROM u").number == 208
    t.run("ROLLBACK")
    assert t.error("SELECT a FROM u").number == 208
    assert [c.name for c in t.columns("SELECT * FROM t")] == ["id", "v"]


def test_nesting_counts(t: Client) -> None:
    t.run("BEGIN TRAN; BEGIN TRANSACTION; INSERT t VALUES (2, 'b'); COMMIT TRAN")
    assert t.value("SELECT @@TRANCOUNT") == 1
    t.run("ROLLBACK TRANSACTION")
    assert t.value("SELECT COUNT(*) FROM t") == 1
    assert t.error("COMMIT").number == 3902
    assert t.error("ROLLBACK").number == 3903


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("INSERT t VALUES (1, 'dup')", 2627),
        ("INSERT t VALUES (5, 'x'), (5, 'y')", 2627),
        ("UPDATE t SET id = 1 WHERE id = 2", 2627),
        ("INSERT t VALUES (NULL, 'x')", 515),
        ("UPDATE t SET id = NULL", 515),
        ("INSERT t VALUES (5, 'too long')", 2628),
        ("UPDATE t SET v = N'much too long'", 2628),
        ("UPDATE t SET id = id + 2147483647", 8115),
        ("INSERT t SELECT 1 / (id - id), 'x' FROM t", 8134),
    ],
)
def test_a_failed_statement_leaves_the_transaction_open(t: Client, text: str, number: int) -> None:
    t.run("BEGIN TRAN; INSERT t VALUES (2, 'b')")
    error = t.error(text)
    assert error.number == number
    t.run("INSERT t VALUES (3, 'c'); COMMIT")
    assert t.rows("SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,)]


def test_a_failed_conversion_ends_the_transaction(t: Client) -> None:
    t.run("BEGIN TRAN; INSERT t VALUES (2, 'b')")
    assert t.error("INSERT t VALUES ('x', 'v')").number == 245
    assert t.value("SELECT @@TRANCOUNT") == 0
    assert t.error("COMMIT").number == 3902
    assert t.value("SELECT COUNT(*) FROM t") == 1


def test_xact_abort_rolls_back(t: Client) -> None:
    t.run("SET XACT_ABORT ON; BEGIN TRAN; INSERT t VALUES (2, 'b')")
    assert t.error("INSERT t VALUES (1, 'dup')").number == 2627
    assert t.value("SELECT @@TRANCOUNT") == 0
    assert t.value("SELECT COUNT(*) FROM t") == 1


def test_rows_apart_do_not_conflict(t: Client) -> None:
    t.run("INSERT t VALUES (2, 'b')")
    other = t.another()
    t.run("BEGIN TRAN; UPDATE t SET v = 'x' WHERE id = 1")
    other.run("BEGIN TRAN; UPDATE t SET v = 'y' WHERE id = 2; COMMIT")
    t.run("COMMIT")
    assert t.rows("SELECT v FROM t ORDER BY id") == [("x",), ("y",)]
    recorded(t, 6)
    lsns = [r[0] for r in t.rows("SELECT [__$start_lsn] FROM cdc.dbo_t_CT WHERE v IN ('x', 'y')")]
    assert lsns == sorted(lsns)


def test_a_key_may_come_back_in_its_own_transaction(t: Client) -> None:
    t.run("BEGIN TRAN; DELETE t WHERE id = 1; INSERT t VALUES (1, 'new'); COMMIT")
    assert t.rows("SELECT id, v FROM t") == [(1, "new")]


def test_implicit_transactions(t: Client) -> None:
    other = t.another()
    t.run("SET IMPLICIT_TRANSACTIONS ON", "INSERT t VALUES (2, 'b')")
    assert other.value("SELECT COUNT(*) FROM t") == 1
    t.run("COMMIT")
    assert other.value("SELECT COUNT(*) FROM t") == 2


@pytest.mark.sandbox
def test_requests_of_the_transaction_manager(t: Client) -> None:
    t.session.begin()
    t.run("INSERT t VALUES (2, 'b')")
    t.session.rollback()
    t.session.begin()
    t.run("INSERT t VALUES (3, 'c')")
    t.session.commit()
    assert t.rows("SELECT id FROM t ORDER BY id") == [(1,), (3,)]
    t.session.begin()
    t.run("INSERT t VALUES (4, 'd')")
    t.session.reset()
    assert t.value("SELECT COUNT(*) FROM t") == 2


def test_commits_of_many_threads_keep_order(t: Client) -> None:
    errors: list[SqlError] = []

    def write(start: int) -> None:
        client = t.another()
        try:
            for number in range(start, start + 8):
                client.run(f"INSERT t VALUES ({number}, 'w')")
        except SqlError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(100 * i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    recorded(t, 33)
    found = t.rows("SELECT [__$start_lsn], id FROM cdc.dbo_t_CT WHERE v = 'w'")
    assert len(found) == len({lsn for lsn, _ in found}) == 32
    assert [lsn for lsn, _ in found] == sorted(lsn for lsn, _ in found)


@pytest.mark.sandbox
def test_attention_stops_a_statement(t: Client) -> None:
    stop = threading.Timer(0.2, t.session.cancel)
    stop.start()
    assert t.error("WAITFOR DELAY '00:00:20'").number == 0
    many = "(VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10))"
    joined = ", ".join(f"{many} AS v{i}(x)" for i in range(9))
    stop = threading.Timer(0.2, t.session.cancel)
    stop.start()
    assert t.error(f"SELECT COUNT_BIG(*), MAX(v1.x * v2.x + v3.x) FROM {joined}").number == 0
    assert t.value("SELECT 1") == 1


def test_savepoints(t: Client) -> None:
    assert t.error("SAVE TRAN s").number == 628
    t.run("BEGIN TRAN outermost; SAVE TRANSACTION s; INSERT t VALUES (2, 'b')")
    assert t.error("ROLLBACK TRAN nothing").number == 6401
    t.run("DECLARE @name varchar(9) = 's'; ROLLBACK TRAN @name")
    assert t.value("SELECT @@TRANCOUNT") == 1
    assert t.rows("SELECT id FROM t") == [(1,)]
    t.run("INSERT t VALUES (3, 'c'); SAVE TRAN s; DELETE t; INSERT t VALUES (3, 'x')")
    t.run("ROLLBACK TRAN s; UPDATE t SET v = 'z' WHERE id = 1; SAVE TRAN s; DELETE t")
    t.run("ROLLBACK TRAN s; COMMIT")
    assert t.rows("SELECT id, v FROM t ORDER BY id") == [(1, "z"), (3, "c")]
    # Capture sees what was committed, and nothing of what was taken back.
    recorded(t, 4)
    found = t.rows("SELECT [__$operation], id, v FROM cdc.dbo_t_CT WHERE v <> 'a' OR id > 1")
    assert sorted(found) == [(2, 3, "c"), (4, 1, "z")]


def test_a_key_is_free_again_behind_a_savepoint(t: Client) -> None:
    other = t.another()
    t.run("BEGIN TRAN; INSERT t VALUES (2, 'b'); SAVE TRAN s; INSERT t VALUES (3, 'c')")
    t.run("ROLLBACK TRAN s")
    other.run("INSERT t VALUES (4, 'd')")
    t.run("INSERT t VALUES (5, 'e'); COMMIT")
    assert t.rows("SELECT id FROM t ORDER BY id") == [(1,), (2,), (4,), (5,)]


def test_a_doomed_transaction_has_no_way_back(t: Client) -> None:
    text = (
        "SET XACT_ABORT ON; BEGIN TRAN; SAVE TRAN s;"
        " BEGIN TRY INSERT t VALUES (1, 'dup') END TRY BEGIN CATCH ROLLBACK TRAN s END CATCH"
    )
    assert t.error(text).number == 3931
    assert t.value("SELECT @@TRANCOUNT") == 0
    assert t.rows("SELECT id FROM t") == [(1,)]


def test_a_later_savepoint_ends_with_the_earlier_one(t: Client) -> None:
    t.run("BEGIN TRAN; SAVE TRAN a; SAVE TRAN b; ROLLBACK TRAN a")
    assert t.error("ROLLBACK TRAN b").number == 6401
    t.run("ROLLBACK TRAN a; ROLLBACK")
    assert t.value("SELECT @@TRANCOUNT") == 0


def test_the_name_of_the_outermost_transaction(t: Client) -> None:
    t.run("BEGIN TRAN a; BEGIN TRAN b; INSERT t VALUES (2, 'b')")
    assert t.error("ROLLBACK TRAN b").number == 6401
    assert t.value("SELECT @@TRANCOUNT") == 2
    t.run("ROLLBACK TRAN a")
    assert t.rows("SELECT id FROM t") == [(1,)]


def test_a_rollback_takes_back_what_a_temporary_table_got(t: Client) -> None:
    t.run("CREATE TABLE #t (a int)", "INSERT #t VALUES (1)")
    t.run("BEGIN TRAN; INSERT #t VALUES (2); CREATE TABLE #u (a int)", "ROLLBACK")
    assert t.rows("SELECT a FROM #t") == [(1,)]
    assert t.error("SELECT a FROM #u").number == 208


def test_a_rollback_brings_back_a_temporary_table(t: Client) -> None:
    t.run("CREATE TABLE #t (a int)", "INSERT #t VALUES (1)", "BEGIN TRAN; DROP TABLE #t; ROLLBACK")
    assert t.rows("SELECT a FROM #t") == [(1,)]
    t.run("BEGIN TRAN; SAVE TRAN a; DROP TABLE #t; CREATE TABLE #t (b int, c int)")
    t.run("ROLLBACK TRAN a; INSERT #t VALUES (2); COMMIT")
    assert t.rows("SELECT a FROM #t") == [(1,), (2,)]


def test_a_rollback_leaves_table_variables_alone(t: Client) -> None:
    declared = "DECLARE @t TABLE (a int IDENTITY, b int); INSERT @t VALUES (1); BEGIN TRAN; "
    seen = "; SELECT b FROM @t; SELECT id FROM t"
    stored = t.rows("SELECT id FROM t")
    for inside in (
        "INSERT t (id) VALUES (70); INSERT @t VALUES (2)",
        "INSERT @t VALUES (2); INSERT t (id) VALUES (70)",
        "INSERT t (id) VALUES (70); SAVE TRAN s; INSERT @t VALUES (2); ROLLBACK TRAN s",
        "SAVE TRAN s; INSERT t (id) VALUES (70); INSERT @t VALUES (2); ROLLBACK TRAN s",
        "INSERT t (id) VALUES (70); DELETE @t; INSERT @t VALUES (1), (2); INSERT @t SELECT 1 / 0",
    ):
        *_, variables, rows = t.ending(f"{declared}{inside}; ROLLBACK{seen}")
        assert (variables, rows) == ([1, 2], [row[0] for row in stored]), inside
    made = "BEGIN TRAN; INSERT t (id) VALUES (70); DECLARE @t TABLE (b int); INSERT @t VALUES (3)"
    assert t.sets(f"{made}; ROLLBACK{seen}") == [[(3,)], stored]
    caught = "INSERT t (id) VALUES (70); INSERT @t VALUES (2); INSERT t SELECT CAST('x' AS int), ''"
    tried = f"{declared}BEGIN TRY {caught} END TRY BEGIN CATCH ROLLBACK END CATCH{seen}"
    assert t.sets(tried) == [[(1,), (2,)], stored]


def test_a_key_is_taken_whatever_the_transaction_does_next(t: Client) -> None:
    """A temporary table's rows are staged where the new keys still were."""
    other = t.another()
    t.run("CREATE TABLE keyed (k int NOT NULL PRIMARY KEY)", "CREATE TABLE #t (a int)")
    t.run("BEGIN TRAN; INSERT keyed VALUES (1); INSERT #t VALUES (5); SAVE TRAN a")
    other.run("INSERT keyed VALUES (2)")
    t.run("COMMIT")
    assert other.error("INSERT keyed VALUES (1)").number == 2627


def test_identity_values_of_a_transaction(t: Client) -> None:
    t.run("BEGIN TRAN; CREATE TABLE n (id int IDENTITY(5, 2), v int); INSERT n VALUES (1), (2)")
    assert t.rows("SELECT id, IDENT_CURRENT('n') FROM n") == [(5, 7), (7, 7)]
    t.run("COMMIT", "BEGIN TRAN; TRUNCATE TABLE n; INSERT n VALUES (3)")
    assert t.rows("SELECT id FROM n") == [(5,)]
    t.run("ROLLBACK", "INSERT n VALUES (4)")
    assert t.rows("SELECT id FROM n") == [(5,), (7,), (9,)]
    t.run("BEGIN TRAN; SAVE TRAN s; TRUNCATE TABLE n; ROLLBACK TRAN s; COMMIT")
    t.run("INSERT n VALUES (5)", "TRUNCATE TABLE n")
    assert t.value("SELECT IDENT_CURRENT('n')") == 5
    t.run("INSERT n VALUES (6)")
    assert t.rows("SELECT id FROM n") == [(5,)]
