"""When a copy was read: S lies before it, and CDC must hold all that came after S."""

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from cdc_assets.errors import (
    DataLossError,
    SeedRefusedError,
)
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.seeding import seed
from cdc_assets.planning.seeds import AS_OF_MARGIN_SECONDS
from cdc_assets.silver.apply import apply_changes
from cdc_assets.sqlserver import clock_queries
from cdc_assets_tests.path.copying import (
    ARROW,
    TABLE,
    begun,
    copy_of,
    items,
    newest_lsn,
    now,
    settled,
)
from cdc_assets_tests.path.helpers import COLUMNS, change_items, clean_up, load, run_sync
from cdc_assets_tests.path.test_times import FALL_BACK, Clocked, clocked
from cdc_assets_tests.path.test_times import TABLE as CLOCKED_TABLE
from cdc_assets_tests.source import Project

__all__ = ["clocked", "items"]


@ARROW
def test_a_new_instance_that_capture_has_not_reached(items: Project) -> None:
    """A quiet database: all before the instance's first LSN is older than the copy."""
    settled(items.source)
    copy, started = copy_of(items.source), now(items.source)
    seed(items.database(), TABLE, copy, started)
    change_items(items.source)
    load(items)
    items.assert_identical(TABLE, COLUMNS)


@ARROW
def test_a_commit_just_before_the_copy_comes_again(items: Project) -> None:
    """Its time in the log is before it could be seen: the copy may lack it."""
    change_items(items.source)
    newest = newest_lsn(items.source)
    settled(items.source)
    copy = copy_of(items.source)
    items.source.execute("UPDATE dbo.items SET name = N'not seen' WHERE id = 1")
    items.source.captured()
    outcome = seed(items.database(), TABLE, copy, now(items.source))
    assert outcome.end is not None
    assert outcome.end.lsn == newest
    load(items)
    items.assert_identical(TABLE, COLUMNS)


@ARROW
def test_a_copy_as_old_as_the_instance_needs_an_lsn(items: Project) -> None:
    """Of a time, capture would have to be older by the margin: what preceded it never comes."""
    change_items(items.source)
    lsn, copy, started = newest_lsn(items.source), copy_of(items.source), now(items.source)
    for as_of in (started, "0001-01-01"):
        with pytest.raises(DataLossError, match=f"{AS_OF_MARGIN_SECONDS} s or more before"):
            seed(items.database(), TABLE, copy, as_of)
    assert not (items.folder / "lake").exists()
    seed(items.database(), TABLE, copy, lsn)


@ARROW
@pytest.mark.parametrize("by", ["time", "lsn"])
def test_a_copy_older_than_what_cdc_holds_is_refused(items: Project, by: str) -> None:
    change_items(items.source)
    settled(items.source)
    lsn, started = newest_lsn(items.source), now(items.source)
    copy = copy_of(items.source)
    change_items(items.source, base=300)
    newest = items.source.captured()
    clean_up(items.source)
    items.source.execute("UPDATE dbo.items SET name = N'x' WHERE id = 1")
    items.source.captured(minimum=newest)
    with pytest.raises(DataLossError, match="Make a newer copy"):
        seed(items.database(), TABLE, copy, started if by == "time" else lsn)
    assert not (items.folder / "lake").exists()


@ARROW
def test_a_copy_older_than_the_instance_is_refused(items: Project) -> None:
    """What was changed before capture began was never recorded."""
    change_items(items.source)
    before = datetime.fromisoformat(now(items.source)) - timedelta(days=1)
    with pytest.raises(DataLossError):
        seed(items.database(), TABLE, copy_of(items.source), before)
    assert not (items.folder / "lake").exists()


@ARROW
def test_a_time_needs_the_servers_zone(items: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2022 a server does not name it, and its clock may have changed since the copy."""
    copy, started = begun(items)
    monkeypatch.setattr(clock_queries, "usable_zone", lambda _: None)
    with pytest.raises(SeedRefusedError, match=r"does not name its time zone.*source_time_zone"):
        seed(items.database(), TABLE, copy, started)
    seed(items.database(), TABLE, copy, newest_lsn(items.source))


@ARROW
@pytest.mark.parametrize(("minutes", "repeated"), [(0, 3), (80, 1)], ids=["within", "after"])
def test_a_time_in_the_hour_that_comes_twice(clocked: Clocked, minutes: int, repeated: int) -> None:
    """Two commits have one local time: within that hour, both may be later than the copy."""
    project = clocked.project(FALL_BACK - timedelta(hours=2))
    reset(project.database(), CLOCKED_TABLE)
    for written in (-90, -30, 30, 90):
        clocked.write(project, FALL_BACK + timedelta(minutes=written))
    project.source.captured()
    copy = pa.table({"id": pa.array([1, 2, 3] if minutes else [1, 2], pa.int32())})
    as_of = FALL_BACK + timedelta(minutes=minutes)
    outcome = seed(project.database(), CLOCKED_TABLE, copy, as_of)
    assert outcome.end is not None
    assert outcome.end.commit_ts <= as_of.replace(tzinfo=None)
    assert run_sync(project).outcomes[CLOCKED_TABLE].rows == repeated
    apply_changes(project.database(), CLOCKED_TABLE)
    project.assert_identical(CLOCKED_TABLE, ["id"])
