"""What a sync, or a backfill, did with one table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from cdc_assets.contract import Column
from cdc_assets.errors import CdcError
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lsn import Lsn
from cdc_assets.planning.advancing import BronzeProgress
from cdc_assets.planning.losses import Gap
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import ChangeCounts, FactsRow

NewestRows = Callable[[], Mapping[str, FactsRow]]
"""Gives the facts' furthest batch rows by target."""

ToldLately = Callable[[], Collection[str]]
"""Gives the targets that have written a batch row or a quiet one lately."""


class Work(StrEnum):
    """What there was to do."""

    SNAPSHOT = "snapshot"
    OPENED = "opened"
    """A chunked snapshot: its changes have begun, and its rows are read by backfills."""
    CHANGES = "changes"
    QUIET = "quiet"
    SKIPPED = "skipped"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Measure:
    """How one batch that this run read itself went."""

    started_at: datetime
    duration_seconds: float
    read_seconds: float
    read_mb: float
    network_wait_ms: int | None


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """One table's part of a sync: what was written, and what is still to be recorded.

    `silver_lost` says that silver is missing or another table: its row has no position any more;
    `history_lost` says so of a history.
    `measures` are those of each batch that this run read itself, by id; the figures beside it are
    of all together. `counts` are those of all batches found, this run's or not.
    `retention_headroom_hours` is how far cleanup is behind its end, where that was measured.
    `gap` is the newest loss of changes that nobody has acknowledged. `warnings` are sentences
    about the table for an operator. `columns` are bronze's, where it was opened.
    """

    table: str
    work: Work
    start: Offset | None = None
    end: Offset | None = None
    rows: int = 0
    counts: ChangeCounts | None = None
    read_seconds: float = 0.0
    read_mb: float = 0.0
    network_wait_ms: int | None = None
    started_at: datetime | None = None
    duration_seconds: float = 0.0
    engine: str = ""
    measures: Mapping[int, Measure] = field(default_factory=dict)
    facts: tuple[FactsEntry, ...] = ()
    progress: BronzeProgress | None = None
    silver_lost: bool = False
    history_lost: bool = False
    retention_headroom_hours: float | None = None
    gap: Gap | None = None
    warnings: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    error: CdcError | None = None


def joined(parts: Sequence[TableOutcome]) -> TableOutcome:
    """One table's outcome from what it told in several parts: the last, with the facts of all.

    A transaction that several tell of is written once: those of one commit are not held apart.
    """
    entries: dict[object, FactsEntry] = {}
    measures: dict[int, Measure] = {}
    for part in parts:
        for entry in part.facts:
            entries.setdefault((entry.app_id, entry.version) if entry.app_id else entry, entry)
        for batch_id, measure in part.measures.items():
            measures.setdefault(batch_id, measure)
    return replace(parts[-1], facts=tuple(entries.values()), measures=measures)


@dataclass(frozen=True, slots=True)
class Shared:
    """What the tables of one sync have in common.

    `told_lately` asks once. `tell` takes what a table has done since it told last.
    """

    told_lately: ToldLately
    tell: Callable[[TableOutcome], None]


class BackfillState(StrEnum):
    """Why a backfill came back."""

    DONE = "done"
    RUNNING = "running"
    """It reached a limit of its own: call it again."""
    WAITING_HEADROOM = "waiting_headroom"
    WAITING_CAPTURE = "waiting_capture"
    ABANDONED = "abandoned"
    """A loss of changes led to another snapshot, which the next call reads."""
    NO_SNAPSHOT = "no_snapshot"


@dataclass(frozen=True, slots=True)
class BackfillOutcome:
    """How far a chunked snapshot is read.

    `chunks_total` is None before it is planned. `paused` says that it waits for something else
    than the next call; `reason` is `state` in words. `rows` and `rows_per_second` are of this call
    alone; `seconds_left` is what is left to read, at its pace.
    """

    table: str
    snapshot: Lsn | None
    chunks_done: int
    chunks_total: int | None
    done: bool
    paused: bool
    state: BackfillState
    reason: str
    rows: int = 0
    rows_per_second: float | None = None
    seconds_left: float | None = None
