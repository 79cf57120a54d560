"""The waves of a chunked snapshot: what a commit says of one, what the facts do, what comes next.

A wave reads a few chunks next to the running changes, under one stamp: an LSN recorded before the
read, never below the snapshot's S. So each of its rows shows every commit up to the stamp, and the
changes after S stand in bronze beside it: the latest image per key is right in the end (seed 0016,
Amendment 3).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from cdc_assets.contract import Event
from cdc_assets.errors import SourceBehindError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.chunks import Chunk, ChunkPlan
from cdc_assets.planning.offsets import Offset, furthest
from cdc_assets.planning.records import FactsRow, event_row
from cdc_assets.planning.verdict import later

NEVER_CLEANED = timedelta(minutes=10)
"""The first commit after a capture instance was created comes this soon, if not sooner: a low
watermark up to then says that cleanup has removed nothing yet."""


@dataclass(frozen=True, slots=True)
class WaveCommit:
    """A wave as bronze's commit records it; `stamp` is the LSN recorded before it was read.

    `chunks` are the numbers of those it holds, of `chunks_total` in the plan.
    """

    app_id: str
    wave: int
    target: str
    instance: str
    snapshot: Lsn
    stamp: Offset
    plan_id: str
    chunks: tuple[int, ...]
    chunks_total: int
    engine: str

    def to_json(self) -> str:
        """The commit's `userMetadata`."""
        return json.dumps(
            {
                "app_id": self.app_id,
                "wave": self.wave,
                "target": self.target,
                "snapshot": self.instance,
                "snapshot_lsn": str(self.snapshot),
                "stamp": self.stamp.to_dict(),
                "plan_id": self.plan_id,
                "chunks": list(self.chunks),
                "chunks_total": self.chunks_total,
                "engine": self.engine,
            }
        )

    @classmethod
    def from_json(cls, text: str | None) -> WaveCommit | None:
        """Read a `userMetadata` back; None where the commit is no wave of ours."""
        try:
            value = json.loads(text or "")
            return cls(
                app_id=value["app_id"],
                wave=value["wave"],
                target=value["target"],
                instance=value["snapshot"],
                snapshot=Lsn.parse(value["snapshot_lsn"]),
                stamp=Offset.from_dict(value["stamp"]),
                plan_id=value["plan_id"],
                chunks=tuple(value["chunks"]),
                chunks_total=value["chunks_total"],
                engine=value["engine"],
            )
        except (ValueError, KeyError, TypeError):
            return None

    def facts_rows(
        self,
        rows: Mapping[int, int] | None,
        reached: Offset | None,
        high_mark: datetime | None = None,
    ) -> tuple[FactsRow, ...]:
        """A row for each chunk; `rows` are bronze's, by chunk, None where they cannot be counted.

        `reached` is capture's newest LSN after the read, and `high_mark` (UTC) the latest commit
        time that a row of it can have.
        """
        found = []
        for chunk in self.chunks:
            detail = {
                "snapshot": str(self.snapshot),
                "chunk": chunk,
                "wave": self.wave,
                "plan_id": self.plan_id,
                "last": chunk == self.chunks_total - 1,
                "high_mark": high_mark.isoformat() if high_mark else None,
            }
            row = event_row(
                Event.SNAPSHOT_CHUNK,
                self.target,
                self.stamp,
                app_id=self.app_id,
                rows=None if rows is None else rows.get(chunk, 0),
                deletes=0,
                inserts=0,
                updates=0,
                engine=self.engine,
                detail=detail,
            )
            if reached is not None and reached.lsn > self.stamp.lsn:
                time = max(reached.commit_ts, self.stamp.commit_ts)
                row = replace(row, max_lsn=str(reached.lsn), max_commit_ts=time)
            found.append(row)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Waves:
    """What the facts tell of one chunked snapshot: a chunk is done when it has a row there.

    `newest` is the last wave told of, -1 before any; `stamp` the highest one. `rows` are those of
    all chunks done, None where one could not be counted. `told_at` is the newest row's time,
    and `high_mark` (UTC) the latest one of all waves.
    """

    plan_id: str | None = None
    chunks_total: int | None = None
    done: frozenset[int] = frozenset()
    rows: int | None = 0
    newest: int = -1
    engine: str = ""
    stamp: Offset | None = None
    told_at: datetime | None = None
    high_mark: datetime | None = None

    @property
    def first(self) -> int:
        """The first chunk that is not done: they are read in order."""
        return max(self.done, default=-1) + 1

    def after(self, commit: WaveCommit | None) -> Waves:
        """The same once a wave is told of as well, but for its rows."""
        if commit is None or commit.wave <= self.newest:
            return self
        done = self.done | set(commit.chunks)
        stamp = furthest([self.stamp, commit.stamp])
        return replace(self, done=done, newest=commit.wave, stamp=stamp, rows=None)

    def next_chunks(self, plan: ChunkPlan, count: int) -> tuple[Chunk, ...]:
        """The chunks of the next wave; none when all are done."""
        return plan.chunks[self.first : self.first + count]


def waves_of(
    events: Iterable[FactsRow], target: str, snapshot: Lsn, before: Waves | None = None
) -> Waves:
    """What a table's events tell of one snapshot's plan and waves.

    `before` is what was told until then, where these are only the events since.
    """
    found = before or Waves()
    done = set(found.done)
    for row in events:
        if row.target != target or row.event not in (Event.SNAPSHOT_PLAN, Event.SNAPSHOT_CHUNK):
            continue
        detail = row.payload
        if detail.get("snapshot") != str(snapshot):
            continue
        if row.event == Event.SNAPSHOT_PLAN:
            found = replace(found, plan_id=detail["plan_id"], chunks_total=detail["chunks"])
        elif detail["chunk"] not in done:
            done.add(detail["chunk"])
            found = _with_chunk(found, row, detail)
        found = replace(found, told_at=later(found.told_at, row.written_at))
    return replace(found, done=frozenset(done))


def _with_chunk(waves: Waves, row: FactsRow, detail: Mapping[str, Any]) -> Waves:
    """All but `done`, of which there may be too many to copy it for each."""
    known = waves.rows is not None and row.rows is not None
    stamp, mark = None, detail.get("high_mark")
    if row.min_lsn is not None and row.min_commit_ts is not None:
        stamp = Offset(Lsn.parse(row.min_lsn), row.min_commit_ts)
    return replace(
        waves,
        rows=(waves.rows or 0) + (row.rows or 0) if known else None,
        newest=max(waves.newest, detail["wave"]),
        engine=row.engine or waves.engine,
        stamp=furthest([waves.stamp, stamp]),
        high_mark=later(waves.high_mark, datetime.fromisoformat(mark) if mark else None),
    )


def plan_row(target: str, snapshot: Offset, plan: ChunkPlan) -> FactsRow:
    """The event that a snapshot's chunks are planned; its bounds stand in the plans table alone."""
    detail = {
        "snapshot": str(snapshot.lsn),
        "plan_id": plan.plan_id,
        "keys": list(plan.keys),
        "chunks": len(plan.chunks),
        "chunk_rows": plan.sizing.rows if plan.sizing else None,
        "chunk_rows_why": plan.sizing.why if plan.sizing else None,
    }
    return event_row(Event.SNAPSHOT_PLAN, target, snapshot, rows=0, detail=detail)


def check_stamp(stamp: Lsn, snapshot: Lsn, *, where: str) -> None:
    """Raise `SourceBehindError` for a stamp below S: the read would lack commits that S has."""
    if stamp < snapshot:
        raise SourceBehindError(
            f"the server's newest LSN {stamp} is below the snapshot's {snapshot}",
            where=where,
            hint="Is it a readable secondary? Read the snapshot from the server that it was opened"
            " on.",
        )


def hours_between(start: datetime | None, end: datetime) -> float | None:
    """Hours from one time to another; None where the first is not known."""
    return None if start is None else (end - start).total_seconds() / 3600


def was_cleaned(watermark: datetime | None, created: datetime) -> bool:
    """Whether cleanup has removed anything of a capture instance that was created then; in UTC."""
    return watermark is not None and watermark > created + NEVER_CLEANED


def low_headroom(
    position: datetime, watermark: datetime | None, created: datetime, hours_min: float
) -> float | None:
    """How far cleanup is behind a position, in hours, where that is too little; else None.

    All times are UTC; `created` is the capture instance's. What nobody has cleaned up yet is in no
    danger, however young it is.
    """
    if watermark is None or not was_cleaned(watermark, created):
        return None
    hours = hours_between(watermark, position) or 0.0
    return hours if hours < hours_min else None
