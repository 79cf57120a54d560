"""What an error ends: its statement, its batch, its transaction; and who may catch it.

The expected numbers and order follow SQL Server's documentation of TRY…CATCH, XACT_STATE, SET
XACT_ABORT, THROW and RAISERROR.
"""

from __future__ import annotations

import pytest

from cdc_assets.sandbox.engine import journal, session
from cdc_assets.sandbox.results import Failed, Message, ResultSet, RowCount, SqlError
from cdc_assets_tests.sandbox.harness import Client, captured, recorded

pytestmark = pytest.mark.sqlserver

_COUNT = "SELECT COUNT(*) FROM t"
_ALL = "SELECT id FROM t ORDER BY id"


@pytest.fixture
def t(db: Client) -> Client:
    """One row in a captured table."""
    db.run("CREATE TABLE t(id int NOT NULL PRIMARY KEY, v varchar(4), n tinyint)")
    db.run("EXEC sys.sp_cdc_enable_db")
    captured(db, "t")
    db.run("INSERT t VALUES (1, 'a', 10)")
    return db


@pytest.mark.parametrize(
    ("failing", "number"),
    [
        ("INSERT t VALUES (1, 'dup', 1)", 2627),
        ("INSERT t VALUES (NULL, 'x', 1)", 515),
        ("INSERT t VALUES (2, 'too long', 1)", 2628),
        ("UPDATE t SET n = n / (id - 1)", 8134),
        ("UPDATE t SET id = id + 2147483647", 8115),
        ("INSERT t VALUES (2, 'x', 256)", 220),
        ("SELECT 1 / 0", 8134),
        ("SELECT v FROM t WHERE 1 / (id - 1) = 1", 8134),
        ("SELECT (SELECT id FROM (VALUES (1), (2)) AS x(id))", 512),
        ("EXEC nosuch", 2812),
        ("DROP TABLE nosuch", 3701),
        ("COMMIT", 3902),
        ("RAISERROR('own', 16, 1)", 50000),
        ("IF 1 / 0 = 1 SELECT 7", 8134),
        ("DECLARE @x int; SET @x = 1 / 0", 8134),
    ],
)
def test_most_errors_end_their_statement_alone(t: Client, failing: str, number: int) -> None:
    batch = f"SELECT 'before'\n{failing}\nSELECT 'after'"
    assert t.ending(batch) == [["before"], number, ["after"]]


def test_errors_and_results_come_in_order(t: Client) -> None:
    found = t.outcome("SELECT 1; INSERT t VALUES (1, 'x', 1); UPDATE t SET n = 300; SELECT 2")
    kinds = [type(r).__name__ if not isinstance(r, tuple) else "rows" for r in found]
    assert kinds == ["rows", "Failed", "Message", "Failed", "Message", "rows"]
    assert [r.error.number for r in found if isinstance(r, Failed)] == [2627, 220]
    assert {r.number for r in found if isinstance(r, Message)} == {3621}


@pytest.mark.parametrize(
    ("failing", "number"),
    [
        ("SELECT * FROM nosuch", 208),
        ("SELECT nosuch FROM t", 207),
        ("SELECT CAST('x' AS int)", 245),
        ("INSERT t VALUES ('x', 'v', 1)", 245),
        ("CREATE TABLE t(a int)", 2714),
        ("THROW 50001, 'own', 1", 50001),
    ],
)
def test_some_errors_end_the_batch(t: Client, failing: str, number: int) -> None:
    assert t.ending(f"SELECT 'before'; {failing}; SELECT 'after'") == [["before"], f"end {number}"]


def test_a_syntax_error_runs_nothing(t: Client) -> None:
    assert t.ending("INSERT t VALUES (2, 'b', 1); SELECT FROM") == ["end 156"]
    assert t.value(_COUNT) == 1


def test_the_transaction_survives_errors_while_rows_are_computed(t: Client) -> None:
    t.run("BEGIN TRAN; INSERT t VALUES (2, 'b', 1), (3, 'c', 1); UPDATE t SET v = 'z' WHERE id = 3")
    t.run("DELETE t WHERE id = 1; CREATE TABLE made(a int); INSERT made VALUES (1)")
    batch = (
        "UPDATE t SET id = id + 2147483647; SELECT 1 / (id - 2) FROM t; "
        "INSERT t VALUES (4, 'd', 1); SELECT @@TRANCOUNT; SELECT a FROM made"
    )
    assert t.ending(batch) == [8115, 8134, [1], [1]]
    t.run("UPDATE t SET v = 'y' WHERE id = 2; COMMIT")
    assert t.rows("SELECT id, v FROM t ORDER BY id") == [(2, "y"), (3, "z"), (4, "d")]
    recorded(t, 9)
    changes = t.rows("SELECT [__$operation], id, v FROM cdc.dbo_t_CT ORDER BY [__$seqval], 1")
    assert changes == [
        (2, 1, "a"),
        *((2, 2, "b"), (2, 3, "c"), (3, 3, "c"), (4, 3, "z"), (1, 1, "a"), (2, 4, "d")),
        *((3, 2, "b"), (4, 2, "y")),
    ]


@pytest.mark.sandbox
def test_what_came_in_between_is_seen_and_what_it_hit_is_a_conflict(t: Client) -> None:
    other = t.another()
    t.run("CREATE TABLE u(a int); BEGIN TRAN; INSERT t VALUES (2, 'b', 1)")
    other.run("INSERT u VALUES (1)")
    assert t.error("UPDATE t SET n = n / (id - 1)").number == 8134
    assert t.value("SELECT a FROM u") == 1
    other.run("UPDATE t SET v = 'o' WHERE id = 1")
    assert t.error("UPDATE t SET n = n / (id - 1)").number == 3960
    assert t.value("SELECT @@TRANCOUNT") == 0
    assert t.rows("SELECT id, v FROM t") == [(1, "o")]


@pytest.mark.sandbox
def test_a_snapshot_that_an_error_would_move_is_given_up(t: Client) -> None:
    t.run(f"CREATE TABLE u(a int); ALTER DATABASE [{t.database}] SET ALLOW_SNAPSHOT_ISOLATION ON")
    t.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT id FROM t")
    assert t.ending("SELECT 1 / 0; SELECT @@TRANCOUNT") == [8134, [1]]
    t.another().run("INSERT u VALUES (1)")
    assert t.ending("SELECT 1 / (id - 1) FROM t; SELECT 1") == ["end 3960"]


@pytest.mark.sandbox
def test_a_transaction_too_large_to_keep_says_so(
    t: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal.Journal.__init__, "__defaults__", (4096,))
    t.run("CREATE TABLE big(a int); BEGIN TRAN; INSERT big SELECT value FROM (VALUES (1)) x(value)")
    t.run("INSERT big SELECT a FROM big")
    for _ in range(12):
        t.run("INSERT big SELECT a FROM big")
    assert t.error("SELECT 1 / (a - 1) FROM big").number == 40515
    assert t.value("SELECT @@TRANCOUNT") == 0
    t.run("BEGIN TRAN; INSERT t VALUES (2, 'b', 1)")
    t.error("UPDATE t SET n = n / (id - 1)")
    t.run("COMMIT")
    assert t.value(_COUNT) == 2


def test_a_merge_is_undone_whole(t: Client) -> None:
    t.run("BEGIN TRAN; INSERT t VALUES (2, 'b', 1)")
    error = t.error(
        "MERGE t USING (VALUES (1, 9), (2, 9), (3, 1)) AS s(id, k) ON t.id = s.id "
        "WHEN MATCHED AND t.id = 2 THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id, v, n) VALUES (s.k, 'n', NULL);"
    )
    assert error.number == 2627
    t.run("COMMIT")
    assert t.rows(_ALL) == [(1,), (2,)]


# --- XACT_ABORT --------------------------------------------------------------------------------


def test_xact_abort_ends_batch_and_transaction(t: Client) -> None:
    t.run("SET XACT_ABORT ON; BEGIN TRAN; INSERT t VALUES (2, 'b', 1)")
    assert t.ending("INSERT t VALUES (1, 'x', 1); SELECT 'after'") == ["end 2627"]
    assert t.ending(f"SELECT @@TRANCOUNT; {_COUNT}") == [[0], [1]]


def test_xact_abort_does_not_mind_raiserror(t: Client) -> None:
    t.run("SET XACT_ABORT ON; BEGIN TRAN")
    assert t.ending("RAISERROR('own', 16, 1); SELECT @@TRANCOUNT") == [50000, [1]]
    assert t.ending("THROW 50001, 'own', 1") == ["end 50001"]
    assert t.value("SELECT @@TRANCOUNT") == 0


# --- TRY and CATCH -----------------------------------------------------------------------------


def test_catch_knows_the_error(t: Client) -> None:
    row = t.rows(
        "BEGIN TRY\n  SET NOCOUNT ON\n  INSERT t VALUES (1, 'x', 1)\nEND TRY\n"
        "BEGIN CATCH\n  SELECT ERROR_NUMBER(), ERROR_SEVERITY(), ERROR_STATE(), ERROR_LINE(), "
        "ERROR_PROCEDURE(), @@ERROR, ERROR_MESSAGE()\nEND CATCH"
    )[0]
    assert row[:6] == (2627, 14, 1, 3, None, 2627)
    assert row[6].startswith("Violation of PRIMARY KEY constraint")
    assert t.rows("SELECT ERROR_NUMBER(), ERROR_LINE()") == [(None, None)]


def test_an_error_among_rows_follows_them(db: Client) -> None:
    db.run("CREATE TABLE n(i int); INSERT n VALUES (0), (1), (2), (3), (4), (5), (6), (7)")
    for _ in range(5):
        db.run("DECLARE @c int; SELECT @c = COUNT(*) FROM n; INSERT n SELECT i + @c FROM n")
    many = "n AS a CROSS JOIN n AS b CROSS JOIN (VALUES (1), (2), (3), (4), (5), (6)) AS c(i)"
    db.run(f"INSERT n SELECT a.i * 256 + b.i + 1000 FROM {many}; INSERT n VALUES (-1)")
    text = "SELECT 1 / (i + 1), REPLICATE('x', 200) FROM n"
    rows, error, after = db.ending(f"{text}; SELECT 'after'")
    assert len(rows) >= session.BATCH_ROWS
    assert (error, after) == (8134, ["after"])
    rows, error, after = db.ending(
        f"BEGIN TRY {text}; SELECT 'not reached' END TRY "
        "BEGIN CATCH SELECT ERROR_NUMBER() END CATCH; SELECT 'after'"
    )
    assert len(rows) >= session.BATCH_ROWS
    assert (error, after) == ([8134], ["after"])


@pytest.mark.parametrize(
    ("failing", "state"),
    [
        ("INSERT t VALUES (1, 'x', 1)", 1),
        ("SELECT 1 / 0", 1),
        ("UPDATE t SET n = 300", 1),
        ("SELECT CAST('x' AS int)", -1),
        ("INSERT t VALUES ('x', 'v', 1)", -1),
        ("THROW 50001, 'own', 1", 1),
        ("RAISERROR('own', 16, 1)", 1),
    ],
)
def test_xact_state_says_whether_it_can_commit(t: Client, failing: str, state: int) -> None:
    t.run("BEGIN TRAN; INSERT t VALUES (2, 'b', 1)")
    batch = (
        f"BEGIN TRY {failing} END TRY "
        "BEGIN CATCH SELECT XACT_STATE() END CATCH; "
        "IF XACT_STATE() = -1 ROLLBACK ELSE COMMIT; SELECT XACT_STATE(), @@TRANCOUNT"
    )
    assert [r for r in t.ending(batch) if r] == [[state], [(0, 0)]]
    assert t.value(_COUNT) == (2 if state == 1 else 1)


def test_a_doomed_transaction_reads_and_does_not_write(t: Client) -> None:
    doom = "SET XACT_ABORT ON; BEGIN TRAN; INSERT t VALUES (2, 'b', 1); "
    doom += "BEGIN TRY INSERT t VALUES (1, 'x', 1) END TRY BEGIN CATCH "
    assert t.ending(doom + f"{_ALL}; INSERT t VALUES (3, 'c', 1) END CATCH; SELECT 1") == [
        [1, 2],
        "end 3930",
    ]
    assert t.ending(doom + "COMMIT END CATCH; SELECT 1") == ["end 3930"]
    assert t.ending(doom + "SELECT XACT_STATE() END CATCH; SELECT @@TRANCOUNT") == [[-1], [1], 3998]
    assert t.ending(f"SELECT @@TRANCOUNT; {_COUNT}") == [[0], [1]]


def test_a_throw_in_catch_goes_out_with_its_line(t: Client) -> None:
    with pytest.raises(SqlError) as caught:
        t.results("BEGIN TRY\n\nSELECT 1 / 0\nEND TRY BEGIN CATCH\nTHROW\nEND CATCH")
    assert (caught.value.number, caught.value.line) == (8134, 3)


def test_catch_blocks_nest(t: Client) -> None:
    batch = (
        "BEGIN TRY BEGIN TRY SELECT 1 / 0 END TRY BEGIN CATCH SELECT ERROR_NUMBER(); "
        "EXEC('INSERT t VALUES (1, ''x'', 1)') END CATCH END TRY "
        "BEGIN CATCH SELECT ERROR_NUMBER() END CATCH; SELECT ERROR_NUMBER()"
    )
    assert t.ending(batch) == [[8134], [2627], [None]]


def test_what_compiling_finds_is_caught_outside_its_text_only(t: Client) -> None:
    catch = "BEGIN CATCH SELECT ERROR_NUMBER() END CATCH; SELECT 'after'"
    assert t.ending(f"BEGIN TRY SELECT * FROM nosuch END TRY {catch}") == ["end 208"]
    inner = "BEGIN TRY EXEC('SELECT * FROM nosuch') END TRY "
    assert t.ending(inner + catch) == [[208], ["after"]]
    assert t.ending(f"BEGIN TRY EXEC('SELECT FROM') END TRY {catch}") == [[156], ["after"]]


def test_a_dynamic_text_ends_alone(t: Client) -> None:
    batch = "EXEC('SELECT 1; SELECT * FROM nosuch; SELECT 2'); SELECT @@ERROR; SELECT 'after'"
    assert t.ending(batch) == [[1], 208, [208], ["after"]]
    batch = "EXEC sp_executesql N'SELECT CAST(''x'' AS int)'; SELECT 'after'"
    assert t.ending(batch) == ["end 245"]


def test_at_at_error_is_the_last_statements(t: Client) -> None:
    batch = "INSERT t VALUES (1, 'x', 1); SELECT @@ERROR; SELECT @@ERROR"
    assert t.ending(batch) == [2627, [2627], [0]]


def test_throw_and_raiserror_check_themselves(t: Client) -> None:
    assert t.error("THROW 15, 'x', 1").number == 35100
    assert t.error("RAISERROR('x', 19, 1)").number == 2754
    assert t.error("THROW").number == 10704
    assert t.messages("RAISERROR('%s is %d', 10, 1, 'one', 1)") == ["one is 1"]


@pytest.mark.sandbox
def test_a_deadlocks_victim_may_look_before_it_rolls_back(t: Client) -> None:
    t.run("BEGIN TRAN; INSERT t VALUES (2, 'b', 1)")
    t.run("EXEC sandbox.fault @kind = 'deadlock', @table = 'dbo.t'")
    batch = (
        "BEGIN TRY SELECT id FROM t END TRY "
        "BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE(); ROLLBACK END CATCH; SELECT @@TRANCOUNT"
    )
    assert t.ending(batch) == [[(1205, -1)], [0]]
    t.run("BEGIN TRAN; EXEC sandbox.fault @kind = 'deadlock', @table = 'dbo.t'")
    assert t.ending("SELECT id FROM t; SELECT 1") == ["end 1205"]
    assert t.value("SELECT @@TRANCOUNT") == 0


def test_rows_counted_after_an_error(t: Client) -> None:
    found = t.outcome("UPDATE t SET n = 300; UPDATE t SET n = 1; SELECT @@ROWCOUNT")
    assert [r.rows for r in found if isinstance(r, RowCount)] == [1]
    assert not [r for r in found if isinstance(r, ResultSet)]
