"""Every column of the facts is filled where it has a meaning, and says what happened."""

from dataclasses import fields

import pytest

from cdc_assets.clock import utc_now
from cdc_assets.contract import FACTS, Event
from cdc_assets.ingest.losses import acknowledge
from cdc_assets.planning.records import FactsRow
from cdc_assets_tests.path.helpers import change_items, clean_up, run_sync, sync_unrecorded
from cdc_assets_tests.source import Project

TABLE = "dbo_items"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])

BATCH, QUIET = "batch", "quiet"
OPEN, BOOTSTRAP, RESNAPSHOT = Event.SNAPSHOT_OPEN, Event.BOOTSTRAP, Event.RESNAPSHOT
RECOVERING, ACKNOWLEDGED = Event.RECOVERING, Event.GAP_ACKNOWLEDGED
SNAPSHOTS = {BOOTSTRAP, RESNAPSHOT}
READ = {BATCH, *SNAPSHOTS}
SYNCED = {QUIET, *READ}
RANGES = {*READ, OPEN, RECOVERING}
EVENTS = {OPEN, *SNAPSHOTS, RECOVERING, ACKNOWLEDGED}
LOSSES = {RECOVERING, RESNAPSHOT, ACKNOWLEDGED, "open for a loss"}
FILLED = {
    "app_id": SYNCED,
    "batch_id": {BATCH},
    "target": {*SYNCED, *EVENTS},
    "rows": {*SYNCED, OPEN, RECOVERING},
    "min_lsn": RANGES,
    "max_lsn": {*RANGES, ACKNOWLEDGED},
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
    "source_rtt_ms": {*SYNCED, OPEN},
    "read_seconds": SYNCED,
    "read_mb": SYNCED,
    "network_wait_ms": READ,
    "retention_watermark_ts": SYNCED,
    "retention_headroom_hours": SYNCED,
    "source_max_commit_ts": {*SYNCED, OPEN},
    "capture_lag_seconds": {*SYNCED, OPEN},
    "ingestion_lag_seconds": SYNCED,
    "event": EVENTS,
    "detail": {OPEN, *SNAPSHOTS},
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
    change_items(items.source, base=500)
    newest = items.source.captured()
    clean_up(items.source)
    items.source.execute("UPDATE dbo.items SET name = N'kept' WHERE id = 1")
    items.source.captured(minimum=newest)
    items.extra = {"defaults": {"engine": items.engine, "on_data_loss": "resnapshot"}}
    run_sync(items)
    acknowledge(items.database(), TABLE)


def test_every_column_is_filled_where_it_has_a_meaning(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(FILLED) == list(FACTS.names)
    # Every silence writes its row.
    monkeypatch.setattr("cdc_assets.ingest.advance.QUIET_ROW_EVERY", utc_now() - utc_now())
    a_whole_life(items)
    run_sync(items)
    run_sync(items)
    found = rows(items)
    assert {kind(row) for row in found} == {*SYNCED, *EVENTS}
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
