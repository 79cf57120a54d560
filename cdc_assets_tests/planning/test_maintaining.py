"""Which files upkeep orders anew, and which version shows silver at its verdict afterwards."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from cdc_assets.planning.maintaining import (
    LOG_RETENTION,
    CommitSeen,
    FileExtent,
    needs_order,
    overlap,
    verdict_version_after,
)

NOW = datetime(2026, 11, 30, 12)
WEEK, HOUR = timedelta(days=7), timedelta(hours=1)
MB = 1 << 20


def files(*extents: tuple[object, object]) -> list[FileExtent]:
    return [FileExtent(30 * MB, low, high) for low, high in extents]


def test_files_that_do_not_overlap_are_one_deep() -> None:
    assert overlap(files((1, 5), (6, 9), (10, 20))) == 1
    assert overlap(files(*[(1, 100)] * 5)) == 5
    assert overlap(files((1, 97), (2, 98), (3, 99))) == 2


def test_order_is_due_where_keys_are_in_several_files() -> None:
    mixed = files(*[(1, 100)] * 5)
    assert needs_order([mixed], 30 * MB)
    assert not needs_order([files((1, 5), (6, 9), (10, 20))], 30 * MB)
    assert not needs_order([mixed], 75 * MB), "they become one file or two"
    assert not needs_order([files(*[(None, None)] * 5)], 30 * MB), "statistics know no key"
    assert needs_order([[*mixed, *files((None, None))]], 30 * MB)


def test_a_key_of_several_columns_is_ordered_once() -> None:
    """One of few values is in all files for ever, and two wide ones share what an order can do."""
    tenant, apart = files(*[(7, 7)] * 16), files(*[(n, n) for n in range(16)])
    mixed, halves = files(*[(1, 100)] * 16), files(*[(n // 4, n // 4) for n in range(16)])
    assert not needs_order([tenant, apart], 30 * MB)
    assert not needs_order([halves, halves], 30 * MB)
    assert needs_order([mixed, tenant], 30 * MB)
    assert needs_order([mixed, files(*[(None, None)] * 16)], 30 * MB)


def test_files_that_are_far_too_large_are_cut() -> None:
    assert needs_order([files((1, 5))], 10 * MB)
    assert not needs_order([files((1, 5))], 10 * MB, splits=False)
    assert not needs_order([files((1, 5), (6, 9))], 20 * MB), "a little is not worth a rewrite"


def commits(*operations: tuple[str, timedelta]) -> list[CommitSeen]:
    """The history from version 3 on, each so long ago."""
    return [CommitSeen(3 + at, name, NOW - ago) for at, (name, ago) in enumerate(operations)]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([("MERGE", 30 * WEEK)], 3),
        ([("MERGE", 30 * WEEK), ("OPTIMIZE", HOUR)], 4),
        ([("MERGE", 30 * WEEK), ("OPTIMIZE", WEEK), ("VACUUM START", WEEK)], 5),
        ([("MERGE", 2 * HOUR), ("MERGE", HOUR), ("OPTIMIZE", HOUR)], 3),
        ([("MERGE", WEEK), ("OPTIMIZE", WEEK), ("MERGE", HOUR)], 4),
        ([("MERGE", 2 * WEEK), ("MERGE", WEEK - HOUR)], 3),
        ([("MERGE", 2 * WEEK), ("MERGE", WEEK)], None),
        # Its files stay, and what they were is in a log that goes.
        ([("MERGE", LOG_RETENTION), ("MERGE", HOUR)], None),
    ],
)
def test_the_verdict_follows_upkeep_or_is_given_up(
    history: list[tuple[str, timedelta]], expected: int | None
) -> None:
    assert verdict_version_after(3, commits(*history), NOW, WEEK) == expected


def test_a_verdict_of_after_the_look_stays() -> None:
    assert verdict_version_after(5, commits(("MERGE", HOUR)), NOW, WEEK) == 5


def test_a_verdict_that_the_log_does_not_tell_of_is_given_up() -> None:
    assert verdict_version_after(1, commits(("MERGE", HOUR)), NOW, WEEK) is None
    assert verdict_version_after(None, commits(("MERGE", HOUR)), NOW, WEEK) is None
