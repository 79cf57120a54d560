"""What one poll of a database saw, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cdc_assets.errors import CaptureInstanceUnknownError, CaptureNotReadyError, CdcError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.clocks import ServerClock
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import Identity


@dataclass(frozen=True, slots=True)
class CaptureInstance:
    """A capture instance as the server lists it for this login."""

    identity: Identity
    schema: str
    table: str
    start: Lsn | None
    index_columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name."""
        return self.identity.instance_name

    @property
    def start_lsn(self) -> Lsn:
        """Its first LSN; raises `CaptureNotReadyError` while the server names none."""
        if self.start is None:
            raise CaptureNotReadyError(
                f"capture instance {self.name} has no start_lsn yet",
                hint="It was created just now, or not all of it: run again in a minute.",
            )
        return self.start


@dataclass(frozen=True, slots=True)
class Poll:
    """One look at a database, in the order that makes it safe.

    `instances` and `watermarks` were read after `has_rows`: a purged range reads as empty, and
    cleanup moves the watermark before it deletes. `errors` are by instance: what the server
    refused to say of it alone.
    """

    clock: ServerClock
    max: Offset | None
    instances: Mapping[str, CaptureInstance]
    has_rows: Mapping[str, bool] = field(default_factory=dict)
    watermarks: Mapping[str, Lsn | None] = field(default_factory=dict)
    rtt_ms: float = 0.0
    errors: Mapping[str, CdcError] = field(default_factory=dict)
    unmapped: frozenset[Lsn] = frozenset()
    """Positions that an earlier poll observed and the log lacks, though it goes back so far."""
    monotonic_seconds: float = 0.0
    """What `time.monotonic` said when the server's clock was read."""

    def utc_now_after(self, monotonic_seconds: float) -> datetime:
        """The server's time at a later moment, had nobody set its clock since."""
        return self.clock.utc_now + timedelta(seconds=monotonic_seconds - self.monotonic_seconds)

    def listed(self, identity: Identity) -> CaptureInstance | None:
        """The instance of that identity, while it is there."""
        return listed(self.instances, identity)

    @property
    def capture_lag_seconds(self) -> float | None:
        """How long ago the last commit that capture has processed was made."""
        if self.max is None:
            return None
        return max(0.0, (self.clock.utc_now - self.max.commit_ts).total_seconds())


def listed(instances: Mapping[str, CaptureInstance], identity: Identity) -> CaptureInstance | None:
    """The instance of that identity, of instances by name."""
    found = instances.get(identity.instance_name)
    return found if found is not None and found.identity == identity else None


def find_instance(
    instances: Mapping[str, CaptureInstance], name: str, *, where: str
) -> CaptureInstance:
    """The instance of that name: exactly, else ignoring case.

    Raises `CaptureInstanceUnknownError` for none, and for two that differ only in case.
    """
    if name in instances:
        return instances[name]
    alike = [i for key, i in instances.items() if key.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    if alike:
        names = " and ".join(i.name for i in alike)
        raise CaptureInstanceUnknownError(
            f"{name} may mean {names}", where=where, hint="Write the name exactly."
        )
    known = ", ".join(sorted(instances)[:10]) or "none"
    raise CaptureInstanceUnknownError(
        f"the database has no capture instance {name} that this login may see",
        where=where,
        hint=f"It sees: {known}. Enable CDC on the table, GRANT SELECT on it and on its change"
        " table, or set `capture_instance`.",
    )
