"""A table of which there is nothing to read: the poll says so, and the position moves.

Most tables of most syncs are such, so that nothing of theirs is opened; now and then a row in the
facts says that the sync is alive, and its tables are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import timedelta

from deltalake import DeltaTable

from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.ingest.changes import existing_bronze
from cdc_assets.ingest.instances import fills_columns, follow, is_renamed, switches
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.outcome import TableOutcome, ToldLately, Work
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import table_id
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import BronzeProgress
from cdc_assets.planning.instances import unseen
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import (
    check_continues,
    check_history,
    check_mapped,
    newest_lsn,
    readable_end,
)
from cdc_assets.planning.records import FactsRow

QUIET_ROW_EVERY = timedelta(minutes=5)
"""A quiet table writes a row this often: silence then means that the sync has stopped."""


def settled(
    database: Database, known: Known, poll: Poll, lately: ToldLately
) -> TableOutcome | None:
    """The outcome of a table of which the poll says all: quiet, and recorded as such lately.

    None where its own turn must look further or has something to tell. Nothing is opened for it,
    since most tables of most syncs are such.
    """
    snapshots = known.snapshots
    if known.error or known.resnapshot or known.control is None or known.position is None:
        return None
    whole = snapshots.open_whole
    if not snapshots.starts_changes or whole is not None or fills_columns(database, known):
        return None
    try:
        wanted = database.settings.instance_of(known.name.key)
        instance = known.current(poll.instances, wanted)
        if instance.name in poll.errors or unseen(poll.instances, instance, known.recorded):
            return None
        if is_renamed(known, instance):
            return None
        if not is_quiet(known, instance, poll) or known.name.bronze not in lately():
            return None
        known.check_snapshot(instance, poll)
        outcome = _passed(database, known, instance, poll)
        if switches(known, instance, poll, outcome):
            return None
        return follow(database, known, instance, poll, outcome)
    except Exception:  # noqa: BLE001 - told in its own turn
        return None


def is_quiet(known: Known, instance: CaptureInstance, poll: Poll) -> bool:
    """Whether the poll found no rows; raises `HistoryChangedError` for a position out of place."""
    if known.observed is not None:
        check_mapped(known.observed, poll, known.name)
    # Not asked is not quiet: an instance that the first look did not list is read.
    names = [reader.identity.instance_name for reader in known.chain(instance, poll)]
    has_rows = any(poll.has_rows.get(name, True) for name in names if name in poll.instances)
    return known.control is not None and not has_rows


def quiet(
    database: Database,
    known: Known,
    instance: CaptureInstance,
    poll: Poll,
    lately: ToldLately,
) -> TableOutcome:
    """Nothing to read; now and then a row says so in the facts, and its tables are looked at."""
    outcome = follow(database, known, instance, poll, _passed(database, known, instance, poll))
    if known.name.bronze in lately():
        return outcome
    table = known.name
    existing_bronze(database, known)
    quiet = _quiet_row(table, outcome)
    return replace(
        outcome,
        facts=(*outcome.facts, quiet),
        silver_lost=_is_lost(known.silver_id, lambda: database.lake.silver(table)),
        history_lost=_is_lost(known.history_id, lambda: database.lake.history(table)),
    )


def _is_lost(wanted: str | None, there: Callable[[], DeltaTable | None]) -> bool:
    """Whether a table is missing or has another id than control has, if it has a row of it."""
    if wanted is None:
        return False
    table = there()
    return table is None or wanted not in ("", table_id(table))


def _passed(
    database: Database, known: Known, instance: CaptureInstance, poll: Poll
) -> TableOutcome:
    """The position moves to what the poll saw, after the same loss test as with rows."""
    table, position = known.name, known.position
    assert position is not None  # noqa: S101 - the caller asked
    check_history(position, newest_lsn(poll, instance), table)
    check_continues(position, known.chain(instance, poll), poll, where=str(table))
    end = readable_end(poll, position)
    return TableOutcome(
        table=table.key,
        work=Work.QUIET,
        start=position,
        end=end,
        started_at=utc_now(),
        progress=BronzeProgress(
            table_name=table.bronze,
            end=end,
            identity=instance.identity,
            granularity=database.settings.finality_of(table.key).granularity,
        ),
    )


def told_lately(database: Database) -> Collection[str]:
    """The bronze tables that need no quiet row yet.

    One from a clock that was ahead is no more a sign of life than an old one.
    """
    now = utc_now()
    return database.lake.facts.told_between(now - QUIET_ROW_EVERY, now + QUIET_ROW_EVERY)


def _quiet_row(table: TableName, outcome: TableOutcome) -> FactsEntry:
    end = outcome.end
    row = FactsRow(
        app_id=table.changes_app,
        target=table.bronze,
        rows=0,
        deletes=0,
        inserts=0,
        updates=0,
        end_lsn=str(end.lsn) if end else None,
        end_commit_ts=end.commit_ts if end else None,
    )
    return FactsEntry((row,))
