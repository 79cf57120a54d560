"""Cutting reads into ranges: of a change table by LSN, of a source table by key."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.lsn import Lsn

ROWS_PER_RANGE_MIN = 50_000
"""A range smaller than this is not worth a connection of its own."""


def change_ranges(
    first: Lsn, last: Lsn, tiles: Sequence[tuple[Lsn, int]]
) -> list[tuple[Lsn, Lsn, int]]:
    """Closed LSN ranges and their rows from a tiling of the change table's own rows.

    `tiles` are each tile's last LSN and rows, in order. A commit that spans tiles stays whole,
    and neighbours are merged until a range holds `ROWS_PER_RANGE_MIN` rows.
    """
    ranges: list[tuple[Lsn, Lsn, int]] = []
    start, rows = first, 0
    ends = _distinct_ends(tiles)
    for index, (end, count) in enumerate(ends):
        rows += count
        is_last = index == len(ends) - 1
        if is_last or rows >= ROWS_PER_RANGE_MIN:
            ranges.append((start, last if is_last else end, rows))
            start, rows = end.next(), 0
    if len(ranges) > 1 and ranges[-1][2] < ROWS_PER_RANGE_MIN:
        (low, _, fewer), (_, high, rest) = ranges[-2:]
        ranges[-2:] = [(low, high, fewer + rest)]
    return ranges


def _distinct_ends(tiles: Sequence[tuple[Lsn, int]]) -> list[tuple[Lsn, int]]:
    """Tiles of one commit share their last LSN: they are one."""
    merged: list[tuple[Lsn, int]] = []
    for end, count in tiles:
        if merged and merged[-1][0] == end:
            merged[-1] = (end, merged[-1][1] + count)
        else:
            merged.append((end, count))
    return merged


def integer_ranges(
    low: int | None, high: int | None, count: int
) -> list[tuple[int | None, int | None]]:
    """Uniform key ranges [from, to) over low..high; None is an open end.

    The outer ends are open, since rows outside arrive while the ranges are read. At most one
    range per key value; an empty table is one range.
    """
    if low is None or high is None or count <= 1 or high == low:
        return [(None, None)]
    span = high - low + 1
    count = min(count, span)
    cuts = [low + span * i // count for i in range(1, count)]
    return list(zip([None, *cuts], [*cuts, None], strict=True))
