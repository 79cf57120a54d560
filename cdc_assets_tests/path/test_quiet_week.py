"""A table that never changes for a week (history 5), while everything old about it is removed.

The server's cleanup passes its last change, the facts lose their old quiet rows, and the Delta
logs their old entries, `userMetadata` with them. Then it changes, and a run dies over it.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets.faults import FaultPoint
from cdc_assets.ingest import quiet as quiet_module
from cdc_assets.ingest.outcome import Work
from cdc_assets.lake.bronze import change_commits
from cdc_assets_tests.path.helpers import COLUMNS, change_items, clean_up, load, run_sync
from cdc_assets_tests.path.killing import kill_at, kill_cases
from cdc_assets_tests.path.verdicts import assert_right as assert_verdicts_right
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sandbox
TABLE = "dbo_items"
DAYS = 7
RETENTION = timedelta(0)
POINTS = (FaultPoint.BRONZE_APPENDED, FaultPoint.FACTS_WRITTEN, FaultPoint.SILVER_MERGED)


@pytest.fixture
def quiet(items: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The week: an idle entry a day, a sync that finds nothing, and its row in the facts."""
    load(items)
    change_items(items.source)
    load(items)
    with monkeypatch.context() as due:
        due.setattr(quiet_module, "QUIET_ROW_EVERY", RETENTION)
        for _ in range(DAYS):
            items.source.execute("EXEC sandbox.capture_now @idle = 1")
            assert run_sync(items).outcomes[TABLE].work is Work.QUIET
    clean_up(items.source)
    keep_what_facts_must(items)
    for uri in uris(items):
        forget_the_log(uri)
    return items


def uris(items: Project) -> list[str]:
    database = items.database()
    table = database.table(TABLE)
    name = database.name
    return [table.bronze_uri, table.silver_uri, name.facts_uri, name.control_uri]


def keep_what_facts_must(items: Project) -> None:
    """Retention: batches' rows go, but a table's newest, and its newest with rows."""
    facts = items.database().lake.facts
    before = facts.batches(f"bronze/{TABLE}")
    DeltaTable(items.database().name.facts_uri).delete(
        f"event IS NULL AND rows = 0 AND end_lsn <> '{before[-1].end_lsn}'"
    )
    assert facts.batches(f"bronze/{TABLE}") == [before[0], before[-1]]
    assert [row.rows for row in before] == [13, *[0] * DAYS]


def forget_the_log(uri: str) -> None:
    """A checkpoint, and no log entry older than it."""
    table = DeltaTable(uri)
    retention = {"delta.logRetentionDuration": "interval 0 seconds"}
    table.alter.set_table_properties(retention)
    table.create_checkpoint()
    table.cleanup_metadata()
    entries = list((Path(uri) / "_delta_log").glob("*.json"))
    assert [int(entry.stem) for entry in entries] == [table.version()]


def assert_right(items: Project) -> None:
    assert_verdicts_right(items, COLUMNS)
    facts = items.database().lake.facts
    batches = [row.batch_id for row in facts.batches(f"bronze/{TABLE}") if row.rows]
    assert batches == list(range(1, len(batches) + 1)), "each batch is told once"
    assert [row.event for row in facts.events()] == ["snapshot_open", "bootstrap"]


@pytest.mark.parametrize(
    ("engine_name", "point"),
    kill_cases(POINTS, soak=[FaultPoint.BRONZE_APPENDED]),
    indirect=["engine_name"],
)
def test_killed_after_a_quiet_week(quiet: Project, point: FaultPoint, tmp_path: Path) -> None:
    bronze = quiet.database().lake.bronze(quiet.database().table(TABLE))
    assert bronze is not None
    assert change_commits(bronze, f"{TABLE}#changes", None) == [], "the log tells nothing"
    change_items(quiet.source, base=300)
    kill_at(quiet, point, tmp_path / "reached")
    change_items(quiet.source, base=500)
    load(quiet)
    load(quiet)
    assert_right(quiet)


@pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)
def test_control_is_lost_after_a_quiet_week(quiet: Project) -> None:
    """The facts know how far the table was read; bronze's last change is long purged."""
    end = quiet.database().lake.control.read()[f"bronze/{TABLE}"].end_lsn
    shutil.rmtree(quiet.database().name.control_uri)
    outcome = load(quiet)[0]
    assert (outcome.work, str(outcome.start and outcome.start.lsn)) == (Work.QUIET, end)
    change_items(quiet.source, base=300)
    load(quiet)
    assert_right(quiet)


@pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)
def test_the_log_of_an_untold_batch_is_gone(quiet: Project, tmp_path: Path) -> None:
    """Its rows are all that is left of it: the facts are made of them."""
    change_items(quiet.source, base=300)
    kill_at(quiet, FaultPoint.BRONZE_APPENDED, tmp_path / "reached")
    forget_the_log(quiet.database().table(TABLE).bronze_uri)
    outcome = load(quiet)[0]
    assert (outcome.work, outcome.rows) == (Work.CHANGES, 11)
    change_items(quiet.source, base=500)
    load(quiet)
    untold, told = quiet.database().lake.facts.batches(f"bronze/{TABLE}")[-2:]
    assert_right(quiet)
    assert (untold.inserts, untold.updates, untold.deletes) == (
        told.inserts,
        told.updates,
        told.deletes,
    )
