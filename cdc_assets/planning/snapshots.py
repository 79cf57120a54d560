"""Which snapshots a table has had, read from its events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from cdc_assets.contract import COMPLETED_SNAPSHOT, Event
from cdc_assets.lsn import Lsn
from cdc_assets.planning.offsets import Offset, furthest
from cdc_assets.planning.records import ControlRow, FactsRow, Identity


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as its event tells it.

    `keys` is the unique index at the open; `high_mark` (UTC) the server's clock after the last
    read, known once complete: the read may hold commits up to then. `lost_from` is where the gap
    begins that it closes, if it was taken for a loss. `identity` is the instance's at the open.
    `as_of` is what was said of a copy that became it.
    """

    at: Offset
    keys: tuple[str, ...]
    high_mark: datetime | None = None
    kind: Event = Event.BOOTSTRAP
    lost_from: datetime | None = None
    identity: Identity | None = None
    as_of: str | None = None

    @property
    def moves_position(self) -> bool:
        """Whether the changes go on at it: a re-snapshot without a loss only repeats."""
        return self.kind is Event.BOOTSTRAP or self.lost_from is not None


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The newest complete snapshot, and the one that is open above it.

    `bootstrap` and `after_loss` are the newest complete ones of their kind: positions start there.
    `opens` is how many were ever opened, which is also the last version of that transaction id,
    and `used` are their LSNs: transaction ids too, which a reset does not free. An LSN past which
    changes were skipped is among them, since no poll gave that either. `discarded` are the
    ids of the bronze and silver tables that resets have given up.
    """

    complete: Snapshot | None = None
    open: Snapshot | None = None
    bootstrap: Offset | None = None
    after_loss: Offset | None = None
    opens: int = 0
    used: frozenset[Lsn] = frozenset()
    discarded: frozenset[str] = frozenset()

    @property
    def newest(self) -> Snapshot | None:
        """The one in progress, else the last finished."""
        return self.open or self.complete

    def position(self, known: Iterable[Offset | None]) -> Offset | None:
        """How far a table was read, by what is known of it and by its snapshots.

        A bootstrap counts where nothing else is known, a snapshot taken for a loss always.
        """
        return furthest([*known, self.after_loss]) or self.bootstrap

    def identity(self, control: ControlRow | None) -> Identity | None:
        """The instance last read: control's, unless a snapshot was opened above its position."""
        newest = self.newest
        end = control.end if control else None
        if newest is None or (end is not None and newest.at.lsn <= end.lsn):
            return control.identity if control else None
        return newest.identity or (control.identity if control else None)


def snapshots_by_target(events: Iterable[FactsRow]) -> Mapping[str, Snapshots]:
    """Every table's snapshots from the events of all; a table without events has none."""
    grouped: dict[str, list[FactsRow]] = defaultdict(list)
    for row in events:
        grouped[row.target or ""].append(row)
    found: dict[str, Snapshots] = defaultdict(Snapshots)
    found.update((target, snapshots_of(rows)) for target, rows in grouped.items())
    return found


def snapshots_of(events: Iterable[FactsRow]) -> Snapshots:
    """A table's snapshots from its events, oldest first; what a reset follows counts no more.

    Nor does what a run that began before the reset writes after it: its rows are in the table
    that was given up.
    """
    complete: Snapshot | None = None
    opened: Snapshot | None = None
    bootstrap: Offset | None = None
    after_loss: Offset | None = None
    opens = 0
    identities: dict[Lsn, Identity | None] = {}
    is_reset = False
    used: set[Lsn] = set()
    discarded: set[str] = set()
    for row in events:
        opens += row.event == Event.SNAPSHOT_OPEN
        if row.event == Event.RESET:
            complete = opened = bootstrap = after_loss = None
            identities, is_reset = {}, True
            discarded.update(filter(None, map(row.payload.get, ("bronze", "silver"))))
        if row.event == Event.DATA_SKIPPED and row.newest_lsn is not None:
            used.add(row.newest_lsn)
        snapshot = _snapshot(row)
        if snapshot is None:
            continue
        used.add(snapshot.at.lsn)
        is_open = row.event == Event.SNAPSHOT_OPEN
        if is_reset and _is_given_up(snapshot, is_open, complete, identities):
            continue
        if is_open:
            opened = _newer(opened, snapshot)
            identities[snapshot.at.lsn] = snapshot.identity
        else:
            complete = _newer(complete, snapshot)
            if snapshot.lost_from is not None:
                after_loss = furthest([after_loss, snapshot.at])
            elif snapshot.kind is Event.BOOTSTRAP:
                bootstrap = furthest([bootstrap, snapshot.at])
    if opened is not None and complete is not None and opened.at.lsn <= complete.at.lsn:
        opened = None
    if complete is not None:
        complete = replace(complete, identity=identities.get(complete.at.lsn))
    return Snapshots(
        complete, opened, bootstrap, after_loss, opens, frozenset(used), frozenset(discarded)
    )


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
        as_of=detail.get("as_of"),
        high_mark=datetime.fromisoformat(high_mark) if high_mark else None,
    )


def _is_given_up(
    snapshot: Snapshot, is_open: bool, complete: Snapshot | None, opened: Collection[Lsn]
) -> bool:
    """Whether an event that follows a reset is of a snapshot from before it.

    The first one after it is no further one, and none is completed that was not opened.
    """
    if is_open:
        return complete is None and snapshot.kind is not Event.BOOTSTRAP
    return snapshot.at.lsn not in opened


def _newer(old: Snapshot | None, new: Snapshot) -> Snapshot:
    """The one at the higher LSN; of two reads of one, the later that may hold later commits."""
    return new if old is None or _rank(new) > _rank(old) else old


def _rank(snapshot: Snapshot) -> tuple[Lsn, datetime]:
    return snapshot.at.lsn, snapshot.high_mark or datetime.min
