"""What `cdc-assets doctor` reads: the machine, the server, the lake; `planning.checkup` decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.engines.spark.installed import java_home, java_version, require_pyspark
from cdc_assets.errors import (
    CaptureInstanceUnknownError,
    CaptureNotEnabledError,
    CdcError,
    PermissionMissingError,
    SourceQueryError,
    expected,
)
from cdc_assets.ingest.poll import poll_database
from cdc_assets.lake.probing import probe_lake
from cdc_assets.lsn import Lsn
from cdc_assets.planning.checkup import (
    Finding,
    Level,
    ServerRead,
    failed,
    judge_capture,
    judge_clock,
    judge_packages,
    judge_server,
    judge_times,
    judge_tls,
)
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll, find_instance
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.retired import check_not_renamed, retired_sources
from cdc_assets.planning.snapshots import Snapshots, snapshots_by_target
from cdc_assets.planning.table_checkup import SourceColumn, TableRead, judge_table
from cdc_assets.settings import EngineName
from cdc_assets.settings.masters import is_connect
from cdc_assets.sqlserver import doctor_queries, queries
from cdc_assets.sqlserver.catalog import capture_instances
from cdc_assets.sqlserver.connection import Connection, connect, with_retries
from cdc_assets.sqlserver.connection_string import odbc_pairs
from cdc_assets.sqlserver.driver import find_driver
from cdc_assets.sqlserver.grants import missing_grant
from cdc_assets.sqlserver.types import is_known

_PIN = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==([^\s;,]+)")
_PACKAGE = "cdc-assets"


@dataclass(frozen=True, slots=True)
class _InLake:
    """How far each table was read, and the retired ones by their source's object id."""

    positions: Mapping[str, Offset | None] = field(default_factory=dict)
    retired: Mapping[int, str] = field(default_factory=dict)


def examine_machine() -> list[Finding]:
    """The packages whose versions are pinned, and the ODBC driver."""
    pins = [_PIN.match(text) for text in requires(_PACKAGE) or ()]
    pinned = {found.group(1): found.group(2) for found in pins if found is not None}
    return [
        *judge_packages(pinned, {name: _installed(name) for name in pinned}),
        _told("driver", "here", lambda: f"ODBC: {find_driver()}"),
    ]


def examine(database: Database) -> list[Finding]:
    """A database: engine, lake, then its server and tables; what fails keeps nothing else."""
    key = database.name.key
    found = [*_engine(database), _told("lake", key, lambda: _lake(database))]
    try:
        in_lake = _in_lake(database)
    except CdcError as error:
        found.append(failed("bookkeeping", key, error))
        in_lake = _InLake()
    try:
        with_server = with_retries(lambda: _server(database, in_lake))
    except CdcError as error:
        return [*found, failed("login", key, error)]
    return [*found, *with_server]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _told(check: str, about: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(check, about, Level.OK, look())
    except CdcError as error:
        return failed(check, about, error)


def _engine(database: Database) -> list[Finding]:
    """What Spark needs, where a table's engine is Spark or may become it."""
    settings = database.settings
    wanted = {settings.engine_of(table) for table in settings.tables}
    if EngineName.SPARK not in wanted and not (
        EngineName.AUTO in wanted and settings.spark.is_cluster
    ):
        return []
    return [_told("spark", database.name.key, lambda: _spark(settings.spark.master))]


def _spark(master: str) -> str:
    require_pyspark()
    if is_connect(master):
        return f"PySpark {version('pyspark')}, for a Spark Connect server"
    home = java_home()
    return f"PySpark {version('pyspark')}, Java {java_version(home)} in {home}"


def _lake(database: Database) -> str:
    try:
        probe_lake(database.name, database.settings.storage_options)
    except CdcError:
        raise
    except Exception as error:
        raise expected(error) from error
    return "written, read, and a second commit of one version refused"


def _in_lake(database: Database) -> _InLake:
    control = database.lake.control.read()
    snapshots = snapshots_by_target(database.lake.facts.events())
    names = {table: database.table(table).bronze for table in database.settings.tables}
    return _InLake(
        {t: _position(control.get(name), snapshots[name]) for t, name in names.items()},
        retired_sources(control, names),
    )


def _position(control: ControlRow | None, snapshots: Snapshots) -> Offset | None:
    return snapshots.position([control.end if control else None])


def _server(database: Database, in_lake: _InLake) -> list[Finding]:
    key, settings = database.name.key, database.settings
    pairs = odbc_pairs(database.source.text)
    driver = pairs.get("driver") or find_driver()
    with connect(database.source) as connection:
        began = utc_now()
        read = _read_server(connection)
        found = [*judge_server(key, read, settings.isolation), judge_tls(key, pairs, driver)]
        if not read.is_captured:
            return found
        if not read.sees_times:
            # A server shows them to those who may read some table whole.
            return [*found, *(_lacking(connection, database) or [judge_times(key, read)])]
        poll = poll_database(connection, {}, {}, settings.source_time_zone)
        ours = began + (utc_now() - began) / 2
        skew = (poll.clock.utc_now - ours).total_seconds()
        found.append(judge_capture(key, poll.max, poll.clock.utc_now, read.major))
        found += judge_clock(key, skew, poll.clock.zone, settings.source_time_zone)
        for table in settings.tables:
            told = _read_table(connection, database, table, poll, in_lake)
            found += judge_table(key, told, settings, read.largest_value_bytes)
    return found


def _lacking(connection: Connection, database: Database) -> list[Finding]:
    """The tables that this login lacks grants of."""
    found = []
    there = capture_instances(connection)
    for table in database.settings.tables:
        wanted = database.settings.instance_of(table)
        denied = None if wanted in there else missing_grant(connection, wanted)
        if denied is not None:
            found.append(failed("table", str(database.table(table)), denied))
    return found


def _read_server(connection: Connection) -> ServerRead:
    (server,) = connection.rows(doctor_queries.SERVER)
    states = connection.rows(doctor_queries.DATABASE)
    jobs = _visible(connection, doctor_queries.JOBS) or []
    largest = _visible(connection, doctor_queries.LARGEST_VALUE) or []
    kept = [int(job["retention"]) for job in jobs if job["job_type"] == "cleanup"]
    roles = {"sysadmin": server["is_sysadmin"], "db_owner": server["is_owner"]}
    return ServerRead(
        version=str(server["version"]),
        edition=str(server["edition"]),
        database=str(server["database_name"]),
        user=queries.quoted(str(server["user_name"])),
        has_too_much=" and ".join(role for role, is_in in roles.items() if is_in),
        is_captured=any(state["is_cdc_enabled"] for state in states),
        allows_snapshot=any(state["snapshot_isolation_state"] in (1, 3) for state in states),
        sees_times=_visible(connection, doctor_queries.PROBE_TIMES) is not None,
        retention_minutes=kept[0] if kept else None,
        largest_value_bytes=int(largest[0]["bytes"]) if largest else None,
    )


def _visible(connection: Connection, text: str, *values: str) -> list[dict[str, Any]] | None:
    """What the server says, or None where it says nothing to this login."""
    try:
        return connection.rows(text, values)
    except (PermissionMissingError, SourceQueryError, CaptureNotEnabledError):
        return None


def _read_table(
    connection: Connection, database: Database, table: str, poll: Poll, in_lake: _InLake
) -> TableRead:
    wanted, position = database.settings.instance_of(table), in_lake.positions.get(table)
    try:
        instance = _instance(connection, poll, wanted, database.name.key)
        if position is None:
            check_not_renamed(database.table(table), instance, in_lake.retired)
        there = _all_of(poll, instance)
        for one in there:
            _check_changes(connection, one)
        return _table(connection, poll, table, there, position)
    except CdcError as error:
        if error.transient:
            raise
        return TableRead(table, error=error)


def _instance(connection: Connection, poll: Poll, wanted: str, where: str) -> CaptureInstance:
    try:
        return find_instance(poll.instances, wanted, where=where)
    except CaptureInstanceUnknownError:
        if (denied := missing_grant(connection, wanted)) is not None:
            raise denied from None
        raise


def _all_of(poll: Poll, instance: CaptureInstance) -> list[CaptureInstance]:
    """It and the other one of its table, the older first."""
    source = instance.identity.source_object_id
    every = [i for i in poll.instances.values() if i.identity.source_object_id == source]
    return sorted(every, key=lambda one: one.identity.age)


def _check_changes(connection: Connection, instance: CaptureInstance) -> None:
    """Raise `PermissionMissingError` with the GRANT where its change table may not be read."""
    try:
        connection.rows(queries.probe_changes(instance.name))
    except PermissionMissingError:
        user = connection.rows(queries.USER)[0]["name"]
        raise PermissionMissingError(
            f"the login may not read the change table of {instance.name}",
            hint=f"GRANT SELECT ON {queries.change_table(instance.name)} TO {queries.quoted(user)}",
        ) from None


def _table(
    connection: Connection,
    poll: Poll,
    table: str,
    there: list[CaptureInstance],
    position: Offset | None,
) -> TableRead:
    newest = there[-1]
    source = connection.rows(queries.TABLE_COLUMNS, [str(newest.identity.source_object_id)])
    changes = connection.rows(queries.TABLE_COLUMNS, [str(newest.identity.change_object_id)])
    captured = {str(row["name"]) for row in changes}
    (low,) = connection.rows(queries.watermarks(1), [there[0].name])
    watermark = Lsn.parse_optional(low["min_lsn"])
    parts = _visible(connection, doctor_queries.PARTITIONS, str(newest.identity.source_object_id))
    return TableRead(
        key=table,
        instances=tuple(one.name for one in there),
        columns=tuple(_column(row) for row in source if str(row["name"]) in captured),
        index_columns=newest.index_columns,
        has_command_id=not captured or "__$command_id" in captured,
        low=watermark,
        low_ts=_time_of(connection, poll, watermark),
        created=poll.clock.to_utc(there[0].identity.created_at, there[0].start_lsn),
        position=position,
        newest=poll.max.lsn if poll.max else None,
        partitions=int(parts[0]["partitions"]) if parts else None,
    )


def _column(row: Mapping[str, object]) -> SourceColumn:
    kind = str(row["base_type"] or "a CLR type").lower()
    return SourceColumn(
        name=str(row["name"]),
        type=kind,
        is_known=is_known(kind),
        is_max=row["max_length"] == -1,
        is_computed=bool(row["is_computed"]),
    )


def _time_of(connection: Connection, poll: Poll, lsn: Lsn | None) -> datetime | None:
    if lsn is None:
        return None
    rows = connection.rows(queries.first_commits(1), [str(lsn), str(lsn)])
    return poll.clock.to_utc(rows[0]["commit_ts"], lsn) if rows else None
