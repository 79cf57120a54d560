"""What an engine is asked to do, and what it answers: plain values that print and pickle.

A plan holds no connection and no secret. Everything in it was decided by pure code; an engine
only carries it out, and two engines carry it out alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cdc_assets.contract import Column
from cdc_assets.lsn import Lsn
from cdc_assets.planning.clocks import OffsetStep

MAX_VALUE_BYTES = 64 << 20
"""Largest value where the settings say nothing."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The retention test a task makes after its read.

    A purged range reads as empty, not as an error, and cleanup moves the low watermark before it
    deletes: a watermark still at or below `first_lsn` after the read proves that nothing was
    missing. `start_lsn` stands in where the server names no watermark yet.
    """

    instance: str
    first_lsn: Lsn
    start_lsn: Lsn | None
    change_object_id: int | None = None
    """The change table that was planned for: one created anew has its name, and not its rows."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """One SELECT over one connection, and how its rows become bronze rows.

    `names` are what bronze calls the SELECT's columns, in their order; where there are none, the
    SELECT names them so itself. `constants` are columns the server is not asked
    for, as text in the column's type; a column in neither is NULL. `commit_ts` columns come on
    the server's local clock: `utc_offsets` says from which LSN on how many minutes it is ahead of
    UTC, and `commit_ts_floor` (naive, UTC) is the least a row may carry, so that none comes
    before a verdict already given.
    """

    text: str
    parameters: tuple[str, ...] = ()
    constants: tuple[tuple[str, str | None], ...] = ()
    utc_offsets: tuple[OffsetStep, ...] = ()
    commit_ts_floor: datetime | None = None
    guard: Guard | None = None
    names: tuple[str, ...] = ()
    rows: int | None = None
    """How many rows it must give, where the planner counted them."""
    largest: str = ""
    """A SELECT, of the same parameters, of the largest value of each column without a bound; a
    column `c3` of it speaks of the fourth of `names`."""


@dataclass(frozen=True, slots=True)
class CommitTag:
    """What makes a Delta commit idempotent and readable: transaction id and `userMetadata`."""

    app_id: str
    version: int
    user_metadata: str


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """Ranges of one source table that become one bronze commit.

    `columns` are all of bronze's, in order. The table exists; columns it lacks are merged in.
    `table_id` is Delta's id of the table that was planned for: one that a reset put in its place
    since must not get these rows. None takes any.
    """

    table: str
    uri: str
    columns: tuple[Column, ...]
    ranges: tuple[ReadRange, ...]
    tag: CommitTag
    max_value_bytes: int = MAX_VALUE_BYTES
    """Largest value of a column without a bound; the buffer for one grows up to it."""
    table_id: str | None = None
    keeps_empty: bool = False
    """Whether there is a commit also where there are no rows: it says that they were read."""


def at_once() -> None:
    """What most commits wait for: nothing."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What an append did.

    `committed` is False where the version was there already, and where there were no rows, unless
    the plan keeps that: an empty table's whole snapshot makes no commit.
    """

    committed: bool
    rows: int = 0
    read_seconds: float = 0.0
    read_mb: float = 0.0
    network_wait_ms: int | None = None
    """How long the server waited for us to take rows; None where it may not be asked."""


def total_wait_ms(waits: Iterable[int | None]) -> int | None:
    """The sum of what the server told of its waits for us; None where it told nothing."""
    told = [wait for wait in waits if wait is not None]
    return sum(told) if told else None


@dataclass(frozen=True, slots=True)
class MergeTexts:
    """The SQL of one apply, written once and run by Spark SQL and DataFusion alike.

    `ranking` is a SELECT over a table named `bronze` that gives, per key, its latest image: the
    silver columns and `_operation`. With `reads_silver` it is also over a table named `silver`, the
    MERGE's target as it stands. The others are conditions of the MERGE, whose source is `s` and
    whose target is `t`. `is_insert` is what of the source also becomes a row of its own; None:
    what is `is_upsert`. Without `marked` a delete removes its row; else it sets these columns to
    the source's. A rebuild does so with each target row that is `is_other` and that the source
    lacks: `others` are its values then, SQL literals.
    """

    ranking: str
    matched: str
    newer: str
    is_delete: str
    is_upsert: str
    reads_silver: bool = False
    is_insert: str | None = None
    marked: tuple[str, ...] = ()
    is_other: str = "true"
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def inserts(self) -> str:
        """What of the source becomes a row where there is none."""
        return self.is_insert or self.is_upsert


@dataclass(frozen=True, slots=True)
class RankLimit:
    """How many rows one ranking may hold in memory; all that it reads have an LSN above `above`."""

    rows_max: int
    above: Lsn


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """Bronze at one pinned version becomes one MERGE into silver.

    The MERGE commits as `tag.version` on a silver still at `tag.version - 1`, or not at all; a
    silver that never saw the transaction id is at 0.
    `rebuild` also deletes, or marks as deleted, every silver key that the ranking lacks.
    With `limit` the arrow engine goes key range by key range where more rows are ranked, each a
    MERGE with the next version; whoever commits in between ends the call, and what was merged
    stays. Spark, which spills, takes no notice.
    """

    table: str
    bronze_uri: str
    bronze_version: int
    silver_uri: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    texts: MergeTexts
    rebuild: bool
    tag: CommitTag
    limit: RankLimit | None = None


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What an apply did; `overtaken` means another writer was first and nothing was written."""

    overtaken: bool
    version: int | None = None
    upserted: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class MaintainPlan:
    """Upkeep of one table; rows and their order of changes stay what they are.

    With `target_file_bytes` small files are put together, or all are ordered by `order_by` where
    they have come to overlap. With `retention_hours` goes what no version of the last hours needs.
    """

    table: str
    uri: str
    order_by: tuple[str, ...] = ()
    target_file_bytes: int | None = None
    retention_hours: int | None = None


@dataclass(frozen=True, slots=True)
class MaintainResult:
    """What upkeep did; counts are None where the engine does not tell them."""

    files_added: int = 0
    files_removed: int = 0
    ordered: bool = False
    files_vacuumed: int | None = 0


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Which engine does a piece of work, and why; the text goes into the facts."""

    name: str
    reason: str = field(default="")

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})" if self.reason else self.name
