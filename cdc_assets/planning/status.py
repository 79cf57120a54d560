"""Where each table stands, by the small tables alone: what `cdc-assets status` says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from cdc_assets.contract import COMPLETED_SNAPSHOT
from cdc_assets.names import DatabaseName, TableName
from cdc_assets.planning.health import cleaned_up_to
from cdc_assets.planning.losses import Gap, unacknowledged
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.retired import retired_tables
from cdc_assets.planning.snapshots import Snapshots, by_target, snapshots_of
from cdc_assets.planning.verdict import Finality, Reason, judge_finality, paused_finality
from cdc_assets.planning.waves import Waves, hours_between
from cdc_assets.settings import DatabaseSettings


class State(StrEnum):
    """What is there of a table."""

    NEVER_LOADED = "never_loaded"
    LOADING = "loading"
    """A snapshot is open: its first one, or a further one beside what is loaded."""
    LOADED = "loaded"
    PAUSED = "paused"
    """It stands still, as `tables.yaml` says."""
    RETIRED = "retired"
    """It was taken out of `tables.yaml`; its tables stay as they are."""


@dataclass(frozen=True, slots=True)
class OpenSnapshot:
    """A snapshot that is being taken; a whole one has no waves, and no chunks before its plan."""

    mode: str
    lsn: str
    waves_done: int | None = None
    waves_total: int | None = None
    chunks_done: int | None = None
    chunks_total: int | None = None


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table's line; times are naive and in UTC, None where nothing is known.

    The fields are those of `cdc-assets status --json`, and what they mean stands in docs/cli.md.
    """

    database: str
    table: str
    state: State
    bronze_complete_until: datetime | None
    silver_complete_until: datetime | None
    on_time: bool | None
    reason: str
    text: str
    late_seconds: float | None
    last_sync: datetime | None
    last_rows: int | None
    last_rows_at: datetime | None
    engine: str | None
    retention_headroom_hours: float | None
    capture_lag_seconds: float | None
    snapshot: OpenSnapshot | None
    gaps: tuple[Gap, ...]

    @property
    def is_wrong(self) -> bool:
        """Whether a person has to look: it is late, or changes are lost and nobody said so."""
        return self.on_time is False or bool(self.gaps)


@dataclass(frozen=True, slots=True)
class Known:
    """What the small tables of one database hold; `waves` are of open snapshots, by table."""

    control: Mapping[str, ControlRow]
    events: Sequence[FactsRow]
    batches: Mapping[str, Sequence[FactsRow]]
    waves: Mapping[str, Waves]

    def newest(self, target: str) -> FactsRow | None:
        """A target's newest batch."""
        batches = self.batches.get(target, ())
        return batches[0] if batches else None


def table_statuses(
    now: datetime, database: DatabaseName, settings: DatabaseSettings, known: Known
) -> list[TableStatus]:
    """Every table's status at `now` (UTC): those of the settings in their order, then retired."""
    events = by_target(known.events)
    cleaned = cleaned_up_to(now, ((row, known.newest(name)) for name, row in known.control.items()))
    found = []
    for table in (*settings.tables, *retired_tables(known.control, settings.tables)):
        name = database.table(table)
        rows = events.get(name.bronze, [])
        snapshots = snapshots_of(rows)
        judged = _judged(now, name, settings, known, snapshots)
        opened = _opened(snapshots, known.waves.get(table), settings.num_partitions)
        status = _status(name, known, rows, opened, judged)
        own = [(known.control.get(name.bronze), known.newest(name.bronze))]
        mark = cleaned if status.state is State.PAUSED else cleaned_up_to(now, own)
        if mark is not None:
            status = replace(status, retention_headroom_hours=_hours(known, name, mark))
        found.append(status)
    return found


def _judged(
    now: datetime,
    name: TableName,
    settings: DatabaseSettings,
    known: Known,
    snapshots: Snapshots,
) -> Finality | None:
    """How late a table is; None of a retired one, of which nobody asks that."""
    bronze, silver = known.control.get(name.bronze), known.control.get(name.silver)
    if name.key not in settings.tables:
        return None
    if settings.is_paused(name.key):
        return paused_finality(now, bronze, silver)
    wanted = settings.finality_of(name.key)
    return judge_finality(now, bronze, silver, snapshots, wanted.granularity, wanted.allowed_delay)


def _opened(snapshots: Snapshots, waves: Waves | None, per_wave: int) -> OpenSnapshot | None:
    if snapshots.open is None:
        return None
    mode, lsn = str(snapshots.open.mode), str(snapshots.open.at.lsn)
    if not snapshots.open.is_chunked or waves is None:
        return OpenSnapshot(mode, lsn)
    total = None
    if waves.chunks_total is not None:
        left = waves.chunks_total - len(waves.done)
        total = waves.newest + 1 + -(-left // per_wave)
    return OpenSnapshot(mode, lsn, waves.newest + 1, total, len(waves.done), waves.chunks_total)


def _status(
    name: TableName,
    known: Known,
    events: Sequence[FactsRow],
    opened: OpenSnapshot | None,
    judged: Finality | None,
) -> TableStatus:
    bronze, silver = known.control.get(name.bronze), known.control.get(name.silver)
    batches = known.batches.get(name.bronze, ())
    newest = known.newest(name.bronze)
    loads = [row for row in batches if row.rows]
    loads += [row for row in events if row.event in COMPLETED_SNAPSHOT and row.rows]
    last = max(loads, key=lambda row: row.written_at or datetime.min, default=None)
    return TableStatus(
        database=name.database.key,
        table=name.key,
        state=_state(judged, bronze, opened),
        bronze_complete_until=bronze.finalized_until if bronze else None,
        silver_complete_until=silver.finalized_until if silver else None,
        on_time=judged.passed if judged and judged.reason is not Reason.PAUSED else None,
        reason=str(judged.reason) if judged else str(State.RETIRED),
        text=judged.text if judged else "Not in tables.yaml any more; its tables stay.",
        late_seconds=round(judged.late_seconds, 3) if judged else None,
        last_sync=bronze.updated_at if bronze else None,
        last_rows=last.rows if last else None,
        last_rows_at=last.written_at if last else None,
        engine=(last.engine or None) if last else None,
        retention_headroom_hours=newest.retention_headroom_hours if newest else None,
        capture_lag_seconds=newest.capture_lag_seconds if newest else None,
        snapshot=opened,
        gaps=unacknowledged(events),
    )


def _hours(known: Known, name: TableName, cleaned: datetime) -> float | None:
    """How far behind what was read of a table cleanup is, where it has gone up to a time."""
    bronze = known.control.get(name.bronze)
    if bronze is None or bronze.end_commit_ts is None:
        return None
    return round(hours_between(cleaned, bronze.end_commit_ts) or 0.0, 3)


def _state(
    judged: Finality | None, bronze: ControlRow | None, opened: OpenSnapshot | None
) -> State:
    if judged is None:
        return State.RETIRED
    if judged.reason is Reason.PAUSED:
        return State.PAUSED
    if opened is not None:
        return State.LOADING
    return State.LOADED if bronze is not None and bronze.end_lsn else State.NEVER_LOADED
