"""What upkeep does to a table: which files are written anew, in which order, and what must stay.

Pure. Whoever reads a version that VACUUM or log cleanup would take must be told first: silver's
`verdict_version` is the one that we name to readers ourselves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

OVERLAP_MAX = 2.0
"""Files that a file's smallest key may be in, on average, above which all are ordered anew: files
of which each begins in the one before, as Spark orders them, stay below; four of the same keys
have 2.5. Of a key of several columns so many times what an order leaves."""

FILE_SIZES_MAX = 2
"""A file, or a table, so many times as large as files should be is worth an order."""

VERDICT_MARGIN = timedelta(hours=1)
"""Time between the look at what VACUUM will take and its end, at most."""

LOG_RETENTION = timedelta(days=30)
"""How long Delta's log says what a version was, where a table has no other property."""

LOG_MARGIN = timedelta(days=8)
"""Any commit may clean the log up: a version is given up before, by the upkeep of that week."""

_KEEP_ROWS = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END"})
"""Operations whose commits leave a table's rows what they were."""


@dataclass(frozen=True, slots=True)
class FileExtent:
    """A file's size and the smallest and largest value of one key column, None where unknown."""

    bytes: int
    low: Any
    high: Any

    @property
    def is_known(self) -> bool:
        """Whether statistics say anything of it."""
        return self.low is not None and self.high is not None


@dataclass(frozen=True, slots=True)
class CommitSeen:
    """One commit of a table's history; `at` in UTC."""

    version: int
    operation: str
    at: datetime


def needs_order(
    columns: Sequence[Sequence[FileExtent]], target_file_bytes: int, *, splits: bool = True
) -> bool:
    """Whether a table's files are to be ordered by key, rather than small ones be put together.

    `columns` are the files by each column of the key. What fits into one file needs no order, and
    where statistics say nothing of the key it would be of no use to a MERGE. With `splits` files
    that are far too large are cut so, too.
    """
    known = [[file for file in files if file.is_known] for files in columns]
    files = next((found for found in known if found), None)
    if (
        files is None
        or sum(file.bytes for file in columns[0]) <= target_file_bytes * FILE_SIZES_MAX
    ):
        return False
    largest = max(file.bytes for file in files)
    return _is_mixed(known) or (splits and largest > target_file_bytes * FILE_SIZES_MAX)


def _is_mixed(columns: Sequence[Sequence[FileExtent]]) -> bool:
    """Whether no column of a key tells its files apart as well as an order by all of them would.

    That leaves n files n^(1 - 1/k) deep in each of k columns; and a column of few values is in all
    files for ever.
    """
    power = 1 - 1 / len(columns)
    return all(overlap(files) > OVERLAP_MAX * len(files) ** power for files in columns if files)


def overlap(files: Sequence[FileExtent]) -> float:
    """In how many files a file's smallest key may be, on average; 1 where no two overlap."""
    lows = sorted(file.low for file in files)
    highs = sorted(file.high for file in files)
    covering = (bisect_right(lows, f.low) - bisect_left(highs, f.low) for f in files)
    return sum(covering) / len(files)


def verdict_version_after(
    version: int | None, commits: Iterable[CommitSeen], now: datetime, retention: timedelta
) -> int | None:
    """Which version shows silver at its verdict once upkeep is done; None where none will.

    Upkeep that directly follows the verdict's own commit leaves its rows, so that the verdict moves
    to upkeep's. Files of a version that another one has followed go `retention` after that, and
    its log after a time of its own.
    """
    if version is None:
        return None
    later = {commit.version: commit for commit in commits}
    while (after := later.get(version + 1)) is not None and after.operation in _KEEP_ROWS:
        version += 1
    if version >= max(later, default=version):
        return version  # The newest, or made since the look.
    own, after = later.get(version), later.get(version + 1)
    if own is None or after is None:
        return None
    if now - after.at > retention - VERDICT_MARGIN or now - own.at > LOG_RETENTION - LOG_MARGIN:
        return None
    return version
