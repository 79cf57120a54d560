"""`cdc-assets sql`: the script for an administrator; text alone, nothing is run."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from cdc_assets.cli.output import say
from cdc_assets.cli.sync import database_of
from cdc_assets.errors import SettingsError
from cdc_assets.settings import find_settings
from cdc_assets.settings.load import connection_text
from cdc_assets.sqlserver import dba_queries
from cdc_assets.sqlserver.connection_string import odbc_pairs
from cdc_assets.sqlserver.dba_queries import SourceTable

READER = "cdc_reader"
"""The login where neither the command line nor the connection string names one."""
_PART = r"(\[(?:[^\]]|\]\])+\]|[^.\[\]]+)"
_NAMED = re.compile(rf"{_PART}\.{_PART}")
_NEW = "_new"


@dataclass(frozen=True, slots=True)
class Script:
    """What the script is to hold."""

    login: str | None
    heartbeat: bool
    switch: bool
    retention_hours: int | None


def run_sql(key: str, tables: Sequence[str], wanted: Script) -> int:
    """Print it for these tables, or for all of the settings."""
    database, login, known = _settings(key, tables)
    login = wanted.login or login or READER
    named = [_table(name, known) for name in (tables or known)]
    if not named:
        raise SettingsError(
            f"there is no {find_settings()} to take tables from",
            hint="Name them as <schema>.<table>, as at the source.",
        )
    try:
        parts = _switch(named, login) if wanted.switch else _enable(named, login, wanted)
        head = dba_queries.use(database) if database else "-- Run it in the source database."
        text = dba_queries.script([f"-- For an administrator of the server.\n{head}", *parts])
    except ValueError as error:
        raise SettingsError(str(error), hint="Name tables and login as the server does.") from None
    sys.stdout.write(text)
    return 0


def _settings(key: str, tables: Sequence[str]) -> tuple[str, str | None, dict[str, str]]:
    """The source's name, its login, and the capture instances by key, as far as settings say.

    Without any, the key is the database's name at the source.
    """
    if not find_settings().exists():
        return key, None, {}
    database = database_of(key, [name for name in tables if "." not in name])
    instances = {t: database.settings.instance_of(t) for t in database.settings.tables}
    try:
        pairs = odbc_pairs(connection_text(database.settings, where=key))
    except SettingsError:
        return "", None, instances
    return pairs.get("database", ""), pairs.get("uid") or pairs.get("user id"), instances


def _table(name: str, instances: dict[str, str]) -> SourceTable:
    """`<schema>.<table>` as at the source, or a key of the settings."""
    try:
        if found := _NAMED.fullmatch(name):
            schema, table = (_plain(part) for part in found.groups())
            return SourceTable(schema, table, f"{schema}_{table}")
        instance = instances.get(name, name)
        schema, _, table = instance.partition("_")
        if not schema or not table:
            raise SettingsError(
                f"the capture instance {instance} does not tell its table's name",
                hint="Name the table as <schema>.<table>, as at the source.",
            )
    except ValueError as error:
        raise SettingsError(str(error), hint="Name it as the server does.") from None
    if "_" in table:
        say(f"{instance} is taken for {schema}.{table}; name it so if it is another.", error=True)
    return SourceTable(schema, table, instance)


def _plain(part: str) -> str:
    return part[1:-1].replace("]]", "]") if part.startswith("[") else part


def _enable(tables: Sequence[SourceTable], login: str, wanted: Script) -> list[str]:
    parts = [dba_queries.enable_database()]
    parts += [dba_queries.enable_table(table) for table in tables]
    if wanted.retention_hours is not None:
        parts.append(dba_queries.retention(wanted.retention_hours))
    parts.append(dba_queries.add_user(login))
    parts += [dba_queries.grant(table, login) for table in tables]
    if wanted.heartbeat:
        beat = SourceTable("dbo", dba_queries.HEARTBEAT, dba_queries.HEARTBEAT)
        parts += [
            dba_queries.heartbeat_table(),
            dba_queries.heartbeat_row(),
            dba_queries.enable_table(beat),
            dba_queries.heartbeat_job(),
        ]
    return parts


def _switch(tables: Sequence[SourceTable], login: str) -> list[str]:
    """A second instance of each table, with the columns that it has now."""
    parts = []
    for table in tables:
        new = SourceTable(table.schema, table.table, f"{table.instance}{_NEW}")
        parts += [dba_queries.enable_table(new), dba_queries.grant(new, login)]
        parts.append(dba_queries.disable(table))
    return parts
