"""Every column of the facts is filled where it has a meaning, and says what happened."""

from dataclasses import fields
from datetime import datetime, timedelta

import pytest

from cdc_assets.clock import utc_now
from cdc_assets.contract import FACTS, Event
from cdc_assets.ingest.losses import acknowledge
from cdc_assets.ingest.resets import reset
from cdc_assets.lake.facts import Facts
from cdc_assets.lake.tables import table_id
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import FactsRow
from cdc_assets_tests.path.helpers import change_items, clean_up, run_sync, sync_unrecorded
from cdc_assets_tests.source import Project

TABLE = "dbo_items"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])

BATCH, QUIET = "batch", "quiet"
OPEN, BOOTSTRAP, RESNAPSHOT = Event.SNAPSHOT_OPEN, Event.BOOTSTRAP, Event.RESNAPSHOT
RECOVERING, SKIPPED = Event.RECOVERING, Event.DATA_SKIPPED
ACKNOWLEDGED, RESET = Event.GAP_ACKNOWLEDGED, Event.RESET
SCHEMA, SEEN, SWITCHED = (
    Event.SCHEMA_CHANGE,
    Event.CAPTURE_INSTANCE_SEEN,
    Event.CAPTURE_INSTANCE_SWITCHED,
)
SNAPSHOTS = {BOOTSTRAP, RESNAPSHOT}
READ = {BATCH, *SNAPSHOTS}
SYNCED = {QUIET, *READ}
TOLD = {SCHEMA, SWITCHED}
"""Events that travel with a batch, and know what its sync measured of the source."""
RANGES = {*READ, OPEN, RECOVERING, SKIPPED, SCHEMA}
EVENTS = set(Event)
LOSSES = {RECOVERING, SKIPPED, RESNAPSHOT, ACKNOWLEDGED, "open for a loss"}
FILLED = {
    "app_id": {*SYNCED, SCHEMA},
    "batch_id": {BATCH, SCHEMA},
    "target": {*SYNCED, *EVENTS},
    "rows": {*SYNCED, OPEN, RECOVERING, SKIPPED, SEEN, *TOLD},
    "min_lsn": {*RANGES, SEEN, SWITCHED},
    "max_lsn": {*RANGES, SEEN, SWITCHED, ACKNOWLEDGED},
    "min_commit_ts": RANGES,
    "max_commit_ts": RANGES,
    "deletes": SYNCED,
    "inserts": SYNCED,
    "updates": SYNCED,
    "started_at": {*SYNCED, OPEN},
    "duration_ms": SYNCED,
    "written_at": {*SYNCED, *EVENTS},
    "end_lsn": SYNCED,
    "end_commit_ts": SYNCED,
    "source_rtt_ms": {*SYNCED, *TOLD, OPEN},
    "read_seconds": SYNCED,
    "read_mb": SYNCED,
    "network_wait_ms": READ,
    "retention_watermark_ts": {*SYNCED, *TOLD},
    "retention_headroom_hours": SYNCED,
    "source_max_commit_ts": {*SYNCED, *TOLD, OPEN},
    "capture_lag_seconds": {*SYNCED, *TOLD, OPEN},
    "ingestion_lag_seconds": SYNCED,
    "event": EVENTS,
    "detail": {OPEN, *SNAPSHOTS, SKIPPED, RESET, SCHEMA, SEEN, SWITCHED},
    "lost_from_ts": LOSSES,
    "lost_to_ts": LOSSES,
    "engine": {*READ, OPEN},
}
"""Where each column must not be NULL; it is NULL everywhere else."""


def kind(row: FactsRow) -> str:
    """What a row is about, as `FILLED` names it."""
    return row.event or (BATCH if row.rows else QUIET)


def filled(row: FactsRow) -> set[str]:
    return {f.name for f in fields(row) if getattr(row, f.name) is not None}


def expected(row: FactsRow) -> set[str]:
    names = {name for name, kinds in FILLED.items() if kind(row) in kinds}
    if row.event == OPEN and row.payload["lost_from_ts"]:
        names |= {name for name, kinds in FILLED.items() if "open for a loss" in kinds}
    return names


def rows(items: Project) -> list[FactsRow]:
    facts = items.database().lake.facts
    return [*facts.events(), *facts.batches(f"bronze/{TABLE}")]


def a_whole_life(items: Project) -> None:
    """A bootstrap, changes, silence, a loss, and a person who knows of it."""
    items.source.execute("UPDATE dbo.items SET note = 'capture runs' WHERE id = 5")
    items.source.captured()
    run_sync(items)
    change_items(items.source)
    run_sync(items)
    lose(items)
    policy(items, "resnapshot")
    run_sync(items)
    acknowledge(items.database(), TABLE)


def test_every_column_is_filled_where_it_has_a_meaning(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(FILLED) == list(FACTS.names)
    # Every silence writes its row.
    monkeypatch.setattr("cdc_assets.ingest.quiet.QUIET_ROW_EVERY", utc_now() - utc_now())
    a_whole_life(items)
    run_sync(items)
    run_sync(items)
    found = rows(items)
    assert {kind(row) for row in found} == {*SYNCED, OPEN, RECOVERING, ACKNOWLEDGED}
    for row in found:
        assert (kind(row), filled(row)) == (kind(row), expected(row))
        if kind(row) in SYNCED:
            _assert_true(row)


def _assert_true(row: FactsRow) -> None:
    """What can be held against something else."""
    now = utc_now()
    assert row.started_at is not None
    assert row.written_at is not None
    assert row.started_at <= row.written_at <= now
    assert row.retention_watermark_ts is not None
    assert row.end_commit_ts is not None
    hours = (row.end_commit_ts - row.retention_watermark_ts).total_seconds() / 3600
    assert row.retention_headroom_hours == pytest.approx(hours)
    assert hours >= 0
    if kind(row) == BATCH:
        assert row.rows is not None
        assert (row.deletes or 0) + (row.inserts or 0) + (row.updates or 0) <= row.rows
        assert row.read_seconds is not None
        assert row.read_seconds > 0
        assert row.read_mb is not None
        assert row.read_mb > 0


def lose(items: Project) -> str:
    """Changes that cleanup removes unread; gives max_lsn after them."""
    change_items(items.source, base=500)
    newest = items.source.captured()
    clean_up(items.source)
    items.source.execute("UPDATE dbo.items SET name = N'kept' WHERE id = 1")
    return items.source.captured(minimum=newest)


def policy(items: Project, name: str) -> None:
    items.extra = {"defaults": {"engine": items.engine, "on_data_loss": name}}


def position(items: Project) -> Offset:
    end = items.database().lake.control.read()[f"bronze/{TABLE}"].end
    assert end is not None
    return end


def newest(items: Project, event: Event) -> FactsRow:
    return [row for row in items.database().lake.facts.events() if row.event == event][-1]


def commit_ts(items: Project, lsn: str | None) -> datetime:
    """What the source says of a commit; its clock is UTC here."""
    (found,) = items.source.rows(
        "SELECT CAST(tran_end_time AS datetime2(3)) FROM cdc.lsn_time_mapping"
        f" WHERE start_lsn = CONVERT(binary(10), '{lsn}', 1)"
    )
    return found[0]


@ARROW
@pytest.mark.sandbox
def test_every_event_says_what_happened(items: Project) -> None:
    change_items(items.source)
    run_sync(items)
    opened, done = newest(items, OPEN), newest(items, BOOTSTRAP)
    assert opened.min_lsn == opened.max_lsn == done.max_lsn == done.end_lsn
    assert opened.max_commit_ts == done.end_commit_ts == commit_ts(items, opened.max_lsn)
    assert done.rows == len(items.bronze(TABLE))
    assert datetime.fromisoformat(done.payload["high_mark"]) >= commit_ts(items, opened.max_lsn)

    before = position(items)
    lose(items)
    policy(items, "skip")
    run_sync(items)
    skipped = newest(items, SKIPPED)
    (first, *_) = [row for row in items.bronze(TABLE) if row["_operation"]]
    assert (skipped.min_lsn, skipped.min_commit_ts) == (str(before.lsn), before.commit_ts)
    assert (skipped.lost_from_ts, skipped.lost_to_ts) == (before.commit_ts, skipped.max_commit_ts)
    assert skipped.max_lsn is not None
    assert str(before.lsn) < skipped.max_lsn < first["_start_lsn"]
    acknowledged = acknowledge(items.database(), TABLE)
    assert (acknowledged.lost_from_ts, acknowledged.lost_to_ts, acknowledged.max_lsn) == (
        skipped.lost_from_ts,
        skipped.lost_to_ts,
        skipped.max_lsn,
    )

    items.source.execute("ALTER TABLE dbo.items ADD colour varchar(9) NULL")
    items.source.enable("items", instance="items_v2")
    change_items(items.source, base=700)
    run_sync(items)
    seen, switched, told = (newest(items, event) for event in (SEEN, SWITCHED, SCHEMA))
    assert seen.payload["identity"] == switched.payload["identity"]
    assert seen.min_lsn == seen.max_lsn == switched.max_lsn == seen.payload["start_lsn"]
    assert (switched.payload["name"], switched.payload["before"]) == ("items_v2", TABLE)
    assert "colour" in (told.detail or "")
    batch = items.database().lake.facts.batches(f"bronze/{TABLE}")[-1]
    assert (told.app_id, told.batch_id) == (batch.app_id, batch.batch_id)

    change_items(items.source, base=900)
    given_up = items.database().lake.bronze(items.database().table(TABLE))
    assert given_up is not None
    reset(items.database(), TABLE)
    ids = {"bronze": table_id(given_up), "silver": None, "history": None}
    assert newest(items, RESET).payload == ids
    run_sync(items)
    assert newest(items, BOOTSTRAP).rows == len(items.bronze(TABLE))
    found = rows(items)
    of_others = {RESNAPSHOT, RECOVERING, Event.SNAPSHOT_PLAN, Event.SNAPSHOT_CHUNK}
    assert {row.event for row in found} == {None, *Event} - of_others
    for row in found:
        assert (kind(row), filled(row)) == (kind(row), expected(row))
        if kind(row) in SYNCED:
            _assert_true(row)


@ARROW
def test_what_another_run_read_is_not_measured_by_this_one(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sync(items)
    change_items(items.source)
    sync_unrecorded(items, monkeypatch)
    change_items(items.source, base=500)
    run_sync(items)
    healed, own = items.database().lake.facts.batches(f"bronze/{TABLE}")
    assert (healed.batch_id, own.batch_id) == (1, 2)
    assert (healed.rows, healed.read_seconds, healed.duration_ms) == (13, None, None)
    assert own.read_seconds is not None


@ARROW
def test_a_clock_that_was_ahead_makes_no_quiet_row_due(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a quiet sync looks at no more of the facts than the last minutes."""
    run_sync(items)
    change_items(items.source)
    ahead = utc_now() + timedelta(days=30)
    with monkeypatch.context() as wrong:
        wrong.setattr("cdc_assets.ingest.recording.utc_now", lambda: ahead)
        run_sync(items)
    before = items.database().lake.facts.batches(f"bronze/{TABLE}")
    monkeypatch.setattr(Facts, "newest_rows", lambda _: pytest.fail("it looks at all facts"))
    for _ in range(2):
        run_sync(items)
    assert items.database().lake.facts.batches(f"bronze/{TABLE}") == before
    change_items(items.source, base=500)
    run_sync(items)
    written = [row.written_at for row in items.database().lake.facts.batches(f"bronze/{TABLE}")]
    assert written[-1] == ahead
    assert written[0] is not None
    assert written[0] < ahead - timedelta(days=29), "its own time"
