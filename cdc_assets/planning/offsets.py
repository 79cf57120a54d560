"""Offsets: how far a table has been read, as an LSN and its commit time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from cdc_assets.lsn import Lsn


@dataclass(frozen=True, slots=True)
class Offset:
    """The last commit processed and its time (naive, in UTC), rows or not.

    Its JSON, `{"lsn": "0x…", "commit_ts": "YYYY-MM-DDTHH:MM:SS.mmm"}`, is a contract: it stands
    in bronze's commits and is never changed without a migration.
    """

    lsn: Lsn
    commit_ts: datetime

    def to_dict(self) -> dict[str, str]:
        """The JSON object."""
        return {
            "lsn": str(self.lsn),
            "commit_ts": self.commit_ts.isoformat(timespec="milliseconds"),
        }

    @classmethod
    def from_dict(cls, value: dict[str, str]) -> Offset:
        """Read the JSON object back; raises ValueError or KeyError for anything else."""
        return cls(Lsn.parse(value["lsn"]), datetime.fromisoformat(value["commit_ts"]))

    def no_earlier_than(self, floor: datetime) -> Offset:
        """The same LSN with a commit time that never goes back: clocks step, verdicts do not."""
        return self if self.commit_ts >= floor else Offset(self.lsn, floor)


def furthest(candidates: Iterable[Offset | None]) -> Offset | None:
    """The offset with the largest LSN; None without any."""
    known = [offset for offset in candidates if offset is not None]
    return max(known, key=lambda offset: (offset.lsn, offset.commit_ts), default=None)
