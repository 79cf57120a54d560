"""What happens before a stream runs: a first snapshot, a loss healed, a generation begun.

A stream never heals by the way: its query would have to go on at a place that its checkpoint does
not know. So all of it comes first, in steps that a start after a crash repeats safely; the file of
the generation is the last of them.
"""

from __future__ import annotations

import uuid
import warnings
from dataclasses import dataclass, replace

from cdc_assets import faults
from cdc_assets.contract import bronze_columns
from cdc_assets.engines.database import Database
from cdc_assets.engines.spark.checkpoints import Checkpoints
from cdc_assets.errors import CheckpointError, SettingsError, SnapshotWaitsError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.changes import untold_changes
from cdc_assets.ingest.columns import columns_to_load
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.looking import look_at_open
from cdc_assets.ingest.losses import find_loss, read_position, recover
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.recording import Recorder
from cdc_assets.ingest.stream.places import OwnTableName
from cdc_assets.ingest.stream.planner import SourcePlanner
from cdc_assets.ingest.sync import known_table, poll_tables, sync
from cdc_assets.lake.bronze import change_commits, changes_end, newest_batch_id
from cdc_assets.names import Command, TableName
from cdc_assets.planning.generations import (
    Generation,
    Head,
    Progress,
    Writer,
    next_number,
    why_anew,
)
from cdc_assets.planning.offsets import Offset
from cdc_assets.settings.tables import DataLossPolicy
from cdc_assets.sqlserver.catalog import capture_instances
from cdc_assets.sqlserver.connection import with_retries


class NewGenerationWarning(UserWarning):
    """A stream goes on where its table is, and not where its checkpoint was."""


@dataclass(frozen=True)
class Start:
    """What a stream's start is told: the table, its checkpoint, and what it may do.

    `is_own` says that the table is in no settings: then nothing but its checkpoint and its facts
    knows where the stream was.
    """

    database: Database
    key: str
    checkpoints: Checkpoints
    planner: SourcePlanner
    is_own: bool
    bootstrap: bool


def begin(start: Start) -> Generation:
    """The generation to run, ready to go on; raises what keeps the table from it.

    Raises `DataLossError` where the settings say so, `SettingsError` for a table without a
    snapshot that may take none, `CheckpointError` for an own stream's checkpoint that is lost.
    """
    try:
        return _begun(start)
    finally:
        start.database.connections.close()


def _begun(start: Start) -> Generation:
    known = _loaded(start)
    generation = start.checkpoints.newest()
    if generation is not None or known.position is not None:
        known = _healed(start, known, generation)
    head, position = _head(start, known, generation)
    progress = start.checkpoints.progress(generation.number) if generation else Progress()
    reason = why_anew(generation, progress, head)
    if reason is None:
        assert generation is not None  # noqa: S101 - without one there is a reason
        return generation
    is_first = generation is None and head.version is None
    number = next_number(generation, head)
    if start.is_own and not is_first:
        _check_own(start, known, reason, number, _is_healed(head, progress, generation))
        _tell_of(start, known, generation)
    if not is_first:
        warnings.warn(
            f"{known.name}: {reason}; generation {number} of the stream goes on at"
            f" {position.lsn}, where the table is.",
            NewGenerationWarning,
            stacklevel=4,
        )
    began = Generation(number, uuid.uuid4().hex, _newest_id(start, known, head), position)
    start.checkpoints.begin(began)
    faults.reach(FaultPoint.GENERATION_WRITTEN)
    return began


def _check_own(start: Start, known: Known, reason: str, number: int, is_healed: bool) -> None:
    """Raise `CheckpointError` for an own stream whose checkpoint is not as the stream left it.

    A snapshot for a loss is what begins a generation, and once: one that has written is known to
    the checkpoint that it left.
    """
    assert isinstance(known.name, OwnTableName)  # noqa: S101 - an own stream's is
    if is_healed:
        if _version(start, known.name.of_generation(number)) is None:
            return
        reason = f"the checkpoint knows no generation {number}, which has written: it was set back"
    raise CheckpointError(
        reason,
        where=str(known.name),
        hint="Restore the checkpoint as it was. Or give the stream another app_id and a new"
        " checkpoint: it goes on where its facts and control have it.",
    )


def _tell_of(start: Start, known: Known, generation: Generation | None) -> None:
    """Record what an own stream's generation has appended, and died before it told.

    The next one has another transaction id, and looks for no batch of this one.
    """
    assert generation is not None  # noqa: S101 - a snapshot for a loss has one before it
    database = start.database
    known = replace(known, stream=Writer(generation, 0, owns_id=True))
    poll = with_retries(lambda: poll_tables(database, [known]))
    instance = known.current(poll.instances, database.settings.instance_of(start.key))
    untold = untold_changes(database, known, instance, poll)
    recorder = Recorder(database, poll, {known.name.bronze: known.snapshots})
    recorder.record([] if untold is None else [untold])


def _newest_id(start: Start, known: Known, head: Head) -> int:
    """The batch id that a new generation goes on from.

    An own stream's has a transaction id of its own, and yet no batch id that bronze has: rows that
    the log tells no more of are told apart by it.
    """
    newest = head.version or 0
    bronze = start.database.lake.bronze(known.name) if start.is_own else None
    return newest if bronze is None else max(newest, newest_batch_id(bronze))


def _is_healed(head: Head, progress: Progress, generation: Generation | None) -> bool:
    """Whether the new generation comes of a snapshot that closes a gap, which both know of."""
    last = progress.end or (generation.start if generation else None)
    return last is not None and head.after_loss is not None and head.after_loss.lsn > last.lsn


def _loaded(start: Start) -> Known:
    """The table with its first snapshot, where it is to have one, and without an open gap."""
    database, key = start.database, start.key
    known = known_table(database, key)
    snapshots = known.snapshots
    whole = snapshots.open_whole
    is_loss_open = whole is not None and whole.lost_from is not None
    if (not snapshots.starts_changes and start.bootstrap) or is_loss_open:
        take(database, key)
        return known_table(database, key)
    if not snapshots.starts_changes and not start.is_own:
        raise SettingsError(
            "it has no snapshot yet, so its changes would begin in the middle",
            where=str(known.name),
            hint="Start the stream with bootstrap=True, or run once:"
            f" {known.name.command(Command.SYNC)}.",
        )
    if not snapshots.starts_changes and database.lake.bronze(known.name) is None:
        _create(start, known)
    return known


def take(database: Database, key: str, *, resnapshot: bool = False) -> Offset:
    """Take a table's snapshot as a sync does; gives its LSN. Raises what keeps it from that.

    A chunked one that is open stays the one that was asked for, and no change is read: those of an
    own stream are its generation's to append, under a transaction id that is not known here.
    """
    opened = _open_one(database, key) if resnapshot else None
    if opened is not None:
        return opened
    outcome = sync(database, [key], resnapshot=resnapshot).outcomes[key]
    if outcome.error is not None:
        raise outcome.error
    taken = outcome.start or outcome.end
    if outcome.work is Work.WAITING or taken is None:
        raise SnapshotWaitsError(
            "; ".join(outcome.warnings), where=str(database.table(key)), hint="Start it again."
        )
    return taken


def _open_one(database: Database, key: str) -> Offset | None:
    """The LSN of the open chunked snapshot; None where there is none that can be read on."""
    known = known_table(database, key)
    opened = known.snapshots.open_chunked
    if opened is None or database.settings.snapshot_of(key) is not opened.mode:
        return None
    poll = with_retries(lambda: poll_tables(database, [known]))
    instance = known.current(poll.instances, database.settings.instance_of(key))
    return opened.at if look_at_open(database, known, opened, instance, poll).goes_on else None


def _create(start: Start, known: Known) -> None:
    """An empty bronze for changes alone."""
    database = start.database

    def create() -> None:
        with database.connections.lend() as connection:
            wanted = database.settings.instance_of(start.key)
            instance = known.current(capture_instances(connection), wanted)
            captured = columns_to_load(
                database, known.name, connection, instance, None, of_changes=True
            )
        columns = bronze_columns(captured.declared)
        database.lake.renew_bronze(known.name, columns, known.snapshots.discarded)

    with_retries(create)


def _healed(start: Start, known: Known, generation: Generation | None) -> Known:
    """The table after the loss test at its position, and what the settings say of a loss.

    An own stream's snapshot for a loss is its bootstrap anew: without one it has no keys to read.
    """
    database = start.database
    if known.position is None and generation is not None:
        known = replace(known, position=generation.start, recorded_end=generation.start)
    poll = with_retries(lambda: poll_tables(database, [known]))
    instance = known.current(poll.instances, database.settings.instance_of(start.key))
    position = read_position(database, known)
    loss = find_loss(position, known, instance, poll)
    is_skipped = database.settings.on_data_loss_of(start.key) is DataLossPolicy.SKIP
    if loss is None or (is_skipped and known.snapshots.open_chunked is None):
        # A skip is a batch like others: the stream's first one makes it, under its own mark.
        return known
    recorder = Recorder(database, poll, {known.name.bronze: known.snapshots})
    recorder.measure()
    recorder.record([with_retries(lambda: recover(database, known, loss))])
    return known_table(database, start.key)


def _head(start: Start, known: Known, generation: Generation | None) -> tuple[Head, Offset]:
    """What bronze and the facts say of the table's end, and its position."""
    bronze = start.database.lake.bronze(known.name)
    app_id = known.name.changes_app
    newest, end = None, None
    if bronze is not None:
        newest = next(iter(change_commits(bronze, app_id, None)), None)
        is_untold = newest is None and bronze.transaction_version(app_id) is not None
        end = changes_end(bronze, app_id) if start.is_own and is_untold else None
    version = _version(start, known.name)
    head = Head(version, newest, known.snapshots.after_loss, end, owns_id=start.is_own)
    if known.position is not None:
        return head, read_position(start.database, known)
    return head, generation.start if generation else start.planner.initial()


def _version(start: Start, name: TableName) -> int | None:
    """The last version of a table's transaction id, as bronze and the facts know it."""
    bronze = start.database.lake.bronze(name)
    written = None if bronze is None else bronze.transaction_version(name.changes_app)
    recorded = start.database.lake.facts.version_of(name.facts_app)
    return max(filter(None, (written, recorded)), default=None)
