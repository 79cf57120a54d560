"""What a sync records: facts first, then verdicts; one commit each, every 30 s in a long run."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.clock import first_commit_times
from cdc_assets.ingest.outcome import Measure, TableOutcome, Work
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import advance_bronze, follow_bronze
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import Snapshots, snapshots_by_target
from cdc_assets.sqlserver.connection import with_retries

_log = logging.getLogger(__name__)

TOLD_BY_EVENTS = (Work.SNAPSHOT, Work.OPENED, Work.SKIPPED, Work.WAITING)
"""Work that changes which snapshots and gaps the events tell of."""

RECORD_EVERY_SECONDS = 30.0
"""How long the facts and verdicts of finished tables may wait for those of the others."""


@dataclass(slots=True)
class Recorder:
    """Records the outcomes of one sync; `snapshots` are every table's, by target.

    `control` is every row written so far, `events` are the facts' as last read: None until a
    sync has changed them.
    """

    database: Database
    poll: Poll
    snapshots: Mapping[str, Snapshots]
    control: dict[str, ControlRow] = field(default_factory=dict)
    events: Sequence[FactsRow] | None = None
    _times: Mapping[Lsn, datetime] | None = None

    def record(self, outcomes: Sequence[TableOutcome]) -> None:
        """Write what these tables did; a crash before it is healed by their next sync."""
        if not outcomes:
            return
        facts = self.database.lake.facts
        facts.append(
            [
                replace(
                    entry,
                    rows=tuple(
                        _measured(row, self.poll, outcome, self._watermark(outcome))
                        for row in entry.rows
                    ),
                )
                for outcome in outcomes
                for entry in outcome.facts
            ]
        )
        if any(outcome.work in TOLD_BY_EVENTS for outcome in outcomes):
            self.events = facts.events()
            self.snapshots = snapshots_by_target(self.events)
        faults.reach(FaultPoint.FACTS_WRITTEN)
        self.control.update(
            self.database.lake.control.update(lambda rows: list(self._rows(rows, outcomes)))
        )

    def measure(self) -> None:
        """Read the commit times of the low watermarks: one statement for all that differ.

        Before the readers take every connection, and once: recording asks the source nothing. A
        source that does not answer now leaves them unknown, and its tables tell why.
        """
        asked = [i for i in self.poll.instances.values() if i.name in self.poll.watermarks]
        marks = {mark for mark in map(self._mark, asked) if mark is not None}

        def times() -> Mapping[Lsn, datetime]:
            with self.database.connections.lend() as connection:
                return first_commit_times(connection, marks, self.poll.clock)

        try:
            self._times = with_retries(times)
        except CdcError as error:
            _log.warning("the low watermarks' commit times are not known: %s", error)

    def headroom_hours(self, outcome: TableOutcome) -> float | None:
        """How far cleanup is behind what was read of a table; None where it was not measured."""
        return _hours(self._watermark(outcome), outcome.end.commit_ts) if outcome.end else None

    def _mark(self, instance: CaptureInstance) -> Lsn | None:
        return self.poll.watermarks.get(instance.name) or instance.start

    def _watermark(self, outcome: TableOutcome) -> datetime | None:
        """The commit time of a table's low watermark, in UTC; None where it was not measured."""
        instance = self._instance(outcome)
        mark = self._mark(instance) if instance else None
        if instance is None or mark is None or self._times is None:
            return None
        # Capture may not have reached a new instance: it holds all since it was created.
        created = self.poll.clock.to_utc(instance.identity.created_at, mark)
        return self._times.get(mark, created)

    def _instance(self, outcome: TableOutcome) -> CaptureInstance | None:
        """The instance that control takes, else the one the settings name, if the poll saw it."""
        if outcome.progress is not None:
            return self.poll.listed(outcome.progress.identity)
        wanted = self.database.settings.instance_of(outcome.table)
        return self.poll.instances.get(wanted)

    def _rows(
        self, rows: Mapping[str, ControlRow], outcomes: Sequence[TableOutcome]
    ) -> Iterator[ControlRow]:
        for outcome in outcomes:
            table = self.database.table(outcome.table)
            yield from moved_rows(table, outcome, rows, self.snapshots[table.bronze])


def moved_rows(
    table: TableName,
    outcome: TableOutcome,
    rows: Mapping[str, ControlRow],
    snapshots: Snapshots,
) -> Iterator[ControlRow]:
    """Bronze's row, and silver's and history's verdict where a quiet table needs no apply."""
    if outcome.progress is None:
        return
    bronze = advance_bronze(rows.get(table.bronze), outcome.progress)
    yield bronze
    lost = {table.silver: outcome.silver_lost, table.history: outcome.history_lost}
    for row in (rows[name] for name in lost if name in rows):
        if lost[row.table_name]:
            yield row.without_position()
        # A row that another sync has moved further is followed by that one, which knows why.
        elif bronze.end_lsn == str(outcome.progress.end.lsn):
            followed = follow_bronze(row, bronze, snapshots)
            if followed != row:
                yield followed


def _measured(
    row: FactsRow, poll: Poll, outcome: TableOutcome, watermark: datetime | None
) -> FactsRow:
    """A facts row with what this sync measured; what it did not read itself it did not measure."""
    now = utc_now()
    row = replace(
        row,
        written_at=now,
        source_rtt_ms=poll.rtt_ms,
        retention_watermark_ts=watermark,
        source_max_commit_ts=poll.max.commit_ts if poll.max else None,
        capture_lag_seconds=poll.capture_lag_seconds,
    )
    if row.end_commit_ts is not None:
        row = replace(
            row,
            retention_headroom_hours=_hours(watermark, row.end_commit_ts),
            ingestion_lag_seconds=(now - row.end_commit_ts).total_seconds(),
        )
    measure = _measure(row, outcome)
    if measure is None:
        return row
    return replace(
        row,
        started_at=measure.started_at,
        duration_ms=int(measure.duration_seconds * 1000),
        read_seconds=measure.read_seconds,
        read_mb=measure.read_mb,
        network_wait_ms=measure.network_wait_ms,
    )


def _measure(row: FactsRow, outcome: TableOutcome) -> Measure | TableOutcome | None:
    """Of a batch its own; of a snapshot or of silence the outcome's.

    An event that only tells something reached no end: with its batch's seconds they would count
    twice.
    """
    if row.end_lsn is None:
        return None
    if row.batch_id is not None:
        return outcome.measures.get(row.batch_id)
    return None if outcome.measures else outcome


def _hours(start: datetime | None, end: datetime) -> float | None:
    return None if start is None else (end - start).total_seconds() / 3600
