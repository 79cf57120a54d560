"""What a sensor remembers from tick to tick, as the text that Dagster keeps in every tick's row."""

import base64
import json
import zlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

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
            told = json.loads(zlib.decompress(base64.b64decode(cursor or "", validate=True)))
            hours = {table: _EPOCH + hour * _HOUR for table, hour in told["hours"].items()}
            return cls(dict(told["reasons"]), hours)
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
            return cls()

    def text(self) -> str:
        """The cursor: packed, since a thousand tables would make 100 kB of every tick's row."""
        hours = {table: (at - _EPOCH) // _HOUR for table, at in self.hours.items()}
        told = json.dumps({"reasons": self.reasons, "hours": hours}, separators=(",", ":"))
        return base64.b64encode(zlib.compress(told.encode(), 9)).decode()
