"""Pieces of key ranges tile the keys, also under a collation that Python does not know."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.planning.keysets import (
    Compared,
    Key,
    KeyType,
    Piece,
    Term,
    keeps_order,
    pieces,
    range_sizes,
    ranges_between,
)

NULL_FIRST = ""


def collated(value: str | None) -> str:
    """A case-insensitive order with NULL first; the values of these tests are letters."""
    return NULL_FIRST if value is None else value.lower()


def meets(key: Key, term: Term) -> bool:
    mine, other = collated(key[term.place]), collated(term.value)
    compare: dict[Compared, Callable[[Any, Any], bool]] = {
        Compared.EQUAL: lambda a, b: a == b,
        Compared.BELOW: lambda a, b: a < b,
        Compared.ABOVE: lambda a, b: a > b,
        Compared.FROM: lambda a, b: a >= b,
    }
    return compare[term.compared](mine, other)


def order(key: Key) -> tuple[str, ...]:
    return tuple(collated(value) for value in key)


def holds(key: Key, piece: Piece) -> bool:
    return (
        all(meets(key, term) for term in piece.terms)
        and (piece.before is None or order(key) < order(piece.before))
        and (piece.beyond is None or meets(key, piece.beyond))
    )


letters = st.one_of(st.none(), st.sampled_from(list("aAbBcC")))


@pytest.mark.parametrize("columns", [1, 2, 3])
@given(data=st.data())
def test_every_key_is_in_exactly_one_piece(columns: int, data: st.DataObject) -> None:
    keys = st.tuples(*[letters] * columns)
    bounds = sorted(data.draw(st.lists(keys, max_size=4, unique_by=order)), key=order)
    key = data.draw(keys)
    cut = ranges_between(bounds)
    found = [(low, high) for low, high in cut for piece in pieces(low, high) if holds(key, piece)]
    assert len(found) == 1
    low, high = found[0]
    assert low is None or order(low) <= order(key)
    assert high is None or order(key) < order(high)


@pytest.mark.parametrize("columns", [1, 2, 3])
@given(data=st.data())
def test_what_is_above_a_key_is_without_it(columns: int, data: st.DataObject) -> None:
    keys = st.tuples(*[letters] * columns)
    lower, key = data.draw(keys), data.draw(keys)
    upper = data.draw(st.one_of(st.none(), keys.filter(lambda u: u != lower)))
    found = [piece for piece in pieces(lower, upper, Compared.ABOVE) if holds(key, piece)]
    is_inside = order(lower) < order(key) and (upper is None or order(key) < order(upper))
    assert len(found) == is_inside


@given(st.lists(st.sampled_from(list("aAbBcC")), min_size=2, max_size=6))
def test_bounds_that_the_collation_holds_for_equal_lose_and_double_nothing(
    drawn: list[str],
) -> None:
    """B-case: 'n' and 'N' as consecutive bounds make an empty range, not a second reading."""
    bounds = [(letter, str(index)) for index, letter in enumerate(sorted(drawn, key=collated))]
    for letter in "aAbBcC":
        for rest in "0123456":
            key = (letter, rest)
            found = [
                piece
                for low, high in ranges_between(bounds)
                for piece in pieces(low, high)
                if holds(key, piece)
            ]
            assert len(found) == 1


def test_an_empty_range_is_never_read() -> None:
    with pytest.raises(ValueError, match="an empty range must never be read"):
        pieces(("a", "1"), ("a", "1"))


def test_a_seek_has_equalities_and_one_range() -> None:
    shapes = [
        [(t.place, t.compared.value) for t in piece.terms]
        for piece in pieces(("1", "2", "3"), ("1", "5", "6"))
    ]
    assert shapes == [
        [(0, "="), (1, "="), (2, ">=")],
        [(0, "="), (1, ">"), (1, "<")],
        [(0, "="), (1, "="), (2, "<")],
    ]


@given(st.integers(0, 10_000), st.integers(1, 300))
def test_sizes_add_up_and_differ_by_one(rows: int, count: int) -> None:
    sizes = range_sizes(rows, count)
    assert sum(sizes) == rows
    assert len(sizes) == max(1, min(rows, count))
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("numeric(12,4)", "decimal(18,4)", True),
        ("decimal(12,4)", "decimal(12,6)", False),
        ("decimal(12,4)", "decimal(14,2)", False),
        ("varchar(20)", "varchar(21)", True),
        ("varchar(20)", "varchar(19)", False),
        ("varchar(20)", "nvarchar(20)", False),
        ("datetime2(3)", "datetime2(7)", True),
        ("float", "real", False),
    ],
)
def test_only_what_holds_more_keeps_an_order(before: str, now: str, same: bool) -> None:
    assert keeps_order(KeyType(before), KeyType(now)) is same
    assert not keeps_order(KeyType(before, "A_CI_AS"), KeyType(now, "A_BIN"))
