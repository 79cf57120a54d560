"""Which capture instance is read for which LSNs, where a table has two of them.

The older is read below the newer's first LSN and the newer from there on. That LSN is recorded
when the instance is first seen, since cleanup moves what the server says later. An instance that
nobody recorded while the older one was there is not followed: what lies between is lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from cdc_assets.contract import Event
from cdc_assets.errors import CaptureInstanceUnknownError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, find_instance, listed
from cdc_assets.planning.records import FactsRow, Identity

_ALWAYS = Lsn.of_int(0)

SOURCE = "source"
"""Of a `snapshot_open` and of a rename's `schema_change`: what the source table is called."""

NEW_COLUMNS = "new_columns"
"""Of an instance's `capture_instance_seen`: what it captures and those before it did not."""

END = "end"
"""Of a `capture_instance_switched`: how far the table was read, as an offset."""

BRONZE_ID = "bronze_id"
"""Of a `capture_instance_switched`: the id of the bronze table that holds it."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A capture instance and the first LSN that it is read for.

    `seen` says that it was newer than the one that was read when it was first listed.
    """

    identity: Identity
    start: Lsn
    seen: bool = field(default=False, compare=False)

    @property
    def age(self) -> tuple[datetime, int]:
        """Larger for a newer instance."""
        return self.identity.age


@dataclass(frozen=True, slots=True)
class Switch:
    """The table's newest switch to another instance: its first LSN, and the columns it brought.

    `end` is how far the table had been read when it was told; None where what came later says
    more: a reset, a skip, a snapshot that the changes go on at. `bronze_id` is the table's of then.
    """

    start: Lsn
    columns: tuple[str, ...]
    identity: Identity
    end: Offset | None = None
    bronze_id: str | None = None

    def is_read_by(self, snapshot: Lsn, reader: Identity | None) -> bool:
        """Whether a snapshot's rows have the columns that it brought.

        `reader` is whose columns were read, where the snapshot tells: one that waited for its LSN
        may lie above a switch that came meanwhile.
        """
        if snapshot < self.start or reader is None or reader == self.identity:
            return snapshot >= self.start
        return not reader.is_near(self.identity) and reader.age > self.identity.age

    def proven(self, bound: Identity | None, end: Offset | None) -> Identity | None:
        """The instance last read: control's, unless the switch was told and control died before."""
        if bound is None or self.end is None or (end is not None and end.lsn > self.end.lsn):
            return bound
        return max(bound, self.identity, key=lambda identity: identity.age)


@dataclass(frozen=True, slots=True)
class SourceName:
    """What the source table was called when last seen, and how often that has changed."""

    schema: str
    table: str
    renames: int = 0

    def to_dict(self) -> dict[str, str]:
        """For an event's detail."""
        return {"schema": self.schema, "table": self.table}

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class Segment:
    """A closed range of the log, read from one capture instance."""

    identity: Identity
    first: Lsn
    last: Lsn


def recorded_by_target(events: Iterable[FactsRow]) -> Mapping[str, tuple[Reader, ...]]:
    """Every table's recorded instances: those seen, and those a position was opened with."""
    found: dict[str, dict[Identity, Reader]] = defaultdict(dict)
    for row in events:
        reader = _recorded(row)
        if reader is None:
            continue
        known = found[row.target or ""]
        old = known.get(reader.identity)
        if old is None:
            known[reader.identity] = reader
        elif reader.start < old.start:
            known[reader.identity] = replace(reader, seen=old.seen)
    every: dict[str, tuple[Reader, ...]] = defaultdict(tuple)
    every.update((target, tuple(readers.values())) for target, readers in found.items())
    return every


def instance_names(events: Iterable[FactsRow]) -> Mapping[str, frozenset[str]]:
    """The names of every table's instances, as its opens and what was seen of it tell."""
    found: dict[str, set[str]] = defaultdict(set)
    told = (Event.SNAPSHOT_OPEN, Event.CAPTURE_INSTANCE_SEEN, Event.CAPTURE_INSTANCE_SWITCHED)
    for row in events:
        if row.event not in told:
            continue
        for name in ("identity", "reader"):
            identity = Identity.from_dict(row.payload.get(name))
            if identity is not None:
                found[row.target or ""].add(identity.instance_name)
    every: dict[str, frozenset[str]] = defaultdict(frozenset)
    every.update((target, frozenset(names)) for target, names in found.items())
    return every


def switches_by_target(events: Iterable[FactsRow]) -> Mapping[str, Switch]:
    """Every table's newest switch, of those that have had one."""
    columns: dict[tuple[str, Identity], tuple[str, ...]] = {}
    found: dict[str, Switch] = {}
    for row in events:
        target, reader = row.target or "", _seen(row)
        if target in found and (row.event == Event.RESET or _moves(row)):
            found[target] = replace(found[target], end=None)
        if reader is None:
            continue
        if row.event == Event.CAPTURE_INSTANCE_SEEN:
            columns[target, reader.identity] = tuple(row.payload.get(NEW_COLUMNS, ()))
        elif target not in found or found[target].start <= reader.start:
            brought = columns.get((target, reader.identity), ())
            end, bronze_id = row.payload.get(END), row.payload.get(BRONZE_ID)
            told = Offset.from_dict(end) if end else None
            found[target] = Switch(reader.start, brought, reader.identity, told, bronze_id)
    return found


def source_names(events: Iterable[FactsRow]) -> Mapping[str, SourceName]:
    """Every table's name at the source, as its snapshots' opens and its renames tell."""
    found: dict[str, SourceName] = {}
    for row in events:
        if row.event not in (Event.SNAPSHOT_OPEN, Event.SCHEMA_CHANGE):
            continue
        source = row.payload.get(SOURCE)
        if source is not None:
            target, is_rename = row.target or "", row.event == Event.SCHEMA_CHANGE
            before = found[target].renames if target in found else 0
            found[target] = SourceName(source["schema"], source["table"], before + is_rename)
    return found


def _seen(row: FactsRow) -> Reader | None:
    """The instance that an event of one tells of."""
    if row.event not in (Event.CAPTURE_INSTANCE_SEEN, Event.CAPTURE_INSTANCE_SWITCHED):
        return None
    identity = Identity.from_dict(row.payload.get("identity"))
    return None if identity is None else Reader(identity, Lsn.parse(row.payload["start_lsn"]))


def _recorded(row: FactsRow) -> Reader | None:
    detail = row.payload
    identity = Identity.from_dict(detail.get("identity"))
    if identity is None:
        return None
    if row.event == Event.CAPTURE_INSTANCE_SEEN:
        return Reader(identity, Lsn.parse(detail["start_lsn"]), seen=True)
    newest = row.newest_lsn
    return Reader(identity, newest.next()) if newest is not None and _moves(row) else None


def _moves(row: FactsRow) -> bool:
    """Whether an event says where the changes go on, and with which instance."""
    if row.event == Event.SNAPSHOT_OPEN:
        return row.payload.get("kind") == Event.BOOTSTRAP or row.lost_from_ts is not None
    return row.event == Event.DATA_SKIPPED


def resolve(
    instances: Mapping[str, CaptureInstance],
    wanted: str,
    bound: Identity | None,
    recorded: Sequence[Reader],
    *,
    where: str,
) -> CaptureInstance:
    """The instance to go on with: the one last read while it is there, else the one wanted.

    A default name (`<schema>_<table>`) that is gone, and the name of a recorded instance that was
    disabled after the switch, follow the table's newest. Raises `CaptureInstanceUnknownError`.
    """
    try:
        named = find_instance(instances, wanted, where=where)
    except CaptureInstanceUnknownError:
        successor = _successor(instances, wanted, bound, recorded)
        if successor is None:
            raise
        named = successor
    if bound is None or bound.source_object_id != named.identity.source_object_id:
        return named
    return listed(instances, bound) or named


def _successor(
    instances: Mapping[str, CaptureInstance],
    wanted: str,
    bound: Identity | None,
    recorded: Sequence[Reader],
) -> CaptureInstance | None:
    """The newest instance of the table that a gone name stood for; None where that is unclear."""
    past = [reader.identity for reader in recorded] + ([bound] if bound else [])
    tables = {i.source_object_id for i in past if i.instance_name.lower() == wanted.lower()}
    found = [
        i
        for i in instances.values()
        if i.identity.source_object_id in tables
        or f"{i.schema}_{i.table}".lower() == wanted.lower()
    ]
    if len({i.identity.source_object_id for i in found}) != 1:
        return None
    newest = found[0]
    for other in found[1:]:
        newest = other if is_newer(other, newest) else newest
    return newest


def siblings(
    instances: Mapping[str, CaptureInstance], instance: CaptureInstance
) -> tuple[CaptureInstance, ...]:
    """All listed instances of the same table, itself among them."""
    table = instance.identity.source_object_id
    return tuple(i for i in instances.values() if i.identity.source_object_id == table)


def unseen(
    instances: Mapping[str, CaptureInstance],
    instance: CaptureInstance,
    recorded: Sequence[Reader],
) -> tuple[CaptureInstance, ...]:
    """The table's newer instances that nobody has recorded yet; one without a start waits."""
    known = {reader.identity for reader in recorded}
    return tuple(
        other
        for other in siblings(instances, instance)
        if other.identity not in known and other.start is not None and is_newer(other, instance)
    )


def is_newer(one: CaptureInstance, other: CaptureInstance) -> bool:
    """Whether one was created after another, as the server lists them in one poll.

    Their times are the server's local ones. Where these are near each other the first LSNs say it;
    but for those alone, since cleanup moves them, and of two not at the same moment.
    """
    starts = one.start, other.start
    if one.identity.is_near(other.identity) and None not in starts and starts[0] != starts[1]:
        return one.start_lsn > other.start_lsn
    return one.identity.age > other.identity.age


def readers(bound: Identity, recorded: Sequence[Reader]) -> tuple[Reader, ...]:
    """Who may read a table now: the instance last read, then each newer one from its start on.

    Of two with one start the newer comes last and is read.
    """
    places = {reader.identity: place for place, reader in enumerate(recorded)}
    base = places.get(bound)
    newer = [
        reader
        for place, reader in enumerate(recorded)
        if reader.identity != bound and _is_after(recorded, place, base, bound)
    ]
    newer.sort(key=lambda one: (one.start, places[one.identity] if one.seen else -1, one.age))
    return (Reader(bound, _ALWAYS), *newer)


def _is_after(recorded: Sequence[Reader], place: int, base: int | None, bound: Identity) -> bool:
    """Whether a recorded instance is newer than the bound one, which is at `base`, if recorded.

    They stand in the order in which they were first told of, and one that was seen is newer than
    those before it: that counts where their times do not.
    """
    reader = recorded[place]
    if reader.identity.is_near(bound) and base is not None:
        if reader.seen and place > base:
            return True
        if recorded[base].seen and base > place:
            return False
    return reader.identity.age > bound.age


def segments(chain: Sequence[Reader], first: Lsn, last: Lsn) -> tuple[Segment, ...]:
    """The closed range, cut where another instance takes over."""
    found = []
    for reader, after in zip(chain, [*chain[1:], None], strict=True):
        low = max(first, reader.start)
        high = last if after is None or after.start > last else after.start.previous()
        if low <= high:
            found.append(Segment(reader.identity, low, high))
    return tuple(found)


def reader_at(chain: Sequence[Reader], lsn: Lsn) -> Identity:
    """Who is read for one LSN."""
    return segments(chain, lsn, lsn)[0].identity
