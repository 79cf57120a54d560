"""What an apply does: which bronze rows, rebuild or not, and where silver stands after it. Pure.

Silver follows the changes, and beside them an open chunked snapshot's waves, as far as the facts
have told of them when they were read (seed 0019, Amendments 2 and 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from cdc_assets.contract import Event
from cdc_assets.lsn import Lsn
from cdc_assets.names import folded
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import Snapshots

_FIRST = Lsn.of_int(0)
"""Below every change."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where silver stands: the change it has applied up to, and the snapshot it was rebuilt from.

    `wave` is the last one applied of the open chunked snapshot `opened`. All is None where there
    is no silver, or one that is not the recorded Delta table; all but `applied` where bronze has
    had no snapshot.
    """

    applied: Lsn | None = None
    snapshot: Lsn | None = None
    opened: Lsn | None = None
    wave: int | None = None

    @classmethod
    def of(cls, row: ControlRow, silver_id: str | None) -> Position:
        """As control says it of the silver with this Delta id."""
        if silver_id is None or row.table_id != silver_id:
            return cls()
        return cls(
            Lsn.parse_optional(row.applied_lsn),
            Lsn.parse_optional(row.snapshot_lsn),
            Lsn.parse_optional(row.open_snapshot_lsn),
            row.snapshot_wave,
        )

    @property
    def is_known(self) -> bool:
        """Whether it says what silver was made of."""
        return self.applied is not None


@dataclass(frozen=True, slots=True)
class ToldWave:
    """A wave that the facts tell of: the chunks that were read under one stamp, in order.

    `stamped_at` is the stamp's commit time, in UTC.
    """

    wave: int
    stamp: Lsn
    chunks: tuple[int, ...]
    plan_id: str | None = None
    stamped_at: datetime | None = None


def told_waves(rows: Iterable[FactsRow]) -> tuple[ToldWave, ...]:
    """A snapshot's waves from its `snapshot_chunk` rows, in the order they were read."""
    found: dict[int, ToldWave] = {}
    done: set[int] = set()
    for row in rows:
        detail = row.payload
        stamp = row.first_lsn
        if row.event != Event.SNAPSHOT_CHUNK or stamp is None or detail["chunk"] in done:
            continue
        chunk, number = int(detail["chunk"]), int(detail["wave"])
        done.add(chunk)
        new = ToldWave(number, stamp, (), detail.get("plan_id"), row.min_commit_ts)
        wave = found.get(number, new)
        found[number] = replace(wave, chunks=(*wave.chunks, chunk))
    return tuple(replace(found[n], chunks=tuple(sorted(found[n].chunks))) for n in sorted(found))


@dataclass(frozen=True, slots=True)
class ApplyWork:
    """The bronze rows of a call, and silver's position after it.

    They are the changes above `since`, of which those above `above` are new; at a rebuild also
    the rows of the snapshot `rows_of`; and those of `waves`, of the open snapshot
    `position.opened`. Changes that silver has already are there only to outrank a wave's rows: a
    chunk must not bring back a key that was deleted since it was read. `has_other_key` says that
    silver's rows stand under the key of another unique index: a rebuild by the new one would find
    several of them for one row.
    """

    above: Lsn
    since: Lsn
    position: Position
    is_rebuild: bool = False
    has_other_key: bool = False
    rows_of: Lsn | None = None
    waves: tuple[ToldWave, ...] = ()
    is_empty: bool = False


HeadAbove = Callable[[Lsn], Lsn | None]
"""Bronze's newest change above an LSN."""


def plan_apply(
    position: Position,
    snapshots: Snapshots,
    whole: Lsn | None,
    waves: tuple[ToldWave, ...],
    head_above: HeadAbove,
) -> ApplyWork | None:
    """What a call does; None where there is nothing in bronze, and while its first whole snapshot
    is being read.

    `whole` is the newest whole snapshot whose rows are in bronze, and `waves` are those told of
    the open chunked one. A rebuild follows a snapshot newer than the one that silver was last
    rebuilt from, never one newer than the changes applied: a quiet database stamps a new one with
    just those. Without any complete one silver is made of the open one's waves, and goes on with
    them; a complete one's rebuild leaves the waves of an open one to a further MERGE. A stream may
    have none at all: then silver is all of bronze's changes.
    """
    complete = snapshots.complete
    candidates = (position.snapshot, whole, complete.at.lsn if complete else None)
    newest = max((lsn for lsn in candidates if lsn is not None), default=None)
    opened = snapshots.open_chunked.at.lsn if snapshots.open_chunked else None
    if opened is not None and newest is not None and opened <= newest:
        opened = None
    if newest is not None and (
        not position.is_known or position.snapshot is None or newest > position.snapshot
    ):
        head = head_above(newest)
        after = Position(head or newest, newest)
        other = _has_other_key(position, newest, snapshots)
        return ApplyWork(
            newest, newest, after, is_rebuild=True, has_other_key=other, rows_of=newest
        )
    other = _has_other_key(position, opened, snapshots)
    if position.is_known and (position.snapshot is not None or not other):
        return _further(position, opened, waves, head_above)
    if opened is None:
        return None if snapshots.open is not None else _from_changes(head_above)
    return replace(_from_waves(opened, waves, head_above), has_other_key=other)


def _has_other_key(position: Position, snapshot: Lsn | None, snapshots: Snapshots) -> bool:
    """Whether silver's own snapshot had another unique index than this one."""
    own = position.snapshot or position.opened
    found = [snapshots.keys.get(lsn) for lsn in (own, snapshot) if lsn is not None]
    of = [frozenset(map(folded, keys)) for keys in found if keys is not None]
    return len(set(of)) > 1


def _from_waves(opened: Lsn, waves: tuple[ToldWave, ...], head_above: HeadAbove) -> ApplyWork:
    """Silver made of an open bootstrap: what has been read of it, and the changes since."""
    wave = waves[-1].wave if waves else None
    after = Position(head_above(opened) or opened, None, opened, wave)
    return ApplyWork(opened, opened, after, is_rebuild=True, waves=waves)


def _from_changes(head_above: HeadAbove) -> ApplyWork | None:
    """Silver made of changes alone, from bronze's first on; None without any."""
    head = head_above(_FIRST)
    return None if head is None else ApplyWork(_FIRST, _FIRST, Position(head), is_rebuild=True)


def _further(
    position: Position, opened: Lsn | None, waves: tuple[ToldWave, ...], head_above: HeadAbove
) -> ApplyWork:
    """The changes above the position, and the waves since it."""
    applied = position.applied
    assert applied is not None  # noqa: S101 - a position that is known
    head = head_above(applied)
    after = replace(position, applied=head or applied)
    before = position.wave if position.opened == opened and position.wave is not None else -1
    new = tuple(w for w in waves if w.wave > before) if opened is not None else ()
    if opened is None or not new:
        return ApplyWork(applied, applied, after, is_empty=head is None)
    # An older change ranks below every new chunk's row.
    first = max(opened, min(wave.stamp for wave in new).previous())
    after = replace(after, opened=opened, wave=new[-1].wave)
    return ApplyWork(applied, min(applied, first), after, waves=new)


def moved(row: ControlRow, silver_id: str, to: Position) -> ControlRow:
    """Silver's control row once a call has applied its work: never back, but for a new silver.

    The waves of a snapshot count until silver is rebuilt from it, or follows a further one.
    """
    if row.table_id != silver_id:
        row = replace(row.without_position(), table_id=silver_id)
    snapshot = _later(row.snapshot_lsn, to.snapshot)
    opened = _later(row.open_snapshot_lsn, to.opened)
    if opened is not None and snapshot is not None and opened <= snapshot:
        opened = None
    pairs = ((row.open_snapshot_lsn, row.snapshot_wave), (_text(to.opened), to.wave))
    waves = [wave for lsn, wave in pairs if lsn == opened and wave is not None]
    return replace(
        row,
        applied_lsn=_later(row.applied_lsn, to.applied),
        snapshot_lsn=snapshot,
        open_snapshot_lsn=opened,
        snapshot_wave=max(waves, default=None) if opened is not None else None,
    )


def _later(text: str | None, lsn: Lsn | None) -> str | None:
    return max((t for t in (text, _text(lsn)) if t is not None), default=None)


def _text(lsn: Lsn | None) -> str | None:
    return None if lsn is None else str(lsn)
