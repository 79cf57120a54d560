"""Silver while a chunked snapshot is open: as fresh as it can be, and no verdict."""

import shutil

import pyarrow as pa
import pytest

from benchmarks.opened import opened_files
from cdc_assets.contract import Event
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.sync import sync
from cdc_assets.planning.verdict import Hold
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.chunking import TABLE, chunked, events, run_backfill
from cdc_assets_tests.path.helpers import COLUMNS, change_items, clean_up, load, run_sync
from cdc_assets_tests.path.killing import crashing
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver


def ids(project: Project) -> set[int]:
    return {row[0] for row in project.silver(TABLE, ["id"])}


def files(project: Project) -> set[str]:
    """The names of bronze's files that hold rows of a snapshot."""
    database = project.database()
    bronze = database.lake.bronze(database.table(TABLE))
    assert bronze is not None
    actions = pa.table(bronze.get_add_actions(flatten=True)).to_pylist()
    return {row["path"] for row in actions if row["max._operation"] == 0}


def wave(project: Project) -> int | None:
    """The last one that silver has applied."""
    return project.database().lake.control.read()[f"silver/{TABLE}"].snapshot_wave


def test_waves_of_a_bootstrap_are_applied_as_they_arrive(project: Project) -> None:
    """B068: each call takes the waves told of since the last one, and brings back no key.

    A key of a wave that is read but not applied is deleted, and one of a later wave changed.
    """
    chunked(project, rows=12)
    source = project.source
    first = load(project)[1]
    assert (first.rebuilt, first.hold, ids(project)) == (True, Hold.SNAPSHOT_OPEN, set())
    assert run_backfill(project, max_waves=1).chunks_done == 2
    source.execute(
        "DELETE FROM dbo.items WHERE id = 2", "UPDATE dbo.items SET name = N'later' WHERE id = 7"
    )
    source.captured()
    second = load(project)[1]
    assert (second.rebuilt, second.waves, wave(project)) == (False, 1, 0)
    assert ids(project) == {1, 3, 4, 7}
    assert apply_changes(project.database(), TABLE).waves == 0
    earlier = files(project)
    run_backfill(project, max_waves=1)
    with opened_files(project.database().table(TABLE).bronze_uri) as opened:
        third = apply_changes(project.database(), TABLE)
    assert opened - earlier, "the wave's"
    assert not opened & earlier, "and none of what was applied"
    assert (third.waves, third.finalized_until, wave(project)) == (1, None, 1)
    assert ids(project) == {1, *range(3, 9)}
    assert run_backfill(project).done
    done = load(project)[1]
    assert (done.rebuilt, wave(project)) == (True, None)
    project.assert_identical(TABLE, COLUMNS)


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_a_wave_told_of_late_brings_back_no_key(project: Project) -> None:
    """B068: its keys were deleted and changed after its stamp, and silver has that already.

    The changes since the stamp outrank it, though they are below silver's position.
    """
    chunked(project, rows=12)
    load(project)
    with crashing(FaultPoint.WAVE_APPENDED):
        run_backfill(project, max_waves=1)
    project.source.execute(
        "DELETE FROM dbo.items WHERE id = 2", "UPDATE dbo.items SET name = N'later' WHERE id = 3"
    )
    project.source.captured()
    assert load(project)[1].waves == 0
    assert ids(project) == {3}
    run_backfill(project, max_waves=1)
    assert apply_changes(project.database(), TABLE).waves > 0
    assert {1, 3, 4} <= ids(project)
    assert 2 not in ids(project)
    assert dict(project.silver(TABLE, ("id", "name")))[3] == "later"


def test_keys_deleted_in_a_gap_go_wave_by_wave(project: Project) -> None:
    """B075: by ranges of the key, long before the rebuild; what is newer stays."""
    chunked(project, rows=12)
    project.tables = {TABLE: {"snapshot": "full"}}
    load(project)
    source = project.source
    source.execute("DELETE FROM dbo.items WHERE id IN (2, 5, 12)")
    clean_up(source, source.captured())
    change_items(source, base=100)
    clean_up(source)
    source.execute("UPDATE dbo.items SET name = N'kept' WHERE id = 6")
    source.captured()
    project.tables = {TABLE: {"snapshot": "chunked", "chunk_rows": 2}}
    project.extra["defaults"] = {"on_data_loss": "resnapshot", "min_headroom_hours": 0}
    run_sync(project)
    assert {2, 5, 12} <= ids(project)
    run_backfill(project, max_waves=1)
    source.execute("INSERT INTO dbo.items (id, name) VALUES (5, N'back')")
    source.captured()
    applied = load(project)[1]
    assert (applied.rebuilt, applied.waves, applied.hold) == (False, 1, Hold.SNAPSHOT_OPEN)
    assert ids(project) & {2, 3, 5, 12} == {5, 12}, "2 and 3 are in the wave's range, and gone"
    while not run_backfill(project, max_waves=1).done:
        pass
    assert Event.RESNAPSHOT in [row.event for row in events(project)]
    assert load(project)[1].rebuilt
    project.assert_identical(TABLE, COLUMNS)


@pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)
def test_a_silver_that_is_new_beside_an_open_further_one(project: Project) -> None:
    """The complete one's rows and then the open one's waves, in one call; no verdict yet."""
    chunked(project, rows=8)
    project.tables = {TABLE: {"snapshot": "full"}}
    load(project)
    change_items(project.source)
    project.tables = {TABLE: {"snapshot": "chunked", "chunk_rows": 2}}
    sync(project.database(), resnapshot=True)
    run_backfill(project, max_waves=1)
    change_items(project.source, base=300)
    run_sync(project)
    shutil.rmtree(project.database().table(TABLE).silver_uri)
    found = apply_changes(project.database(), TABLE)
    assert (found.rebuilt, found.waves, wave(project)) == (True, 1, 0)
    assert found.finalized_until is None
    project.assert_identical(TABLE, COLUMNS)
