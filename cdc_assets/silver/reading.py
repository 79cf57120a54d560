"""What an apply reads, in the order that makes it safe (seed 0019).

Silver's transaction version comes first of all, then the bronze verdict and the facts, and bronze
after them, at one version: bronze commits its rows before its verdict, and a snapshot's rows before
its event, so that version holds what both point to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deltalake import DeltaTable

from cdc_assets.clock import utc_now
from cdc_assets.contract import DELETED_AT, Column, captured_of_bronze
from cdc_assets.lake.bronze import head_above, newest_whole_snapshot, snapshot_time
from cdc_assets.lake.features import unreadable
from cdc_assets.lake.lake import Lake
from cdc_assets.lake.rowfiles import RowFiles
from cdc_assets.lake.tables import columns_of, table_id
from cdc_assets.lake.told import ToldSnapshot, check_told, told_snapshots
from cdc_assets.lsn import Lsn
from cdc_assets.planning.applying import Position, ToldWave, told_waves
from cdc_assets.planning.instances import instance_names
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.snapshots import Snapshots, snapshots_by_target
from cdc_assets.silver.keys import differ, made_with, wanted_keys
from cdc_assets.silver.places import SilverTable


@dataclass(frozen=True, slots=True)
class Before:
    """Silver as it stood before anything else was read: Delta table and transaction version."""

    table: SilverTable
    silver: DeltaTable | None
    version: int

    @property
    def silver_id(self) -> str | None:
        """Delta's id of it."""
        return table_id(self.silver) if self.silver is not None else None

    def is_other(self, position: Position, snapshots: Snapshots) -> bool:
        """Whether silver was made otherwise than it is wanted now, so that it has to begin anew.

        With another key, under which a row of bronze may be several of its rows; or with deleted
        rows, which are not to be there any more.
        """
        if self.silver is None:
            return False
        if not self.table.keeps_deleted and DELETED_AT in columns_of(self.silver):
            return True
        return differ(
            made_with(self.silver) or (), wanted_keys(self.table.keys, position, snapshots)
        )


@dataclass(frozen=True, slots=True)
class Told:
    """What control and the facts say of one table, and what of its rows must be in bronze."""

    bronze: ControlRow
    silver: ControlRow
    snapshots: Snapshots
    written: tuple[ToldSnapshot, ...]
    waves: tuple[ToldWave, ...] = ()
    instances: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Read:
    """What a call works on.

    `verdict` is bronze's control row and `recorded` silver's; `position` is the latter's, where it
    speaks of this silver. `instances` are those that the facts know of the table. `given_up` says
    that a reset has left this silver to be emptied, and `is_other` that it was made otherwise than
    it is wanted now: neither has a position.
    """

    before: Before
    verdict: ControlRow
    recorded: ControlRow
    position: Position
    snapshots: Snapshots
    waves: tuple[ToldWave, ...]
    instances: frozenset[str]
    bronze: DeltaTable
    files: RowFiles
    captured: tuple[Column, ...]
    given_up: bool
    is_other: bool = False

    @property
    def table(self) -> SilverTable:
        """Where all of it is."""
        return self.before.table


def look(table: SilverTable) -> Before:
    """Silver, before anything else is read."""
    silver = table.lake.silver(table.name)
    if table.keeps_deleted is None:
        kept = silver is not None and DELETED_AT in columns_of(silver)
        table = replace(table, keeps_deleted=kept)
    version = silver.transaction_version(table.name.apply_app) if silver else None
    return Before(table, silver, version or 0)


def read_told(lake: Lake, looked: Sequence[Before]) -> Mapping[SilverTable, Told]:
    """Control and facts for tables of one lake, each read once; before any bronze is opened.

    Of an open chunked snapshot also the waves told of that silver has not applied.
    """
    tables = [before.table for before in looked]
    control = lake.control.read()
    has_facts = any(table.has_facts for table in tables)
    events = lake.facts.events() if has_facts else []
    snapshots, instances = snapshots_by_target(events), instance_names(events)
    taken = {t.name: snapshots[t.name.bronze] for t in tables if t.has_facts}
    written = told_snapshots(lake.facts, taken) if taken else {}
    return {
        (table := before.table): Told(
            bronze=control.get(table.name.bronze_row) or ControlRow(table.name.bronze_row),
            silver=control.get(table.name.silver) or ControlRow(table.name.silver),
            snapshots=taken.get(table.name, Snapshots()),
            written=written.get(table.name, ()),
            waves=_waves(before, control, taken.get(table.name, Snapshots())),
            instances=instances[table.name.bronze] if table.has_facts else frozenset(),
        )
        for before in looked
    }


def _waves(
    before: Before, control: Mapping[str, ControlRow], snapshots: Snapshots
) -> tuple[ToldWave, ...]:
    """The waves told of, but perhaps for those that silver has applied."""
    opened, name, facts = snapshots.open_chunked, before.table.name, before.table.lake.facts
    if opened is None:
        return ()
    position = _position(before, control.get(name.silver) or ControlRow(name.silver), snapshots)
    if position.opened != opened.at.lsn or position.wave is None:
        return told_waves(facts.waves(name, opened.at.lsn))
    return told_waves(facts.waves_after(name, opened.at.lsn, position.wave))


def _position(before: Before, row: ControlRow, snapshots: Snapshots) -> Position:
    position = Position.of(row, before.silver_id)
    begins_anew = before.silver_id in snapshots.discarded or before.is_other(position, snapshots)
    return Position() if begins_anew else position


def read(before: Before, told: Told) -> Read | None:
    """Bronze at the version that the call works on, and what is known beside it.

    None where it is not there; what a reset has given up is not. Raises `TableReplacedError` where
    it lacks rows that the facts tell of.
    """
    table, snapshots = before.table, told.snapshots
    bronze = table.lake.bronze(table.name)
    if bronze is None or table_id(bronze) in snapshots.discarded:
        return None
    check_told(bronze, table.name, told.written)
    verdict = told.bronze
    if verdict.table_id in snapshots.discarded:
        verdict = ControlRow(table.name.bronze)
    return Read(
        before=before,
        verdict=verdict,
        recorded=told.silver,
        position=_position(before, told.silver, snapshots),
        snapshots=snapshots,
        waves=told.waves,
        instances=told.instances,
        bronze=bronze,
        files=RowFiles.of(bronze),
        captured=captured_of_bronze(columns_of(bronze)),
        given_up=before.silver_id in snapshots.discarded,
        is_other=before.is_other(Position.of(told.silver, before.silver_id), snapshots),
    )


def whole_snapshot(read: Read) -> Lsn | None:
    """The newest whole snapshot above silver's whose rows are in bronze; its event may lack.

    One below an open snapshot that silver follows was looked for when it began to: every later
    one is above.
    """
    if not unreadable(read.bronze):
        known = read.position.snapshot or read.position.opened
        if not read.files.may_hold_snapshot_rows(known):
            return None
        return newest_whole_snapshot(read.bronze, known)
    opened = read.snapshots.open_whole
    if opened is None:
        return None
    written = read.bronze.transaction_version(read.table.name.snapshot_app(opened.at.lsn))
    return opened.at.lsn if written is not None else None


def snapshot_offset(read: Read, lsn: Lsn) -> Offset:
    """A snapshot's LSN and its time, as the facts have it, else its rows in bronze."""
    for known in (read.snapshots.complete, read.snapshots.open):
        if known is not None and known.at.lsn == lsn:
            return known.at
    at = None if unreadable(read.bronze) else snapshot_time(read.bronze, lsn)
    return Offset(lsn, at or read.verdict.end_commit_ts or utc_now())


def changes_head(read: Read, above: Lsn) -> Lsn | None:
    """The newest change of bronze above an LSN."""
    told = None if unreadable(read.bronze) else read.files.head_above(above)
    if told is not None:
        return told[0]
    return head_above(read.bronze, above, read.table.name.changes_app, read.verdict.changed_lsn)
