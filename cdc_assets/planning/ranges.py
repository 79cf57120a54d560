"""Cutting reads into ranges: of a change table by its key, of a source table by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cdc_assets.contract import Column
from cdc_assets.lsn import Lsn
from cdc_assets.planning.plans import ReadRange

Value = str | None
"""A value of a change table's key as text; None is NULL, which only a command id can be."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Neighbouring values of one key column, as the server counted their rows."""

    first: Value
    last: Value
    rows: int


@dataclass(frozen=True, slots=True)
class Seek:
    """Rows of a change table that one seek of its clustered index finds, as counted.

    `same` are values of the key's first columns, `first` and `last` a closed range of the next
    one. The key is `(start_lsn, command_id, seqval)`: the images before and after an update
    share it, so no cut comes between them.
    """

    same: tuple[Value, ...]
    first: Value
    last: Value
    rows: int

    @property
    def fixed(self) -> tuple[Value, ...]:
        """The values of the key's first columns that all of its rows have."""
        return (*self.same, self.first) if self.first == self.last else self.same

    @property
    def lsns(self) -> tuple[Lsn, Lsn]:
        """Its first and its last commit."""
        first, last = (self.same[0], self.same[0]) if self.same else (self.first, self.last)
        assert first is not None and last is not None  # noqa: S101 - no LSN is NULL
        return Lsn.parse(first), Lsn.parse(last)

    def tiled(self, tiles: Sequence[Tile]) -> list[Seek]:
        """Its parts, by a tiling of the first column that it leaves open."""
        return [Seek(self.fixed, tile.first, tile.last, tile.rows) for tile in tiles]


@dataclass(frozen=True, slots=True)
class Span:
    """What one connection reads: neighbouring seeks, and the closed LSN range they stand for.

    Spans of one commit share its LSN; else they follow each other without a hole, since other
    tables' commits lie between the rows.
    """

    first: Lsn
    last: Lsn
    seeks: tuple[Seek, ...]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(seek.rows for seek in self.seeks)


Tiler = Callable[[Seek, int], Sequence[Tile]]
"""Asks the server: a seek's rows, and in about how many tiles of the first column left open.

A value is whole in the tile its first row falls into. One with more rows than a tile, and NULL,
are tiles of their own.
"""


def cut(seek: Seek, key_columns: int, rows_max: int, tiles_of: Tiler) -> list[Seek]:
    """A seek in parts of about `rows_max` rows: by commit, in it by command, in it by row.

    A commit or a command is cut only where it has more rows alone, so that most batches ask once.
    """
    if seek.rows <= rows_max or len(seek.fixed) == key_columns:
        return [seek]
    found: list[Seek] = []
    for tile in seek.tiled(tiles_of(seek, -(-seek.rows // rows_max))):
        is_value = tile.first == tile.last
        found.extend(cut(tile, key_columns, rows_max, tiles_of) if is_value else [tile])
    return found


def range_count(rows: int, count: int, rows_min: int) -> int:
    """How many ranges of at least `rows_min` rows there are, at most `count` and at least one."""
    return max(1, min(count, rows // rows_min))


def spans(whole: Seek, seeks: Sequence[Seek], count: int, rows_min: int) -> list[Span]:
    """At most `count` spans of about as many rows, none below `rows_min`, that cover `whole`.

    `seeks` are the parts of `whole`, a range of LSNs, in the key's order.
    """
    groups = _of_enough_rows(_grouped(seeks, count), rows_min)
    found: list[Span] = []
    first, last = whole.lsns
    for group in groups:
        low, high = group[0].lsns[0], group[-1].lsns[1]
        if found:
            first = min(found[-1].last.next(), low)
        found.append(Span(first, high, tuple(group)))
    return [*found[:-1], replace(found[-1], last=last)]


def _grouped(seeks: Sequence[Seek], count: int) -> list[list[Seek]]:
    """Neighbours together, so that each of `count` groups has about as many rows."""
    total, before = sum(seek.rows for seek in seeks), 0
    groups: dict[int, list[Seek]] = {}
    for seek in seeks:
        # By its middle: what lies across a border belongs to the side with more of it.
        groups.setdefault((2 * before + seek.rows) * count // (2 * total), []).append(seek)
        before += seek.rows
    return list(groups.values())


def _of_enough_rows(groups: Sequence[list[Seek]], rows_min: int) -> list[list[Seek]]:
    """Groups merged with the next until each has enough rows, the last with the one before."""
    found: list[list[Seek]] = []
    for group in groups:
        if found and sum(seek.rows for seek in found[-1]) < rows_min:
            found[-1] = [*found[-1], *group]
        else:
            found.append(group)
    if len(found) > 1 and sum(seek.rows for seek in found[-1]) < rows_min:
        found[-2:] = [[*found[-2], *found[-1]]]
    return found


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


def shared_constants(
    columns: Sequence[Column], ranges: Sequence[ReadRange]
) -> dict[str, str | None]:
    """The columns that have one value in all ranges and are selected by none, with that value.

    Without the names of every range's columns nothing is known of what it selects.
    """
    if not ranges or not all(planned.names for planned in ranges):
        return {}
    selected = {name for planned in ranges for name in planned.names}
    first, *others = (dict(planned.constants) for planned in ranges)
    return {
        column.name: first.get(column.name)
        for column in columns
        if column.name not in selected
        and all(first.get(column.name) == other.get(column.name) for other in others)
    }


def read_columns(columns: Sequence[Column], ranges: Sequence[ReadRange]) -> tuple[Column, ...]:
    """The columns that are not shared constants: what differs by row or by range."""
    shared = shared_constants(columns, ranges)
    return tuple(column for column in columns if column.name not in shared)
