"""`cdc-assets status`: where each table stands, by the small Delta tables alone."""

from __future__ import annotations

from datetime import datetime

from cdc_assets.cli.output import print_json, print_table, say
from cdc_assets.cli.sync import database_of, every_database
from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.planning.status import Known, TableStatus, table_statuses
from cdc_assets.planning.verdict import Reason
from cdc_assets.quality.backfills import open_waves

_HEADS = ("table", "state", "complete until", "on time", "last sync", "rows", "headroom", "lag")


def run_status(key: str | None, *, as_json: bool) -> int:
    """Tell of one database or all; exit status 1 where a table is late or has a gap."""
    databases = [database_of(key, [])] if key else every_database()
    found = [status for database in databases for status in _statuses(database)]
    if as_json:
        print_json({"tables": found})
    else:
        print_table(_HEADS, [_cells(status) for status in found], ("rows", "headroom", "lag"))
        for status in found:
            _say_more(status)
    return int(any(status.is_wrong for status in found))


def _statuses(database: Database) -> list[TableStatus]:
    # Control first: the facts are written before it, so no gap that a verdict has passed is missed.
    lake, control = database.lake, database.lake.control.read()
    events = lake.facts.events()
    known = Known(control, events, lake.facts.newest_by_kind(), open_waves(database, events))
    return table_statuses(utc_now(), database.name, database.settings, known)


def _cells(status: TableStatus) -> tuple[str, ...]:
    snapshot = status.snapshot
    done = ""
    if snapshot is not None and snapshot.chunks_total:
        done = f" {snapshot.chunks_done}/{snapshot.chunks_total}"
    return (
        f"{status.database}.{status.table}",
        f"{status.state}{done}",
        _time(status.silver_complete_until),
        {None: "", True: "yes", False: "late"}[status.on_time],
        _time(status.last_sync),
        "" if status.last_rows is None else f"{status.last_rows:,}",
        _number(status.retention_headroom_hours, "h"),
        _number(status.capture_lag_seconds, "s"),
    )


def _say_more(status: TableStatus) -> None:
    """What does not fit a line: why a table is late, how far its snapshot is, what is lost."""
    name = f"{status.database}.{status.table}"
    if status.reason != Reason.ON_TIME:
        say(f"{name}: {status.text} [{status.reason}]")
    if status.snapshot is not None and status.snapshot.waves_done is not None:
        one = status.snapshot
        total = "?" if one.waves_total is None else one.waves_total
        say(f"{name}: {one.waves_done} of {total} waves of its snapshot are read.")
    for gap in status.gaps:
        say(f"{name}: {gap} Once that is known: cdc-assets acknowledge {name.replace('.', ' ')}.")


def _time(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.1f} {unit}"
