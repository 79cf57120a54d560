"""What Spark asks of a stream's planner, asked without Spark: offsets, limits, ranges, losses."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from cdc_assets.errors import DataLossError, HistoryChangedError, SchemaChangedError
from cdc_assets.ingest.stream.planner import SourcePlanner, planner_of
from cdc_assets.lsn import Lsn
from cdc_assets.planning.offsets import Offset
from cdc_assets_tests.path.changing import commit, disable
from cdc_assets_tests.path.helpers import change_items, clean_up, create_items
from cdc_assets_tests.path.streaming import options
from cdc_assets_tests.source import Project, Source

pytestmark = pytest.mark.sqlserver
EVERYTHING: dict[str, Any] = {"limited": False, "until": None}


@pytest.fixture
def engine_name() -> str:
    """No engine is asked."""
    return "arrow"


def planner(project: Project, **more: str) -> SourcePlanner:
    return planner_of(options(project, **more))


def test_the_latest_of_a_new_instance_is_just_before_it(items: Project) -> None:
    """B012: no loss on a quiet database, where max_lsn is below the instance's first LSN."""
    found = planner(items, startingLsn="latest")
    start = found.initial()
    assert found.latest(start, **EVERYTHING).lsn >= start.lsn
    commit(items.source, "UPDATE dbo.items SET name = N'x' WHERE id = 1")
    (planned,) = found.ranges(start, found.latest(start, **EVERYTHING), found.columns())
    assert planned.rows == 2


def test_latest_reads_no_old_changes_and_earliest_all(items: Project) -> None:
    """B051."""
    change_items(items.source)
    latest, earliest = planner(items, startingLsn="latest"), planner(items)
    start, first = latest.initial(), earliest.initial()
    end = earliest.latest(first, **EVERYTHING)
    assert latest.ranges(start, latest.latest(start, **EVERYTHING), latest.columns()) == ()
    assert sum(r.rows or 0 for r in earliest.ranges(first, end, earliest.columns())) == 13
    commit(items.source, "DELETE FROM dbo.items WHERE id = 5")
    (planned,) = latest.ranges(start, latest.latest(start, **EVERYTHING), latest.columns())
    assert planned.rows == 1
    after = planner(items, startingLsn=str(start.lsn)).initial()
    assert after == start


def test_an_offset_from_before_capture_ever_ran_waits(project: Project, source: Source) -> None:
    """B004, B013: a NULL max_lsn is nothing new."""
    create_items(source)
    source.stop_capture()
    if source.lsn("sys.fn_cdc_get_max_lsn()") is not None:
        pytest.skip("this server's capture ran before it could be stopped")
    found = planner(project, startingLsn="latest")
    start = found.initial()
    assert found.newest() is None
    assert found.latest(start, **EVERYTHING) == start
    source.start_capture()
    commit(source, "UPDATE dbo.items SET name = N'x' WHERE id = 1")
    assert found.latest(start, **EVERYTHING).lsn > start.lsn


def test_available_now_goes_no_further_than_it_was_asked(items: Project) -> None:
    change_items(items.source)
    found = planner(items, maxCommitsPerBatch="1")
    start, until = found.initial(), found.newest()
    assert until is not None
    change_items(items.source, base=500)
    ends = [start]
    while (end := found.latest(ends[-1], limited=True, until=until)) != ends[-1]:
        ends.append(end)
        assert len(ends) < 20
    assert len(ends) == 5
    assert ends[-1].lsn == until.lsn
    assert [one.lsn for one in ends] == sorted(one.lsn for one in ends)


def test_a_purged_range_is_a_loss_with_rows_and_without(items: Project) -> None:
    start = planner(items).initial()
    change_items(items.source)
    end = planner(items).latest(start, **EVERYTHING)
    newest = items.source.captured()
    clean_up(items.source)
    commit(items.source, "UPDATE dbo.items SET name = N'x' WHERE id = 1")
    assert items.source.captured() > newest
    with pytest.raises(DataLossError, match="removed by cleanup"):
        planner(items).latest(start, **EVERYTHING)
    with pytest.raises(DataLossError, match="removed by cleanup"):
        planner(items).ranges(start, end, planner(items).columns())


def test_an_instance_recreated_under_its_name_is_a_loss(items: Project) -> None:
    """B019: an old checkpoint does not go on with another table's changes."""
    change_items(items.source)
    found = planner(items)
    start = found.latest(found.initial(), **EVERYTHING)
    disable(items.source)
    items.source.execute("UPDATE dbo.items SET name = N'unseen' WHERE id = 2")
    items.source.enable("items")
    commit(items.source, "UPDATE dbo.items SET name = N'seen' WHERE id = 1")
    with pytest.raises(DataLossError):
        found.latest(start, **EVERYTHING)


def test_an_offset_above_all_lsns_is_another_history(items: Project) -> None:
    change_items(items.source)
    beyond = Offset(Lsn("0x" + "F" * 20), datetime(2026, 1, 1))
    with pytest.raises(HistoryChangedError, match=r"above the newest.*with a new checkpoint"):
        planner(items).latest(beyond, **EVERYTHING)


def test_a_type_that_the_query_does_not_hold_stops_before_the_read(items: Project) -> None:
    found = planner(items)
    columns, start = found.columns(), found.initial()
    commit(
        items.source,
        "ALTER TABLE dbo.items ALTER COLUMN price decimal(20,4) NULL",
        "UPDATE dbo.items SET price = 1234567890.5 WHERE id = 1",
    )
    with pytest.raises(SchemaChangedError, match=r"price.*Start the query again"):
        found.ranges(start, found.latest(start, **EVERYTHING), columns)
    again = planner(items)
    (planned,) = again.ranges(start, again.latest(start, **EVERYTHING), again.columns())
    assert planned.rows == 2
    careful = planner(items, schemaChangePolicy="fail")
    with pytest.raises(SchemaChangedError, match="ALTER TABLE"):
        careful.ranges(start, careful.latest(start, **EVERYTHING), careful.columns())
