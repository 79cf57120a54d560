"""A copy that already exists becomes a table's first snapshot, in place of a read of the table.

The copy holds every commit up to some S, as a read that recorded S before it does, and what came
later is read again as changes (seed 0016). So S is the newest commit that was made before the copy
began to be read, and CDC must still hold all that came after it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from cdc_assets.clock import utc_now
from cdc_assets.contract import Column, bronze_columns
from cdc_assets.engines.arrow.appending import append_rows
from cdc_assets.engines.copies import ArrowStream, CopyRows, as_reader, looked_at, places_of
from cdc_assets.engines.database import Database
from cdc_assets.errors import (
    CdcError,
    DataLossError,
    SeedRefusedError,
    TableReplacedError,
    UnsupportedColumnError,
)
from cdc_assets.ingest.clock import commit_at_or_below, first_commit_after
from cdc_assets.ingest.columns import columns_to_load
from cdc_assets.ingest.instances import see_instances
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.poll import poll_database
from cdc_assets.ingest.prepared import (
    PreparedSnapshot,
    check_changes_readable,
    open_snapshots,
    to_open,
)
from cdc_assets.ingest.recording import Recorder
from cdc_assets.ingest.snapshot import (
    snapshot_constants,
    snapshot_plan,
    time_of,
    write_snapshot,
)
from cdc_assets.ingest.sync import known_tables
from cdc_assets.lake.bronze import snapshot_rows
from cdc_assets.lake.tables import beyond_arrow, check_names, table_id
from cdc_assets.lsn import Lsn
from cdc_assets.names import Command, TableName
from cdc_assets.planning.instances import siblings
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import AppendResult, EngineChoice
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import anew, check_continues, newest_lsn
from cdc_assets.planning.seeds import AS_OF_MARGIN_SECONDS, AsOf
from cdc_assets.planning.snapshots import Snapshot
from cdc_assets.settings import EngineName
from cdc_assets.settings.lakes import wants_one_engine
from cdc_assets.sqlserver.catalog import Captured, capture_instances
from cdc_assets.sqlserver.connection import Connection, with_retries

ENGINE = EngineChoice("arrow", "a copy")
"""What writes a copy, whatever reads the table's changes."""


def seed(
    database: Database, key: str, copy: ArrowStream, as_of: str | datetime | Lsn
) -> TableOutcome:
    """Make a copy of a table its first snapshot; its changes then start at S, which this finds.

    `copy` is anything with Arrow data, as `as_reader` takes it; columns are matched by name.
    `as_of` is when the copy *began* to be read, a time or an LSN: every commit up to then must be
    in the copy, later ones may be, since they come again as changes. In doubt an earlier one; of
    a time, commits of the last `AS_OF_MARGIN_SECONDS` before it come again as well.

    A rerun with the same `as_of` finds what is there. Raises, before anything of it is written,
    `SeedRefusedError` for a copy that does not fit, an `as_of` that is not past, and a table that
    has a snapshot; `DataLossError` where CDC no longer holds the changes after it.
    """
    try:
        return _seed(database, key, copy, AsOf.of(as_of))
    finally:
        database.connections.close()


def _seed(database: Database, key: str, copy: ArrowStream, as_of: AsOf) -> TableOutcome:
    database.check_active([key])
    (known,) = known_tables(database, [key], database.lake.facts.newest_rows)
    table, opened = known.name, _opened(known, as_of)
    if opened is not None and opened == known.snapshots.complete:
        return _found(database, table, opened)
    reader = as_reader(copy)
    instance, columns, poll, snapshot = with_retries(lambda: _plan(database, known, as_of, opened))
    places = places_of(reader.schema, columns)
    batches = looked_at(reader, columns, places)
    prepared = _prepared(database, known, (instance, columns, poll), snapshot, opened is None)
    opened_now = open_snapshots(database, [prepared])[table]
    if isinstance(opened_now, CdcError):
        raise opened_now
    prepared = opened_now
    if prepared.snapshot.as_of != str(as_of):
        raise _has_one(table, prepared.snapshot)

    def append() -> AppendResult:
        constants = dict(snapshot_constants(database, prepared))
        plan = snapshot_plan(database, prepared)
        rows = CopyRows(batches, plan.columns, columns, places, constants)
        try:
            return append_rows(plan, database.lake.options, rows)
        except SeedRefusedError as error:
            raise _refused_midway(error, table, as_of) from error

    recorder = Recorder(database, poll, {table.bronze: known.snapshots})
    recorder.measure()
    outcome = write_snapshot(database, prepared, append)
    recorder.record([outcome])
    return outcome


def _plan(
    database: Database, known: Known, as_of: AsOf, opened: Snapshot | None
) -> tuple[CaptureInstance, Captured, Poll, Snapshot]:
    """What the server says: the table's columns, and the S from which all changes are there."""
    with database.connections.lend() as connection:
        instance, poll = _look(database, connection, known)
        snapshot = opened or _planned(connection, known, instance, poll, as_of)
    known = see_instances(database, known, instance, poll)
    reader = known.reader(instance, poll, after=snapshot.at.lsn)
    if opened is None:
        snapshot = replace(snapshot, reader=reader.identity)
    with database.connections.lend() as connection:
        check_changes_readable(connection, (instance, reader))
        bronze = database.lake.bronze(known.name)
        columns = columns_to_load(database, known.name, connection, reader, bronze)
    app = known.name.snapshot_app(snapshot.at.lsn)
    if opened is None or bronze is None or bronze.transaction_version(app) is None:
        # Rows that are in bronze already are a snapshot, whatever cleanup has done since.
        _check_after(known, instance, poll, snapshot.at)
    return instance, columns, poll, snapshot


def _opened(known: Known, as_of: AsOf) -> Snapshot | None:
    """The snapshot that an earlier call with the same copy has opened, finished or not."""
    if known.error is not None:
        raise known.error
    table, newest = known.name, known.snapshots.newest
    if newest is None and known.position is not None:
        raise TableReplacedError(
            "control knows its position, and the facts know no snapshot of it",
            where=str(table),
            hint=anew(table),
        )
    if newest is not None and newest.as_of != str(as_of):
        raise _has_one(table, newest)
    return newest


def _has_one(table: TableName, snapshot: Snapshot) -> SeedRefusedError:
    of = f", of a copy as of {snapshot.as_of}" if snapshot.as_of else ""
    return SeedRefusedError(
        f"it has a snapshot at {snapshot.at.lsn} already{of}",
        where=str(table),
        hint=f"A copy can only be the first. {anew(table)}",
    )


def _refused_midway(error: SeedRefusedError, table: TableName, as_of: AsOf) -> SeedRefusedError:
    """The snapshot is open by then: a sync leaves the table to its copy until a person decides."""
    return SeedRefusedError(
        error.what,
        where=str(table),
        hint=f"{error.hint} None of its rows is in bronze, and syncs leave the table alone: seed a"
        f" mended copy as of the same {as_of}, or give it up: {table.command(Command.RESET)}.",
    )


def _found(database: Database, table: TableName, snapshot: Snapshot) -> TableOutcome:
    bronze = database.lake.bronze(table)
    rows = snapshot_rows(bronze, snapshot.at.lsn) if bronze is not None else 0
    return TableOutcome(
        table.key, Work.QUIET, snapshot.at, snapshot.at, rows=rows or 0, started_at=utc_now()
    )


def _look(database: Database, connection: Connection, known: Known) -> tuple[CaptureInstance, Poll]:
    """The table's instance and a poll whose clock knows all that CDC holds of it.

    Its other instances are in the poll: who is read after S is one of them.
    """
    wanted = database.settings.instance_of(known.name.key)
    listed = capture_instances(connection)
    instance = known.current(listed, wanted)
    known.check_name(instance)
    poll = poll_database(
        connection,
        {i.name: i for i in siblings(listed, instance)},
        {instance.name: instance.start_lsn.previous()},
        database.settings.source_time_zone,
    )
    return known.current(poll.instances, wanted), poll


def _planned(
    connection: Connection, known: Known, instance: CaptureInstance, poll: Poll, as_of: AsOf
) -> Snapshot:
    at = _stamp(connection, instance, poll, as_of, str(known.name))
    while at.lsn in known.snapshots.used:
        # An LSN is a transaction id too. One below it says less, which is never wrong.
        at = Offset(at.lsn.previous(), at.commit_ts)
    return Snapshot(at, instance.index_columns, as_of=str(as_of))


def _stamp(
    connection: Connection, instance: CaptureInstance, poll: Poll, as_of: AsOf, where: str
) -> Offset:
    """S: the copy holds every commit up to it. Raises `SeedRefusedError` for what is to come."""
    newest = newest_lsn(poll, instance)
    if as_of.lsn is not None:
        if as_of.lsn > newest:
            raise SeedRefusedError(
                f"{as_of} is above the newest LSN {newest}",
                where=where,
                hint="Is it of this database? A copy's LSN is recorded before it is read.",
            )
        return time_of(connection, as_of.lsn, instance, poll)
    time, certain = as_of.time, as_of.certain
    assert time is not None  # noqa: S101 - one of the two
    assert certain is not None  # noqa: S101 - with the time
    if time > poll.clock.utc_now:
        raise SeedRefusedError(
            f"{as_of} is in the future: the server's clock says {poll.clock.utc_now} UTC",
            where=where,
            hint="A time without an offset is UTC.",
        )
    if poll.clock.zone is None:
        raise SeedRefusedError(
            "the server does not name its time zone, so a time may be an hour off",
            where=where,
            hint="Set `source_time_zone`, or give an LSN that was recorded before the copy.",
        )
    created = poll.clock.to_utc(instance.identity.created_at, instance.start_lsn)
    before_start = instance.start_lsn.previous()
    if newest == before_start and created <= certain:
        # Capture has not reached the instance: all before its start is older than it is.
        return time_of(connection, newest, instance, poll)
    later = first_commit_after(connection, poll.clock, certain, (instance.start_lsn, newest))
    last = later.previous() if later else newest
    found = commit_at_or_below(connection, last, poll.clock)
    if found is None or found.commit_ts > certain:
        raise _too_old(as_of, where)
    if found.lsn < before_start <= last and created <= certain:
        # No commit lies between, and the instance was there already.
        return Offset(before_start, found.commit_ts)
    return found


def _check_after(known: Known, instance: CaptureInstance, poll: Poll, at: Offset) -> None:
    """The loss test: the changes after S are read next."""
    try:
        check_continues(at, known.chain(instance, poll), poll, where=str(known.name))
    except DataLossError as loss:
        raise DataLossError(
            loss.what, where=loss.where, hint="Make a newer copy, or let a sync read the table."
        ) from None


def _too_old(as_of: AsOf, where: str) -> DataLossError:
    return DataLossError(
        f"CDC holds no commit of {AS_OF_MARGIN_SECONDS} s or more before {as_of}, so it may have"
        " lost some that the copy has not got",
        where=where,
        hint="Make a newer copy, give an LSN recorded before it, or let a sync read the table.",
    )


def _prepared(
    database: Database,
    known: Known,
    read: tuple[CaptureInstance, Captured, Poll],
    snapshot: Snapshot,
    is_new: bool,
) -> PreparedSnapshot:
    """The last that can be refused, then bronze, empty, as it is before any snapshot is opened."""
    (instance, columns, poll), table = read, known.name
    declared = bronze_columns(columns.declared)
    _check_engine(database, table, declared, known.snapshots.discarded)
    bronze = database.lake.renew_bronze(table, declared, known.snapshots.discarded)
    check_names(bronze, declared, where=str(table))
    before = known.snapshots.newest
    prepared = PreparedSnapshot(
        table, poll, instance, columns, declared, bronze, ENGINE, snapshot, before
    )
    return to_open(prepared, known.snapshots) if is_new else prepared


def _check_engine(
    database: Database, table: TableName, declared: tuple[Column, ...], discarded: Collection[str]
) -> None:
    """Raise `UnsupportedColumnError` where only Spark may write this bronze."""
    bronze = database.lake.bronze(table)
    what = ""
    if bronze is not None and table_id(bronze) not in discarded:
        check_names(bronze, declared, where=str(table))
        what = beyond_arrow(bronze, declared)
    is_spark = database.settings.engine_of(table.key) is EngineName.SPARK
    if is_spark and wants_one_engine(database.settings.lake):
        what = "write beside Spark in a lake that wants one engine per table"
    if what:
        raise UnsupportedColumnError(
            f"a copy is written by the arrow engine, which cannot {what}",
            where=str(table),
            hint="Let a sync read the table instead.",
        )
