"""Keys that move inside one statement: what capture records of them."""

from __future__ import annotations

import pytest

from cdc_assets_tests.sandbox.harness import Client, captured, recorded

pytestmark = pytest.mark.sqlserver


@pytest.fixture
def t(db: Client) -> Client:
    db.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v varchar(10) NULL)")
    db.run("EXEC sys.sp_cdc_enable_db")
    captured(db, "t")
    return db


def moves(client: Client, count: int) -> list[tuple[object, ...]]:
    """The last statement's changes: rank of the position, operation, key, value, mask."""
    recorded(client, count)
    return client.rows(
        "SELECT DENSE_RANK() OVER (ORDER BY [__$seqval]), [__$operation], id, v, "
        "[__$update_mask] FROM cdc.dbo_t_CT WHERE [__$start_lsn] = (SELECT MAX([__$start_lsn]) "
        "FROM cdc.dbo_t_CT) ORDER BY [__$seqval], [__$operation]"
    )


def test_a_swap_of_keys_is_two_updates(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a'), (2, 'b')", "UPDATE t SET id = 3 - id")
    assert moves(t, 6) == [
        (1, 3, 1, "a", b"\x02"),
        (1, 4, 1, "b", b"\x02"),
        (2, 3, 2, "b", b"\x02"),
        (2, 4, 2, "a", b"\x02"),
    ]


@pytest.mark.sandbox
def test_keys_that_shift_leave_and_arrive_at_the_ends(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a'), (2, 'b'), (3, 'b')", "UPDATE t SET id = id + 1")
    assert moves(t, 7) == [
        (1, 1, 1, "a", b"\x03"),
        (2, 3, 2, "b", b"\x02"),
        (2, 4, 2, "a", b"\x02"),
        (3, 2, 4, "b", b"\x03"),  # and nothing for key 3, whose row is the same again
    ]


def test_keys_that_meet_nothing_stay_pairs(t: Client) -> None:
    t.run("INSERT t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    t.run("UPDATE t SET id = CASE WHEN id < 3 THEN id + 10 ELSE id END, v = v + 'x'")
    assert [row[:4] for row in moves(t, 9)] == [
        (1, 1, 1, "a"),
        (1, 2, 11, "ax"),
        (2, 1, 2, "b"),
        (2, 2, 12, "bx"),
        (3, 3, 3, "c"),
        (3, 4, 3, "cx"),
    ]


def test_keys_meet_as_their_collation_has_it(db: Client) -> None:
    db.run("CREATE TABLE t (id varchar(4) NOT NULL PRIMARY KEY, v varchar(4))")
    db.run("EXEC sys.sp_cdc_enable_db")
    captured(db, "t")
    db.run("INSERT t VALUES ('a', '1'), ('b', '2')")
    db.run("UPDATE t SET id = CASE id WHEN 'a' THEN 'B' ELSE 'A' END")
    assert [row[:4] for row in moves(db, 6)] == [
        (1, 3, "a", "1"),
        (1, 4, "A", "2"),
        (2, 3, "b", "2"),
        (2, 4, "B", "1"),
    ]
