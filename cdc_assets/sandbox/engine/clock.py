"""The server's clock: one place that says what time it is, and in which zone."""

from __future__ import annotations

import datetime
import time
import zoneinfo

from cdc_assets.sandbox.language.values import TICKS_PER_DAY
from cdc_assets.sandbox.results import SqlError

_EPOCH_TICKS = 719_162 * TICKS_PER_DAY

# Windows names of the zones the tests and the common servers use (CLDR's windowsZones).
WINDOWS_ZONES = {
    "UTC": "Etc/UTC",
    "GMT Standard Time": "Europe/London",
    "W. Europe Standard Time": "Europe/Berlin",
    "Central Europe Standard Time": "Europe/Budapest",
    "Central European Standard Time": "Europe/Warsaw",
    "Romance Standard Time": "Europe/Paris",
    "E. Europe Standard Time": "Europe/Chisinau",
    "FLE Standard Time": "Europe/Kiev",
    "GTB Standard Time": "Europe/Bucharest",
    "Russian Standard Time": "Europe/Moscow",
    "Turkey Standard Time": "Europe/Istanbul",
    "Eastern Standard Time": "America/New_York",
    "Central Standard Time": "America/Chicago",
    "Mountain Standard Time": "America/Denver",
    "US Mountain Standard Time": "America/Phoenix",
    "Pacific Standard Time": "America/Los_Angeles",
    "Atlantic Standard Time": "America/Halifax",
    "Newfoundland Standard Time": "America/St_Johns",
    "E. South America Standard Time": "America/Sao_Paulo",
    "India Standard Time": "Asia/Calcutta",
    "China Standard Time": "Asia/Shanghai",
    "Tokyo Standard Time": "Asia/Tokyo",
    "Singapore Standard Time": "Asia/Singapore",
    "AUS Eastern Standard Time": "Australia/Sydney",
    "Cen. Australia Standard Time": "Australia/Adelaide",
    "Lord Howe Standard Time": "Australia/Lord_Howe",
    "New Zealand Standard Time": "Pacific/Auckland",
    "Nepal Standard Time": "Asia/Katmandu",
}


def iana(name: str) -> str:
    """The IANA zone of a Windows zone name; raises Msg 9820."""
    for windows, zone in WINDOWS_ZONES.items():
        if windows.lower() == name.lower():
            return zone
    raise SqlError(
        9820, f"The time zone parameter '{name}' provided to AT TIME ZONE clause is invalid."
    )


class Clock:
    """Time in ticks (100 ns since 0001-01-01); `shift` moves it for tests."""

    def __init__(self, zone: str = "UTC", shift: int = 0) -> None:
        self.zone = zone
        self.shift = shift

    def utc(self) -> int:
        """Now, in UTC."""
        return _EPOCH_TICKS + time.time_ns() // 100 + self.shift

    def offset_minutes(self, utc: int | None = None) -> int:
        """The zone's distance from UTC now, or at a time."""
        if self.zone == "UTC":
            return 0
        ticks = self.utc() if utc is None else utc
        moment = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
            microseconds=ticks // 10
        )
        distance = moment.astimezone(zoneinfo.ZoneInfo(iana(self.zone))).utcoffset()
        return int((distance or datetime.timedelta()).total_seconds() // 60)

    def local(self) -> int:
        """Now, on the server's wall."""
        utc = self.utc()
        return utc + self.offset_minutes(utc) * 600_000_000

    def datetime(self) -> int:
        """Now, on the server's wall, as a `datetime` holds it."""
        return as_datetime(self.local())


def as_datetime(ticks: int) -> int:
    """Ticks rounded as a `datetime` holds them: to 1/300 of a second."""
    day, clock = divmod(ticks, TICKS_PER_DAY)
    counts = (clock * 3 + 50_000) // 100_000
    return day * TICKS_PER_DAY + (counts * 100_000 + 1) // 3
