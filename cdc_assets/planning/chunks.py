"""The chunks a chunked snapshot is read in: neighbours in key order that tile the key space.

They are planned once. What the server answers comes from outside, so that the rules stand here
alone: an integer key is cut by rows counted on a grid, any other by seeks (seed 0016).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cdc_assets.errors import SettingsError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.keysets import Key, KeyType

SLICES_PER_CHUNK = 16
"""Slices of the grid for about as many rows as a chunk has."""
SLICES_MAX = 100_000
"""Slices that one count may give back."""
CHUNKS_MAX = 100_000
"""Chunks of one plan: it is held in memory, and each is at least one query."""

BIGINT_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Sizing:
    """How many rows chunks were to have, and why so many."""

    rows: int
    why: str


@dataclass(frozen=True, slots=True)
class Extent:
    """What a table is cut on, and its largest key when its snapshot was opened.

    `keys` are source names, of those `types`; without any the table is one chunk. Every key above
    `largest` came later: the changes bring it. A table without rows has the least key there is,
    all NULL.
    """

    keys: tuple[str, ...] = ()
    largest: Key = ()
    types: tuple[KeyType, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of one range of keys, from `lower` to below `upper`.

    `number` counts from 0 in key order. Bounds are typed text, as `planning.keysets.Key`; None is
    an open end, below for the first chunk alone. `rows` is what was counted when it was planned.
    """

    number: int
    lower: Key | None
    upper: Key | None
    rows: int


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """All chunks of one snapshot, in key order, as they were planned once and are never changed.

    `keys` are the source names of the columns it cuts, in the order of the bounds' values, and
    `types` theirs when it was planned: bounds hold in that order alone. `largest` is the largest
    key when the snapshot was opened, as in `Extent`. `sizing` is None where nothing tells it.
    """

    plan_id: str
    snapshot: Lsn
    keys: tuple[str, ...]
    chunks: tuple[Chunk, ...]
    largest: Key = ()
    types: tuple[KeyType, ...] = ()
    sizing: Sizing | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """Neighbouring values of an integer key, the smallest and the largest, and their rows.

    NULL is a slice of its own, without values.
    """

    low: int | None
    high: int | None
    rows: int


SlicesOf = Callable[[Slice, int], Sequence[Slice]]
"""Asks the server: a slice's rows, counted per so many neighbouring values, in key order."""


def integer_chunks(
    whole: Slice, rows_max: int, slices_of: SlicesOf, *, where: str
) -> tuple[Chunk, ...]:
    """Chunks of an integer key, of at most `rows_max` rows where no value alone has more.

    `whole` goes from the smallest key to the largest at the open, and has about as many rows; the
    last chunk ends just above. Each chunk but the last has more than half of `rows_max` rows,
    unless a value with more than that comes after it.
    """
    is_bounded = whole.high is not None and whole.high < BIGINT_MAX
    end = (str((whole.high or 0) + 1),) if is_bounded else None
    slices = _light_slices(whole, rows_max, slices_of)
    return _numbered(_packed(slices, end, rows_max), where)


def grid_width(whole: Slice, rows_max: int) -> int:
    """Neighbouring values per slice, for about 16 slices a chunk."""
    if whole.low is None or whole.high is None:
        return 1
    wanted = -(-SLICES_PER_CHUNK * whole.rows // rows_max)
    # The grid's lines are multiples of its width, so there may be one slice more; and NULL.
    # At least sixteen of them, so that not even all bigints make a width that is none.
    count = max(SLICES_PER_CHUNK, min(wanted, SLICES_MAX - 2))
    return max(1, -(-(whole.high - whole.low + 1) // count))


def _light_slices(whole: Slice, rows_max: int, slices_of: SlicesOf) -> Iterator[Slice]:
    """Slices of at most half of `rows_max` rows, or of one value.

    A heavy one is counted again on a finer grid, over the values that it has; its own smallest
    and largest value fall into different slices of that, so this ends.
    """
    for found in slices_of(whole, grid_width(whole, rows_max)):
        if found.low == found.high or found.rows <= max(1, rows_max // 2):
            yield found
        else:
            yield from _light_slices(found, rows_max, slices_of)


def _packed(
    slices: Iterable[Slice], end: Key | None, rows_max: int
) -> Iterator[tuple[Key | None, int]]:
    """Where each chunk ends, and its rows: neighbours joined while they are not too many."""
    rows = 0
    for found in slices:
        if rows and rows + found.rows > rows_max:
            yield (str(found.low),), rows
            rows = 0
        rows += found.rows
    yield end, rows


class KeySeeks(Protocol):
    """What a server is asked of a key's rows; all of it by its own order."""

    def bound(self, lower: Key | None) -> Key | None:
        """The key after a chunk's rows from `lower` on; None where that is above the largest."""
        ...

    def next(self, key: Key) -> Key | None:
        """The first key above another; None where that is above the largest."""
        ...

    def end(self) -> Key | None:
        """The first key above the largest, if there is one now."""
        ...

    def count(self, lower: Key | None, upper: Key | None) -> int:
        """How many rows there are."""
        ...


def keyset_chunks(
    seeks: KeySeeks, rows_max: int, *, is_unique: bool, where: str
) -> tuple[Chunk, ...]:
    """Chunks of any key, of `rows_max` rows each but the last; found by seeks.

    A key that is not unique is never split: then a chunk ends before a value that would be too
    many, and one value's rows alone may be more. Rows above the largest key at the open, which
    may come while this seeks, are in no chunk.
    """
    return _numbered(_sought(seeks, rows_max if is_unique else None), where)


def _sought(seeks: KeySeeks, rows: int | None) -> Iterator[tuple[Key | None, int]]:
    """Where each chunk ends, and its rows; `rows` of a unique key, which need no count."""
    lower: Key | None = None
    while (found := _next(lower, seeks, rows)) is not None:
        yield found
        lower, _ = found
    end = seeks.end()
    yield end, seeks.count(lower, end)


def _next(lower: Key | None, seeks: KeySeeks, rows: int | None) -> tuple[Key, int] | None:
    bound = seeks.bound(lower)
    if bound is None:
        return None
    counted = 0 if bound == lower else rows or seeks.count(lower, bound)
    if counted:
        return bound, counted
    # As the server compares, it is the value that the chunk begins with.
    bound = seeks.next(bound)
    return None if bound is None else (bound, seeks.count(lower, bound))


def _numbered(parts: Iterable[tuple[Key | None, int]], where: str) -> tuple[Chunk, ...]:
    """Chunks by where each ends and what it has; raises `SettingsError` for too many."""
    chunks: list[Chunk] = []
    lower: Key | None = None
    for upper, rows in parts:
        if len(chunks) == CHUNKS_MAX:
            raise SettingsError(
                f"its snapshot would have more than {CHUNKS_MAX:,} chunks",
                where=where,
                hint="Raise `chunk_rows` in tables.yaml.",
            )
        chunks.append(Chunk(len(chunks), lower, upper, rows))
        lower = upper
    return tuple(chunks)
