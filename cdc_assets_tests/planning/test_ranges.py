"""Ranges tile what they cut: nothing missing, nothing twice."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.lsn import Lsn
from cdc_assets.planning.ranges import ROWS_PER_RANGE_MIN, change_ranges, integer_ranges

tiles = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 2 * ROWS_PER_RANGE_MIN)), min_size=1, max_size=12
)


@given(tiles, st.integers(0, 50))
def test_change_ranges_tile_the_range(steps: list[tuple[int, int]], beyond: int) -> None:
    at, given_tiles = 100, []
    for step, rows in steps:
        at += step
        given_tiles.append((Lsn.of_int(at), rows))
    first, last = Lsn.of_int(1), Lsn.of_int(at + beyond)
    ranges = change_ranges(first, last, given_tiles)
    assert ranges[0][0] == first
    assert ranges[-1][1] == last
    assert all(a[1].next() == b[0] for a, b in pairwise(ranges))
    assert sum(rows for _, _, rows in ranges) == sum(rows for _, rows in given_tiles)
    assert len(ranges) == 1 or all(rows >= ROWS_PER_RANGE_MIN for _, _, rows in ranges)


@given(st.integers(-1000, 1000), st.integers(0, 3000), st.integers(1, 16))
def test_integer_ranges_hold_every_key_once(low: int, span: int, count: int) -> None:
    ranges = integer_ranges(low, low + span, count)
    assert 1 <= len(ranges) <= count
    for key in (low - 10, low, low + span // 2, low + span, low + span + 10):
        holding = [
            r for r in ranges if (r[0] is None or key >= r[0]) and (r[1] is None or key < r[1])
        ]
        assert len(holding) == 1


def test_an_empty_table_is_one_range() -> None:
    assert integer_ranges(None, None, 8) == [(None, None)]


def test_integer_ranges_at_the_limits_of_bigint() -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    ranges = integer_ranges(low, high, 8)
    assert len(ranges) == 8
    assert all(low < cut < high for cut, _ in ranges[1:] if cut is not None)
