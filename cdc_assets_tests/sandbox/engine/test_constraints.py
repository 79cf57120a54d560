"""CHECK and FOREIGN KEY constraints: Msg 547 in SQL Server's words, and what they hinder."""

from __future__ import annotations

import pytest

from cdc_assets_tests.sandbox.harness import Client, captured, recorded

pytestmark = pytest.mark.sqlserver


@pytest.fixture
def p(db: Client) -> Client:
    """A parent with two rows, and a child with one."""
    db.run(
        "CREATE TABLE parent(id int NOT NULL PRIMARY KEY, name varchar(9) CONSTRAINT uq UNIQUE)",
        "CREATE TABLE child(id int NOT NULL PRIMARY KEY, amount int CONSTRAINT positive CHECK "
        "(amount > 0), parent int CONSTRAINT fk REFERENCES parent(id), other int, "
        "CONSTRAINT ordered CHECK (other IS NULL OR other >= amount))",
        "INSERT parent VALUES (1, 'a'), (2, 'b')",
        "INSERT child VALUES (1, 5, 1, NULL)",
    )
    return db


def test_a_key_on_a_computed_column(db: Client) -> None:
    """B043: written with its column, as elsewhere in the table."""
    db.run(
        "CREATE TABLE t(a int NOT NULL, k AS ('K' + CAST(a AS varchar(10))) PERSISTED"
        " CONSTRAINT pk PRIMARY KEY, u AS a * 2 PERSISTED NOT NULL UNIQUE)",
        "INSERT t (a) VALUES (1), (2)",
    )
    assert db.rows("SELECT a, k, u FROM t ORDER BY a") == [(1, "K1", 2), (2, "K2", 4)]
    assert db.error("INSERT t (a) VALUES (2)").number == 2627
    assert db.error("CREATE TABLE w(a int, b AS a CONSTRAINT pk)").number == 102


def test_a_check(p: Client) -> None:
    error = p.error("INSERT child VALUES (2, 0, NULL, NULL)")
    assert (error.number, error.severity, error.state) == (547, 16, 0)
    assert error.text == (
        'The INSERT statement conflicted with the CHECK constraint "positive". The conflict '
        f'occurred in database "{p.database}", table "dbo.child", column \'amount\'.'
    )
    error = p.error("UPDATE child SET other = 1")
    assert error.text == (
        'The UPDATE statement conflicted with the CHECK constraint "ordered". The conflict '
        f'occurred in database "{p.database}", table "dbo.child".'
    )
    p.run("INSERT child VALUES (3, NULL, NULL, NULL)")  # unknown passes
    assert p.rows("SELECT id, other FROM child ORDER BY id") == [(1, None), (3, None)]


def test_a_foreign_key(p: Client) -> None:
    error = p.error("INSERT child VALUES (2, 1, 9, NULL)")
    assert (error.number, error.text) == (
        547,
        'The INSERT statement conflicted with the FOREIGN KEY constraint "fk". The conflict '
        f'occurred in database "{p.database}", table "dbo.parent", column \'id\'.',
    )
    error = p.error("DELETE parent WHERE id = 1")
    assert error.text == (
        'The DELETE statement conflicted with the REFERENCE constraint "fk". The conflict '
        f'occurred in database "{p.database}", table "dbo.child", column \'parent\'.'
    )
    assert p.error("UPDATE parent SET id = 7 WHERE id = 1").number == 547
    assert p.error("UPDATE child SET parent = 3").number == 547
    p.run("UPDATE parent SET name = 'z' WHERE id = 1; DELETE parent WHERE id = 2")
    p.run("INSERT child VALUES (2, 1, NULL, NULL); UPDATE child SET parent = 1")
    assert p.rows("SELECT id, parent FROM child ORDER BY id") == [(1, 1), (2, 1)]
    assert p.rows("SELECT id, name FROM parent") == [(1, "z")]


def test_a_permutation_of_referenced_keys_is_no_conflict(p: Client) -> None:
    p.run("UPDATE parent SET id = 3 - id")
    assert p.rows("SELECT id, name FROM parent ORDER BY id") == [(1, "b"), (2, "a")]


def test_a_table_may_reference_itself(db: Client) -> None:
    db.run("CREATE TABLE node(id int PRIMARY KEY, up int REFERENCES node)")
    db.run("INSERT node VALUES (1, 2), (2, 1)")
    error = db.error("INSERT node VALUES (3, 4)")
    assert "FOREIGN KEY SAME TABLE" in error.text
    assert "SAME TABLE REFERENCE" in db.error("DELETE node WHERE id = 1").text
    db.run("DELETE node")


def test_several_columns_and_collation(db: Client) -> None:
    db.run("CREATE TABLE a(k varchar(5), n int, CONSTRAINT pa PRIMARY KEY (k, n))")
    db.run("CREATE TABLE b(n int, k varchar(5), FOREIGN KEY (k, n) REFERENCES a(k, n))")
    db.run("INSERT a VALUES ('Key', 1); INSERT b VALUES (1, 'KEY'), (NULL, 'x'), (7, NULL)")
    error = db.error("INSERT b VALUES (2, 'Key')")
    assert error.number == 547
    assert "column" not in error.text
    assert db.error("DELETE a").number == 547


def test_the_transaction_and_capture_see_nothing_of_it(p: Client) -> None:
    p.run("EXEC sys.sp_cdc_enable_db")
    captured(p, "child")
    p.run("BEGIN TRAN; INSERT child VALUES (5, 1, 1, NULL)")
    assert p.ending("INSERT child VALUES (6, 1, 1, NULL), (7, 1, 9, NULL); SELECT @@TRANCOUNT") == [
        547,
        [1],
    ]
    p.run("COMMIT")
    assert p.rows("SELECT id FROM child ORDER BY id") == [(1,), (5,)]
    recorded(p, 1, "dbo_child")
    assert p.rows("SELECT id FROM cdc.dbo_child_CT") == [(5,)]


def test_two_transactions_cannot_break_it_together(p: Client) -> None:
    other = p.another()
    p.run("BEGIN TRAN; INSERT child VALUES (2, 1, 2, NULL)")
    other.run("DELETE parent WHERE id = 2")
    assert p.error("COMMIT").number == 3960
    assert p.rows("SELECT id FROM child") == [(1,)]


def test_constraints_come_and_go(p: Client) -> None:
    error = p.error("ALTER TABLE child ADD CONSTRAINT small CHECK (amount < 3)")
    assert error.text.startswith("The ALTER TABLE statement conflicted with the CHECK constraint")
    p.run("ALTER TABLE child WITH CHECK ADD CONSTRAINT big CHECK (amount >= 5)")
    assert p.error("INSERT child VALUES (2, 4, NULL, NULL)").number == 547
    p.run("ALTER TABLE child DROP CONSTRAINT big; INSERT child VALUES (2, 4, NULL, NULL)")
    p.run("ALTER TABLE child DROP CONSTRAINT fk; INSERT child VALUES (3, 4, 99, NULL)")
    assert p.error("ALTER TABLE child ADD FOREIGN KEY (parent) REFERENCES parent").number == 547


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("DROP TABLE parent", 3726),
        ("TRUNCATE TABLE parent", 4712),
        ("ALTER TABLE child DROP COLUMN amount", 5074),
        ("ALTER TABLE child ALTER COLUMN parent bigint", 5074),
        ("ALTER TABLE child ADD CONSTRAINT fk CHECK (id > 0)", 2714),
        ("ALTER TABLE child ADD CONSTRAINT x CHECK (nosuch > 0)", 207),
        ("ALTER TABLE child ADD CONSTRAINT x CHECK (id IN (SELECT 1))", 1046),
        ("CREATE TABLE x(a int REFERENCES nosuch)", 1767),
        ("CREATE TABLE x(a int REFERENCES child(other))", 1776),
        ("CREATE TABLE x(a bigint REFERENCES parent)", 1778),
        ("CREATE TABLE x(a int, b int, FOREIGN KEY (a, b) REFERENCES parent(id))", 8139),
        ("CREATE TABLE x(a int, FOREIGN KEY (nosuch) REFERENCES parent)", 1769),
    ],
)
def test_what_is_refused(p: Client, text: str, number: int) -> None:
    assert p.error(text).number == number
    assert p.value("SELECT COUNT(*) FROM child") == 1


def test_a_key_that_is_referenced_stays(db: Client) -> None:
    db.run("CREATE TABLE a(k int CONSTRAINT pk PRIMARY KEY); CREATE TABLE b(k int REFERENCES a)")
    assert db.error("ALTER TABLE a DROP CONSTRAINT pk").number == 3725
    db.run("DROP TABLE b; ALTER TABLE a DROP CONSTRAINT pk; DROP TABLE a")
