"""Which snapshots a table has had, read from its events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from cdc_assets.contract import COMPLETED_SNAPSHOT, Event, SnapshotMode
from cdc_assets.lsn import Lsn
from cdc_assets.planning.offsets import Offset, furthest
from cdc_assets.planning.records import ControlRow, FactsRow, Identity


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as its event tells it.

    `keys` is the unique index at the open; `high_mark` (UTC) the server's clock after the last
    read, known once complete: the read may hold commits up to then. `lost_from` is where the gap
    begins that it closes, if it was taken for a loss. `identity` is the instance's at the open,
    `reader` that of the one whose columns it has. `as_of` is what was said of a copy that became
    it. A chunked one is read in waves, beside the changes, which start at it as soon as it is open.
    `bronze_id` is the table's that its rows are for: one that a reset has given up gets none.
    """

    at: Offset
    keys: tuple[str, ...]
    high_mark: datetime | None = None
    kind: Event = Event.BOOTSTRAP
    lost_from: datetime | None = None
    identity: Identity | None = None
    reader: Identity | None = None
    as_of: str | None = None
    mode: SnapshotMode = SnapshotMode.FULL
    bronze_id: str | None = None

    @property
    def is_chunked(self) -> bool:
        """Whether it is read in waves beside the changes."""
        return self.mode is SnapshotMode.CHUNKED

    @property
    def moves_position(self) -> bool:
        """Whether the changes go on at it: a re-snapshot without a loss only repeats."""
        return self.kind is Event.BOOTSTRAP or self.lost_from is not None


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The newest complete snapshot, and the one that is open above it.

    `bootstrap` and `after_loss` are the newest of their kind that positions start at: whole ones
    that are complete, and chunked ones from their open on.
    `opens` is how many were ever opened, which is also the last version of that transaction id,
    and `used` are their LSNs: transaction ids too, which a reset does not free. An LSN past which
    changes were skipped is among them, since no poll gave that either. `discarded` are the
    ids of the bronze and silver tables that resets have given up. `keys` are those of each
    snapshot since the last reset, by its LSN, and `has_chunked` says whether one was chunked.
    """

    complete: Snapshot | None = None
    open: Snapshot | None = None
    bootstrap: Offset | None = None
    after_loss: Offset | None = None
    opens: int = 0
    used: frozenset[Lsn] = frozenset()
    discarded: frozenset[str] = frozenset()
    keys: Mapping[Lsn, tuple[str, ...]] = field(default_factory=dict)
    has_chunked: bool = False

    @property
    def newest(self) -> Snapshot | None:
        """The one in progress, else the last finished."""
        return self.open or self.complete

    @property
    def open_whole(self) -> Snapshot | None:
        """The open one, if it is to be read at once: the changes wait for it."""
        return None if self.open_chunked else self.open

    @property
    def open_chunked(self) -> Snapshot | None:
        """The open one, if it is read in waves beside the changes."""
        return self.open if self.open is not None and self.open.is_chunked else None

    @property
    def starts_changes(self) -> bool:
        """Whether there is one that the changes go on from."""
        return self.complete is not None or self.open_chunked is not None

    def position(self, known: Iterable[Offset | None]) -> Offset | None:
        """How far a table was read, by what is known of it and by its snapshots.

        A bootstrap counts where nothing else is known, a snapshot taken for a loss always; of
        one that is open only a chunked one.
        """
        return furthest([*known, self.after_loss]) or self.bootstrap

    def identity(self, control: ControlRow | None) -> Identity | None:
        """The instance last read: control's, unless a snapshot was opened above its position."""
        newest = self.newest
        end = control.end if control else None
        if newest is None or (end is not None and newest.at.lsn <= end.lsn):
            return control.identity if control else None
        return newest.identity or (control.identity if control else None)


def by_target(events: Iterable[FactsRow]) -> Mapping[str, list[FactsRow]]:
    """The events of all, each table's together, in their order."""
    grouped: dict[str, list[FactsRow]] = defaultdict(list)
    for row in events:
        grouped[row.target or ""].append(row)
    return grouped


def snapshots_by_target(events: Iterable[FactsRow]) -> Mapping[str, Snapshots]:
    """Every table's snapshots from the events of all; a table without events has none."""
    found: dict[str, Snapshots] = defaultdict(Snapshots)
    found.update((target, snapshots_of(rows)) for target, rows in by_target(events).items())
    return found


def snapshots_of(events: Sequence[FactsRow]) -> Snapshots:
    """A table's snapshots from its events, oldest first; what a reset follows counts no more."""
    complete: Snapshot | None = None
    opened: Snapshot | None = None
    bootstrap: Offset | None = None
    after_loss: Offset | None = None
    opens: dict[Lsn, Snapshot] = {}
    keys: dict[Lsn, tuple[str, ...]] = {}
    for row in this_life(events):
        snapshot = _snapshot(row)
        if snapshot is None:
            continue
        keys[snapshot.at.lsn] = snapshot.keys
        if row.event == Event.SNAPSHOT_OPEN:
            opened = _newer(opened, snapshot)
            opens[snapshot.at.lsn] = snapshot
            if not snapshot.is_chunked:
                continue
        else:
            complete = _newer(complete, snapshot)
        if snapshot.lost_from is not None:
            after_loss = furthest([after_loss, snapshot.at])
        elif snapshot.kind is Event.BOOTSTRAP:
            bootstrap = furthest([bootstrap, snapshot.at])
    if opened is not None and complete is not None and opened.at.lsn <= complete.at.lsn:
        opened = None
    if complete is not None and complete.at.lsn in opens:
        begun = opens[complete.at.lsn]
        complete = replace(complete, identity=begun.identity, reader=begun.reader, mode=begun.mode)
    number = sum(row.event == Event.SNAPSHOT_OPEN for row in events)
    used, discarded = _used(events), _discarded(events)
    has_chunked = any(one.is_chunked for one in opens.values())
    return Snapshots(
        complete, opened, bootstrap, after_loss, number, used, discarded, keys, has_chunked
    )


def this_life(events: Iterable[FactsRow]) -> list[FactsRow]:
    """A table's events since its last reset, oldest first.

    Without what a run that began before the reset writes after it of snapshots and losses: they
    are of the table that was given up. Before any reset all count: another tool that writes this
    format may not record that a snapshot is opened.
    """
    found: list[FactsRow] = []
    is_reset = has_complete = False
    opened: set[Lsn] = set()
    discarded: set[str] = set()
    for row in events:
        if row.event == Event.RESET:
            found, opened = [], set()
            discarded |= _discarded([row])
            is_reset, has_complete = True, False
            continue
        if is_reset and _is_given_up(row, opened, has_complete):
            continue
        if row.event == Event.SNAPSHOT_OPEN and row.payload.get("bronze_id") in discarded:
            continue
        if row.event == Event.SNAPSHOT_OPEN and row.newest_lsn is not None:
            opened.add(row.newest_lsn)
        has_complete = has_complete or row.event in COMPLETED_SNAPSHOT
        found.append(row)
    return found


def _is_given_up(row: FactsRow, opened: Collection[Lsn], has_complete: bool) -> bool:
    """Whether an event that follows a reset is of the table from before it.

    The first one opened after it is no further one, none is completed that was not opened, and no
    change is lost that came before all of them.
    """
    if row.event == Event.SNAPSHOT_OPEN:
        is_further = row.payload.get("kind", Event.BOOTSTRAP) != Event.BOOTSTRAP
        return is_further and not has_complete and not opened
    if row.event in COMPLETED_SNAPSHOT:
        return row.newest_lsn not in opened
    if row.event in (Event.RECOVERING, Event.DATA_SKIPPED):
        first = row.first_lsn
        return not opened or (first is not None and first < min(opened))
    return False


def _used(events: Iterable[FactsRow]) -> frozenset[Lsn]:
    """The LSNs that snapshots have had, and those past which changes were skipped."""
    told = (Event.SNAPSHOT_OPEN, *COMPLETED_SNAPSHOT, Event.DATA_SKIPPED)
    return frozenset(
        row.newest_lsn for row in events if row.event in told and row.newest_lsn is not None
    )


def _discarded(events: Iterable[FactsRow]) -> frozenset[str]:
    """The ids of the tables that resets have given up."""
    resets = [row.payload for row in events if row.event == Event.RESET]
    ids = (reset.get(kind) for reset in resets for kind in ("bronze", "silver", "history"))
    return frozenset(filter(None, ids))


def _snapshot(row: FactsRow) -> Snapshot | None:
    if row.event not in (Event.SNAPSHOT_OPEN, *COMPLETED_SNAPSHOT):
        return None
    newest = row.newest_lsn
    if newest is None or row.max_commit_ts is None:
        return None
    detail = row.payload
    high_mark = detail.get("high_mark")
    is_open = row.event == Event.SNAPSHOT_OPEN
    return Snapshot(
        at=Offset(newest, row.max_commit_ts),
        keys=tuple(detail.get("keys", ())),
        kind=Event(detail.get("kind", Event.BOOTSTRAP) if is_open else row.event),
        lost_from=row.lost_from_ts,
        identity=Identity.from_dict(detail.get("identity")),
        reader=Identity.from_dict(detail.get("reader")),
        as_of=detail.get("as_of"),
        bronze_id=detail.get("bronze_id"),
        mode=SnapshotMode(detail.get("mode", SnapshotMode.FULL)),
        high_mark=datetime.fromisoformat(high_mark) if high_mark else None,
    )


def _newer(old: Snapshot | None, new: Snapshot) -> Snapshot:
    """The one at the higher LSN; of two reads of one, the later that may hold later commits."""
    return new if old is None or _rank(new) > _rank(old) else old


def _rank(snapshot: Snapshot) -> tuple[Lsn, datetime]:
    return snapshot.at.lsn, snapshot.high_mark or datetime.min
