"""The whole path, on both engines: snapshot, changes, silver, verdict."""

import shutil
import time
from collections import Counter

import pytest

from cdc_assets.contract import Operation
from cdc_assets.ingest.outcome import Work
from cdc_assets.planning.records import ChangeCommit
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
TABLE = "dbo_items"


def test_snapshot_then_changes(items: Project) -> None:
    first, applied = load(items)
    assert (first.work, first.rows) == (Work.SNAPSHOT, 5)
    assert (applied.rebuilt, applied.upserted) == (True, 5)
    items.assert_identical(TABLE, COLUMNS)
    change_items(items.source)
    second, applied = load(items)
    assert (second.work, applied.rebuilt) == (Work.CHANGES, False)
    items.assert_identical(TABLE, COLUMNS)


def test_bronze_holds_every_change_once(items: Project) -> None:
    load(items)
    change_items(items.source)
    outcome = run_sync(items).outcomes[TABLE]
    rows = items.bronze(TABLE)
    operations = Counter(Operation(row["_operation"]).name for row in rows)
    assert operations == {"SNAPSHOT": 5, "INSERT": 4, "DELETE": 3, "BEFORE": 3, "AFTER": 3}
    changes = [row for row in rows if row["_operation"] != Operation.SNAPSHOT]
    places = {(r["_start_lsn"], r["_command_id"], r["_seqval"], r["_operation"]) for r in changes}
    assert len(places) == len(changes) == outcome.rows
    assert {row["_batch_id"] for row in changes} == {1}
    assert {row["_snapshot"] for row in changes} == {None}
    assert {row["_capture_instance"] for row in rows} == {TABLE}
    assert [r["_commit_ts"] for r in changes] == sorted(r["_commit_ts"] for r in changes)


def test_the_commit_names_its_range_and_its_facts(items: Project) -> None:
    load(items)
    change_items(items.source)
    run_sync(items)
    database = items.database()
    bronze = database.lake.bronze(database.table(TABLE))
    assert bronze is not None
    commit = ChangeCommit.from_json(bronze.history(1)[0]["userMetadata"])
    assert commit is not None
    assert commit.start.lsn < commit.counts.min_lsn <= commit.counts.max_lsn <= commit.end.lsn
    (facts,) = database.lake.facts.batches(f"bronze/{TABLE}")
    assert (facts.app_id, facts.batch_id) == (f"{TABLE}#changes", 1)
    assert (facts.rows, facts.inserts, facts.updates, facts.deletes) == (13, 4, 3, 3)
    assert (facts.end_lsn, facts.max_lsn) == (str(commit.end.lsn), str(commit.counts.max_lsn))
    assert facts.engine is not None
    assert facts.engine.startswith(items.engine)
    assert bronze.transaction_version(f"{TABLE}#changes") == 1


def test_a_key_update_leaves_no_old_key(items: Project) -> None:
    load(items)
    items.source.execute("UPDATE dbo.items SET id = id + 1000")
    items.source.captured()
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_an_empty_table_and_its_first_row(items: Project) -> None:
    items.source.execute("DELETE FROM dbo.items")
    items.source.captured()
    outcome, _ = load(items)
    assert (outcome.work, outcome.rows) == (Work.SNAPSHOT, 0)
    assert items.silver(TABLE, COLUMNS) == []
    items.source.execute("INSERT INTO dbo.items (id, name) VALUES (1, N'one')")
    items.source.captured()
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_a_database_that_capture_never_touched(items: Project) -> None:
    """B013: the snapshot is taken, later runs wait with a warning, and nothing fails."""
    load(items)
    report = run_sync(items)
    assert report.outcomes[TABLE].work is Work.QUIET
    assert report.warnings or report.poll.max is not None
    change_items(items.source)
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_a_commit_between_the_recorded_lsn_and_the_read_is_replayed(items: Project) -> None:
    """B068: what the read saw too early comes again as a change, and a delete after it wins."""
    items.source.stop_capture()
    items.source.execute("UPDATE dbo.items SET name = N'late' WHERE id = 1")
    items.source.execute("DELETE FROM dbo.items WHERE id = 2")
    load(items)
    items.source.start_capture()
    items.source.captured()
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_a_quiet_run_changes_nothing_and_moves_the_verdict(items: Project) -> None:
    load(items)
    time.sleep(1.1)  # The verdict waits until the second of the snapshot's last read is over.
    change_items(items.source)
    load(items)
    control = items.database().lake.control.read()
    before = control[f"silver/{TABLE}"]
    items.source.execute("CREATE TABLE dbo.other (id int NOT NULL PRIMARY KEY)")
    items.source.enable("other")
    items.source.execute("INSERT INTO dbo.other (id) VALUES (1)")
    items.source.captured(minimum=before.end_lsn)
    outcome = run_sync(items).outcomes[TABLE]
    assert (outcome.work, outcome.rows) == (Work.QUIET, 0)
    after = items.database().lake.control.read()[f"silver/{TABLE}"]
    assert (after.end_lsn or "") > (before.end_lsn or "")
    assert after.applied_lsn == before.applied_lsn
    assert after.verdict_version == before.verdict_version


def test_applying_twice_is_applying_once(items: Project) -> None:
    load(items)
    change_items(items.source)
    load(items)
    again = apply_changes(items.database(), TABLE)
    assert (again.upserted, again.deleted, again.rebuilt) == (0, 0, False)
    items.assert_identical(TABLE, COLUMNS)


def test_control_deleted_by_hand(items: Project) -> None:
    """The bronze table is its own checkpoint: control is rebuilt, nothing is read twice."""
    load(items)
    change_items(items.source)
    load(items)
    database = items.database()
    rows = len(items.bronze(TABLE))
    shutil.rmtree(database.name.control_uri)
    load(items)
    assert len(items.bronze(TABLE)) == rows
    items.assert_identical(TABLE, COLUMNS)
    change_items(items.source, base=300)
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_silver_deleted_by_hand_is_rebuilt(items: Project) -> None:
    load(items)
    change_items(items.source)
    load(items)
    database = items.database()
    shutil.rmtree(database.table(TABLE).silver_uri)
    outcome = apply_changes(database, TABLE)
    assert outcome.rebuilt
    items.assert_identical(TABLE, COLUMNS)


@pytest.mark.spark
def test_a_table_changes_engine_between_batches(items: Project) -> None:
    load(items)
    items.engine = "spark" if items.engine == "arrow" else "arrow"
    change_items(items.source)
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    change_items(items.source, base=400)
    load(items)
    items.assert_identical(TABLE, COLUMNS)
