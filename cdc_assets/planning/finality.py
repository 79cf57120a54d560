"""What a reader of a table is told: up to when it is complete, what holds that back, what is lost.

Pure: the rows of control and the facts in, one value out. Control is read before the facts, which
are written first, so the gaps are at least those that the verdict has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

from cdc_assets.contract import Event, SnapshotMode
from cdc_assets.lsn import Lsn
from cdc_assets.planning.history import taken_snapshots
from cdc_assets.planning.losses import Gap, every_gap
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import by_target, snapshots_of, this_life
from cdc_assets.planning.verdict import PERIODS, Reason, hold_text, silver_hold

Granularity = Literal["second", "minute", "hour", "day"]
"""The periods that a verdict may speak of."""


class Layer(StrEnum):
    """Which of a source table's tables is read."""

    BRONZE = "bronze"
    SILVER = "silver"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A table's verdict as it stands in the lake; all times are naive and in UTC.

    `name` is the table's in control and `uri` where it is. Everything that ends at or before
    `finalized_until` is complete, but for `lost`: gaps that are not in the table. Of silver and a
    history those alone that no snapshot has healed; `healed` are a history's others, each up to
    the snapshot that healed it. `hold` is what keeps the verdict from moving on, None where
    nothing does or nobody knows, and `text` says both in a sentence. `verdict_version` is the Delta
    version of silver, or of the history, at its verdict: exactly that state, whatever is applied
    meanwhile. Bronze has none: it only grows, and `_commit_ts` tells its periods apart. Bronze and
    a history are complete from after `begins` on, when their first snapshot was taken; None where
    nobody knows.
    """

    name: str
    uri: str
    layer: Layer
    finalized_until: datetime | None
    hold: Reason | None
    text: str
    verdict_version: int | None = None
    lost: tuple[Gap, ...] = ()
    begins: datetime | None = None
    granularity: str = "hour"
    healed: tuple[Gap, ...] = ()

    def is_final(self, end: datetime, start: datetime | None = None) -> bool:
        """Whether the period that ends before `end` is complete and stays as it is.

        A time without a zone is in UTC, one with a zone is converted. `start` is the period's
        begin, by default one period of the table's granularity before `end`; what is lost or
        before `begins` counts where the period meets it. Silver is one state: what is lost is
        missing from it in every period after; so it is from a history until a snapshot heals it,
        and the periods in between stay without it. Raises TypeError for what is no datetime, and
        ValueError for a period that does not begin before its end.
        """
        last = naive_utc(end)
        first = last - PERIODS[self.granularity] if start is None else naive_utc(start)
        if first >= last:
            raise ValueError(f"the period begins at {first} and ends before, at {last}")
        if self.finalized_until is None or last > self.finalized_until:
            return False
        is_bronze = self.layer is Layer.BRONZE
        if not is_bronze and any(gap.start < last for gap in self.lost):
            return False
        # Several commits may share a time, so those of a gap's ends, and of S, count to them.
        if self.begins is not None and first <= self.begins:
            return False
        gaps = self.lost if is_bronze else self.healed
        return not any(gap.start < last and first <= gap.end for gap in gaps)


def naive_utc(time: datetime) -> datetime:
    """A time as the verdict has it; raises TypeError and ValueError.

    A date is refused: its end, to some its begin and to others the next day's.
    """
    if not isinstance(time, datetime):
        raise TypeError(
            f"a period ends at a datetime, not at a {type(time).__name__}:"
            " datetime(2026, 2, 1) ends January, in UTC"
        )
    if time != time:  # noqa: PLR0124 - pandas' NaT, which is a datetime and compares to nothing
        raise ValueError("a period ends at a time, and this is none")
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class Told:
    """What control and the facts say of one table.

    `events` are bronze's, in order; None where there are no facts to ask. They are those of all
    tables where the facts do not tell which of them is the bronze: `is_of_all`.
    """

    name: str
    uri: str
    row: ControlRow | None
    events: Sequence[FactsRow] | None
    granularity: str = "hour"
    is_of_all: bool = False


def bronze_verdict(told: Told) -> Verdict:
    """Bronze's: what was read of the changes, and which of them it lacks."""
    if told.row is None or _is_discarded(told):
        return _never(told, Layer.BRONZE)
    lost = every_gap(told.events or ())
    return Verdict(
        name=told.name,
        uri=told.uri,
        layer=Layer.BRONZE,
        finalized_until=told.row.finalized_until,
        hold=None,
        text=_sentence(told, "", lost),
        lost=lost,
        begins=_begins(told.events or ()),
        granularity=told.granularity,
    )


def silver_verdict(told: Told, bronze: ControlRow | None) -> Verdict:
    """Silver's, against bronze's row; the events are bronze's, too."""
    return _made_verdict(told, bronze, Layer.SILVER)


def history_verdict(told: Told, bronze: ControlRow | None) -> Verdict:
    """A history's: as silver's, but what a snapshot has healed is right from it on, not before.

    Decision 0026: nobody knows when in the gap a state ended.
    """
    return _made_verdict(told, bronze, Layer.HISTORY)


def _made_verdict(told: Told, bronze: ControlRow | None, layer: Layer) -> Verdict:
    row = told.row
    if row is None or _is_discarded(told):
        return _never(told, layer)
    lost, healed, begins = [], [], []
    for events in by_target(told.events or ()).values():
        for gap in every_gap(events):
            if not _is_healed(gap, row):
                lost.append(gap)
            elif layer is Layer.HISTORY:
                healed.append(_until_healed(gap, events))
        if layer is Layer.HISTORY:
            begins += [taken.at.commit_ts for taken in taken_snapshots(events)[:1]]
    hold, text = _hold(told, bronze, layer)
    return Verdict(
        name=told.name,
        uri=told.uri,
        layer=layer,
        finalized_until=row.finalized_until,
        hold=hold,
        text=_sentence(told, text, [*lost, *healed]),
        verdict_version=row.verdict_version,
        lost=tuple(sorted(lost, key=lambda gap: gap.start)),
        begins=max(begins, default=None),
        granularity=told.granularity,
        healed=tuple(healed),
    )


def _hold(told: Told, bronze: ControlRow | None, layer: Layer) -> tuple[Reason | None, str]:
    """What holds the verdict of a table that is made of bronze, and a text."""
    if told.events is None or told.is_of_all or bronze is None:
        return None, ""
    snapshots = snapshots_of(told.events)
    found = silver_hold(bronze, told.row, snapshots)
    if found is None:
        return None, ""
    table = "The history" if layer is Layer.HISTORY else "Silver"
    return Reason(found), hold_text(found, snapshots, table)


def _never(told: Told, layer: Layer) -> Verdict:
    return Verdict(
        name=told.name,
        uri=told.uri,
        layer=layer,
        finalized_until=None,
        hold=Reason.NEVER_LOADED,
        text="Nothing is loaded yet, or it was reset: no period is complete.",
        granularity=told.granularity,
    )


def _sentence(told: Told, held: str, lost: Sequence[Gap]) -> str:
    until = told.row.finalized_until if told.row else None
    known = f"complete up to {until} UTC" if until else "no period is complete yet"
    if lost:
        known += f", but for {len(lost)} gap{'s' if len(lost) > 1 else ''}"
    if told.events is None:
        held = "There are no facts to say what is lost, or what holds its verdict back"
    elif told.is_of_all:
        held = (
            "The facts do not tell which bronze it is made of, so the gaps of all tables count,"
            " and what holds its verdict back is not known: name its bronze as the facts do"
        )
    return f"{held or 'Nothing holds its verdict back'} ({known})."


def _is_discarded(told: Told) -> bool:
    """Whether the row speaks of a table that a reset has given up: its verdict goes last."""
    if told.row is None or told.row.table_id is None:
        return False
    return told.row.table_id in snapshots_of(told.events or ()).discarded


def _is_healed(gap: Gap, silver: ControlRow) -> bool:
    """Whether silver was rebuilt from a snapshot that was taken after what was lost."""
    return bool(gap.lsn and silver.snapshot_lsn) and str(silver.snapshot_lsn) >= str(gap.lsn)


def _until_healed(gap: Gap, events: Sequence[FactsRow]) -> Gap:
    """A gap up to the first snapshot since, by which a history ends what ended in the gap."""
    since = (one.at for one in taken_snapshots(events) if str(one.at.lsn) >= str(gap.lsn))
    healed = next(since, None)
    return gap if healed is None else replace(gap, end=max(gap.end, healed.commit_ts))


def _begins(events: Sequence[FactsRow]) -> datetime | None:
    """When the changes begin: at the first snapshot since the last reset.

    A chunked one counts from its open on. A table that was first read anew for a loss had
    changes before, from nobody knows when.
    """
    found: dict[Lsn, datetime] = {}
    for row in this_life(events):
        opens_chunked = (
            row.event == Event.SNAPSHOT_OPEN
            and row.payload.get("mode") == SnapshotMode.CHUNKED
            and row.payload.get("kind", Event.BOOTSTRAP) == Event.BOOTSTRAP
        )
        if row.event == Event.BOOTSTRAP or opens_chunked:
            at, lsn = row.max_commit_ts, row.newest_lsn
            if at is not None and lsn is not None:
                found[lsn] = at
    return found[min(found)] if found else None
