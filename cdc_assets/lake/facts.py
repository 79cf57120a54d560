"""The facts table: append-only rows, each transaction written once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_assets.contract import FACTS, Event
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.kept import Kept
from cdc_assets.lake.opening import BOOKKEEPING, ensure_table, open_table
from cdc_assets.lake.tables import StorageOptions, query, retry_conflicts
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.records import FactsRow

_NAMES = tuple(f.name for f in fields(FactsRow))

_STATISTICS_STEP = timedelta(milliseconds=1)
"""Files' statistics leave out what is smaller, and so does what is looked for by them."""

_CLOCK_STEP = timedelta(microseconds=1)

_WAVE_FILES = 4
"""Files whose rows of waves are read first, and how many times more where those are not enough."""

_LAST = "\U0010ffff"
"""After every event, where statistics say nothing."""

_SINCE_RESET = (
    "facts LEFT JOIN (SELECT target AS reset_target, max(written_at) AS reset_at FROM facts"
    " WHERE event = 'reset' GROUP BY target) AS resets ON target = reset_target"
    " WHERE (reset_at IS NULL OR written_at > reset_at)"
)
"""What was written before a reset counts no more."""


_NEWEST_TIMES = (
    "WITH batches AS (SELECT target, written_at, end_lsn, rows FROM facts WHERE event IS NULL),"
    " newest AS (SELECT target, max(written_at) AS at, max(end_lsn) AS lsn,"
    " max(written_at) FILTER (WHERE rows > 0) AS changed_at,"
    " max(end_lsn) FILTER (WHERE rows > 0) AS changed_lsn FROM batches GROUP BY target),"
    " furthest AS (SELECT b.target, max(b.written_at) AS at FROM batches AS b"
    " JOIN newest AS n ON b.target = n.target WHERE b.end_lsn = n.lsn GROUP BY b.target),"
    " changed AS (SELECT b.target, max(b.written_at) AS at FROM batches AS b"
    " JOIN newest AS n ON b.target = n.target WHERE b.rows > 0 AND b.end_lsn = n.changed_lsn"
    " GROUP BY b.target)"
    " SELECT DISTINCT time FROM (SELECT at AS time FROM newest"
    " UNION ALL SELECT changed_at AS time FROM newest UNION ALL SELECT at AS time FROM furthest"
    " UNION ALL SELECT at AS time FROM changed)"
)
"""When each table's newest batches were written: by the clock and by LSN, and with rows."""


@dataclass(frozen=True, slots=True)
class FactsEntry:
    """Rows that belong to one transaction; without an `app_id` they are written as they come."""

    rows: tuple[FactsRow, ...]
    app_id: str | None = None
    version: int = 0


class Facts:
    """The facts table of one database."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self._uri = uri
        self._options = options
        self._kept = Kept(uri, FACTS, options)

    def append(self, entries: Sequence[FactsEntry]) -> tuple[FactsEntry, ...]:
        """Write the entries whose transaction is not recorded yet, in one commit.

        Gives those that were written; delta-rs skips nothing by itself, so a lost conflict is
        looked at afresh.
        """
        if not entries:
            return ()
        with lake_failures(self._uri):
            return retry_conflicts(lambda: self._append_once(entries), where=self._uri)

    def _append_once(self, entries: Sequence[FactsEntry]) -> tuple[FactsEntry, ...]:
        table = ensure_table(self._uri, FACTS, self._options, properties=BOOKKEEPING)
        ids = {entry.app_id for entry in entries if entry.app_id is not None}
        versions = {app_id: table.transaction_version(app_id) for app_id in ids}
        new = tuple(e for e in entries if not _is_recorded(e, versions))
        rows = [row for entry in new for row in entry.rows]
        if not rows:
            return ()
        write_deltalake(
            table,
            _to_arrow(table, _in_order(table, rows)),
            mode="append",
            commit_properties=CommitProperties(
                # A conflict must come back to us: another writer may have written the same.
                max_commit_retries=0,
                app_transactions=_transactions(new),
            ),
        )
        return new

    def version_of(self, app_id: str) -> int | None:
        """The last version of a transaction id."""
        return self.versions_of([app_id])[app_id]

    def versions_of(self, app_ids: Iterable[str]) -> dict[str, int | None]:
        """The last version of each of these transaction ids, in one look."""
        table = self._kept.current()
        return {a: None if table is None else table.transaction_version(a) for a in app_ids}

    def events(self, *, with_chunks: bool = False) -> list[FactsRow]:
        """Every event row, oldest first; those of chunks are left out, as there may be 100,000."""
        chunks = "" if with_chunks else f" AND event <> '{Event.SNAPSHOT_CHUNK}'"
        return self._rows(f"event IS NOT NULL{chunks}")

    def waves(
        self, table: TableName, snapshot: Lsn, since: datetime | None = None
    ) -> list[FactsRow]:
        """The rows of a chunked snapshot's plan and chunks, oldest first.

        With `since` (UTC), a row's `written_at`, those from then on, and perhaps a few before.
        """
        target, app_id = (_quoted(t) for t in (table.bronze, table.snapshot_app(snapshot)))
        floor = f" AND written_at >= {_timestamp(since - _STATISTICS_STEP)}" if since else ""
        return self._rows(
            f"target = {target}{floor} AND (event = '{Event.SNAPSHOT_CHUNK}' AND app_id = {app_id}"
            f" OR event = '{Event.SNAPSHOT_PLAN}' AND max_lsn = '{snapshot}')"
        )

    def waves_after(self, table: TableName, snapshot: Lsn, wave: int) -> list[FactsRow]:
        """The rows of a chunked snapshot's waves after one, oldest first, and perhaps of more.

        Looked for from the newest file on: a wave's rows are written after those of the one before.
        """
        times = self._times_of_chunks()
        count = _WAVE_FILES
        while count < len(times) and (since := times[count]) is not None:
            rows = self.waves(table, snapshot, since)
            told = (r.payload["wave"] for r in rows if r.event == Event.SNAPSHOT_CHUNK)
            if min(told, default=wave + 1) <= wave:
                return rows
            count *= _WAVE_FILES
        return self.waves(table, snapshot)

    def _times_of_chunks(self) -> list[datetime | None]:
        """The first time of each file that may have rows of chunks, the newest first."""
        table = self._kept.current()
        if table is None:
            return []
        names = [f"{end}.{name}" for end in ("min", "max") for name in ("event", "written_at")]
        actions = pa.table(table.get_add_actions(flatten=True))
        files = actions.select([n for n in names if n in actions.column_names]).to_pylist()
        found = [
            (file.get("max.written_at") or datetime.max, file.get("min.written_at"))
            for file in files
            if (file.get("min.event") or "") <= Event.SNAPSHOT_CHUNK
            and (file.get("max.event") or _LAST) >= Event.SNAPSHOT_CHUNK
        ]
        return [first for _, first in sorted(found, key=lambda times: times[0], reverse=True)]

    def batches(self, target: str) -> list[FactsRow]:
        """Every batch row of one table, oldest first."""
        return self._rows(f"event IS NULL AND target = {_quoted(target)}")

    def newest_changes(self, above: str | None = None) -> dict[str, str]:
        """The largest change LSN per target; those at or below `above` may be left out."""
        table = self._kept.current()
        if table is None:
            return {}
        floor = f" AND max_lsn > '{above}'" if above else ""
        found = query(
            f"SELECT target, max(max_lsn) AS lsn FROM {_SINCE_RESET}"
            f" AND event IS NULL AND rows > 0{floor} GROUP BY target",
            facts=table,
        )
        return {row["target"]: row["lsn"] for row in found.to_pylist()}

    def newest_rows(self) -> dict[str, FactsRow]:
        """The furthest batch row per target, quiet rows among them; since its last reset.

        It looks at all rows: for a table of which control says nothing.
        """
        names = ", ".join(f"`{name}`" for name in _NAMES)
        return {
            row.target or "": row
            for row in self._select(
                f"SELECT {names} FROM (SELECT *, row_number() OVER (PARTITION BY target"
                " ORDER BY end_lsn DESC NULLS LAST, written_at DESC NULLS LAST) AS rank"
                f" FROM {_SINCE_RESET}"
                " AND event IS NULL) WHERE rank = 1"
            )
        }

    def newest_by_kind(self) -> dict[str, list[FactsRow]]:
        """Per target, its newest batch with rows and its newest quiet one, newest first.

        Of those since its last reset; it looks at all rows.
        """
        names = ", ".join(f"`{name}`" for name in _NAMES)
        found: dict[str, list[FactsRow]] = {}
        for row in self._select(
            f"SELECT {names} FROM (SELECT *, row_number() OVER (PARTITION BY target,"
            " rows > 0 ORDER BY written_at DESC NULLS LAST, end_lsn DESC NULLS LAST) AS rank"
            f" FROM {_SINCE_RESET} AND event IS NULL) WHERE rank = 1"
            " ORDER BY written_at DESC NULLS LAST"
        ):
            found.setdefault(row.target or "", []).append(row)
        return found

    def newest_looks(self, since: datetime) -> dict[str, FactsRow]:
        """The newest batch row per target of those begun since a time (UTC), quiet ones too."""
        names = ", ".join(f"`{name}`" for name in _NAMES)
        found = self._select(
            f"SELECT {names} FROM (SELECT *, row_number() OVER (PARTITION BY target"
            " ORDER BY written_at DESC NULLS LAST) AS rank FROM facts"
            f" WHERE event IS NULL AND started_at >= {_timestamp(since)}) WHERE rank = 1"
        )
        return {row.target or "": row for row in found}

    def newest_reads(self, rows_min: int) -> dict[str, FactsRow]:
        """Per target, the newest measured row of so many rows; before its last reset, too.

        It looks at all rows: for what is planned once. A wave is measured in its first chunk's row.
        """
        names = ", ".join(f"`{name}`" for name in _NAMES)
        found = self._select(
            f"SELECT {names} FROM (SELECT *, row_number() OVER (PARTITION BY target"
            " ORDER BY written_at DESC NULLS LAST) AS rank FROM facts"
            f" WHERE rows >= {rows_min:d} AND duration_ms > 0 AND read_mb > 0) WHERE rank = 1"
        )
        return {row.target or "": row for row in found}

    def told_between(self, since: datetime, until: datetime) -> frozenset[str]:
        """The targets with a batch row, quiet ones among them, begun between two times, in UTC.

        `started_at` is the clock's alone, where `written_at` may have been moved past a reset;
        statistics leave out the files of other times.
        """
        table = self._kept.current()
        if table is None:
            return frozenset()
        found = query(
            "SELECT DISTINCT target FROM facts WHERE event IS NULL"
            f" AND started_at > {_timestamp(since)} AND started_at < {_timestamp(until)}",
            facts=table,
        )
        return frozenset(found["target"].to_pylist())

    def files(self) -> int:
        """How many files they are in."""
        table = self._kept.current()
        return 0 if table is None else pa.table(table.get_add_actions()).num_rows

    def trim(self, before: datetime) -> int:
        """Remove batch rows written before a time (UTC), and give their number.

        Events stay, and of each table its newest row and its newest with rows: they say how far it
        was read, and when it last changed.
        """
        with lake_failures(self._uri):
            return retry_conflicts(lambda: self._trim_once(before), where=self._uri)

    def _trim_once(self, before: datetime) -> int:
        table = open_table(self._uri, FACTS, self._options)
        if table is None:
            return 0
        kept = query(f"{_NEWEST_TIMES} WHERE time < {_timestamp(before)}", facts=table)
        times = ", ".join(_timestamp(time) for time in kept["time"].to_pylist())
        found = table.delete(
            f"`event` IS NULL AND `written_at` < {_timestamp(before)}"
            + (f" AND `written_at` NOT IN ({times})" if times else ""),
            commit_properties=CommitProperties(max_commit_retries=0),
        )
        return int(found["num_deleted_rows"])

    def _rows(self, where: str) -> list[FactsRow]:
        names = ", ".join(f"`{name}`" for name in _NAMES)
        return self._select(
            f"SELECT {names} FROM facts WHERE {where} ORDER BY written_at NULLS FIRST"
        )

    def _select(self, sql: str) -> list[FactsRow]:
        table = self._kept.current()
        if table is None:
            return []
        return [FactsRow(**row) for row in query(sql, facts=table).to_pylist()]


def _in_order(table: DeltaTable, rows: Sequence[FactsRow]) -> list[FactsRow]:
    """The rows, with events after all that is there of their table, and batches after its reset.

    `written_at` is their order, and a reset ends what was written before it. Clocks of two
    machines differ, and one may be set back; what needs no order keeps the time of its own.
    """
    times = [row.written_at for row in rows if row.written_at is not None]
    newest, resets = _later(table, min(times)) if times else ({}, {})
    found = []
    for row in rows:
        time, floor = row.written_at, (resets if row.event is None else newest).get(row.target)
        if time is not None:
            time = time if floor is None or time > floor else floor + _CLOCK_STEP
            if row.event is not None:
                newest[row.target] = time
            if row.event == Event.RESET:
                resets[row.target] = time
        found.append(replace(row, written_at=time))
    return found


_Times = dict[str | None, datetime]


def _later(table: DeltaTable, time: datetime) -> tuple[_Times, _Times]:
    """Per target, the newest row and the newest reset written from a time on: mostly none."""
    found = query(
        "SELECT target, max(written_at) AS newest,"
        f" max(CASE WHEN event = '{Event.RESET}' THEN written_at END) AS reset FROM facts"
        f" WHERE written_at >= {_timestamp(time - _STATISTICS_STEP)} GROUP BY target",
        facts=table,
    ).to_pylist()
    resets = {row["target"]: row["reset"] for row in found if row["reset"] is not None}
    return {row["target"]: row["newest"] for row in found}, resets


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _timestamp(time: datetime) -> str:
    """A time as a literal of the type that the facts' times have."""
    text = time.isoformat(timespec="microseconds")
    return f"arrow_cast('{text}', 'Timestamp(Microsecond, None)')"


def _transactions(entries: Sequence[FactsEntry]) -> list[Transaction]:
    """One per id, at its largest version: of two in one commit, delta-rs knows the first alone."""
    newest: dict[str, int] = {}
    for entry in entries:
        if entry.app_id is not None:
            newest[entry.app_id] = max(entry.version, newest.get(entry.app_id, entry.version))
    return [Transaction(app_id, version) for app_id, version in newest.items()]


def _is_recorded(entry: FactsEntry, versions: Mapping[str, int | None]) -> bool:
    version = versions[entry.app_id] if entry.app_id is not None else None
    return version is not None and version >= entry.version


def _to_arrow(table: DeltaTable, rows: Sequence[FactsRow]) -> pa.Table:
    schema = pa.schema(table.schema().to_arrow())
    data: dict[str, list[Any]] = {n: [getattr(row, n) for row in rows] for n in _NAMES}
    return pa.table(data, schema=pa.schema([schema.field(name) for name in _NAMES]))
