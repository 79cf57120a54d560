"""The one resource: it holds the SQL Server and the Delta clients, and Spark where asked for.

The only place of the orchestration that reaches the rooms below, and only inside its methods:
importing them at the top would make every process that loads the definitions pay for Arrow, ODBC
and delta-rs. Nothing is kept between calls, so a restarted source is found where it is now.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.contract import SnapshotMode
from cdc_assets.planning.history import taken_snapshots
from cdc_assets.planning.pending import (
    Pending,
    lowest_applied,
    pending_history,
    pending_work,
)
from cdc_assets.planning.snapshots import by_target, snapshots_by_target
from cdc_assets.settings import load_settings

if TYPE_CHECKING:
    from cdc_assets.engines.database import Database
    from cdc_assets.ingest.call import Progress
    from cdc_assets.ingest.outcome import BackfillOutcome
    from cdc_assets.ingest.sync import SyncReport
    from cdc_assets.quality.backfills import OpenBackfill
    from cdc_assets.quality.health import TableHealth
    from cdc_assets.quality.maintenance import Upkept
    from cdc_assets.quality.moving import Moved
    from cdc_assets.silver.outcome import ApplyOutcome


class CdcResource(dg.ConfigurableResource[None]):
    """SQL Server and the lake, for assets, checks and sensors alike."""

    settings_file: str

    def database(self, key: str) -> "Database":
        """The clients of one database; opens nothing yet."""
        from cdc_assets.engines.database import Database  # noqa: PLC0415

        return Database.of(key, load_settings(Path(self.settings_file)).databases[key])

    def sync(self, key: str, tables: list[str]) -> "SyncReport | None":
        """Bring bronze up to the source, of those that do not stand still; None where all do."""
        from cdc_assets.ingest.sync import sync  # noqa: PLC0415

        database = self.database(key)
        active = _active(database, tables)
        return sync(database, active) if active else None

    def apply(self, key: str, tables: list[str]) -> "dict[str, ApplyOutcome]":
        """Bring silver up to bronze, of those that do not stand still."""
        from cdc_assets.silver.apply import apply_tables  # noqa: PLC0415

        database = self.database(key)
        return apply_tables(database, _active(database, tables))

    def maintain(self, key: str) -> "list[Upkept]":
        """Put files in order and remove what is old, of all tables of a database."""
        from cdc_assets.quality.maintenance import maintain_tables  # noqa: PLC0415

        database = self.database(key)
        return maintain_tables(database, list(database.settings.tables))

    def source_moved(self, key: str) -> "Moved":
        """Whether the source has moved past what was read; the one look that asks the source."""
        from cdc_assets.quality.moving import source_moved  # noqa: PLC0415

        return source_moved(self.database(key))

    def pending(self, key: str) -> list[Pending]:
        """The silver tables with work, from the small tables alone."""
        database = self.database(key)
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
                taken_snapshots(
                    of.get(name.bronze, ()), database.settings.tables[name.key].keys or ()
                ),
            )
            for name in names
            if name.key not in due and database.settings.scd_of(name.key) == 2
        ]
        return [work for work in found if work is not None]

    def health(self, key: str) -> "dict[str, TableHealth]":
        """How every table stands, from the small tables alone."""
        from cdc_assets.quality.health import health  # noqa: PLC0415

        return health(self.database(key))

    def open_backfills(self, key: str) -> "list[OpenBackfill]":
        """The tables whose chunked snapshot is open, from the small tables alone."""
        from cdc_assets.quality.backfills import open_backfills  # noqa: PLC0415

        return open_backfills(self.database(key))

    def chunks_read(self, key: str) -> dict[str, tuple[int, int]]:
        """Of each table with an open chunked snapshot, its chunks that are read and all of them."""
        from cdc_assets.quality.backfills import chunks_read  # noqa: PLC0415

        database = self.database(key)
        modes = {database.settings.snapshot_of(table) for table in database.settings.tables}
        return chunks_read(database) if SnapshotMode.CHUNKED in modes else {}

    def backfill(self, key: str, table: str, progress: "Progress") -> "BackfillOutcome":
        """Read a table's open chunked snapshot on."""
        from cdc_assets.ingest.backfill import backfill  # noqa: PLC0415

        return backfill(self.database(key), table, progress=progress)


def _active(database: "Database", tables: list[str]) -> list[str]:
    """Those that the settings ask for by now: the definitions may be older than the file is."""
    return [table for table in tables if table in database.settings.active]
