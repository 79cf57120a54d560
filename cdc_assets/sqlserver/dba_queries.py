"""T-SQL that an administrator runs and we never do: what `cdc-assets sql` prints.

Each part may be run again: what is there is left as it is. `GO` parts batches, since a table is not
known before the one that makes it has ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cdc_assets.sqlserver.queries import change_table, quoted, source_table

HEARTBEAT = "cdc_heartbeat"
"""Table and capture instance whose row an Agent job updates, so that capture never looks idle."""
BATCH_END = "GO"

_LINE_END = re.compile(r"[\r\n\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table to capture, and what its capture instance is called."""

    schema: str
    table: str
    instance: str

    def __post_init__(self) -> None:
        for name in (self.schema, self.table, self.instance):
            quoted(name)
            # A line of the name could be taken for the end of a batch.
            if _LINE_END.search(name):
                raise ValueError(f"a name with a line break cannot stand in a script: {name!r}")


def script(parts: Sequence[str]) -> str:
    """The parts as one script, each in batches of its own."""
    return "".join(f"{part.rstrip()}\n{BATCH_END}\n\n" for part in parts).rstrip("\n") + "\n"


def use(database: str) -> str:
    """Goes to the database."""
    return f"USE {quoted(database)};"


def enable_database() -> str:
    """Turns change data capture on in the database; SQL Server Agent runs its jobs."""
    return (
        "-- Change data capture of the database. SQL Server Agent has to run.\n"
        "IF NOT EXISTS (SELECT 1 FROM sys.databases"
        " WHERE name = DB_NAME() AND is_cdc_enabled = 1)\n"
        "    EXEC sys.sp_cdc_enable_db;"
    )


def retention(hours: int) -> str:
    """How long cleanup keeps changes; its job is made with the first table."""
    return (
        f"-- Changes are kept for {hours:d} hours.\n"
        f"EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = {hours * 60:d};"
    )


def enable_table(table: SourceTable) -> str:
    """Captures a table, without a gating role."""
    return (
        "IF NOT EXISTS (SELECT 1 FROM cdc.change_tables"
        f" WHERE capture_instance = {literal(table.instance)})\n"
        f"    EXEC sys.sp_cdc_enable_table @source_schema = {literal(table.schema)},"
        f" @source_name = {literal(table.table)},\n"
        f"        @capture_instance = {literal(table.instance)}, @role_name = NULL,"
        " @supports_net_changes = 0;"
    )


def add_user(login: str) -> str:
    """The reader's user in the database."""
    return (
        "-- The login that reads: it needs SELECT on each table and on its change table, no more.\n"
        f"-- CREATE LOGIN {quoted(login)} WITH PASSWORD = N'…';\n"
        "BEGIN TRY\n"
        f"    CREATE USER {quoted(login)} FOR LOGIN {quoted(login)};\n"
        "END TRY\n"
        "BEGIN CATCH\n"
        "    IF ERROR_NUMBER() <> 15023 THROW; -- it is there already\n"
        "END CATCH"
    )


def grant(table: SourceTable, login: str) -> str:
    """The two grants."""
    return (
        f"GRANT SELECT ON {source_table(table.schema, table.table)} TO {quoted(login)};\n"
        f"GRANT SELECT ON {change_table(table.instance)} TO {quoted(login)};"
    )


def heartbeat_table() -> str:
    """A table of one row."""
    name = source_table("dbo", HEARTBEAT)
    return (
        "-- A heartbeat: with it the newest LSN moves on a quiet database, too. SQL Server 2022\n"
        "-- notes an idle database by itself, about every five minutes; older ones do not.\n"
        f"IF OBJECT_ID({literal(name)}) IS NULL\n"
        f"    CREATE TABLE {name} (id int NOT NULL PRIMARY KEY, beat_at datetime2(3) NOT NULL);"
    )


def heartbeat_row() -> str:
    """Its row."""
    name = source_table("dbo", HEARTBEAT)
    return (
        f"IF NOT EXISTS (SELECT 1 FROM {name})\n"
        f"    INSERT INTO {name} (id, beat_at) VALUES (1, SYSUTCDATETIME());"
    )


def heartbeat_job() -> str:
    """An Agent job that updates it every minute; nothing where there is no Agent to ask."""
    beat = f"UPDATE {source_table('dbo', HEARTBEAT)} SET beat_at = SYSUTCDATETIME() WHERE id = 1"
    return (
        "IF OBJECT_ID(N'msdb.dbo.sp_add_job') IS NOT NULL\n"
        "BEGIN\n"
        "    DECLARE @database sysname = DB_NAME();\n"
        f"    DECLARE @job sysname = LEFT(N'{HEARTBEAT} ' + DB_NAME(), 128);\n"
        "    IF NOT EXISTS (SELECT 1 FROM msdb.dbo.sysjobs WHERE name = @job)\n"
        "    BEGIN\n"
        "        EXEC msdb.dbo.sp_add_job @job_name = @job;\n"
        "        EXEC msdb.dbo.sp_add_jobstep @job_name = @job, @step_name = N'beat',"
        " @subsystem = N'TSQL',\n"
        f"            @command = {literal(beat)}, @database_name = @database;\n"
        "        EXEC msdb.dbo.sp_add_jobschedule @job_name = @job, @name = N'every minute',\n"
        "            @freq_type = 4, @freq_interval = 1, @freq_subday_type = 4,"
        " @freq_subday_interval = 1;\n"
        "        EXEC msdb.dbo.sp_add_jobserver @job_name = @job;\n"
        "    END\n"
        "END"
    )


def disable(table: SourceTable) -> str:
    """What takes an instance away again, as a comment: it is for later."""
    return (
        "-- Later, when a sync has said that it reads the new one"
        " (capture_instance_switched):\n"
        f"-- EXEC sys.sp_cdc_disable_table @source_schema = {literal(table.schema)},"
        f" @source_name = {literal(table.table)},\n"
        f"--     @capture_instance = {literal(table.instance)};"
    )


def literal(value: str) -> str:
    """A text as T-SQL has it; raises ValueError for what no text is."""
    if "\0" in value:
        raise ValueError("a text without NUL was expected")
    return "N'" + value.replace("'", "''") + "'"
