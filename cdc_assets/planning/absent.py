"""Which of silver's keys a wave has found to be gone: ranges of the key, and the stamp of each.

A chunk saw every commit up to its stamp. So a key of its range that it does not hold, and whose
image in silver is older than the stamp, was deleted (seed 0019, Amendment 2). Only a key that Spark
and Arrow order as SQL Server does is compared: one integer, date or time of day-and-date column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from cdc_assets.contract import Column
from cdc_assets.lsn import Lsn
from cdc_assets.planning.applying import ToldWave
from cdc_assets.planning.chunks import BIGINT_MAX, Chunk
from cdc_assets.planning.columns import find_name
from cdc_assets.planning.keysets import Key, KeyType

ABSENT_RANGES_MAX = 32
"""Ranges of one MERGE; more become fewer, of the lowest stamp: the later ones' stale keys with
images between the two stamps wait for the rebuild."""

_MICROSECOND = timedelta(microseconds=1)
_TYPES = {
    "integer": ("SMALLINT", "INT", "BIGINT"),
    "date": ("DATE",),
    "datetime": ("TIMESTAMP_NTZ",),
    "smalldatetime": ("TIMESTAMP_NTZ",),
    "datetime2": ("TIMESTAMP_NTZ",),
}
"""What a key is in silver, by what the server orders it by."""

KeyValue = int | date | datetime


@dataclass(frozen=True, slots=True)
class AbsentRange:
    """Keys from `lower` to below `upper` that a wave read under `stamp`; None is an open end."""

    lower: KeyValue | None
    upper: KeyValue | None
    stamp: Lsn


@dataclass(frozen=True, slots=True)
class ChunkRanges:
    """Chunks of a plan by number, and the columns that it cuts, by their source names."""

    keys: tuple[str, ...]
    types: tuple[KeyType, ...]
    chunks: Mapping[int, Chunk]


def range_key(
    keys: Sequence[str],
    snapshot_keys: Sequence[str],
    cut: ChunkRanges,
    columns: Iterable[Column],
    renamed: Mapping[str, str],
) -> Column | None:
    """Silver's key, where ranges of it may be deleted; None elsewhere.

    It is the snapshot's own, of one column, which the plan cuts, and of a type with one order
    everywhere. `renamed` gives a source column its name in the lake.
    """
    if len(keys) != 1 or tuple(keys) != tuple(snapshot_keys) or len(cut.keys) != 1:
        return None
    if find_name(renamed.get(cut.keys[0], cut.keys[0]), keys) is None:
        return None
    types = _TYPES.get(cut.types[0].kind, ())
    return next((c for c in columns if c.name == keys[0] and c.type in types), None)


def absent_ranges(waves: Iterable[ToldWave], cut: ChunkRanges) -> tuple[AbsentRange, ...]:
    """The ranges that these waves have read, in the order of the key; neighbours of one stamp join.

    A chunk whose range the plan does not have is left out: its keys wait for the rebuild.
    """
    kind = cut.types[0].kind
    found: list[_Run] = []
    for wave in waves:
        for number in wave.chunks:
            chunk = cut.chunks.get(number)
            read = None if chunk is None else _range(chunk, kind, wave.stamp)
            if read is None:
                continue
            run = _Run(number, number, read)
            if found and found[-1].read.stamp == wave.stamp and found[-1].is_before(run):
                run = found.pop().joined(run)
            found.append(run)
    return tuple(run.read for run in _fewer(found))


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring chunks, the first and the last, and their range."""

    first: int
    last: int
    read: AbsentRange

    def is_before(self, other: _Run) -> bool:
        """Whether there is no chunk between the two."""
        return self.last + 1 == other.first

    def joined(self, other: _Run) -> _Run:
        """Both, under the lower stamp: what is gone at the higher one is older than that, too."""
        stamp = min(self.read.stamp, other.read.stamp)
        return _Run(self.first, other.last, AbsentRange(self.read.lower, other.read.upper, stamp))


def _fewer(runs: list[_Run]) -> list[_Run]:
    """No more than `ABSENT_RANGES_MAX`: each of as many neighbours as it takes."""
    each = -(-len(runs) // ABSENT_RANGES_MAX)
    found: list[_Run] = []
    size = 0
    for run in runs:
        if found and size < each and found[-1].is_before(run):
            found[-1], size = found[-1].joined(run), size + 1
        else:
            found.append(run)
            size = 1
    # Only of chunks that are no neighbours can there be more; those wait for the rebuild.
    return found[:ABSENT_RANGES_MAX]


def _range(chunk: Chunk, kind: str, stamp: Lsn) -> AbsentRange | None:
    """What a chunk surely read; None for nothing."""
    if chunk.upper is not None and chunk.upper[0] is None:
        return None
    try:
        lower = _value(chunk.lower, kind, is_lower=True)
        return AbsentRange(lower, _value(chunk.upper, kind, is_lower=False), stamp)
    except OverflowError:
        return None


def _value(bound: Key | None, kind: str, *, is_lower: bool) -> KeyValue | None:
    """A bound as silver's keys compare to it; None is open, as NULL is, which sorts first.

    Digits below the microsecond are in no key of silver's: the keys of their microsecond are on
    either side of the bound, so they are in no range. Raises OverflowError for a lower bound that
    no key reaches.
    """
    text = bound[0] if bound else None
    if text is None:
        return None
    if kind == "integer":
        value = int(text)
        if value <= BIGINT_MAX:
            return value
        if is_lower:
            raise OverflowError
        return None
    if kind == "date":
        return date.fromisoformat(text)
    whole, _, digits = text.replace(" ", "T").partition(".")
    at = datetime.fromisoformat(whole) + timedelta(microseconds=int(digits[:6].ljust(6, "0")))
    return at + _MICROSECOND if is_lower and digits[6:].strip("0") else at
