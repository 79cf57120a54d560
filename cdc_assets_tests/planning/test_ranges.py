"""Ranges tile what they cut: nothing missing, nothing twice."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.contract import Column
from cdc_assets.lsn import Lsn
from cdc_assets.planning.keysets import range_sizes
from cdc_assets.planning.plans import ReadRange
from cdc_assets.planning.ranges import (
    Seek,
    Tile,
    Tiler,
    cut,
    integer_ranges,
    range_count,
    shared_constants,
    spans,
)

Row = tuple[str, str | None, str]
"""A change row's place: commit, command, row of it; the two images of an update share one."""


def lsn(number: int) -> str:
    return str(Lsn.of_int(number))


def tiles_of(rows: Sequence[Row], columns: tuple[int, ...]) -> Tiler:
    """The server's NTILE, over rows that have these columns of the key."""

    def ask(seek: Seek, count: int) -> list[Tile]:
        of = [row for row in rows if holds(seek, row, columns)]
        place = columns[len(seek.fixed)]
        counts = Counter(row[place] for row in of)
        ntile = [i for i, size in enumerate(range_sizes(len(of), count)) for _ in range(size)]
        size_max, before = -(-len(of) // count), 0
        found: dict[tuple[int, bool], list[str | None]] = {}
        for value in sorted(counts, key=lambda v: (v is not None, v)):
            tile = -1 if value is None else ntile[before]
            found.setdefault((tile, counts[value] > size_max), []).append(value)
            before += counts[value]
        return [
            Tile(values[0], values[-1], sum(counts[v] for v in values)) for values in found.values()
        ]

    return ask


def holds(seek: Seek, row: Row, columns: tuple[int, ...]) -> bool:
    """What the seek's T-SQL says of a row."""
    values = [row[place] for place in columns]
    if tuple(values[: len(seek.same)]) != seek.same:
        return False
    value = values[len(seek.same)]
    if seek.first is None or value is None:
        return seek.first is value
    assert seek.last is not None
    return seek.first <= value <= seek.last


commands = st.one_of(st.none(), st.integers(1, 3).map(str))
change_rows = st.lists(
    st.tuples(
        st.integers(10, 14).map(lsn), commands, st.integers(1, 9).map(lsn), st.sampled_from([1, 2])
    ),
    min_size=1,
    max_size=60,
)


@pytest.mark.parametrize("columns", [(0, 1, 2), (0, 2)], ids=["command", "old"])
@given(given_rows=change_rows, count=st.integers(1, 8), rows_min=st.integers(1, 9))
def test_spans_read_every_change_once_and_in_order(
    columns: tuple[int, ...], given_rows: list[tuple[str, str | None, str, int]],
    count: int, rows_min: int,
) -> None:  # fmt: skip
    """B047; B032: an update's two images stay together. With NULL commands among others, too."""
    rows: list[Row] = [row[:3] for row in given_rows for _ in range(row[3])]
    whole = Seek((), lsn(1), lsn(99), len(rows))
    wanted = range_count(len(rows), count, rows_min)
    rows_max = -(-len(rows) // wanted)
    seeks = cut(whole, len(columns), rows_max, tiles_of(rows, columns))
    found = spans(whole, seeks, wanted, rows_min)

    assert 1 <= len(found) <= wanted
    assert len(found) == 1 or all(span.rows >= rows_min for span in found)
    for span in found:
        for seek in span.seeks:
            assert seek.rows == sum(holds(seek, row, columns) for row in rows)
            assert span.first <= seek.lsns[0] <= seek.lsns[1] <= span.last
    flat = [seek for span in found for seek in span.seeks]
    assert all(sum(holds(seek, row, columns) for seek in flat) == 1 for row in rows)
    assert (found[0].first, found[-1].last) == (Lsn.of_int(1), Lsn.of_int(99))
    for before, after in pairwise(found):
        assert after.first in (before.last, before.last.next())
    read = [sorted(order(row, columns) for row in rows if holds(s, row, columns)) for s in flat]
    assert all(max(before) < min(after) for before, after in pairwise(read))


def order(row: Row, columns: tuple[int, ...]) -> list[tuple[bool, str]]:
    """NULL comes first, as on the server."""
    return [(row[place] is not None, row[place] or "") for place in columns]


@pytest.mark.parametrize("pieces", [1, 3, 8])
def test_one_statement_over_many_rows_is_cut_by_row(pieces: int) -> None:
    """B047: one commit, one command."""
    rows: list[Row] = [(lsn(5), "1", lsn(n)) for n in range(1, 1001) for _ in range(2)]
    whole = Seek((), lsn(1), lsn(9), len(rows))
    seeks = cut(whole, 3, -(-len(rows) // pieces), tiles_of(rows, (0, 1, 2)))
    found = spans(whole, seeks, pieces, 1)
    assert [span.rows for span in found] == [
        2 * size for size in range_sizes(len(rows) // 2, pieces)
    ]
    assert pieces == 1 or all(span.seeks[0].same == (lsn(5), "1") for span in found)


def test_more_pieces_than_rows() -> None:
    rows: list[Row] = [(lsn(5), "1", lsn(1)), (lsn(5), "1", lsn(1)), (lsn(5), "1", lsn(2))]
    whole = Seek((), lsn(1), lsn(9), 3)
    count = range_count(3, 8, 1)
    found = spans(whole, cut(whole, 3, 1, tiles_of(rows, (0, 1, 2))), count, 1)
    assert [span.rows for span in found] == [2, 1]


def test_a_commit_across_a_tile_stays_in_one_piece_and_is_counted_there() -> None:
    """A tile ends within the second commit: its rows beyond belong to it all the same."""
    rows: list[Row] = [(lsn(n), "1", lsn(i)) for n in (1, 2, 3) for i in range(1, 41)]
    whole = Seek((), lsn(1), lsn(3), 120)
    found = spans(whole, cut(whole, 3, 60, tiles_of(rows, (0, 1, 2))), 2, 1)
    assert [span.rows for span in found] in ([80, 40], [40, 80])


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


COLUMNS = tuple(Column(name, "STRING") for name in ("id", "_lsn", "_batch", "_chunk"))


def test_a_column_is_shared_where_no_range_selects_it_and_all_have_its_value() -> None:
    """A column that a range leaves to NULL has no value another may share."""
    one = ReadRange("a", constants=(("_lsn", "0x1"), ("_batch", "1")), names=("id",))
    other = ReadRange("b", constants=(("_lsn", "0x1"), ("_batch", "2")), names=("id",))
    bare = ReadRange("c", constants=(("_batch", "1"),), names=("id",))
    read = ReadRange("d", constants=(("_lsn", "0x1"),), names=("id", "_lsn", "_batch"))
    assert shared_constants(COLUMNS, (one,)) == {"_lsn": "0x1", "_batch": "1", "_chunk": None}
    assert shared_constants(COLUMNS, (one, other)) == {"_lsn": "0x1", "_chunk": None}
    assert shared_constants(COLUMNS, (one, bare)) == {"_batch": "1", "_chunk": None}
    assert shared_constants(COLUMNS, (one, read)) == {"_chunk": None}


def test_nothing_is_shared_where_a_range_does_not_say_what_it_selects() -> None:
    named = ReadRange("a", constants=(("_lsn", "0x1"),), names=("id",))
    assert shared_constants(COLUMNS, (named, ReadRange("b"))) == {}
    assert shared_constants(COLUMNS, ()) == {}
