"""What the lake says of one table before the poll."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from cdc_assets.errors import CdcError, TableReplacedError
from cdc_assets.ingest.prepared import PreparedSnapshot
from cdc_assets.lake.told import ToldSnapshot
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.generations import Writer
from cdc_assets.planning.instances import Reader, SourceName, Switch, reader_at, readers, resolve
from cdc_assets.planning.losses import Gap
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import anew, check_history, newest_lsn
from cdc_assets.planning.records import ControlRow, Identity
from cdc_assets.planning.retired import check_not_renamed
from cdc_assets.planning.snapshots import Snapshots

ToldByTable = Mapping[TableName, tuple[ToldSnapshot, ...]]


@dataclass(frozen=True, slots=True)
class Known:
    """What the lake says of one table before the poll, and whether a new snapshot is asked for.

    `silver_id` is Delta's id of silver as control has it: empty where it has none, None without a
    row. `history_id` is history's.
    """

    name: TableName
    control: ControlRow | None
    snapshots: Snapshots
    silver_id: str | None
    history_id: str | None = None
    position: Offset | None = None
    gap: Gap | None = None
    recorded: tuple[Reader, ...] = ()
    switch: Switch | None = None
    source: SourceName | None = None
    resnapshot: bool = False
    retired: Mapping[int, str] = field(default_factory=dict, hash=False)
    """The tables of the lake that the settings name no more, by their source's object id."""
    recorded_end: Offset | None = None
    """How far the facts say that it was read; asked where control has no row."""
    stream: Writer | None = None
    """The stream that appends its changes, where no sync does."""
    error: CdcError | None = None
    prepared: PreparedSnapshot | None = None
    all_told: Callable[[], ToldByTable] = field(default=dict, compare=False)
    """Asks what the facts tell of the snapshots' rows of all tables; once for all of them."""

    @property
    def told(self) -> tuple[ToldSnapshot, ...]:
        """What the facts tell of its snapshots' rows; to be asked before bronze is opened."""
        return self.all_told().get(self.name, ())

    @property
    def observed(self) -> Offset | None:
        """The position, if a poll gave it: then it is a commit that the source must know."""
        if self.position is None or self.position.lsn in self.snapshots.used:
            return None
        return self.position

    @property
    def identity(self) -> Identity | None:
        """The capture instance last read."""
        found, switch = self.snapshots.identity(self.control), self._told
        end = self.control.end if self.control else None
        return switch.proven(found, end) if switch else found

    @property
    def _told(self) -> Switch | None:
        """The switch, if told of this bronze: a run from before a reset may tell of another."""
        switch, bronze_id = self.switch, self.control.table_id if self.control else None
        is_ours = switch is not None and switch.bronze_id == bronze_id is not None
        return switch if is_ours else None

    def check_snapshot(self, instance: CaptureInstance, poll: Poll) -> None:
        """Raise `HistoryChangedError` for a newest snapshot above all LSNs the server has given.

        Below it silver would take no change, and no new snapshot.
        """
        taken = self.snapshots.newest
        if taken is not None:
            newest = newest_lsn(poll, instance)
            check_history(taken.at, newest, self.name, name="snapshot")

    def check_name(self, instance: CaptureInstance) -> None:
        """Raise `TableRenamedError` for a table that only its name is new of."""
        if self.position is None and self.snapshots.newest is None:
            check_not_renamed(self.name, instance, self.retired)

    def with_opened(self, opened: PreparedSnapshot | CdcError | None) -> Known:
        """The same with its first snapshot as it was opened, or with why it was not."""
        if isinstance(opened, CdcError):
            return replace(self, prepared=None, error=opened)
        return replace(self, prepared=opened)

    def position_after(self, written: Offset | None) -> Offset:
        """How far the table was read, where its own change commits reach `written`.

        Raises `TableReplacedError` where nothing tells.
        """
        end = self.control.end if self.control else self.recorded_end
        told = self._told.end if self._told else None
        found = self.snapshots.position([end, written, told])
        if found is None:
            raise TableReplacedError(
                "its position is unknown", where=str(self.name), hint=anew(self.name)
            )
        return found

    def current(self, instances: Mapping[str, CaptureInstance], wanted: str) -> CaptureInstance:
        """The instance to go on with; raises `CaptureInstanceUnknownError`."""
        return resolve(instances, wanted, self.identity, self.recorded, where=str(self.name))

    def reader(
        self, instance: CaptureInstance, poll: Poll, after: Lsn | None = None
    ) -> CaptureInstance:
        """The instance that changes after an LSN are read from: all that the poll saw, if None."""
        first = (after or newest_lsn(poll, instance)).next()
        return poll.listed(reader_at(self.chain(instance, poll), first)) or instance

    def chain(self, instance: CaptureInstance, poll: Poll) -> tuple[Reader, ...]:
        """Who may read the table; `instance` is the current one where none is on record.

        A recorded one that is gone again before its turn leaves its part to the one before.
        """
        there = [reader for reader in self.recorded if poll.listed(reader.identity)]
        return readers(self.identity or instance.identity, there)
