"""Reading the server's clock: now, its zone, and the offsets of a range of commits."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from cdc_assets.errors import SettingsError, SourceQueryError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.clocks import ClockRow, ServerClock, offset_steps
from cdc_assets.planning.offsets import Offset
from cdc_assets.sqlserver import clock_queries as queries
from cdc_assets.sqlserver.connection import Connection
from cdc_assets.sqlserver.queries import first_commits, per_statement


def read_utc_now(connection: Connection) -> datetime:
    """The server's time, in UTC."""
    return _utc_now(connection.rows(queries.SERVER_TIME)[0]["utc_now"])


def read_clock(
    connection: Connection, zone: str | None, first: Lsn, newest: Lsn | None
) -> tuple[ServerClock, Offset | None]:
    """The clock for commits from `first` to `newest`, and the newest commit mapped up to there.

    `zone` is the settings'; without it the server is asked, which tells it since 2022. Where
    both ends have the same offset and are near, it holds in between; else each commit is asked. In
    UTC none has to be.
    """
    row = connection.rows(queries.SERVER_TIME if zone else queries.SERVER_CLOCK)[0]
    zone = zone or queries.usable_zone(row["zone"])
    minutes = 0 if zone == queries.UTC else row["utc_offset_minutes"]
    clock = ServerClock.fixed(_utc_now(row["utc_now"]), minutes, zone)
    if newest is None:
        return clock, None
    if zone is None or zone == queries.UTC:
        found = connection.rows(queries.COMMIT_AT_OR_BELOW, [str(newest)])
    else:
        found = _ends(connection, zone, [str(newest), str(min(first, newest))])
    if not found:
        return clock, None
    end = found[0]
    if zone is not None and zone != queries.UTC:
        clock = ServerClock.fixed(clock.utc_now, end["high_minutes"], zone)
        if end["low_minutes"] != end["high_minutes"] or end["hours"] >= queries.SAME_OFFSET_HOURS:
            clock = _stepped(connection, clock, zone, (min(first, newest), newest))
    lsn = Lsn.parse(end["lsn"])
    return clock, Offset(lsn, clock.to_utc(end["commit_ts"], lsn))


def commit_at_or_below(connection: Connection, lsn: Lsn, clock: ServerClock) -> Offset | None:
    """The newest commit the log maps at or below an LSN, its time in UTC."""
    rows = connection.rows(queries.COMMIT_AT_OR_BELOW, [str(lsn)])
    if not rows:
        return None
    found = Lsn.parse(rows[0]["lsn"])
    return Offset(found, clock.to_utc(rows[0]["commit_ts"], found))


def first_commit_after(
    connection: Connection, clock: ServerClock, time: datetime, between: tuple[Lsn, Lsn]
) -> Lsn | None:
    """The first commit of a closed range of the log that may have been made after a time, in UTC.

    The server's zone must be known.
    """
    assert clock.zone is not None  # noqa: S101 - said above
    for low, high in clock.segments(*between):
        minutes = clock.minutes_at(low)
        local = time + timedelta(minutes=minutes)
        asked = [str(low), str(high), local.isoformat(timespec="microseconds")]
        rows = connection.rows(queries.first_commit_after(clock.zone, minutes), asked)
        if rows:
            return Lsn.parse(rows[0]["lsn"])
    return None


def latest_commit_ts(
    connection: Connection, clock: ServerClock, first: Lsn, last: Lsn, instance: str = ""
) -> datetime | None:
    """The largest commit time of a closed range, in UTC: clocks step back.

    With an `instance`, of the commits that changed its table.
    """
    found = []
    text = queries.latest_change(instance) if instance else queries.LATEST_COMMIT
    for low, high in clock.segments(first, last):
        row = connection.rows(text, [str(low), str(high)])[0]
        if row["commit_ts"] is not None:
            found.append(clock.to_utc(row["commit_ts"], low))
    return max(found, default=None)


def first_commit_times(
    connection: Connection, lsns: Collection[Lsn], clock: ServerClock
) -> dict[Lsn, datetime]:
    """The time, in UTC, of the first commit that the log maps at or above each LSN, if any."""
    found = {}
    for some in per_statement(sorted(lsns)):
        parameters = [str(lsn) for lsn in some for _ in range(2)]
        for row in connection.rows(first_commits(len(some)), parameters):
            lsn = Lsn.parse(row["lsn"])
            found[lsn] = clock.to_utc(row["commit_ts"], lsn)
    return found


def _ends(connection: Connection, zone: str, bounds: list[str]) -> list[dict[str, Any]]:
    try:
        return connection.rows(queries.ends(zone), bounds)
    except SourceQueryError as error:
        if queries.UNKNOWN_ZONE not in error.what:
            raise
        raise SettingsError(
            f"the server knows no time zone {zone!r}",
            where=connection.source.name,
            hint="Set `source_time_zone` to a name that its sys.time_zone_info has.",
        ) from None


def _stepped(
    connection: Connection, clock: ServerClock, zone: str, between: tuple[Lsn, Lsn]
) -> ServerClock:
    rows = connection.rows(queries.offset_changes(zone), [str(lsn) for lsn in between])
    steps = offset_steps(
        [
            ClockRow(
                Lsn.parse(row["lsn"]),
                row["minutes"],
                row["minutes_later"],
                bool(row["went_back"]),
            )
            for row in rows
        ]
    )
    return ServerClock(clock.utc_now, steps or clock.steps, zone)


def _utc_now(text: str) -> datetime:
    # Seven digits of a second; Python reads six.
    return datetime.fromisoformat(text[:26])
