"""What a loss of changes leads to: an error, a new snapshot, or going on past the gap.

Each first records what is lost, once, and then goes on in a way that a rerun after a crash
repeats safely.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.contract import Event
from cdc_assets.engines.database import Database
from cdc_assets.errors import (
    CommitConflictError,
    DataLossError,
    SettingsError,
)
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.changes import existing_bronze, read_changes
from cdc_assets.ingest.clock import commit_at_or_below
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.poll import poll_database
from cdc_assets.ingest.snapshot import SnapshotRequest, take_snapshot
from cdc_assets.lake.bronze import changes_end
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.names import Command, TableName
from cdc_assets.planning.instances import recorded_by_target, siblings, switches_by_target
from cdc_assets.planning.losses import may_resnapshot, open_gaps, resnapshots_by_target
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import check_continues, check_mapped, newest_lsn
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import snapshots_by_target
from cdc_assets.settings.tables import DataLossPolicy
from cdc_assets.sqlserver.catalog import capture_instances


def recover(database: Database, known: Known, loss: DataLossError) -> TableOutcome:
    """Do what the settings say about a loss; raises it where they say nothing, or not so soon.

    Lake and source are looked at afresh first: another sync may have healed it, cleanup may have
    gone on, and a read that gave too few rows may have been no loss. One beside an open chunked
    snapshot abandons that (seed 0016, Amendment 3), and where the settings skip it, too: another is
    opened with the gap.
    """
    known = _refreshed(database, known)
    table, position = known.name, read_position(database, known)
    instance, poll = look_again(database, known, position)
    try:
        check_continues(position, known.chain(instance, poll), poll, where=str(table))
    except DataLossError as proven:
        loss = proven
    else:
        return read_changes(database, known, instance, poll)
    policy = database.settings.on_data_loss_of(table.key)
    if policy is DataLossPolicy.FAIL:
        raise loss
    # Chunks read before the gap would stay as they were then: no change comes that corrects them.
    is_skipped = policy is DataLossPolicy.SKIP
    if is_skipped and known.snapshots.open_chunked is None:
        return _skip(database, known, instance, poll, position)
    # A chunked one that is open had its gap before it: this is another, which abandons it.
    opened = known.snapshots.open_whole
    if opened is None or opened.lost_from is None:
        if not is_skipped:
            _check_interval(database, table, loss)
        until = poll.max.commit_ts if poll.max else position.commit_ts
        end = Offset(newest_lsn(poll, instance), until)
        _record(database, table, Event.RECOVERING, position, end)
    request = SnapshotRequest(position, position.commit_ts, reader=known.reader(instance, poll))
    return take_snapshot(database, table, instance, poll, known.snapshots, request)


def find_loss(
    position: Offset, known: Known, instance: CaptureInstance, poll: Poll
) -> DataLossError | None:
    """The gap that the changes after a position cannot get past, if there is one."""
    try:
        check_continues(position, known.chain(instance, poll), poll, where=str(known.name))
    except DataLossError as loss:
        return loss
    return None


def _refreshed(database: Database, known: Known) -> Known:
    """The same table as control and facts tell of it now."""
    events = database.lake.facts.events()
    bronze = known.name.bronze
    return replace(
        known,
        control=database.lake.control.read().get(bronze),
        snapshots=snapshots_by_target(events)[bronze],
        recorded=recorded_by_target(events)[bronze],
        switch=switches_by_target(events).get(bronze),
    )


def read_position(database: Database, known: Known) -> Offset:
    """How far the table was read, by what bronze says too."""
    return position_in(known, existing_bronze(database, known))


def position_in(known: Known, bronze: DeltaTable) -> Offset:
    """The same of a bronze that is open."""
    return known.position_after(changes_end(bronze, known.name.changes_app))


def acknowledge(database: Database, key: str) -> FactsRow:
    """Record that a person knows of a table's gap: `no_gap` turns green. Gives its event.

    Raises `SettingsError` for a table without one.
    """
    table, facts = database.table(key), database.lake.facts
    version = (facts.version_of(table.acknowledged_app) or 0) + 1
    gap = open_gaps(facts.events()).get(table.bronze)
    if gap is None or gap.lsn is None:
        raise SettingsError("it has no gap to acknowledge", where=str(table))
    row = FactsRow(
        target=table.bronze,
        event=str(Event.GAP_ACKNOWLEDGED),
        max_lsn=gap.lsn,
        lost_from_ts=gap.start,
        lost_to_ts=gap.end,
        written_at=utc_now(),
    )
    if not facts.append([FactsEntry((row,), table.acknowledged_app, version)]):
        raise CommitConflictError(
            "another acknowledgement came first", where=str(table), hint="Run it again."
        )
    return row


def look_again(database: Database, known: Known, position: Offset) -> tuple[CaptureInstance, Poll]:
    """One table's instance and a poll of it, from a position on.

    Raises `HistoryChangedError` where the source's log lacks the position that a poll gave.
    """
    wanted = database.settings.instance_of(known.name.key)
    with database.connections.lend() as connection:
        listed = capture_instances(connection)
        found = siblings(listed, known.current(listed, wanted))
        zone = database.settings.source_time_zone
        positions = {i.name: position.lsn for i in found}
        observed = {known.observed.lsn} if known.observed is not None else set()
        poll = poll_database(connection, {i.name: i for i in found}, positions, zone, observed)
    if known.observed is not None:
        check_mapped(known.observed, poll, known.name)
    return known.current(poll.instances, wanted), poll


def _skip(
    database: Database,
    known: Known,
    instance: CaptureInstance,
    poll: Poll,
    position: Offset,
) -> TableOutcome:
    """Go on at the low watermark; rows changed in the gap alone stay as they were."""
    watermark = max(poll.watermarks.get(instance.name) or instance.start_lsn, instance.start_lsn)
    last = max(watermark.previous(), position.lsn)
    with database.connections.lend() as connection:
        mapped = commit_at_or_below(connection, watermark, poll.clock)
    past = Offset(last, mapped.commit_ts if mapped else position.commit_ts)
    past = past.no_earlier_than(position.commit_ts)
    table = known.name
    identity = instance.identity
    _record(database, table, Event.DATA_SKIPPED, position, past, identity=identity.to_dict())
    control = replace(
        known.control or ControlRow(table.bronze),
        end_lsn=str(past.lsn),
        end_commit_ts=past.commit_ts,
        source_object_id=identity.source_object_id,
        change_object_id=identity.change_object_id,
        instance_name=identity.instance_name,
        instance_created_at=identity.created_at,
    )
    outcome = read_changes(database, replace(known, control=control), instance, poll)
    return replace(outcome, work=Work.SKIPPED)


def _check_interval(database: Database, table: TableName, loss: DataLossError) -> None:
    days = database.settings.defaults.resnapshot_interval_days
    last: datetime = resnapshots_by_target(database.lake.facts.events())[table.bronze]
    if not may_resnapshot(last, utc_now(), days):
        raise DataLossError(
            loss.what,
            hint=f"It was re-snapshot by itself at {last} UTC, and a second loss within {days}"
            " days has a cause: sync more often, or lengthen the CDC retention; then take a"
            f" new snapshot: {table.command(Command.RESNAPSHOT)}.",
        )


def _record(
    database: Database,
    table: TableName,
    event: Event,
    start: Offset,
    end: Offset,
    **detail: object,
) -> None:
    """The event of a loss, once for each range."""
    row = FactsRow(
        target=table.bronze,
        event=str(event),
        min_lsn=str(start.lsn),
        max_lsn=str(end.lsn),
        min_commit_ts=start.commit_ts,
        max_commit_ts=max(start.commit_ts, end.commit_ts),
        rows=0,
        lost_from_ts=start.commit_ts,
        lost_to_ts=max(start.commit_ts, end.commit_ts),
        written_at=utc_now(),
        detail=json.dumps(detail) if detail else None,
    )
    database.lake.facts.append([FactsEntry((row,), table.lost_app(start.lsn, end.lsn))])
    faults.reach(FaultPoint.LOSS_RECORDED)
