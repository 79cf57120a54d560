"""What a sync records while its tables work."""

from dataclasses import replace
from datetime import datetime

from cdc_assets.errors import SourceQueryError
from cdc_assets.ingest.outcome import Measure, TableOutcome, Work
from cdc_assets.ingest.recording import moved_rows
from cdc_assets.ingest.sync import _to_record
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lsn import Lsn
from cdc_assets.names import DatabaseName
from cdc_assets.planning.advancing import BronzeProgress
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import ControlRow, FactsRow, Identity
from cdc_assets.planning.snapshots import Snapshot, Snapshots

NOON = datetime(2026, 11, 30, 12)


def batches(*ids: int, work: Work = Work.CHANGES) -> TableOutcome:
    """What tells of these batches, and of an event of a switch."""
    entries = [FactsEntry((FactsRow(batch_id=i),), "a#facts", i) for i in ids]
    event = FactsEntry((FactsRow(event="e"),), "a#instance.7", 1)
    quiet = FactsEntry((FactsRow(rows=0),))
    measures = {i: Measure(NOON, 1, 1, 1, None) for i in ids}
    return TableOutcome("a", work, rows=max(ids), facts=(*entries, event, quiet), measures=measures)


def test_each_transaction_is_recorded_once() -> None:
    """Told twice, a batch would stand twice in one commit of the facts."""
    healed = replace(batches(1, 2, 3), measures={})
    (found,) = _to_record([batches(1), batches(2)], [healed])
    (only,) = _to_record([], [healed])
    assert {entry.app_id for entry in found.facts} == {"a#facts", "a#instance.7", None}
    assert sorted(e.version for e in found.facts if e.app_id == "a#facts") == [1, 2, 3]
    assert len(found.facts) == len(only.facts)
    assert found.rows == 3
    assert set(found.measures) == {1, 2}, "who read it measured it, and not who found it again"


def test_a_failure_and_a_table_at_work_leave_what_was_told() -> None:
    early = batches(1)
    failed = TableOutcome("a", Work.FAILED, error=SourceQueryError("it broke"))
    assert _to_record([early], [failed]) == [early, failed]
    assert _to_record([early], []) == [early]


def test_a_quiet_tables_verdicts_move_with_bronzes() -> None:
    """Silver's and history's: nobody applies what is quiet. A table that is lost has none."""
    table, s = DatabaseName("db", "/lake").table("a"), Lsn.of_int(10)
    end = Offset(Lsn.of_int(40), NOON)
    progress = BronzeProgress(table.bronze, end, Identity(1, 2, "dbo_a", NOON), "second")
    quiet = TableOutcome("a", Work.QUIET, progress=progress)
    snapshots = Snapshots(complete=Snapshot(Offset(s, NOON), ("id",)))
    names = (table.silver, table.history)
    rows = {
        name: ControlRow(name, table_id="1", applied_lsn=str(s), snapshot_lsn=str(s))
        for name in names
    }
    bronze, *moved = moved_rows(table, quiet, rows, snapshots)
    assert [row.table_name for row in moved] == list(names)
    assert {row.finalized_until for row in (bronze, *moved)} == {NOON}
    lost = replace(quiet, history_lost=True)
    _, silver, history = moved_rows(table, lost, rows, snapshots)
    assert silver.finalized_until == NOON
    assert history == ControlRow(table.history)
    assert [r.table_name for r in moved_rows(table, quiet, {}, snapshots)] == [table.bronze]
