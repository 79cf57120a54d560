"""The rows of our bookkeeping tables and the payloads in bronze's commits, as values.

Field names are the contract's column names; a test holds the two together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from cdc_assets.contract import Event
from cdc_assets.errors import BookkeepingError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.schemas import DdlChange

CLOCK_STEP_MAX = timedelta(hours=2)
"""How far a server's clock is set back, at most: each autumn by an hour, and else by less."""


def stored_lsn(text: str, column: str, *, where: str) -> Lsn:
    """An LSN as one of our tables holds it; raises `BookkeepingError` for anything else."""
    try:
        return Lsn.parse(text)
    except ValueError:
        raise BookkeepingError(
            f"{column} holds {text!r}, which is no LSN",
            where=where,
            hint="Something else wrote it: restore an older version of the table, or reset what it"
            " speaks of (cdc-assets reset).",
        ) from None


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes a capture instance this one; `start_lsn` is left out, since cleanup moves it."""

    source_object_id: int
    change_object_id: int
    instance_name: str
    created_at: datetime

    @property
    def age(self) -> tuple[datetime, int]:
        """Larger for a newer instance, unless the server's clock was set back in between."""
        return self.created_at, self.change_object_id

    def is_near(self, other: Identity) -> bool:
        """Whether their times do not say which is newer: the clock may have been set back."""
        return abs(self.created_at - other.created_at) <= CLOCK_STEP_MAX

    def may_be_newer_than(self, other: Identity) -> bool:
        """Whether it is newer than another one, or nothing but their first LSNs would tell."""
        return self != other and (self.is_near(other) or self.age > other.age)

    def to_dict(self) -> dict[str, Any]:
        """For an event's detail."""
        return {**asdict(self), "created_at": self.created_at.isoformat()}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any] | None) -> Identity | None:
        """Read an event's detail back; None where it has none."""
        if not value:
            return None
        return cls(**{**value, "created_at": datetime.fromisoformat(value["created_at"])})


@dataclass(frozen=True, slots=True)
class FactsRow:
    """One row of the facts."""

    app_id: str | None = None
    batch_id: int | None = None
    target: str | None = None
    rows: int | None = None
    min_lsn: str | None = None
    max_lsn: str | None = None
    min_commit_ts: datetime | None = None
    max_commit_ts: datetime | None = None
    deletes: int | None = None
    inserts: int | None = None
    updates: int | None = None
    started_at: datetime | None = None
    duration_ms: int | None = None
    written_at: datetime | None = None
    end_lsn: str | None = None
    end_commit_ts: datetime | None = None
    source_rtt_ms: float | None = None
    read_seconds: float | None = None
    read_mb: float | None = None
    network_wait_ms: int | None = None
    retention_watermark_ts: datetime | None = None
    retention_headroom_hours: float | None = None
    source_max_commit_ts: datetime | None = None
    capture_lag_seconds: float | None = None
    ingestion_lag_seconds: float | None = None
    event: str | None = None
    detail: str | None = None
    lost_from_ts: datetime | None = None
    lost_to_ts: datetime | None = None
    engine: str | None = None

    @property
    def payload(self) -> dict[str, Any]:
        """The event's detail, read."""
        return json.loads(self.detail) if self.detail else {}

    @property
    def newest_lsn(self) -> Lsn | None:
        """`max_lsn` as a value; raises `BookkeepingError`."""
        if self.max_lsn is None:
            return None
        return stored_lsn(self.max_lsn, "the facts' max_lsn", where=self.target or "")

    @property
    def first_lsn(self) -> Lsn | None:
        """`min_lsn` as a value; raises `BookkeepingError`."""
        if self.min_lsn is None:
            return None
        return stored_lsn(self.min_lsn, "the facts' min_lsn", where=self.target or "")

    @property
    def end(self) -> Offset | None:
        """How far a batch's row says that the table was read; raises `BookkeepingError`."""
        if self.end_lsn is None or self.end_commit_ts is None:
            return None
        lsn = stored_lsn(self.end_lsn, "the facts' end_lsn", where=self.target or "")
        return Offset(lsn, self.end_commit_ts)


@dataclass(frozen=True, slots=True)
class ControlRow:
    """One row of the control table."""

    table_name: str
    finalized_until: datetime | None = None
    end_lsn: str | None = None
    end_commit_ts: datetime | None = None
    updated_at: datetime | None = None
    source_object_id: int | None = None
    change_object_id: int | None = None
    instance_name: str | None = None
    instance_created_at: datetime | None = None
    table_id: str | None = None
    changed_lsn: str | None = None
    applied_lsn: str | None = None
    snapshot_lsn: str | None = None
    open_snapshot_lsn: str | None = None
    snapshot_wave: int | None = None
    verdict_version: int | None = None

    @property
    def end(self) -> Offset | None:
        """How far the table was processed; raises `BookkeepingError`."""
        if self.end_lsn is None or self.end_commit_ts is None:
            return None
        return Offset(
            stored_lsn(self.end_lsn, "control's end_lsn", where=self.table_name), self.end_commit_ts
        )

    @property
    def identity(self) -> Identity | None:
        """The capture instance last read."""
        if (
            self.source_object_id is None
            or self.change_object_id is None
            or self.instance_name is None
            or self.instance_created_at is None
        ):
            return None
        return Identity(
            self.source_object_id,
            self.change_object_id,
            self.instance_name,
            self.instance_created_at,
        )

    @property
    def is_kept(self) -> bool:
        """Whether a sync, a stream or an apply of ours moves the row, and knows its table."""
        return self.identity is not None or self.table_id is not None

    def without_position(self) -> ControlRow:
        """The row without position and verdict: silver is rebuilt from scratch next time."""
        return ControlRow(self.table_name, updated_at=self.updated_at)

    def without_verdict(self) -> ControlRow:
        """The row with its position alone: the table is about to be emptied."""
        return replace(
            self, finalized_until=None, end_lsn=None, end_commit_ts=None, verdict_version=None
        )


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """What a closed range of a change table holds, as the server counted it."""

    rows: int
    deletes: int
    inserts: int
    updates: int
    min_lsn: Lsn
    max_lsn: Lsn
    min_commit_ts: datetime
    max_commit_ts: datetime


def total(counts: Sequence[ChangeCounts]) -> ChangeCounts | None:
    """What several ranges hold together; None for none."""
    if not counts:
        return None
    return ChangeCounts(
        rows=sum(one.rows for one in counts),
        deletes=sum(one.deletes for one in counts),
        inserts=sum(one.inserts for one in counts),
        updates=sum(one.updates for one in counts),
        min_lsn=min(one.min_lsn for one in counts),
        max_lsn=max(one.max_lsn for one in counts),
        min_commit_ts=min(one.min_commit_ts for one in counts),
        max_commit_ts=max(one.max_commit_ts for one in counts),
    )


@dataclass(frozen=True, slots=True)
class StreamMark:
    """Which stream made a commit: its generation's id and number, and the micro-batch."""

    id: str
    generation: int
    micro_batch: int

    @classmethod
    def from_dict(cls, value: Mapping[str, Any] | None) -> StreamMark | None:
        """Read it from a commit; what a later release may have added is passed over."""
        if not value:
            return None
        return cls(str(value["id"]), int(value["generation"]), int(value["micro_batch"]))


@dataclass(frozen=True, slots=True)
class ChangeCommit:
    """A batch as bronze's commit records it: the range it covers and what it holds.

    `stream` is None on a sync's.
    """

    app_id: str
    batch_id: int
    target: str
    start: Offset
    end: Offset
    counts: ChangeCounts
    engine: str
    events: tuple[DdlChange, ...] = ()
    stream: StreamMark | None = None

    def to_json(self) -> str:
        """The commit's `userMetadata`."""
        counts = {
            **asdict(self.counts),
            "min_lsn": str(self.counts.min_lsn),
            "max_lsn": str(self.counts.max_lsn),
            "min_commit_ts": self.counts.min_commit_ts.isoformat(),
            "max_commit_ts": self.counts.max_commit_ts.isoformat(),
        }
        told = {
            "app_id": self.app_id,
            "batch_id": self.batch_id,
            "target": self.target,
            "start": self.start.to_dict(),
            "end": self.end.to_dict(),
            "facts": counts,
            "events": [_with_event(change) for change in self.events],
            "engine": self.engine,
        }
        if self.stream is not None:
            told["stream"] = asdict(self.stream)
        return json.dumps(told)

    @classmethod
    def from_json(cls, text: str | None) -> ChangeCommit | None:
        """Read a `userMetadata` back; None where the commit is not a batch of ours."""
        try:
            value = json.loads(text or "")
            facts = dict(value["facts"])
            for key in ("min_lsn", "max_lsn"):
                facts[key] = Lsn.parse(facts[key])
            for key in ("min_commit_ts", "max_commit_ts"):
                facts[key] = datetime.fromisoformat(facts[key])
            return cls(
                app_id=value["app_id"],
                batch_id=value["batch_id"],
                target=value["target"],
                start=Offset.from_dict(value["start"]),
                end=Offset.from_dict(value["end"]),
                counts=ChangeCounts(**{f.name: facts[f.name] for f in fields(ChangeCounts)}),
                engine=value["engine"],
                events=tuple(
                    DdlChange.from_dict(event)
                    for event in value.get("events", ())
                    if event["event"] == Event.SCHEMA_CHANGE
                ),
                stream=StreamMark.from_dict(value.get("stream")),
            )
        except (ValueError, KeyError, TypeError):
            return None

    def facts_row(self) -> FactsRow:
        """The batch's row in the facts, as far as the commit knows it."""
        counts = self.counts
        return FactsRow(
            app_id=self.app_id,
            batch_id=self.batch_id,
            target=self.target,
            rows=counts.rows,
            min_lsn=str(counts.min_lsn),
            max_lsn=str(counts.max_lsn),
            min_commit_ts=counts.min_commit_ts,
            max_commit_ts=counts.max_commit_ts,
            deletes=counts.deletes,
            inserts=counts.inserts,
            updates=counts.updates,
            end_lsn=str(self.end.lsn),
            end_commit_ts=self.end.commit_ts,
            engine=self.engine,
        )

    def event_rows(self) -> tuple[FactsRow, ...]:
        """The rows of its events, which travel with the batch's own."""
        return tuple(
            replace(schema_row(self.target, change), app_id=self.app_id, batch_id=self.batch_id)
            for change in self.events
        )


def _with_event(change: DdlChange) -> dict[str, Any]:
    return {"event": str(Event.SCHEMA_CHANGE), **change.to_dict()}


def schema_row(target: str, change: DdlChange) -> FactsRow:
    """The row of a DDL statement on the source table."""
    return FactsRow(
        target=target,
        rows=0,
        min_lsn=str(change.lsn),
        max_lsn=str(change.lsn),
        min_commit_ts=change.at,
        max_commit_ts=change.at,
        event=str(Event.SCHEMA_CHANGE),
        detail=json.dumps(change.to_dict()),
    )


def event_row(event: Event, target: str, snapshot: Offset, **columns: Any) -> FactsRow:
    """A snapshot's event: its LSN stands in both bounds, `detail` is given as a dict."""
    detail = columns.pop("detail", None)
    row = FactsRow(
        target=target,
        event=str(event),
        min_lsn=str(snapshot.lsn),
        max_lsn=str(snapshot.lsn),
        min_commit_ts=snapshot.commit_ts,
        max_commit_ts=snapshot.commit_ts,
        detail=None if detail is None else json.dumps(detail),
    )
    return replace(row, **columns)
