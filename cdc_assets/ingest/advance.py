"""One table's share of a sync: its snapshot, its changes, its silence, or what a loss asks for."""

from __future__ import annotations

import logging
from dataclasses import replace

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
from cdc_assets.ingest.changes import read_changes
from cdc_assets.ingest.chunked import mode_conflict
from cdc_assets.ingest.instances import (
    fills_columns,
    see_instances,
    with_name,
)
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.looking import look_at_open
from cdc_assets.ingest.losses import find_loss, read_position, recover
from cdc_assets.ingest.outcome import Shared, TableOutcome, Work
from cdc_assets.ingest.quiet import is_quiet, quiet
from cdc_assets.ingest.snapshot import (
    SnapshotRequest,
    load_snapshot,
    prepare_snapshot,
    take_snapshot,
)
from cdc_assets.lake.failures import lake_error
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import (
    anew,
    check_history,
    newest_lsn,
)
from cdc_assets.settings.tables import DataLossPolicy
from cdc_assets.sqlserver.connection import with_retries
from cdc_assets.sqlserver.grants import missing_grant

_log = logging.getLogger(__name__)


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
    known.check_name(instance)
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
    known.check_snapshot(instance, poll)
    check_history(until, newest_lsn(poll, instance), known.name, name="end")
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
    known.check_name(instance)
    known.check_snapshot(instance, poll)
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
            hint=f"Restore {database.name.facts_uri}. {anew(table)}",
        )
    if known.position is None:
        request = SnapshotRequest(wait=known.resnapshot, reader=known.reader(instance, poll))
        return take_snapshot(database, table, instance, poll, known.snapshots, request)
    if snapshots.open_chunked is not None:
        return _beside_chunks(database, known, instance, poll, shared)
    if known.resnapshot or snapshots.open is not None or fills_columns(database, known):
        return _snapshot_anew(database, known, instance, poll, shared)
    return _changes_or_recovery(database, known, instance, poll, shared)


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
    found = look_at_open(database, known, opened, instance, poll)
    if not found.goes_on:
        position, reader = found.position, known.reader(instance, poll)
        lost_from = position.commit_ts if found.loss is not None else None
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
    if is_quiet(known, instance, poll):
        try:
            return quiet(database, known, instance, poll, shared.told_lately)
        except DataLossError:
            # Bronze may be ahead of control, after a crash: it says whether this is a loss.
            pass
    return read_changes(database, known, instance, poll, shared.tell)


def _instance(database: Database, known: Known, poll: Poll) -> CaptureInstance:
    """The table's instance as the poll saw it, or which grant keeps the login from seeing it."""
    wanted = database.settings.instance_of(known.name.key)
    try:
        return known.current(poll.instances, wanted)
    except CaptureInstanceUnknownError as error:
        with database.connections.lend() as connection:
            raise missing_grant(connection, wanted) or error from None
