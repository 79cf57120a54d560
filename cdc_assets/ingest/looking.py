"""What source and lake say of a chunked snapshot that is open: before each wave, and when asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from cdc_assets.contract import Column
from cdc_assets.engines.database import Database
from cdc_assets.errors import CaptureNotReadyError, DataLossError
from cdc_assets.ingest.changes import existing_bronze
from cdc_assets.ingest.chunking import plan_is_readable
from cdc_assets.ingest.clock import first_commit_times
from cdc_assets.ingest.columns import columns_to_load
from cdc_assets.ingest.instances import see_instances
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.losses import find_loss, look_again, position_in
from cdc_assets.ingest.snapshot import declared_columns
from cdc_assets.lake.tables import check_names
from cdc_assets.names import Command, TableName
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import check_history, newest_lsn
from cdc_assets.planning.snapshots import Snapshot
from cdc_assets.planning.waves import Waves, check_stamp, hours_between
from cdc_assets.sqlserver.catalog import Captured
from cdc_assets.sqlserver.connection import Connection


@dataclass(frozen=True, slots=True)
class Look:
    """The source and the lake as they were seen before a wave.

    `watermark` (UTC) is the commit time up to which cleanup has deleted.
    """

    known: Known
    opened: Snapshot
    bronze: DeltaTable
    instance: CaptureInstance
    poll: Poll
    position: Offset
    columns: Captured
    declared: tuple[Column, ...]
    waves: Waves
    watermark: datetime | None = None

    @property
    def headroom_hours(self) -> float | None:
        """How far cleanup is behind the changes that were read."""
        return hours_between(self.watermark, self.position.commit_ts)

    @property
    def table(self) -> TableName:
        """The table's names."""
        return self.known.name

    @property
    def next_wave(self) -> int:
        """The number of the next wave, which is its commit's version."""
        written = self.bronze.transaction_version(self.table.snapshot_app(self.opened.at.lsn))
        return 0 if written is None else written + 1


def look_before(database: Database, known: Known, opened: Snapshot, waves: Waves) -> Look:
    """Source and lake before a wave.

    Raises `DataLossError` where the changes after S are lost, `SourceBehindError` for a server that
    has not reached S, `HistoryChangedError` for one that is behind the position or lacks it: a
    restore or a fork, whose rows are not of this history. And `CaptureNotReadyError` where capture
    has given no LSN yet.
    """
    table = known.name
    bronze = existing_bronze(database, known)
    position = position_in(known, bronze)
    instance, poll = look_again(database, known, position)
    newest = newest_lsn(poll, instance)
    waits = poll.max is None and newest < opened.at.lsn
    if not waits:
        check_stamp(newest, opened.at.lsn, where=str(table))
        check_history(position, newest, table)
    loss = find_loss(position, known, instance, poll)
    if loss is not None:
        raise DataLossError(
            f"its chunked snapshot cannot be completed: {loss.what}",
            where=str(table),
            hint="The next sync does as `on_data_loss` says. A new snapshot abandons this one:"
            f" {table.command(Command.RESNAPSHOT)}.",
        )
    if waits:
        raise CaptureNotReadyError(
            "capture has given no LSN yet", where=str(table), hint="The next backfill looks again."
        )
    # A row that is stamped above changes must have the columns that they have.
    known = see_instances(database, known, instance, poll)
    with database.connections.lend() as connection:
        columns, declared = _columns(database, known, connection, (instance, poll), bronze)
        return Look(
            known=known,
            opened=opened,
            bronze=bronze,
            instance=instance,
            poll=poll,
            position=position,
            columns=columns,
            declared=declared,
            waves=waves,
            watermark=_watermark(connection, instance, poll),
        )


@dataclass(frozen=True, slots=True)
class LookAtOpen:
    """The open chunked snapshot, for whoever asks for a snapshot: may it be the one?

    `loss` is what keeps the changes beside it from going on. `goes_on` says that it can be read to
    its end, as far as source and lake say now.
    """

    position: Offset
    loss: DataLossError | None
    goes_on: bool


def look_at_open(
    database: Database, known: Known, opened: Snapshot, instance: CaptureInstance, poll: Poll
) -> LookAtOpen:
    """Whether the open chunked snapshot answers for one that is asked for now."""
    bronze = existing_bronze(database, known)
    position = position_in(known, bronze)
    loss = find_loss(position, known, instance, poll)
    if loss is not None:
        return LookAtOpen(position, loss, goes_on=False)
    with database.connections.lend() as connection:
        columns, _ = _columns(database, known, connection, (instance, poll), bronze)
    plans = database.lake.plans
    is_told = database.lake.facts.version_of(known.name.plan_app(opened.at.lsn)) is not None
    found = plan_is_readable(plans, known.name, opened.at.lsn, (instance, columns), is_told=is_told)
    return LookAtOpen(position, None, found)


def _watermark(connection: Connection, instance: CaptureInstance, poll: Poll) -> datetime:
    """The commit time of the instance's low watermark; its creation where none is mapped."""
    mark = poll.watermarks.get(instance.name) or instance.start_lsn
    found = first_commit_times(connection, [mark], poll.clock)
    return found.get(mark, poll.clock.to_utc(instance.identity.created_at, mark))


def _columns(
    database: Database,
    known: Known,
    connection: Connection,
    seen: tuple[CaptureInstance, Poll],
    bronze: DeltaTable,
) -> tuple[Captured, tuple[Column, ...]]:
    """The columns to load now, and all of the rows'; raises `SchemaChangedError`."""
    reader = known.reader(*seen)
    columns = columns_to_load(database, known.name, connection, reader, bronze)
    declared = declared_columns(bronze, columns, known.name)
    check_names(bronze, declared, where=str(known.name))
    return columns, declared
