"""The server's clock: commit times stand there without a zone, and are wanted in UTC.

The log's order decides which offset applies in the hour that a fall-back repeats, so an offset
holds from an LSN on, not from a local time on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cdc_assets.lsn import Lsn


@dataclass(frozen=True, slots=True)
class OffsetStep:
    """From this commit on, local time is `minutes` ahead of UTC."""

    lsn: Lsn
    minutes: int


@dataclass(frozen=True, slots=True)
class ServerClock:
    """Now in UTC, and how far local commit times are ahead of it, in the order of the log.

    `zone` is the server's, or the one the settings name; None where nobody says, and then the
    offset of now stands for all times.
    """

    utc_now: datetime
    steps: tuple[OffsetStep, ...]
    zone: str | None = None

    @classmethod
    def fixed(cls, utc_now: datetime, minutes: int, zone: str | None = None) -> ServerClock:
        """A clock whose offset does not change."""
        return cls(utc_now, (OffsetStep(Lsn.of_int(0), minutes),), zone)

    def minutes_at(self, lsn: Lsn) -> int:
        """The offset of a commit."""
        return next(
            (s.minutes for s in reversed(self.steps) if s.lsn <= lsn), self.steps[0].minutes
        )

    def to_utc(self, local: datetime, lsn: Lsn) -> datetime:
        """A commit's local time in UTC."""
        return local - timedelta(minutes=self.minutes_at(lsn))

    def segments(self, first: Lsn, last: Lsn) -> list[tuple[Lsn, Lsn]]:
        """The closed range, cut where the offset changes."""
        cuts = [first, *(s.lsn for s in self.steps if first < s.lsn <= last)]
        ends = [*(cut.previous() for cut in cuts[1:]), last]
        return list(zip(cuts, ends, strict=True))


@dataclass(frozen=True, slots=True)
class ClockRow:
    """A commit whose offset is another than that of the one before, or whose time went back.

    `minutes` is what the server's `AT TIME ZONE` says of its local time alone, and
    `minutes_later` of an hour later: smaller in the last hour before a fall-back.
    """

    lsn: Lsn
    minutes: int
    minutes_later: int
    went_back: bool

    @property
    def before_fall_back(self) -> bool:
        """Whether its local time comes twice."""
        return self.minutes_later < self.minutes


def offset_steps(rows: Sequence[ClockRow]) -> tuple[OffsetStep, ...]:
    """The steps of a range of the log, whose first commit is the first row.

    In the hour that a fall-back repeats, a local time alone has two meanings, and `AT TIME ZONE`
    takes the first (Microsoft's page). The second begins where the clock went back. Without such
    a commit the first stands: too early a time holds a verdict back, too late a one would give
    it early. A clock that was set back at another time changes no offset.
    """
    steps: list[OffsetStep] = []
    for row in rows:
        minutes = row.minutes
        if row.before_fall_back and (
            row.went_back or (steps and steps[-1].minutes == row.minutes_later)
        ):
            minutes = row.minutes_later
        if not steps:
            # The smallest LSN of all: it holds for what lies before the first commit, too.
            steps.append(OffsetStep(Lsn.of_int(0), minutes))
        elif minutes != steps[-1].minutes:
            steps.append(OffsetStep(row.lsn, minutes))
    return tuple(steps)
