"""What a materialization tells, by stable names with their unit last; numbers plot in the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets.clock import utc_now
from cdc_assets.orchestration.markdown import bar, rows_table, sparkline

if TYPE_CHECKING:
    from cdc_assets.ingest.outcome import BackfillOutcome, TableOutcome
    from cdc_assets.ingest.sync import SyncReport
    from cdc_assets.planning.records import ControlRow
    from cdc_assets.silver.outcome import ApplyOutcome

Metadata = dict[str, int | float | str | dg.MetadataValue[Any]]

RUNBOOK = "docs/runbook.md"
"""What each code means, whether data is at risk, and what to run."""


def runbook_entry(code: str) -> str:
    """Where the runbook speaks of an error's code or a check's reason."""
    return f"{RUNBOOK}#{code}"


def bronze_metadata(
    outcome: TableOutcome,
    report: SyncReport,
    control: ControlRow | None,
    chunks: tuple[int, int] = (0, 0),
) -> Metadata:
    """What a sync did with one bronze table; `chunks` are those read of all of an open snapshot."""
    counts = outcome.counts
    start, end = outcome.start, outcome.end
    first, last = _commit_times(outcome)
    lag = _seconds_since(end.commit_ts if end else None)
    captured = round(report.poll.capture_lag_seconds or 0.0, 3)
    return {
        "cdc/batch": dg.MetadataValue.md(
            rows_table(
                _operations(outcome),
                {
                    "commits (UTC)": f"{_text(first)} to {_text(last)}",
                    "LSN": f"{start.lsn if start else ''} to {end.lsn if end else ''}",
                    "lag": f"{lag:,.1f} s, of which capture {captured:,.1f} s",
                },
            )
        ),
        "cdc/work": str(outcome.work),
        "cdc/rows": outcome.rows,
        "cdc/inserts": counts.inserts if counts else 0,
        "cdc/updates": counts.updates if counts else 0,
        "cdc/deletes": counts.deletes if counts else 0,
        "cdc/lag_seconds": lag,
        "cdc/capture_lag_seconds": captured,
        "cdc/retention_headroom_hours": round(outcome.retention_headroom_hours or 0.0, 3),
        "cdc/read_mb": round(outcome.read_mb, 3),
        "cdc/read_seconds": round(outcome.read_seconds, 3),
        "cdc/duration_seconds": round(outcome.duration_seconds, 3),
        "cdc/chunks_done": chunks[0],
        "cdc/chunks_total": chunks[1],
        "cdc/start_lsn": str(start.lsn) if start else "",
        "cdc/end_lsn": str(end.lsn) if end else "",
        "cdc/min_commit_ts": _text(first),
        "cdc/max_commit_ts": _text(last),
        "cdc/finalized_until": _text(control.finalized_until if control else None),
        "cdc/engine": outcome.engine,
    }


def backfill_metadata(outcome: BackfillOutcome, rates: Sequence[float] = ()) -> Metadata:
    """How far a chunked snapshot is read, and what this call has read of it.

    `rates` are the rows per second of its last waves, the oldest first.
    """
    done, total = outcome.chunks_done, outcome.chunks_total or 0
    return {
        "cdc/progress": dg.MetadataValue.md(
            f"`{bar(done, total)}` {done:,} of {total:,} chunks"
            + (f"\n\n`{sparkline(rates)}` {rates[-1]:,.0f} rows/s, wave by wave" if rates else "")
        ),
        "cdc/work": f"backfill: {outcome.state}",
        "cdc/rows": outcome.rows,
        "cdc/chunks_done": outcome.chunks_done,
        "cdc/chunks_total": outcome.chunks_total or 0,
        "cdc/rows_per_second": round(outcome.rows_per_second or 0.0, 1),
        "cdc/seconds_left": round(outcome.seconds_left or 0.0, 1),
    }


def silver_metadata(outcome: ApplyOutcome) -> Metadata:
    """What an apply did with one silver table."""
    held = f", held: {outcome.hold}" if outcome.hold else ""
    return {
        "cdc/batch": dg.MetadataValue.md(
            rows_table(
                {"upserted": outcome.upserted, "deleted": outcome.deleted},
                {
                    "up to LSN": str(outcome.applied_lsn or ""),
                    "complete until (UTC)": _text(outcome.finalized_until) + held,
                },
            )
        ),
        "cdc/rows": outcome.upserted + outcome.deleted,
        "cdc/upserted": outcome.upserted,
        "cdc/deleted": outcome.deleted,
        "cdc/rebuilt": int(outcome.rebuilt),
        "cdc/waves": outcome.waves,
        "cdc/lag_seconds": _seconds_since(outcome.finalized_until),
        "cdc/applied_lsn": str(outcome.applied_lsn or ""),
        "cdc/finalized_until": _text(outcome.finalized_until),
        "cdc/hold": str(outcome.hold or ""),
        "cdc/engine": outcome.engine,
    }


def _operations(outcome: TableOutcome) -> dict[str, int]:
    counts = outcome.counts
    if counts is None:
        return {"snapshot": outcome.rows}
    return {"inserts": counts.inserts, "updates": counts.updates, "deletes": counts.deletes}


def _commit_times(outcome: TableOutcome) -> tuple[datetime | None, datetime | None]:
    if outcome.counts is not None:
        return outcome.counts.min_commit_ts, outcome.counts.max_commit_ts
    at = outcome.end.commit_ts if outcome.end else None
    return at, at


def _seconds_since(at: datetime | None) -> float:
    if at is None:
        return 0.0
    return round((utc_now() - at).total_seconds(), 3)


def _text(at: datetime | None) -> str:
    return at.isoformat(sep=" ", timespec="milliseconds") if at else ""
