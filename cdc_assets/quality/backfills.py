"""The chunked snapshots that are open, from the small Delta tables alone: no source, no Spark."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.engines.database import Database
from cdc_assets.planning.snapshots import snapshots_by_target
from cdc_assets.planning.verdict import Reason
from cdc_assets.planning.waves import Waves, waves_of
from cdc_assets.quality.health import headrooms


@dataclass(frozen=True, slots=True)
class OpenBackfill:
    """A table whose chunked snapshot at an LSN is open, and the wave that comes next.

    `waits` is a sentence on what it waits for; "" where it can be read on.
    """

    table: str
    snapshot: str
    next_wave: int
    waits: str


def chunks_read(database: Database) -> dict[str, tuple[int, int]]:
    """Of each table whose chunked snapshot is open, its chunks that are read, and all of them."""
    facts = database.lake.facts
    snapshots = snapshots_by_target(facts.events())
    found = {}
    for table in database.settings.tables:
        name = database.table(table)
        opened = snapshots[name.bronze].open_chunked
        if opened is not None:
            rows = facts.waves(name, opened.at.lsn)
            waves = waves_of(rows, name.bronze, opened.at.lsn, Waves())
            found[table] = (len(waves.done), waves.chunks_total or 0)
    return found


def open_backfills(database: Database) -> list[OpenBackfill]:
    """All of a database, in the order of its settings."""
    facts = database.lake.facts
    snapshots = snapshots_by_target(facts.events())
    names = [database.table(table) for table in database.settings.tables]
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
