"""An LSN of its own for a snapshot: with an earlier one's, its rows would pass for those."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cdc_assets.errors import CaptureNotReadyError, SnapshotWaitsError
from cdc_assets.ingest.clock import commit_at_or_below
from cdc_assets.ingest.poll import read_max_lsn
from cdc_assets.lsn import Lsn
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import Poll
from cdc_assets.sqlserver.connection import Connection

NEXT_LSN_SECONDS_MAX = 360.0
"""How long a snapshot waits for an LSN above the last one's; idle entries come every 305 s."""

NEXT_LSN_POLL_SECONDS = 2.0
"""How often it looks meanwhile."""


@dataclass(frozen=True, slots=True)
class Taken:
    """LSNs that a new snapshot cannot have: all up to `last`, and those ever used."""

    last: Lsn
    used: frozenset[Lsn]


def next_lsn(connection: Connection, taken: Taken, poll: Poll, *, wait: bool) -> Offset:
    """The newest LSN of capture that is free.

    For a person it is waited for. A sync has other tables, and comes again: it raises
    `SnapshotWaitsError`. Raises `CaptureNotReadyError` where none came in the time in which an
    idle database maps one.
    """
    deadline = time.monotonic() + NEXT_LSN_SECONDS_MAX
    while True:
        newest = read_max_lsn(connection)
        if newest is not None and newest > taken.last and newest not in taken.used:
            found = commit_at_or_below(connection, newest, poll.clock)
            if found is not None:
                return Offset(newest, found.commit_ts)
        idle_seconds = poll.capture_lag_seconds
        if not wait and (idle_seconds is None or idle_seconds <= NEXT_LSN_SECONDS_MAX):
            raise SnapshotWaitsError(
                f"its snapshot needs an LSN above {taken.last}, and capture has given none yet",
                hint="An idle database gives one every five minutes; the next sync looks again.",
            )
        if not wait or time.monotonic() >= deadline:
            raise CaptureNotReadyError(
                f"its snapshot needs an LSN above {taken.last}, and no commit was captured"
                f" within {NEXT_LSN_SECONDS_MAX:.0f} seconds",
                hint="Is the capture job running? Write to any captured table, or run again.",
            )
        time.sleep(NEXT_LSN_POLL_SECONDS)
