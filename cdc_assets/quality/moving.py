"""Whether the source has moved past what was read: one short statement, whatever the tables."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.engines.database import Database
from cdc_assets.ingest.poll import read_max_lsn
from cdc_assets.sqlserver.connection import ATTEMPTS_MAX, with_retries


@dataclass(frozen=True, slots=True)
class Moved:
    """The newest LSN that capture has processed, and the tables that were not read up to it."""

    max_lsn: str | None
    behind: tuple[str, ...]


def source_moved(database: Database, *, attempts_max: int = ATTEMPTS_MAX) -> Moved:
    """Ask the source for its max_lsn alone; raises the errors of the connection.

    The connection stays open, for a sync that may follow.
    """

    def ask() -> str | None:
        with database.connections.lend() as connection:
            newest = read_max_lsn(connection)
            return None if newest is None else str(newest)

    newest = with_retries(ask, attempts_max)
    control = database.lake.control.read()
    names = [database.table(table) for table in database.settings.active]
    ends = {name.key: row.end_lsn if (row := control.get(name.bronze)) else None for name in names}
    behind = (key for key, end in ends.items() if end is None or end < (newest or ""))
    return Moved(newest, () if newest is None else tuple(behind))
