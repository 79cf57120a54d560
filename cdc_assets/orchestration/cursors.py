"""What a sensor remembers from tick to tick, as the text that Dagster keeps in every tick's row."""

import base64
import json
import zlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cdc_assets.planning.alerts import Kind, Subject, Trouble

_EPOCH = datetime(1970, 1, 1)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Reported:
    """What was reported of each table: the reason of each check, and its last final hour.

    A table that is missing was not reported, or nobody knows: a cursor may be deleted.
    """

    reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    hours: dict[str, datetime] = field(default_factory=dict)

    @classmethod
    def read(cls, cursor: str | None) -> "Reported":
        """From a cursor; nothing from one that is none of ours, or from an older release."""
        try:
            told = _unpacked(cursor)
            hours = {table: _EPOCH + hour * _HOUR for table, hour in told["hours"].items()}
            return cls(dict(told["reasons"]), hours)
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
            return cls()

    def text(self) -> str:
        """The cursor: packed, since a thousand tables would make 100 kB of every tick's row."""
        hours = {table: (at - _EPOCH) // _HOUR for table, at in self.hours.items()}
        return _packed({"reasons": self.reasons, "hours": hours})


@dataclass(frozen=True, slots=True)
class Alerted:
    """What the receiver of alerts was told is wrong, and what is known of failing runs.

    `failing` holds what the newest run of each job left red, up to the run that was last heard of
    at `seen` (UTC); None where no run was looked at yet.
    """

    told: dict[Subject, str] = field(default_factory=dict)
    failing: dict[Subject, Trouble] = field(default_factory=dict)
    seen: datetime | None = None

    @classmethod
    def read(cls, cursor: str | None) -> "Alerted":
        """From a cursor; nothing from one that is none of ours: what is red is then told anew."""
        try:
            kept = _unpacked(cursor)
            told = {_subject(of): str(reason) for *of, reason in kept["told"]}
            failing = {
                _subject(of): Trouble(str(reason), str(text))
                for *of, reason, text in kept["failing"]
            }
            seen = kept["seen"]
            return cls(told, failing, datetime.fromisoformat(seen) if seen else None)
        except (ValueError, KeyError, TypeError, zlib.error):
            return cls()

    def text(self) -> str:
        """The cursor."""
        told = [(s.kind, s.name, s.table, reason) for s, reason in self.told.items()]
        failing = [(s.kind, s.name, s.table, t.reason, t.text) for s, t in self.failing.items()]
        seen = self.seen.isoformat() if self.seen else None
        return _packed({"told": told, "failing": failing, "seen": seen})


def _subject(of: list[Any]) -> Subject:
    kind, name, table = of
    return Subject(Kind(kind), str(name), str(table))


def _packed(told: dict[str, Any]) -> str:
    text = json.dumps(told, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _unpacked(cursor: str | None) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(cursor or "", validate=True)))
