"""What silver has not applied yet, of all tables of a database, from the small tables alone."""

from __future__ import annotations

from cdc_assets.engines.database import Database
from cdc_assets.planning.history import taken_snapshots
from cdc_assets.planning.pending import (
    Pending,
    lowest_applied,
    pending_history,
    pending_work,
)
from cdc_assets.planning.snapshots import by_target, snapshots_by_target


def pending_tables(database: Database) -> list[Pending]:
    """The silver tables and histories with work."""
    control = database.lake.control.read()
    events = database.lake.facts.events()
    snapshots, of = snapshots_by_target(events), by_target(events)
    names = [database.table(table) for table in database.settings.active]
    floor = lowest_applied(control, [name.silver for name in names])
    changes = database.lake.facts.newest_changes(floor)
    opened = {name: snapshots[name.bronze].open_chunked for name in names}
    told = {name: name.wave_app(one.at.lsn) for name, one in opened.items() if one}
    waves = database.lake.facts.versions_of(told.values()) if told else {}
    found = [
        pending_work(
            name.key,
            control.get(name.bronze),
            control.get(name.silver),
            snapshots[name.bronze],
            changes.get(name.bronze),
            waves.get(told.get(name, "")),
        )
        for name in names
    ]
    due = {work.table for work in found if work is not None}
    found += [
        pending_history(
            name.key,
            control.get(name.bronze),
            control.get(name.history),
            snapshots[name.bronze],
            taken_snapshots(of.get(name.bronze, ()), database.settings.tables[name.key].keys or ()),
        )
        for name in names
        if name.key not in due and database.settings.scd_of(name.key) == 2
    ]
    return [work for work in found if work is not None]
