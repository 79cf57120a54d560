"""The size of a snapshot's chunks: as the settings say, else by what the facts know of reads."""

from __future__ import annotations

from cdc_assets.contract import Event
from cdc_assets.engines.database import Database
from cdc_assets.ingest.ranges import table_size
from cdc_assets.lsn import Lsn
from cdc_assets.names import TableName
from cdc_assets.planning.chunks import Sizing
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.planning.sizing import MEASURED_ROWS_MIN, Aim, LastRead, aimed, newest_read
from cdc_assets.sqlserver.connection import Connection


def size_chunks(
    database: Database, table: TableName, connection: Connection, instance: CaptureInstance
) -> Sizing:
    """How many rows a chunk of a table's snapshot is to have, and why: `chunk_rows` where it is."""
    settings = database.settings
    rows = settings.chunk_rows_of(table.key)
    if rows is not None:
        return Sizing(rows, "`chunk_rows` of the settings")
    aim = Aim(settings.wave_seconds_of(table.key), settings.num_partitions)
    size = table_size(connection, instance)
    return aimed(aim, table.bronze, size, _last_read(database, table))


def _last_read(database: Database, table: TableName) -> LastRead | None:
    facts = database.lake.facts
    row = newest_read(facts.newest_reads(MEASURED_ROWS_MIN), table.bronze)
    if row is None:
        return None
    if row.event != Event.SNAPSHOT_CHUNK or row.target != table.bronze:
        return LastRead.of(row)
    return LastRead.of_waves(row, facts.waves(table, Lsn.parse(row.payload["snapshot"])))
