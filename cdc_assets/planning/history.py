"""A history table: every state of a key, with the commits from which and up to which it held.

Pure: which changes a call takes, and the SQL that makes versions of them, in silver's order, of
which silver keeps the last one alone. Decision 0026 says why a snapshot waits until bronze is past
its high mark, and why no call goes past one that is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cdc_assets.contract import COMPLETED_SNAPSHOT, HISTORY, Column
from cdc_assets.contract import Operation as Op
from cdc_assets.lsn import Lsn
from cdc_assets.names import folded
from cdc_assets.planning.bounds import Times
from cdc_assets.planning.literals import lsn_literal, quoted
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import MergeTexts
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import this_life

COMMIT_TIME_ROUNDING = timedelta(milliseconds=10)
"""How far above the true moment a commit's time may stand: the server keeps it in steps of 1/300 s
and rounds it up to 2 ms, and the high mark is exact; the rest is to spare."""

_FIRST = Lsn.of_int(0)
_THERE = f"{Op.INSERT:d}, {Op.AFTER:d}"
_BEFORE = f"{Op.DELETE:d}, {Op.BEFORE:d}"


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """A complete snapshot: the table as it was at its LSN, read up to its high mark (UTC).

    `keys` are those of the table from there on. Of one that `closes_gap` no change tells what had
    become of the table since the gap began.
    """

    at: Offset
    high_mark: datetime | None = None
    keys: tuple[str, ...] = ()
    closes_gap: bool = False

    @property
    def seen_to(self) -> datetime | None:
        """The largest commit time that its read may have seen."""
        return None if self.high_mark is None else self.high_mark + COMMIT_TIME_ROUNDING

    def is_settled(self, end: Offset) -> bool:
        """Whether every commit that its read may have seen is in bronze."""
        return self.seen_to is None or end.commit_ts > self.seen_to

    def has_keys(self, keys: tuple[str, ...]) -> bool:
        """Whether its rows are told apart by these."""
        return set(map(folded, self.keys)) == set(map(folded, keys))

    def is_news(self, keys: tuple[str, ...]) -> bool:
        """Whether it says what no change does, of versions with these keys, empty where unknown."""
        return self.closes_gap or (bool(keys) and not self.has_keys(keys))


def taken_snapshots(
    events: Iterable[FactsRow], keys: tuple[str, ...] = ()
) -> tuple[TakenSnapshot, ...]:
    """A table's complete snapshots since its last reset, by LSN.

    `keys` are those that were named; without any each snapshot has its unique index's.
    """
    found: dict[Lsn, TakenSnapshot] = {}
    for row in this_life(events):
        lsn, at = row.newest_lsn, row.max_commit_ts
        if row.event in COMPLETED_SNAPSHOT and lsn is not None and at is not None:
            mark = row.payload.get("high_mark")
            read_to = datetime.fromisoformat(mark) if mark else None
            old = found.get(lsn)
            if old is not None and old.high_mark is not None and read_to is not None:
                read_to = max(read_to, old.high_mark)
            of = keys or tuple(row.payload.get("keys", ()))
            closes = row.lost_from_ts is not None
            found[lsn] = TakenSnapshot(Offset(lsn, at), read_to, of, closes)
    return tuple(found[lsn] for lsn in sorted(found))


@dataclass(frozen=True, slots=True)
class HistoryPosition:
    """The newest change that history has, and the snapshot that it last took in.

    Without a snapshot all of its versions have ended at `applied`: the next one has another key.
    """

    applied: Lsn | None = None
    snapshot: Lsn | None = None

    @classmethod
    def of(cls, row: ControlRow | None) -> HistoryPosition:
        """As control has it."""
        if row is None:
            return cls()
        return cls(Lsn.parse_optional(row.applied_lsn), Lsn.parse_optional(row.snapshot_lsn))

    def moved(self, row: ControlRow, to: HistoryPosition) -> ControlRow:
        """History's control row once a call has come from here to there: never back."""
        if to.snapshot is None:
            same = HistoryPosition.of(row) == self
            return replace(row, applied_lsn=str(to.applied), snapshot_lsn=None) if same else row
        if (row.applied_lsn or "") <= str(to.applied):
            row = replace(row, applied_lsn=str(to.applied))
        if (row.snapshot_lsn or "") <= str(to.snapshot):
            row = replace(row, snapshot_lsn=str(to.snapshot))
        return row


@dataclass(frozen=True, slots=True)
class HistoryWork:
    """The changes above `above` up to `upto`, and `snapshot` where one is taken in.

    Versions that held at `since` are gone on with; None where there are none. All that hold then
    end at `ends`, where that is given. `keys` are those of all of these, empty where unknown.
    `passed` is a snapshot below what is there already: it says nothing new, and counts as taken in.
    """

    above: Lsn
    upto: Lsn
    since: Lsn | None
    keys: tuple[str, ...] = ()
    snapshot: TakenSnapshot | None = None
    ends: Offset | None = None
    passed: Lsn | None = None

    @property
    def at(self) -> Offset | None:
        """The commit of which it says of every key whether it is there, if it says that of one."""
        return self.snapshot.at if self.snapshot is not None else self.ends

    def after(self, position: HistoryPosition, head: Lsn | None) -> HistoryPosition:
        """Where history stands then; `head` is the newest change of these."""
        at = self.at.lsn if self.at is not None else None
        applied = max(lsn for lsn in (position.applied, at, head) if lsn is not None)
        if self.ends is not None:
            return HistoryPosition(applied)
        return HistoryPosition(applied, at or self.passed or position.snapshot)


def plan_history(
    position: HistoryPosition,
    taken: Sequence[TakenSnapshot],
    opened: Lsn | None,
    end: Offset | None,
) -> HistoryWork | None:
    """What a call does; None where there is nothing to do yet.

    `opened` is an open snapshot's LSN and `end` how far bronze is complete, as it stood before
    bronze was looked at. Snapshots are taken in one after the other, each once it is settled, and
    no change above the next one before that: what a snapshot says is of its LSN, and versions from
    then on rest on it. One of another key is taken in once all versions of the old one have ended
    at it; one without any begins nothing. One whose event comes late, when changes above it are
    there already, is passed, unless it says something new (`missed`).
    """
    if end is None:
        return None
    known = [lsn.previous() for lsn in (position.applied,) if lsn] + [position.snapshot or _FIRST]
    since = position.applied if position.snapshot is not None else None
    ahead = [one for one in taken if one.at.lsn > max(known)]
    while since is None and ahead and not ahead[0].keys:
        ahead = ahead[1:]
    keys = next((one.keys for one in taken if one.at.lsn == position.snapshot), ())
    bounds = [one.at.lsn for one in ahead] + ([opened] if opened is not None else [])
    newest = ahead[0] if ahead and ahead[0].is_settled(end) else None
    if newest is not None and since is not None and keys and not newest.has_keys(keys):
        return HistoryWork(since, newest.at.lsn, since, keys, ends=newest.at)
    if newest is not None:
        upto = min([end.lsn, *(lsn for lsn in bounds if lsn > newest.at.lsn)])
        above = newest.at.lsn if since is None else since
        return HistoryWork(above, max(upto, newest.at.lsn), since, newest.keys, newest)
    if since is None:
        return None
    upto = max(since, min([end.lsn, *bounds]))
    passed = _passed(position, taken, max(known), keys)
    if upto == since and passed is None:
        return None
    return HistoryWork(since, upto, since, keys, passed=passed)


def _passed(
    position: HistoryPosition, taken: Sequence[TakenSnapshot], upto: Lsn, keys: tuple[str, ...]
) -> Lsn | None:
    """The newest snapshot up to an LSN whose event came late."""
    late = (
        one.at.lsn
        for one in taken
        if (position.snapshot or _FIRST) < one.at.lsn <= upto and not one.is_news(keys)
    )
    return max(late, default=None)


def missed(position: HistoryPosition, taken: Sequence[TakenSnapshot]) -> TakenSnapshot | None:
    """A snapshot told of below the changes that a history has, and which says something new there.

    Versions that it ends have gone on, or have ended at later commits, which is not taken back: a
    history that has missed one begins anew (decision 0033).
    """
    if position.applied is None or position.snapshot is None:
        return None
    keys = next((one.keys for one in taken if one.at.lsn == position.snapshot), ())
    between = (one for one in taken if position.snapshot < one.at.lsn < position.applied)
    return next((one for one in between if one.is_news(keys)), None)


def history_texts(
    captured: tuple[Column, ...], keys: tuple[str, ...], work: HistoryWork, times: Times
) -> MergeTexts:
    """The MERGE of a call into history, which the engines call `silver`.

    A version is known by its key and the commit that it began with, so a call that is made again
    finds what it has written. An end is written once and never taken back. A version that ends
    with the commit that it began with is none.
    """
    begin, end = HISTORY.names[0], HISTORY.names[2]
    is_none = f"s.{quoted(end)} IS NOT NULL AND s.{quoted(begin)} = s.{quoted(end)}"
    return MergeTexts(
        ranking=_Versions(captured, keys, work, times).text(),
        matched=" AND ".join(
            f"t.{quoted(key)} <=> s.{quoted(key)}" for key in (*keys, HISTORY.names[0])
        ),
        newer="t.`_valid_to_lsn` IS NULL AND s.`_valid_to_lsn` IS NOT NULL",
        is_delete="false" if work.ends is None else f"({is_none})",
        is_upsert="true" if work.ends is None else f"(NOT ({is_none}))",
        reads_silver=work.since is not None,
    )


@dataclass(frozen=True, slots=True)
class _Versions:
    """The SELECT of a call's versions.

    Each key has a line of moments: the version that held before, each commit's last image, and the
    snapshot's row. A moment at which the row is there begins a version, the next one ends it.
    """

    captured: tuple[Column, ...]
    keys: tuple[str, ...]
    work: HistoryWork
    times: Times

    def text(self) -> str:
        """All of it."""
        parts = {"changed": self._changed()}
        lines = [f"SELECT {self._row('lsn', 'ts', 'ord', 'there')} FROM {self._n('changed')}"]
        if self.work.since is not None:
            parts["held"] = self._held(self.work.since)
            lines.append(f"SELECT {self._row('lsn', 'ts', 'ord', 'there')} FROM {self._n('held')}")
        if self.work.at is not None:
            parts |= self._moment(self.work.at, self.work.snapshot)
            lines.append(
                f"SELECT {self._row('lsn', 'ts', 'ord', 'there')} FROM {self._n('moment')}"
            )
        parts["line"] = " UNION ALL ".join(lines)
        if self.work.snapshot is not None:
            parts["line_told"] = self._told()
            parts["kept"] = self._kept(self.work.snapshot)
        kept = self._n("kept" if self.work.snapshot is not None else "line")
        over = f"OVER (PARTITION BY {self._by} ORDER BY {self._n('lsn')}, {self._n('ord')})"
        parts["closed"] = (
            f"SELECT {self._row('lsn', 'ts', 'there')},"
            f" lead({self._n('lsn')}) {over} AS {self._n('to_lsn')},"
            f" lead({self._n('ts')}) {over} AS {self._n('to_ts')} FROM {kept}"
        )
        ends = zip(("lsn", "ts", "to_lsn", "to_ts"), HISTORY.names, strict=True)
        given = ", ".join(f"{self._n(name)} AS {quoted(column)}" for name, column in ends)
        tables = ", ".join(f"{self._n(name)} AS ({text})" for name, text in parts.items())
        return (
            f"WITH {tables} SELECT {self._columns}, {given} FROM {self._n('closed')}"
            f" WHERE {self._n('there')} = 1"
        )

    def _changed(self) -> str:
        """Each key's last image of each commit."""
        order = "`_command_id` DESC NULLS LAST, `_seqval` DESC NULLS LAST, `_operation` DESC"
        work = self.work
        return (
            f"SELECT {self._columns}, `_start_lsn` AS {self._n('lsn')},"
            f" `_commit_ts` AS {self._n('ts')}, 1 AS {self._n('ord')},"
            f" CASE WHEN `_operation` IN ({_THERE}) THEN 1 ELSE 0 END AS {self._n('there')}"
            f" FROM (SELECT {self._columns}, `_start_lsn`, `_commit_ts`, `_operation`,"
            f" row_number() OVER (PARTITION BY {self._by}, `_start_lsn` ORDER BY {order})"
            f" AS {self._n('rank')} FROM `bronze` WHERE `_operation` <> {Op.SNAPSHOT:d}"
            f" AND `_start_lsn` > {lsn_literal(work.above)}"
            f" AND `_start_lsn` <= {lsn_literal(work.upto)}) AS {self._n('ranked')}"
            f" WHERE {self._n('rank')} = 1"
        )

    def _held(self, since: Lsn) -> str:
        """The versions that held then: of the keys that change, and with a moment of all."""
        lsn, held = lsn_literal(since), self._n("h")
        columns = ", ".join(f"{held}.{quoted(c.name)}" for c in self.captured)
        same = " AND ".join(
            f"({held}.{quoted(k)} IS NOT DISTINCT FROM {self._n('c')}.{quoted(k)})"
            for k in self.keys
        )
        only = f" LEFT SEMI JOIN {self._n('changed')} AS {self._n('c')} ON {same}"
        return (
            f"SELECT {columns}, {held}.`_valid_from_lsn` AS {self._n('lsn')},"
            f" {held}.`_valid_from_ts` AS {self._n('ts')}, 0 AS {self._n('ord')},"
            f" 1 AS {self._n('there')} FROM `silver` AS {held}"
            f"{only if self.work.at is None else ''}"
            f" WHERE {held}.`_valid_from_lsn` <= {lsn}"
            f" AND ({held}.`_valid_to_lsn` IS NULL OR {held}.`_valid_to_lsn` > {lsn})"
        )

    def _moment(self, at: Offset, taken: TakenSnapshot | None) -> dict[str, str]:
        """Every key at a commit, there or gone: as a snapshot says, and without one all gone.

        A key's first change since then tells how it was before, where the read may have seen that
        change; else the row that was read does; and of a key that neither speaks of, that it is
        gone.
        """
        s, rank = lsn_literal(at.lsn), self._n("rank")
        there, order = self._n("there"), self._n("tag")
        given = [
            f"SELECT {self._columns}, 0 AS {there}, 0 AS {order} FROM {self._n('changed')}"
            f" WHERE {self._n('lsn')} <= {s}",
        ]
        if self.work.since is not None:
            given.append(
                f"SELECT {self._columns}, 0 AS {there}, 0 AS {order} FROM {self._n('held')}"
            )
        if taken is not None:
            given.append(
                f"SELECT {self._columns}, 1 AS {there}, 1 AS {order} FROM (SELECT {self._columns},"
                f" row_number() OVER (PARTITION BY {self._by}"
                f" ORDER BY `_start_lsn` DESC NULLS LAST)"
                f" AS {rank} FROM `bronze` WHERE `_operation` = {Op.SNAPSHOT:d}"
                f" AND coalesce(`_snapshot`, `_start_lsn`) = {s}) AS {self._n('read')}"
                f" WHERE {rank} = 1"
            )
        if taken is not None and taken.seen_to is not None:
            first = "`_start_lsn`, `_command_id` ASC NULLS FIRST, `_seqval` ASC NULLS FIRST"
            mark = self.times.format(taken.seen_to.isoformat(timespec="microseconds"))
            given.append(
                f"SELECT {self._columns}, CASE WHEN `_operation` IN ({_BEFORE}) THEN 1 ELSE 0 END"
                f" AS {there}, 2 AS {order} FROM (SELECT {self._columns}, `_operation`,"
                f" row_number() OVER (PARTITION BY {self._by} ORDER BY {first}, `_operation`)"
                f" AS {rank} FROM `bronze` WHERE `_operation` <> {Op.SNAPSHOT:d}"
                f" AND `_start_lsn` > {s} AND `_commit_ts` <= {mark}) AS {self._n('first')}"
                f" WHERE {rank} = 1"
            )
        ts = self.times.format(at.commit_ts.isoformat(timespec="microseconds"))
        moment = (
            f"SELECT {self._columns}, {s} AS {self._n('lsn')}, {ts} AS {self._n('ts')},"
            f" 2 AS {self._n('ord')}, {there} FROM (SELECT *, row_number() OVER"
            f" (PARTITION BY {self._by} ORDER BY {order} DESC) AS {rank}"
            f" FROM {self._n('given')}) AS {self._n('best')} WHERE {rank} = 1"
        )
        return {"given": " UNION ALL ".join(given), "moment": moment}

    def _told(self) -> str:
        """Each moment with what its key was before it."""
        over = f"OVER (PARTITION BY {self._by} ORDER BY {self._n('lsn')}, {self._n('ord')})"
        told = [
            *(f"lag({quoted(c.name)}) {over} AS {self._was(i)}" for i, c in self._numbered),
            f"lag({self._n('lsn')}) {over} AS {self._n('was_lsn')}",
            f"lag({self._n('there')}) {over} AS {self._n('was_there')}",
        ]
        return f"SELECT *, {', '.join(told)} FROM {self._n('line')}"

    def _kept(self, taken: TakenSnapshot) -> str:
        """Without the snapshot's moment where it says nothing new, or a change says it exactly."""
        same = " AND ".join(
            f"({quoted(c.name)} IS NOT DISTINCT FROM {self._was(i)})" for i, c in self._numbered
        )
        there = self._n("there")
        return (
            f"SELECT {self._row('lsn', 'ts', 'ord', 'there')} FROM {self._n('line_told')}"
            f" WHERE {self._n('ord')} <> 2 OR NOT"
            f" (coalesce({self._n('was_lsn')}, '') = {lsn_literal(taken.at.lsn)}"
            f" OR coalesce({self._n('was_there')}, 0) = {there} AND ({there} = 0 OR {same}))"
        )

    @property
    def _columns(self) -> str:
        return ", ".join(quoted(column.name) for column in self.captured)

    @property
    def _by(self) -> str:
        return ", ".join(quoted(key) for key in self.keys)

    @property
    def _numbered(self) -> list[tuple[int, Column]]:
        return [(i, c) for i, c in enumerate(self.captured) if c.name not in self.keys]

    def _row(self, *names: str) -> str:
        return f"{self._columns}, {', '.join(self._n(name) for name in names)}"

    def _was(self, number: int) -> str:
        return self._n(f"was{number}")

    def _n(self, name: str) -> str:
        """A name of ours that no column has."""
        prefix = "__"
        while any(folded(column.name).startswith(prefix) for column in self.captured):
            prefix += "_"
        return quoted(f"{prefix}{name}")
