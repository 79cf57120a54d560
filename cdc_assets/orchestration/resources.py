"""The one resource: it holds the SQL Server and the Delta clients, and Spark where asked for.

The only place of the orchestration that reaches the rooms below, and only inside its methods:
importing them at the top would make every process that loads the definitions pay for Arrow, ODBC
and delta-rs. Nothing is kept between calls, so a restarted source is found where it is now.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets.errors import SettingsError
from cdc_assets.orchestration.webhook import post
from cdc_assets.planning.pending import Pending
from cdc_assets.settings import DatabaseSettings, load_settings
from cdc_assets.settings.load import webhook_url

if TYPE_CHECKING:
    from cdc_assets.engines.database import Database
    from cdc_assets.ingest.call import Progress
    from cdc_assets.ingest.outcome import BackfillOutcome
    from cdc_assets.ingest.sync import SyncReport
    from cdc_assets.planning.snapshots import Snapshot
    from cdc_assets.planning.uniqueness import Uniqueness
    from cdc_assets.quality.backfills import OpenBackfill
    from cdc_assets.quality.following import Turn
    from cdc_assets.quality.health import TableHealth
    from cdc_assets.quality.maintenance import Upkept
    from cdc_assets.quality.making import Looked
    from cdc_assets.quality.moving import Moved
    from cdc_assets.silver.outcome import ApplyOutcome


class CdcResource(dg.ConfigurableResource[None]):
    """SQL Server and the lake, for assets, checks and sensors alike."""

    settings_file: str

    def database(self, key: str) -> "Database":
        """The clients of one database; opens nothing yet."""
        from cdc_assets.engines.database import Database  # noqa: PLC0415

        return Database.of(key, self.settings(key))

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
        """Whether the source has moved past what was read; the one look that asks the source.

        Asked once: a tick must be short, and the next one asks again.
        """
        from cdc_assets.quality.moving import source_moved  # noqa: PLC0415

        database = self.database(key)
        try:
            return source_moved(database, attempts_max=1)
        finally:
            database.connections.close()

    def pending(self, key: str) -> list[Pending]:
        """The silver tables with work, from the small tables alone."""
        from cdc_assets.quality.pending import pending_tables  # noqa: PLC0415

        return pending_tables(self.database(key))

    def due(self, key: str) -> set[str]:
        """The tables whose silver has work."""
        return {work.table for work in self.pending(key)}

    def settings(self, key: str) -> DatabaseSettings:
        """A database's settings, as the file has them now."""
        return load_settings(Path(self.settings_file)).databases[key]

    def turn(self, database: "Database") -> "Turn":
        """One look of a run that keeps polling, whose clients are its own from look to look."""
        from cdc_assets.quality.following import take_turn  # noqa: PLC0415

        return take_turn(database)

    def made_otherwise(self, key: str, cursor: str) -> "Looked":
        """The silvers whose settings have changed since they were made; looks at few at once."""
        from cdc_assets.quality.making import made_otherwise  # noqa: PLC0415

        return made_otherwise(self.database(key), cursor)

    def health(self, key: str) -> "dict[str, TableHealth]":
        """How every table stands, from the small tables alone."""
        from cdc_assets.quality.health import health  # noqa: PLC0415

        return health(self.database(key))

    def alert(self, key: str, document: Mapping[str, Any]) -> str | None:
        """Post a document to the webhook of the settings: None once it was taken, else why not."""
        alerts = self.settings(key).alerts
        if alerts is None:
            return "the settings name none any more"
        try:
            url = webhook_url(alerts, where=key)
        except SettingsError as error:
            return str(error)
        return post(url, document, alerts.timeout_seconds)

    def unique_keys(self, key: str, table: str, checked: str) -> "Uniqueness":
        """Whether silver holds each key of a table once; reads its key's columns."""
        from cdc_assets.quality.uniqueness import unique_keys  # noqa: PLC0415

        return unique_keys(self.database(key), table, checked)

    def open_backfills(self, key: str) -> "list[OpenBackfill]":
        """The tables whose chunked snapshot is open, from the small tables alone."""
        from cdc_assets.quality.backfills import open_backfills  # noqa: PLC0415

        return open_backfills(self.database(key))

    def chunks_read(self, key: str, opened: "Mapping[str, Snapshot]") -> dict[str, tuple[int, int]]:
        """Of each open chunked snapshot that a sync has told of, its chunks that are read, and all.

        Where none is open nothing is looked at.
        """
        from cdc_assets.quality.backfills import chunks_read  # noqa: PLC0415

        return chunks_read(self.database(key), opened) if opened else {}

    def backfill(self, key: str, table: str, progress: "Progress") -> "BackfillOutcome":
        """Read a table's open chunked snapshot on."""
        from cdc_assets.ingest.backfill import backfill  # noqa: PLC0415

        return backfill(self.database(key), table, progress=progress)


def _active(database: "Database", tables: list[str]) -> list[str]:
    """Those that the settings ask for by now: the definitions may be older than the file is."""
    return [table for table in tables if table in database.settings.active]
