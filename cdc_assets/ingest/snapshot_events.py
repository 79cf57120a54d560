"""The events of a snapshot: that it is opened, and that it is complete."""

from __future__ import annotations

from cdc_assets.clock import utc_now
from cdc_assets.contract import Event
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.names import TableName
from cdc_assets.planning.instances import SOURCE, SourceName
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.records import event_row
from cdc_assets.planning.snapshots import Snapshot, Snapshots


def open_entry(
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    known: Snapshots,
    planned: Snapshot,
    engine: str,
) -> FactsEntry:
    """The event of a new snapshot; one that `known` lacks has taken its version."""
    row = event_row(
        Event.SNAPSHOT_OPEN,
        table.bronze,
        planned.at,
        rows=0,
        started_at=utc_now(),
        written_at=utc_now(),
        engine=engine,
        source_rtt_ms=poll.rtt_ms,
        source_max_commit_ts=poll.max.commit_ts if poll.max else None,
        capture_lag_seconds=poll.capture_lag_seconds,
        detail=_open_detail(planned, instance),
        lost_from_ts=planned.lost_from,
        lost_to_ts=planned.at.commit_ts if planned.lost_from else None,
    )
    return FactsEntry((row,), table.open_app, known.opens + 1)


def completion(table: TableName, snapshot: Snapshot, rows: int | None, engine: str) -> FactsEntry:
    """The event that makes the snapshot complete; a sync records it with its facts.

    It is written once, and once more where rows were found beside a run that found none: their
    high mark is the later one.
    """
    high_mark = snapshot.high_mark.isoformat() if snapshot.high_mark else None
    row = event_row(
        snapshot.kind,
        table.bronze,
        snapshot.at,
        app_id=table.snapshot_app(snapshot.at.lsn),
        rows=rows,
        deletes=0,
        inserts=0,
        updates=0,
        end_lsn=str(snapshot.at.lsn),
        end_commit_ts=snapshot.at.commit_ts,
        lost_from_ts=snapshot.lost_from,
        lost_to_ts=snapshot.at.commit_ts if snapshot.lost_from else None,
        engine=engine,
        detail={"high_mark": high_mark, "keys": list(snapshot.keys), **_as_of(snapshot)},
    )
    return FactsEntry((row,), table.done_app(snapshot.at.lsn), version=1 if rows else 0)


def _open_detail(snapshot: Snapshot, instance: CaptureInstance) -> dict[str, object]:
    return {
        "mode": snapshot.mode,
        "kind": snapshot.kind,
        "keys": list(snapshot.keys),
        "identity": instance.identity.to_dict(),
        "reader": snapshot.reader.to_dict() if snapshot.reader else None,
        SOURCE: SourceName(instance.schema, instance.table).to_dict(),
        "generation": 0,
        "bronze_id": snapshot.bronze_id,
        **_as_of(snapshot),
        "lost_from_ts": snapshot.lost_from.isoformat() if snapshot.lost_from else None,
        "lost_to_ts": snapshot.at.commit_ts.isoformat() if snapshot.lost_from else None,
    }


def _as_of(snapshot: Snapshot) -> dict[str, str]:
    return {} if snapshot.as_of is None else {"as_of": snapshot.as_of}
