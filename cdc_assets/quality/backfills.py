"""The chunked snapshots that are open, from the small Delta tables alone: no source, no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc_assets.engines.database import Database
from cdc_assets.planning.records import FactsRow
from cdc_assets.planning.snapshots import Snapshot, snapshots_by_target
from cdc_assets.planning.verdict import Reason
from cdc_assets.planning.waves import Waves, waves_of
from cdc_assets.quality.health import headrooms

_BRONZE = "bronze/"
"""What a target begins with that is a bronze of the settings."""


@dataclass(frozen=True, slots=True)
class OpenBackfill:
    """A table whose chunked snapshot at an LSN is open, and the wave that comes next.

    `waits` is a sentence on what it waits for; "" where it can be read on.
    """

    table: str
    snapshot: str
    next_wave: int
    waits: str


def open_waves(database: Database, events: Sequence[FactsRow]) -> dict[str, Waves]:
    """What the facts tell of each open chunked snapshot's waves, by its table; `events` are all."""
    opened = {}
    for target, snapshots in snapshots_by_target(events).items():
        if snapshots.open_chunked is not None and target.startswith(_BRONZE):
            opened[target.removeprefix(_BRONZE)] = snapshots.open_chunked
    return _waves(database, opened)


def chunks_read(database: Database, opened: Mapping[str, Snapshot]) -> dict[str, tuple[int, int]]:
    """Of each table's open chunked snapshot, its chunks that are read, and all of them."""
    waves = _waves(database, opened)
    return {table: (len(one.done), one.chunks_total or 0) for table, one in waves.items()}


def _waves(database: Database, opened: Mapping[str, Snapshot]) -> dict[str, Waves]:
    found = {}
    for table, snapshot in opened.items():
        name, lsn = database.table(table), snapshot.at.lsn
        found[table] = waves_of(database.lake.facts.waves(name, lsn), name.bronze, lsn, Waves())
    return found


def open_backfills(database: Database) -> list[OpenBackfill]:
    """All of a database but those that stand still, in the order of its settings."""
    facts = database.lake.facts
    snapshots = snapshots_by_target(facts.events())
    names = [database.table(table) for table in database.settings.active]
    opened = {name: one for name in names if (one := snapshots[name.bronze].open_chunked)}
    if not opened:
        return []
    apps = {name: name.wave_app(one.at.lsn) for name, one in opened.items()}
    waves = facts.versions_of(apps.values())
    found = []
    for name, headroom in headrooms(database, list(opened)).items():
        told = waves[apps[name]]
        found.append(
            OpenBackfill(
                table=name.key,
                snapshot=str(opened[name].at.lsn),
                next_wave=0 if told is None else told + 1,
                waits=headroom.text if headroom.reason is Reason.HEADROOM_LOW else "",
            )
        )
    return found
