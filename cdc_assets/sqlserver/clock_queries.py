"""T-SQL about time: the server's clock and zone, and the offsets of commits."""

from __future__ import annotations

import re

from cdc_assets.names import ZONE_PATTERN
from cdc_assets.sqlserver.queries import change_table

SAME_OFFSET_HOURS = 7 * 24
"""Two equal offsets this far apart may have others between them."""

UNKNOWN_ZONE = "(Msg 9820)"
"""How the error of an unknown zone ends."""

UTC = "UTC"
"""The zone whose offset is always 0, by the name that Windows and Azure give it."""

_NOW = (
    "CONVERT(varchar(27), SYSUTCDATETIME(), 126) AS utc_now,"
    " DATEPART(tzoffset, SYSDATETIMEOFFSET()) AS utc_offset_minutes"
)

SERVER_TIME = f"SELECT {_NOW}"
"""The clock where the zone is known."""

# CURRENT_TIMEZONE_ID came with 2022 (16) and is in Azure (engine editions 5 and 8). Older servers
# cannot even compile it, so it stands in a text of its own.
SERVER_CLOCK = (
    "SET NOCOUNT ON; DECLARE @z TABLE (zone nvarchar(128) NULL);"
    " IF CAST(SERVERPROPERTY('ProductMajorVersion') AS int) >= 16"
    " OR CAST(SERVERPROPERTY('EngineEdition') AS int) IN (5, 8)"
    " INSERT INTO @z EXEC sys.sp_executesql N'SELECT CURRENT_TIMEZONE_ID()';"
    f" SELECT {_NOW}, (SELECT MAX(zone) FROM @z) AS zone"
)

COMMIT_AT_OR_BELOW = (
    "SELECT TOP (1) CONVERT(varchar(22), start_lsn, 1) AS lsn,"
    " CAST(tran_end_time AS datetime2(3)) AS commit_ts"
    " FROM cdc.lsn_time_mapping WHERE start_lsn <= CONVERT(binary(10), ?, 1)"
    " ORDER BY start_lsn DESC"
)

LATEST_COMMIT = (
    "SELECT CAST(MAX(tran_end_time) AS datetime2(3)) AS commit_ts FROM cdc.lsn_time_mapping"
    " WHERE start_lsn >= CONVERT(binary(10), ?, 1) AND start_lsn <= CONVERT(binary(10), ?, 1)"
)


def latest_change(instance: str) -> str:
    """The largest time of the commits of a closed range that an instance has rows of."""
    return (
        "SELECT CAST(MAX(m.tran_end_time) AS datetime2(3)) AS commit_ts"
        " FROM cdc.lsn_time_mapping AS m WHERE m.start_lsn >= CONVERT(binary(10), ?, 1)"
        " AND m.start_lsn <= CONVERT(binary(10), ?, 1) AND EXISTS"
        f" (SELECT 1 FROM {change_table(instance)} AS c WHERE c.[__$start_lsn] = m.start_lsn)"
    )


def ends(zone: str) -> str:
    """The newest commit up to an LSN, and the offsets there and at another LSN's first commit.

    Both are asked three hours further out: a change of offset that is near may be between them.
    """
    zone_text = _zone(zone)
    return (
        "SELECT CONVERT(varchar(22), h.start_lsn, 1) AS lsn,"
        " CAST(h.tran_end_time AS datetime2(3)) AS commit_ts,"
        f" DATEPART(tzoffset, DATEADD(hour, -3, l.tran_end_time) AT TIME ZONE {zone_text})"
        " AS low_minutes,"
        f" DATEPART(tzoffset, DATEADD(hour, 3, h.tran_end_time) AT TIME ZONE {zone_text})"
        " AS high_minutes, DATEDIFF(hour, l.tran_end_time, h.tran_end_time) AS hours"
        " FROM (SELECT TOP (1) start_lsn, tran_end_time FROM cdc.lsn_time_mapping"
        " WHERE start_lsn <= CONVERT(binary(10), ?, 1) ORDER BY start_lsn DESC) AS h"
        " CROSS JOIN (SELECT TOP (1) tran_end_time FROM cdc.lsn_time_mapping"
        " WHERE start_lsn >= CONVERT(binary(10), ?, 1) ORDER BY start_lsn) AS l"
    )


def first_commit_after(zone: str, minutes: int) -> str:
    """The first commit of a closed range of the log that may have been made after a local time.

    The range has one offset, `minutes` ahead of UTC. In the hour before a fall-back a local time
    may as well be of the hour that repeats it, and is taken for that: too late is never wrong here.
    """
    zone_text = _zone(zone)
    later = f"DATEPART(tzoffset, DATEADD(hour, 1, tran_end_time) AT TIME ZONE {zone_text})"
    return (
        "SELECT TOP (1) CONVERT(varchar(22), start_lsn, 1) AS lsn FROM cdc.lsn_time_mapping"
        " WHERE start_lsn >= CONVERT(binary(10), ?, 1) AND start_lsn <= CONVERT(binary(10), ?, 1)"
        f" AND DATEADD(minute, CASE WHEN {later} < {minutes:d} AND"
        f" DATEPART(tzoffset, tran_end_time AT TIME ZONE {zone_text}) = {minutes:d}"
        f" THEN {minutes:d} - {later} ELSE 0 END, CAST(tran_end_time AS datetime2(3)))"
        " > CAST(? AS datetime2(7)) ORDER BY start_lsn"
    )


def offset_changes(zone: str) -> str:
    """The first commit, those with another offset, and where time went back, up to a last LSN.

    It begins three hours before a first LSN: a range that begins in the hour that a fall-back
    repeats has to know whether the clock went back already. A minute back at least counts: less
    is a clock being trimmed.
    """
    zone_text = _zone(zone)
    return (
        "SELECT CONVERT(varchar(22), start_lsn, 1) AS lsn, minutes, minutes_later,"
        " CASE WHEN DATEADD(minute, 1, tran_end_time) <= before THEN 1 ELSE 0 END AS went_back"
        " FROM (SELECT start_lsn, tran_end_time, minutes, minutes_later,"
        " LAG(minutes) OVER (ORDER BY start_lsn) AS minutes_before,"
        " LAG(tran_end_time) OVER (ORDER BY start_lsn) AS before"
        " FROM (SELECT start_lsn, tran_end_time,"
        f" DATEPART(tzoffset, tran_end_time AT TIME ZONE {zone_text}) AS minutes,"
        f" DATEPART(tzoffset, DATEADD(hour, 1, tran_end_time) AT TIME ZONE {zone_text})"
        " AS minutes_later"
        " FROM cdc.lsn_time_mapping WHERE tran_end_time >= DATEADD(hour, -3,"
        " (SELECT TOP (1) tran_end_time FROM cdc.lsn_time_mapping"
        " WHERE start_lsn >= CONVERT(binary(10), ?, 1) ORDER BY start_lsn))"
        " AND start_lsn <= CONVERT(binary(10), ?, 1)) AS commits) AS steps"
        " WHERE minutes_before IS NULL OR minutes <> minutes_before"
        " OR DATEADD(minute, 1, tran_end_time) <= before ORDER BY start_lsn"
    )


def usable_zone(name: str | None) -> str | None:
    """The zone the server says it has, if `AT TIME ZONE` can know it by that name."""
    return name if name is not None and re.fullmatch(ZONE_PATTERN, name) else None


def _zone(name: str) -> str:
    """A zone's name as a literal; raises ValueError for what none is called."""
    if not re.fullmatch(ZONE_PATTERN, name):
        raise ValueError(f"not the name of a time zone: {name!r}")
    return f"N'{name}'"
