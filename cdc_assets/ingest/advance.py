"""One table's share of a sync: its snapshot, its changes, its silence, or what a loss asks for."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.errors import (
    CaptureInstanceUnknownError,
    CdcError,
    DataLossError,
    SnapshotWaitsError,
    TableReplacedError,
    UnexpectedError,
    expected,
)
from cdc_assets.ingest.changes import existing_bronze, read_changes
from cdc_assets.ingest.chunked import mode_conflict
from cdc_assets.ingest.instances import (
    fills_columns,
    follow,
    is_renamed,
    see_instances,
    switches,
    with_name,
)
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.losses import find_loss, read_position, recover
from cdc_assets.ingest.outcome import Shared, TableOutcome, ToldLately, Work
from cdc_assets.ingest.snapshot import (
    SnapshotRequest,
    load_snapshot,
    prepare_snapshot,
    take_snapshot,
)
from cdc_assets.ingest.waves import can_go_on
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.failures import lake_error
from cdc_assets.lake.tables import table_id
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import BronzeProgress
from cdc_assets.planning.instances import unseen
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import (
    anew,
    check_continues,
    check_history,
    check_mapped,
    newest_lsn,
    readable_end,
)
from cdc_assets.planning.records import FactsRow
from cdc_assets.settings.model import DataLossPolicy
from cdc_assets.sqlserver.connection import with_retries
from cdc_assets.sqlserver.grants import missing_grant

_log = logging.getLogger(__name__)

QUIET_ROW_EVERY = timedelta(minutes=5)
"""A quiet table writes a row this often: silence then means that the sync has stopped."""


def prepare(database: Database, known: Known, poll: Poll) -> Known:
    """A table that was never loaded, ready for its first snapshot, or with what stands against it.

    Before the tables are read, so that all their snapshots are opened by one commit.
    """
    if known.error or known.position or known.snapshots.newest or known.resnapshot:
        return known
    try:
        return with_retries(lambda: _prepared(database, known, poll))
    except Exception as error:  # noqa: BLE001 - one table's failure fails that table alone
        return replace(known, error=_ours(known, error))


def _prepared(database: Database, known: Known, poll: Poll) -> Known:
    instance = _instance(database, known, poll)
    known = see_instances(database, known, instance, poll)
    request = SnapshotRequest(reader=known.reader(instance, poll))
    found = prepare_snapshot(database, known.name, instance, poll, known.snapshots, request)
    return replace(known, prepared=found)


def advance(database: Database, known: Known, poll: Poll, shared: Shared) -> TableOutcome:
    """One table's share; its own error, foreseen or not, becomes its outcome.

    All of it may be done again: what is committed is found, so a dropped connection costs a retry.
    """
    try:
        return with_retries(lambda: _work(database, known, poll, shared))
    except SnapshotWaitsError as waits:
        return TableOutcome(known.name.key, Work.WAITING, warnings=(f"{waits.what}. {waits.hint}",))
    except Exception as error:  # noqa: BLE001 - one table's failure fails that table alone
        return TableOutcome(known.name.key, Work.FAILED, error=_ours(known, error))


def follow_stream(
    database: Database, known: Known, poll: Poll, until: Offset, shared: Shared
) -> TableOutcome:
    """A stream's micro-batch: the changes up to its end, and nothing else of the table.

    Raises what keeps it from them: a loss too, unless the settings skip it. Its start heals that.
    """
    try:
        return with_retries(lambda: _micro_batch(database, known, poll, until, shared))
    except Exception as error:
        raise _ours(known, error) from error


def _micro_batch(
    database: Database, known: Known, poll: Poll, until: Offset, shared: Shared
) -> TableOutcome:
    if known.error is not None:
        raise known.error
    instance = _instance(database, known, poll)
    if instance.name in poll.errors:
        raise poll.errors[instance.name]
    _check_snapshot(known, instance, poll)
    check_history(until, newest_lsn(poll, instance), where=str(known.name), name="end")
    known = see_instances(database, known, instance, poll)
    capped = replace(poll, max=until)
    try:
        if known.position is not None and known.position.lsn < until.lsn:
            outcome = _changes(database, known, instance, capped, shared)
        else:
            outcome = read_changes(database, known, instance, capped, shared.tell)
    except DataLossError as loss:
        is_skipped = database.settings.on_data_loss_of(known.name.key) is DataLossPolicy.SKIP
        if not is_skipped or known.snapshots.open_chunked is not None:
            raise
        outcome = recover(database, known, loss)
    return with_name(known, instance, outcome)


def settled(
    database: Database, known: Known, poll: Poll, lately: ToldLately
) -> TableOutcome | None:
    """The outcome of a table of which the poll says all: quiet, and recorded as such lately.

    None where its own turn must look further or has something to tell. Nothing is opened for it,
    since most tables of most syncs are such.
    """
    snapshots = known.snapshots
    if known.error or known.resnapshot or known.control is None or known.position is None:
        return None
    whole = snapshots.open_whole
    if not snapshots.starts_changes or whole is not None or fills_columns(database, known):
        return None
    try:
        wanted = database.settings.instance_of(known.name.key)
        instance = known.current(poll.instances, wanted)
        if instance.name in poll.errors or unseen(poll.instances, instance, known.recorded):
            return None
        if is_renamed(known, instance):
            return None
        if not _is_quiet(known, instance, poll) or known.name.bronze not in lately():
            return None
        _check_snapshot(known, instance, poll)
        outcome = _passed(database, known, instance, poll)
        if switches(known, instance, poll, outcome):
            return None
        return follow(database, known, instance, poll, outcome)
    except Exception:  # noqa: BLE001 - told in its own turn
        return None


def _ours(known: Known, error: Exception) -> CdcError:
    ours = lake_error(error, known.name.bronze_uri) or expected(error)
    if isinstance(ours, UnexpectedError):
        _log.exception("%s failed", known.name)
    ours.where = str(known.name)
    return ours


def _work(database: Database, known: Known, poll: Poll, shared: Shared) -> TableOutcome:
    if known.error is not None:
        raise known.error
    if known.prepared is not None:
        return load_snapshot(database, known.prepared)
    instance = _instance(database, known, poll)
    if instance.name in poll.errors:
        raise poll.errors[instance.name]
    _check_snapshot(known, instance, poll)
    known = see_instances(database, known, instance, poll)
    return with_name(known, instance, _turn(database, known, instance, poll, shared))


def _turn(
    database: Database, known: Known, instance: CaptureInstance, poll: Poll, shared: Shared
) -> TableOutcome:
    """What the table needs now that its instance is known."""
    table, snapshots = known.name, known.snapshots
    if snapshots.newest is None and known.position is not None:
        raise TableReplacedError(
            "control knows its position, and the facts know no snapshot of it",
            where=str(table),
            hint=f"Restore {database.name.facts_uri}. {anew(str(table))}",
        )
    if known.position is None:
        request = SnapshotRequest(wait=known.resnapshot, reader=known.reader(instance, poll))
        return take_snapshot(database, table, instance, poll, known.snapshots, request)
    if snapshots.open_chunked is not None:
        return _beside_chunks(database, known, instance, poll, shared)
    if known.resnapshot or snapshots.open is not None or fills_columns(database, known):
        return _snapshot_anew(database, known, instance, poll, shared)
    return _changes_or_recovery(database, known, instance, poll, shared)


def _check_snapshot(known: Known, instance: CaptureInstance, poll: Poll) -> None:
    """Raise `HistoryChangedError` for a newest snapshot above all LSNs that the server has given.

    Below it silver would take no change, and no new snapshot.
    """
    taken = known.snapshots.newest
    if taken is not None:
        newest = newest_lsn(poll, instance)
        check_history(taken.at, newest, where=str(known.name), name="snapshot")


def _snapshot_anew(
    database: Database,
    known: Known,
    instance: CaptureInstance,
    poll: Poll,
    shared: Shared,
) -> TableOutcome:
    """Go on with the open snapshot, or take the one that a person or a switch asks for.

    A person's closes the gap that there is by now. Any other leaves a gap to the settings, unless
    it was opened to close one. One that only repeats must not keep the table from its changes:
    where it cannot be read, they are.
    """
    opened = known.snapshots.open
    lost_from = opened.lost_from if opened else None
    position = read_position(database, known)
    loss = find_loss(position, known, instance, poll) if lost_from is None else None
    if loss is not None and not known.resnapshot:
        return recover(database, known, loss)
    if loss is not None:
        lost_from = position.commit_ts
    reader = known.reader(instance, poll)
    request = SnapshotRequest(position, lost_from, wait=known.resnapshot, reader=reader)
    try:
        return take_snapshot(database, known.name, instance, poll, known.snapshots, request)
    except CdcError as error:
        if known.resnapshot or lost_from is not None:
            raise
        outcome = _changes_or_recovery(database, known, instance, poll, shared)
        told = f"the snapshot that is open could not be read: {error}"
        return replace(outcome, warnings=(*outcome.warnings, told))


def _beside_chunks(
    database: Database,
    known: Known,
    instance: CaptureInstance,
    poll: Poll,
    shared: Shared,
) -> TableOutcome:
    """The changes of a table whose snapshot is read in chunks; a loss abandons that one.

    A person who asks for a snapshot has it: no newer LSN, unless the open one cannot be read on.
    """
    opened = known.snapshots.open_chunked
    if not known.resnapshot or opened is None:
        return _changes_or_recovery(database, known, instance, poll, shared)
    position = read_position(database, known)
    is_lost = find_loss(position, known, instance, poll) is not None
    if is_lost or not can_go_on(database, known, opened, (instance, poll)):
        lost_from, reader = position.commit_ts if is_lost else None, known.reader(instance, poll)
        request = SnapshotRequest(position, lost_from, wait=True, reader=reader, anew=True)
        return take_snapshot(database, known.name, instance, poll, known.snapshots, request)
    if database.settings.snapshot_of(known.name.key) is not opened.mode:
        raise mode_conflict(known.name, opened)
    outcome = _changes_or_recovery(database, known, instance, poll, shared)
    told = f"The snapshot at {opened.at.lsn} is open already, and no other was opened."
    return replace(outcome, warnings=(*outcome.warnings, told))


def _changes_or_recovery(
    database: Database,
    known: Known,
    instance: CaptureInstance,
    poll: Poll,
    shared: Shared,
) -> TableOutcome:
    try:
        return _changes(database, known, instance, poll, shared)
    except DataLossError as loss:
        return recover(database, known, loss)


def _changes(
    database: Database,
    known: Known,
    instance: CaptureInstance,
    poll: Poll,
    shared: Shared,
) -> TableOutcome:
    if _is_quiet(known, instance, poll):
        try:
            return _quiet(database, known, instance, poll, shared.told_lately)
        except DataLossError:
            # Bronze may be ahead of control, after a crash: it says whether this is a loss.
            pass
    return read_changes(database, known, instance, poll, shared.tell)


def _is_quiet(known: Known, instance: CaptureInstance, poll: Poll) -> bool:
    """Whether the poll found no rows; raises `HistoryChangedError` for a position out of place."""
    if known.observed is not None:
        check_mapped(known.observed, poll, where=str(known.name))
    # Not asked is not quiet: an instance that the first look did not list is read.
    names = [reader.identity.instance_name for reader in known.chain(instance, poll)]
    has_rows = any(poll.has_rows.get(name, True) for name in names if name in poll.instances)
    return known.control is not None and not has_rows


def _instance(database: Database, known: Known, poll: Poll) -> CaptureInstance:
    """The table's instance as the poll saw it, or which grant keeps the login from seeing it."""
    wanted = database.settings.instance_of(known.name.key)
    try:
        return known.current(poll.instances, wanted)
    except CaptureInstanceUnknownError as error:
        with database.connections.lend() as connection:
            raise missing_grant(connection, wanted) or error from None


def _quiet(
    database: Database,
    known: Known,
    instance: CaptureInstance,
    poll: Poll,
    lately: ToldLately,
) -> TableOutcome:
    """Nothing to read; now and then a row says so in the facts, and both tables are looked at."""
    outcome = follow(database, known, instance, poll, _passed(database, known, instance, poll))
    if known.name.bronze in lately():
        return outcome
    table = known.name
    existing_bronze(database, known)
    silver = database.lake.silver(table)
    wanted, found = known.silver_id, table_id(silver) if silver is not None else None
    lost = wanted is not None and (found is None or wanted not in ("", found))
    quiet = _quiet_row(table, outcome)
    return replace(outcome, facts=(*outcome.facts, quiet), silver_lost=lost)


def _passed(
    database: Database, known: Known, instance: CaptureInstance, poll: Poll
) -> TableOutcome:
    """The position moves to what the poll saw, after the same loss test as with rows."""
    table, position = known.name, known.position
    assert position is not None  # noqa: S101 - the caller asked
    check_history(position, newest_lsn(poll, instance), where=str(table))
    check_continues(position, known.chain(instance, poll), poll, where=str(table))
    end = readable_end(poll, position)
    return TableOutcome(
        table=table.key,
        work=Work.QUIET,
        start=position,
        end=end,
        started_at=utc_now(),
        progress=BronzeProgress(
            table_name=table.bronze,
            end=end,
            identity=instance.identity,
            granularity=database.settings.finality_of(table.key).granularity,
        ),
    )


def told_lately(database: Database) -> Collection[str]:
    """The bronze tables that need no quiet row yet.

    One from a clock that was ahead is no more a sign of life than an old one.
    """
    now = utc_now()
    return database.lake.facts.told_between(now - QUIET_ROW_EVERY, now + QUIET_ROW_EVERY)


def _quiet_row(table: TableName, outcome: TableOutcome) -> FactsEntry:
    end = outcome.end
    row = FactsRow(
        app_id=table.changes_app,
        target=table.bronze,
        rows=0,
        deletes=0,
        inserts=0,
        updates=0,
        end_lsn=str(end.lsn) if end else None,
        end_commit_ts=end.commit_ts if end else None,
    )
    return FactsEntry((row,))
