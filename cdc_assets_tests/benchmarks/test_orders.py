"""The statements of the measured table: as many rows and changes as they promise."""

from __future__ import annotations

import re

import pytest

from benchmarks.orders import TRANSACTIONS, Orders


def keys(pattern: str, statements: list[str]) -> list[int]:
    return [
        int(key)
        for text in statements
        for found in re.findall(pattern, text)
        for key in found.split(", ")
    ]


@pytest.mark.parametrize("rows", [1, 999, 1_000, 1_001, 5_000])
def test_loading_gives_exactly_so_many_rows(rows: int) -> None:
    orders = Orders()
    statements = list(orders.load(rows))
    assert orders.rows == rows
    copied = sum(
        int(limit) for text in statements for limit in re.findall(r"order_id <= (\d+)", text)
    )
    assert statements[0].count("(", statements[0].index("VALUES")) + copied == rows


def test_a_batch_changes_each_row_at_most_once_a_transaction() -> None:
    orders = Orders()
    list(orders.load(2_000))
    statements = list(orders.changes(1_000))
    assert len(statements) == TRANSACTIONS
    updated = keys(r"WHERE order_id IN \(([^)]*)\); DELETE", statements)
    deleted = keys(r"DELETE FROM dbo\.\w+ WHERE order_id IN \(([^)]*)\)", statements)
    inserted = sum(text.count("'O'") for text in statements)
    assert (inserted, len(updated), len(deleted)) == (200, 700, 100)
    assert len(set(deleted)) == 100
    assert orders.rows == 2_000 + 200 - 100


def test_a_key_that_is_gone_is_never_changed_again() -> None:
    orders = Orders()
    list(orders.load(1_000))
    gone: set[int] = set()
    for text in [text for _ in range(3) for text in orders.changes(1_000)]:
        touched = keys(r"order_id IN \(([^)]*)\)", [text])
        assert not gone & set(touched)
        gone |= set(keys(r"DELETE FROM dbo\.\w+ WHERE order_id IN \(([^)]*)\)", [text]))


def test_the_same_seed_gives_the_same_statements() -> None:
    one, two = Orders(seed=3), Orders(seed=3)
    assert list(one.load(1_500)) == list(two.load(1_500))
    assert list(one.changes(100)) == list(two.changes(100))
