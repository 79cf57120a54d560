"""SIGKILL of an apply at every point that it passes, then a rerun: what an unkilled one comes to.

Silver, history, and what control says of both are compared row by row with those of a copy of the
lake that nobody has killed. History 10 is here: silver removed by hand. On Spark `make soak` lets
the same calls die, in the tests' own process.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.sync import sync
from cdc_assets_tests.path.applying import BY_NAME, MARKING, TABLE, Killed
from cdc_assets_tests.path.chunking import run_backfill
from cdc_assets_tests.path.helpers import (
    COLUMNS,
    change_items,
    load,
    purge,
    run_sync,
    set_clock,
)
from cdc_assets_tests.path.killing import KILLED
from cdc_assets_tests.path.verdicts import assert_right as assert_verdicts_right
from cdc_assets_tests.source import Project

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(900)]
ARROW = pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)
SPARK = pytest.mark.parametrize(
    "engine_name", [pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)
BY_EACH = pytest.mark.parametrize(
    "by", ["arrow", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])]
)
"""Who does the work of the calls that die; the rest is the quick engine's."""
MERGED = (FaultPoint.SILVER_MERGED, FaultPoint.SILVER_RECORDED)
RENEWED = (FaultPoint.SILVER_FORGOTTEN, FaultPoint.SILVER_CREATED)
OF_HISTORY = (
    FaultPoint.HISTORY_CREATED,
    FaultPoint.HISTORY_MERGED,
    FaultPoint.HISTORY_RECORDED,
)
RANGES = {"arrow_rank_rows_max": 2}
"""So that each MERGE is of several."""
OF_BOTH = (
    *(FaultPoint.TABLE_ALTERED, *MERGED, *RENEWED),
    *(*OF_HISTORY, FaultPoint.HISTORY_FORGOTTEN),
)
KILLED.update((engine, point) for engine in ("arrow", "spark") for point in OF_BOTH)
KILLED.update([("arrow", FaultPoint.SILVER_RANGE_MERGED), ("spark", FaultPoint.SILVER_PREPARED)])
KILLED.add(("spark", FaultPoint.TABLE_CREATED))


@pytest.fixture
def kept(items: Project) -> Iterator[Project]:
    """A project whose table has a history, and whose snapshot is settled with its next change."""
    items.tables = {TABLE: {"scd": 2}}
    run_sync(replace(items, engine="arrow"))
    set_clock(items, 60)
    yield items
    set_clock(items, 0)


def folder(project: Project, layer: str) -> Path:
    return project.folder / "lake" / project.key / layer / TABLE


def assert_right(project: Project) -> None:
    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, COLUMNS)


@ARROW
@BY_EACH
def test_the_first_call_and_the_next(kept: Project, by: str) -> None:
    change_items(kept.source)
    run_sync(kept)
    created = (FaultPoint.TABLE_CREATED, FaultPoint.SILVER_CREATED)
    Killed(kept, by).at((*created, *MERGED, *OF_HISTORY))
    assert_right(kept)
    change_items(kept.source, base=300)
    run_sync(kept)
    after = Killed(kept, by)
    after.at((*MERGED, FaultPoint.HISTORY_MERGED, FaultPoint.HISTORY_RECORDED))


@ARROW
@BY_EACH
def test_the_public_call(kept: Project, by: str) -> None:
    """With a caller's session, and without one; it leaves the history to the assets."""
    change_items(kept.source)
    run_sync(kept)
    kept.tables = {TABLE: None}
    Killed(kept, by).at((FaultPoint.SILVER_CREATED, *MERGED), BY_NAME)
    change_items(kept.source, base=500)
    run_sync(kept)
    Killed(kept, by).at(MERGED, BY_NAME)
    assert_right(kept)


@ARROW
@BY_EACH
def test_deleted_rows_are_kept_from_now_on_and_then_no_more(items: Project, by: str) -> None:
    load(items)
    items.tables = {TABLE: {"deletes": "soft", "change_data_feed": True}}
    change_items(items.source, base=700)
    run_sync(items)
    more = MERGED if by == "spark" else MERGED[:1]
    Killed(items, by).at((FaultPoint.TABLE_ALTERED, *more))
    items.tables = {TABLE: {"change_data_feed": True}}
    change_items(items.source, base=900)
    run_sync(items)
    Killed(items, by).at((*RENEWED, *more[1:]))
    assert_right(items)


@ARROW
@BY_EACH
def test_silver_and_history_are_made_anew(kept: Project, by: str) -> None:
    """History 10: removed by hand; and given up by a reset, which both of them follow."""
    change_items(kept.source)
    load(kept)
    change_items(kept.source, base=300)
    run_sync(kept)
    for layer in ("silver", "history"):
        shutil.rmtree(folder(kept, layer))
    points = (*RENEWED, *MERGED, FaultPoint.HISTORY_FORGOTTEN, FaultPoint.HISTORY_CREATED)
    Killed(kept, by).at(points)
    assert_verdicts_right(kept, COLUMNS)
    set_clock(kept, 60)
    reset(kept.database(), TABLE)
    change_items(kept.source, base=500)
    run_sync(kept)
    change_items(kept.source, base=700)
    run_sync(kept)
    Killed(kept, by).at((*RENEWED, FaultPoint.HISTORY_FORGOTTEN, FaultPoint.HISTORY_CREATED))
    assert_right(kept)


@ARROW
@BY_EACH
def test_a_snapshot_in_waves_and_its_completion(items: Project, by: str) -> None:
    """With ranges of keys to delete, changes of its keys, and a rebuild range by range."""
    of_ranges = (FaultPoint.SILVER_RANGE_MERGED,) if by == "arrow" else ()
    load(items)
    open_after_a_loss(items)
    Killed(items, by).at(MERGED)
    assert run_backfill(items).done
    change_items(items.source, base=700)
    run_sync(items)
    items.extra |= RANGES
    Killed(items, by).at((*of_ranges, *MERGED))
    assert_right(items)
    change_items(items.source, base=1100)
    run_sync(items)
    Killed(items, by).at((*of_ranges, FaultPoint.SILVER_MERGED))
    assert_right(items)


def open_after_a_loss(items: Project) -> None:
    """A wave told of, whose range holds a key deleted in the gap, and one changed since."""
    purge(items.source)
    items.tables = {TABLE: {"snapshot": "chunked", "chunk_rows": 2}}
    items.extra = {
        "num_partitions": 2,
        "defaults": {
            "engine": items.engine,
            "finality": items.finality,
            "on_data_loss": "resnapshot",
            "min_headroom_hours": 0,
        },
    }
    run_sync(items)
    run_backfill(items, max_waves=1)
    change_items(items.source, base=500)
    run_sync(items)


@ARROW
@BY_EACH
def test_a_silver_that_is_new_beside_an_open_further_one(items: Project, by: str) -> None:
    """The complete one's rows and then the open one's waves, in one call of two MERGEs."""
    load(items)
    change_items(items.source, base=300)
    items.tables = {TABLE: {"snapshot": "chunked", "chunk_rows": 2}}
    items.extra = {"num_partitions": 2}
    assert not sync(items.database(), resnapshot=True).failed
    run_backfill(items, max_waves=1)
    change_items(items.source)
    run_sync(items)
    shutil.rmtree(folder(items, "silver"))
    Killed(items, by).at((*RENEWED, *MERGED))
    assert_right(items)


@SPARK
def test_on_spark(kept: Project) -> None:
    """Where Spark itself is killed, its JVM too, and where its own commits are two."""
    staging = replace(kept, engine="arrow")
    change_items(kept.source)
    run_sync(staging)
    first = Killed(kept)
    first.at((FaultPoint.SILVER_CREATED, FaultPoint.HISTORY_MERGED))
    change_items(kept.source, base=300)
    run_sync(staging)
    after = Killed(kept)
    after.at((FaultPoint.SILVER_PREPARED,), MARKING)
    assert_right(kept)
    kept.tables = staging.tables = {TABLE: None}
    open_after_a_loss(staging)
    Killed(kept).at((FaultPoint.SILVER_MERGED,))
