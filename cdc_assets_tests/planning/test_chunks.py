"""Chunks tile the key space and are of about one size, whatever the keys and whoever writes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_assets.errors import SettingsError
from cdc_assets.planning.chunks import (
    BIGINT_MAX,
    CHUNKS_MAX,
    SLICES_MAX,
    Chunk,
    Slice,
    grid_width,
    integer_chunks,
    keyset_chunks,
)
from cdc_assets.planning.keysets import Key

BIGINT_MIN = -(2**63)


def grid(values: Sequence[int], nulls: int = 0) -> Callable[[Slice, int], list[Slice]]:
    """A server's counts: whole slices of a grid of multiples, of the sorted values in a range."""
    first: list[Slice] = []

    def slices_of(whole: Slice, width: int) -> list[Slice]:
        assert 1 <= width <= BIGINT_MAX, "a bigint"
        found = [] if first or not nulls else [Slice(None, None, nulls)]
        low = 0 if not first else bisect_left(values, whole.low or 0)
        first.append(whole)
        there = values[low : bisect_right(values, whole.high or 0)]
        for _, group in groupby(there, lambda value: value // width):
            members = list(group)
            found.append(Slice(members[0], members[-1], len(members)))
        assert len(found) <= SLICES_MAX
        return found

    return slices_of


def cut(values: Sequence[int], rows_max: int, *, nulls: int = 0, estimate: int | None = None):
    values = sorted(values)
    whole = Slice(values[0], values[-1], len(values) + nulls if estimate is None else estimate)
    return integer_chunks(whole, rows_max, grid(values, nulls), where="t")


def check_tiling(chunks: Sequence[Chunk]) -> None:
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    assert chunks[0].lower is None
    for one, other in pairwise(chunks):
        assert one.upper is not None
        assert one.upper == other.lower


def members(chunk: Chunk, values: Sequence[int]) -> list[int]:
    low = BIGINT_MIN if chunk.lower is None else int(chunk.lower[0] or 0)
    high = BIGINT_MAX + 1 if chunk.upper is None else int(chunk.upper[0] or 0)
    return [value for value in values if low <= value < high]


cluster = st.builds(
    lambda start, count, step: [start + step * i for i in range(count)],
    st.integers(-(10**6), 10**6),
    st.integers(1, 60),
    st.sampled_from([1, 1, 2, 1000]),
)
sentinel = st.sampled_from([BIGINT_MIN, BIGINT_MIN + 1, -1, 0, 1, BIGINT_MAX - 1, BIGINT_MAX])
sparse = st.integers(BIGINT_MIN, BIGINT_MAX)
tables = st.lists(
    st.one_of(cluster, sentinel.map(lambda v: [v]), sparse.map(lambda v: [v])), min_size=1
).map(lambda parts: [value for part in parts for value in part])


@given(tables, st.integers(1, 40), st.sampled_from([None, 0, 10**6]))
def test_an_integer_key_is_cut_by_counts(
    table: list[int], rows_max: int, estimate: int | None
) -> None:
    """Dense clusters, sparse regions and sentinels, whatever the server's metadata says."""
    values = sorted(set(table))
    chunks = cut(values, rows_max, estimate=estimate)
    check_tiling(chunks)
    sizes = [len(members(chunk, values)) for chunk in chunks]
    assert sizes == [chunk.rows for chunk in chunks]
    assert sum(sizes) == len(values)
    assert max(sizes) <= rows_max
    assert all(2 * size >= rows_max for size in sizes[:-1])


@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=200), st.integers(1, 40), st.integers(0, 9)
)
def test_a_value_that_many_rows_have_is_not_split(
    table: list[int], rows_max: int, nulls: int
) -> None:
    """A table without a unique index, cut on a column where NULLs are in the first chunk."""
    values = sorted(table)
    chunks = cut(values, rows_max, nulls=nulls)
    check_tiling(chunks)
    for chunk in chunks:
        inside = members(chunk, values)
        assert chunk.rows == len(inside) + (nulls if chunk.number == 0 else 0)
        if chunk.rows > rows_max:
            assert len(set(inside)) == (0 if chunk.number == 0 and nulls > rows_max else 1)
    assert sum(chunk.rows for chunk in chunks) == len(values) + nulls
    for one, other in pairwise(chunks):
        assert one.rows + other.rows > rows_max, "neighbours are joined while they fit"


def test_a_sentinel_joins_its_neighbours_and_a_cluster_is_split() -> None:
    values = [-1, *range(10**9, 10**9 + 1000), 2**31 - 1]
    chunks = cut(values, 250)
    sizes = [len(members(chunk, values)) for chunk in chunks]
    assert sizes == [241, 240, 240, 240, 41]
    assert chunks[-1].upper == (str(2**31),), "just above the largest"


def test_rows_are_counted_again_where_they_are_dense_alone() -> None:
    def counted(values: Sequence[int]) -> list[tuple[int | None, int | None]]:
        asked: list[tuple[int | None, int | None]] = []
        slices_of = grid(values)

        def slices(whole: Slice, width: int) -> list[Slice]:
            asked.append((whole.low, whole.high))
            return slices_of(whole, width)

        whole = Slice(values[0], values[-1], len(values))
        check_tiling(integer_chunks(whole, 100, slices, where="t"))
        return asked

    assert counted(range(0, 70_000, 7)) == [(0, 69_993)], "once"
    dense = [0, *range(500_000, 501_000), 10**6]
    assert counted(dense) == [(0, 10**6), (500_000, 500_999)]


def test_no_number_leaves_a_bigint() -> None:
    chunks = cut([BIGINT_MIN, 0, BIGINT_MAX], 1, estimate=0)
    assert [chunk.lower for chunk in chunks] == [None, ("0",), (str(BIGINT_MAX),)]
    assert chunks[-1].upper is None, "nothing is above it"
    assert grid_width(Slice(BIGINT_MIN, BIGINT_MAX, 0), 1) <= BIGINT_MAX


def test_a_count_gives_back_no_more_than_its_limit() -> None:
    width = grid_width(Slice(-5, 10**12, 10**12), 1)
    assert (10**12 + 5) // width + 2 <= SLICES_MAX


def test_what_is_gone_by_now_is_an_empty_chunk() -> None:
    assert integer_chunks(Slice(None, 41, 9), 5, grid([]), where="t") == (
        Chunk(0, None, ("42",), 0),
    )
    assert integer_chunks(Slice(50, 41, 9), 5, grid([50, 51]), where="t") == (
        Chunk(0, None, ("42",), 0),
    )


def test_too_many_chunks_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"t: .* more than 100,000 chunks.*Raise `chunk_rows`"):
        cut(range(CHUNKS_MAX + 1), 1)


@dataclass
class Keys:
    """A server's seeks over keys of letters, which compare without case; NULL first."""

    keys: list[Key]
    largest: Key
    rows: int
    later: list[Key] = field(default_factory=list)
    """They come one by one, each before a seek for a bound."""

    @staticmethod
    def order(key: Key) -> tuple[str, ...]:
        return tuple("" if value is None else value.lower() for value in key)

    def between(self, lower: Key | None, upper: Key | None) -> list[Key]:
        assert lower is None or lower != upper, "an empty range must never be read"
        return [
            key
            for key in sorted(self.keys, key=self.order)
            if (lower is None or self.order(lower) <= self.order(key))
            and (upper is None or self.order(key) < self.order(upper))
        ]

    def until_largest(self, key: Key | None) -> Key | None:
        return None if key is None or self.order(key) > self.order(self.largest) else key

    def bound(self, lower: Key | None) -> Key | None:
        if self.later:
            self.keys.append(self.later.pop(0))
        return self.until_largest(next(iter(self.between(lower, None)[self.rows :]), None))

    def above(self, key: Key) -> Key | None:
        found = (k for k in self.between(key, None) if self.order(k) > self.order(key))
        return next(found, None)

    def next(self, key: Key) -> Key | None:
        return self.until_largest(self.above(key))

    def end(self) -> Key | None:
        return self.above(self.largest)

    def count(self, lower: Key | None, upper: Key | None) -> int:
        return len(self.between(lower, upper))


letter = st.one_of(st.none(), st.sampled_from("aAbBcCnNzZ"))


def check_keyset(chunks: Sequence[Chunk], keys: Sequence[Key], server: Keys) -> list[list[Key]]:
    check_tiling(chunks)
    for one, other in pairwise(chunks[1:]):
        assert server.order(one.lower or ()) < server.order(other.lower or ())
    found = [[k for k in server.between(c.lower, c.upper) if k in keys] for c in chunks]
    assert sum(map(len, found)) == len(keys)
    return found


@given(st.lists(st.tuples(letter, letter), unique_by=Keys.order), st.integers(1, 9))
def test_a_unique_key_is_cut_by_seeks(keys: list[Key], rows_max: int) -> None:
    server = Keys(list(keys), max(keys, key=Keys.order, default=(None, None)), rows_max)
    chunks = keyset_chunks(server, rows_max, is_unique=True, where="t")
    found = check_keyset(chunks, keys, server)
    assert [chunk.rows for chunk in chunks] == [len(rows) for rows in found]
    assert all(len(rows) == rows_max for rows in found[:-1])
    assert len(found[-1]) <= rows_max


@given(st.lists(st.tuples(letter)), st.integers(1, 9))
@example([("n",)] * 3 + [("N",)] * 3 + [("z",)], 2)
def test_values_that_many_rows_have_are_never_split(keys: list[Key], rows_max: int) -> None:
    """A bound that the server holds for the one before it, like 'n' and 'N', is moved on."""
    server = Keys(list(keys), max(keys, key=Keys.order, default=(None,)), rows_max)
    chunks = keyset_chunks(server, rows_max, is_unique=False, where="t")
    found = check_keyset(chunks, keys, server)
    for chunk, rows in zip(chunks, found, strict=True):
        assert chunk.rows == len(rows)
        assert len(rows) <= rows_max or len({Keys.order(key) for key in rows}) == 1
    for one, other in pairwise(found):
        assert len(one) + len(other) > rows_max


@given(st.integers(0, 30), st.integers(1, 9), st.integers(0, 40))
def test_a_table_that_grows_at_the_top_while_it_is_planned(
    rows: int, rows_max: int, later: int
) -> None:
    """B070: what came above the largest key at the open is in no chunk."""
    names = [(f"{number:03d}",) for number in range(rows + later)]
    largest: Key = names[rows - 1] if rows else (None,)
    server = Keys(list(names[:rows]), largest, rows_max, later=list(names[rows:]))
    chunks = keyset_chunks(server, rows_max, is_unique=True, where="t")
    assert len(chunks) == max(1, -(-rows // rows_max))
    assert sum(chunk.rows for chunk in chunks) == rows
    assert chunks[-1].upper == (names[rows] if later else None)
