"""Apply bronze to silver: one pinned version, one ranking, one MERGE, then position and verdict.

The order of reading is what makes it safe (`silver.reading`). The position is written after the
MERGE; applying again from behind changes nothing, since a call always reaches bronze's head.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.contract import Column, silver_columns
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError, UnexpectedError, expected
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.bronze import rows_above
from cdc_assets.lake.failures import lake_error
from cdc_assets.lake.features import beyond_reading
from cdc_assets.lake.lake import Lake
from cdc_assets.lake.tables import beyond_arrow, check_names, columns_of, table_id
from cdc_assets.planning.advancing import follow_bronze
from cdc_assets.planning.applying import ApplyWork, Position, moved, plan_apply
from cdc_assets.planning.plans import ApplyResult, EngineChoice, RankLimit
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.schemas import check_silver
from cdc_assets.planning.verdict import Hold, silver_hold
from cdc_assets.silver.checks import check_chunks, check_instances, check_order
from cdc_assets.silver.history import apply_history
from cdc_assets.silver.keys import silver_keys
from cdc_assets.silver.outcome import ApplyOutcome
from cdc_assets.silver.places import SilverTable, table_of
from cdc_assets.silver.plan import Merging, merge_plan
from cdc_assets.silver.reading import (
    Before,
    Read,
    Told,
    changes_head,
    look,
    read,
    read_told,
    whole_snapshot,
)

_log = logging.getLogger(__name__)

T = TypeVar("T")


def apply_tables(database: Database, tables: Sequence[str]) -> dict[str, ApplyOutcome]:
    """Bring these silver tables of the settings up to bronze's head; see `apply_all`.

    And after it the histories of those that have one: each fails its table alone, too, and its
    error stands beside what was done with silver.
    """
    of = [table_of(database, key) for key in tables]
    outcomes = apply_all(database.lake, of, database.settings.max_parallel_tables)
    kept = [t for t in of if database.settings.scd_of(t.name.key) == 2]
    with ThreadPoolExecutor(database.settings.max_parallel_tables) as pool:
        return outcomes | dict(pool.map(lambda t: _with_history(t, outcomes[t.name.key]), kept))


def _with_history(table: SilverTable, outcome: ApplyOutcome) -> tuple[str, ApplyOutcome]:
    if outcome.error is None and outcome.bronze_found:
        try:
            outcome = replace(outcome, versions=apply_history(table).written)
        except Exception as error:  # noqa: BLE001 - as any failure of a table
            ours = _error_of(table, error, table.name.history_uri)
            outcome = replace(outcome, error=ours)
    return outcome.table, outcome


def apply_changes(database: Database, key: str) -> ApplyOutcome:
    """Apply one table of the settings; raises its error."""
    return _raised(apply_tables(database, [key])[key])


def apply_one(table: SilverTable) -> ApplyOutcome:
    """Apply one table; raises its error."""
    return _raised(apply_all(table.lake, [table], 1)[table.name.key])


def _raised(outcome: ApplyOutcome) -> ApplyOutcome:
    if outcome.error is not None:
        raise outcome.error
    return outcome


def apply_all(
    lake: Lake, tables: Sequence[SilverTable], parallel_max: int
) -> dict[str, ApplyOutcome]:
    """Bring silver tables of one lake up to bronze's head and their verdicts to bronze's.

    Silver's transaction versions come first of all: whoever commits after that look makes this
    call's MERGE fail, so an older bronze is never merged over a newer one. Nothing is done until
    bronze exists and its first snapshot is in it. One table's error is its outcome.
    """
    with ThreadPoolExecutor(parallel_max) as pool:
        before = list(pool.map(lambda t: _guarded(t, lambda: look(t)), tables))
        told = read_told(lake, [one for one in before if isinstance(one, Before)])

        def apply(found: Before | ApplyOutcome) -> ApplyOutcome:
            if isinstance(found, ApplyOutcome):
                return found
            return _guarded(found.table, lambda: _apply(found, told[found.table]))

        return {outcome.table: outcome for outcome in pool.map(apply, before)}


def _guarded(table: SilverTable, call: Callable[[], T]) -> T | ApplyOutcome:
    """One table's failure, foreseen or not, as its outcome: it fails that table alone."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - said above
        ours = _error_of(table, error, table.name.silver_uri)
        return ApplyOutcome(table.name.key, bronze_found=True, error=ours)


def _error_of(table: SilverTable, error: Exception, uri: str) -> CdcError:
    """What stopped a table's work on the table at `uri`, as one of ours; called where it is caught.

    What nobody foresaw is logged.
    """
    ours = lake_error(error, uri) or expected(error)
    if isinstance(ours, UnexpectedError):
        _log.exception("%s failed", table.name)
    ours.where = str(table.name)
    return ours


def _apply(before: Before, told: Told) -> ApplyOutcome:
    """One table's call, once control and the facts are read.

    Beside an open snapshot a rebuild is only half of it: its waves follow at once, from a fresh
    look.
    """
    outcome = _merge_once(before, told)
    if not (outcome.rebuilt and told.waves and not outcome.waves):
        return outcome
    table = before.table
    again = look(table)
    further = _merge_once(again, read_told(table.lake, [again])[table])
    return replace(
        further,
        rebuilt=True,
        upserted=outcome.upserted + further.upserted,
        deleted=outcome.deleted + further.deleted,
    )


def _merge_once(before: Before, told: Told) -> ApplyOutcome:
    key = before.table.name.key
    found = read(before, told)
    if found is None:
        return ApplyOutcome(key, bronze_found=False)
    check_chunks(found)
    work = plan_apply(
        found.position,
        found.snapshots,
        whole_snapshot(found),
        found.waves,
        lambda above: changes_head(found, above),
    )
    if work is None:
        return ApplyOutcome(key, bronze_found=True, hold=Hold.SNAPSHOT_OPEN)
    check_instances(found, work)
    keys = silver_keys(
        _named_keys(found, work.position), found.captured, where=str(before.table.name)
    )
    check_order(found, work, keys)
    target = _target(found, has_other_key=work.has_other_key and not found.table.keys)
    if target is None:
        return ApplyOutcome(key, bronze_found=True, overtaken=True)
    result, engine = _merged(found, target, keys, work)
    row = None if result.overtaken else _record(found, table_id(target.silver), work, result)
    if row is None:
        return ApplyOutcome(key, bronze_found=True, overtaken=True, engine=str(engine))
    return ApplyOutcome(
        table=key,
        bronze_found=True,
        rebuilt=work.is_rebuild,
        applied_lsn=work.position.applied,
        finalized_until=row.finalized_until,
        hold=silver_hold(found.verdict, row, found.snapshots),
        upserted=result.upserted,
        deleted=result.deleted,
        waves=len(work.waves),
        engine=str(engine),
    )


def _named_keys(found: Read, to: Position) -> tuple[str, ...]:
    """The key that was named, else the unique index as silver's own snapshot recorded it.

    A further one may be open for another index, and silver is what it was until that is complete.
    """
    snapshots, own = found.snapshots, to.snapshot or to.opened
    complete = snapshots.complete
    at_last = complete.keys if complete else ()
    return found.table.keys or (at_last if own is None else snapshots.keys.get(own, at_last))


@dataclass(frozen=True, slots=True)
class _Target:
    """Silver as the MERGE meets it: its Delta table, columns, and transaction version."""

    silver: DeltaTable
    columns: tuple[Column, ...]
    version: int


def _target(found: Read, *, has_other_key: bool) -> _Target | None:
    """Silver, made where it is missing; None where another call has made it anew."""
    before, lake, name = found.before, found.table.lake, found.table.name
    columns, silver, version = silver_columns(found.captured), before.silver, before.version
    if found.given_up or found.recorded.table_id not in (None, before.silver_id):
        # Before another table takes its place: an empty silver must not carry a verdict.
        lake.control.change(name.silver, ControlRow.without_position)
    elif has_other_key:
        # The position stays until another table is there: it tells a rerun of the other key.
        lake.control.change(name.silver, ControlRow.without_verdict)
    if found.given_up or has_other_key:
        # Its rows may have LSNs above those to come, and a row only takes a newer image.
        version += 1
        silver = lake.renew_silver(name, columns, version)
        if table_id(silver) in found.snapshots.discarded:
            return None
    silver = silver or lake.ensure_silver(name, columns)
    check_silver(columns_of(silver), columns, name)
    faults.reach(FaultPoint.SILVER_CREATED)
    check_names(silver, columns, where=str(name))
    return _Target(silver, columns, version)


def _merged(
    found: Read, target: _Target, keys: tuple[str, ...], work: ApplyWork
) -> tuple[ApplyResult, EngineChoice]:
    """The MERGE, where there is something to merge, and who did it."""
    table, silver = found.table, target.silver
    # A snapshot's own rows are at it, and those of a wave may be.
    above = work.since.previous() if work.is_rebuild or work.waves else work.since
    rows = 0 if work.is_empty else rows_above(found.bronze, above)
    beyond = beyond_arrow(silver, target.columns) or beyond_reading(found.bronze)
    choice = table.choose(beyond, rows)
    if work.is_empty:
        silver.update_incremental()
        same = (silver.transaction_version(table.name.apply_app) or 0) == target.version
        return ApplyResult(overtaken=not same, version=silver.version()), choice
    plan = merge_plan(found, work, Merging(target.columns, keys, target.version + 1, choice))
    if rows > table.rank_rows_max:
        plan = replace(plan, limit=RankLimit(table.rank_rows_max, above))
    result = table.engine(choice).apply(plan)
    faults.reach(FaultPoint.SILVER_MERGED)
    return result, choice


def _record(found: Read, silver_id: str, work: ApplyWork, result: ApplyResult) -> ControlRow | None:
    """Position and verdict, in one MERGE, from the row as it stands.

    None where another call has put a silver in this one's place since: its row stays.
    """
    name = found.table.name.silver
    known = {None, silver_id, found.recorded.table_id}

    def update(rows: Mapping[str, ControlRow]) -> Iterator[ControlRow]:
        row = rows.get(name) or ControlRow(name)
        if row.table_id not in known:
            return
        row = moved(row, silver_id, work.position)
        if found.table.has_facts:
            row = follow_bronze(
                row, found.verdict, found.snapshots, result.version, found.table.granularity
            )
        yield row

    row = found.table.lake.control.merge(update).get(name)
    # Beside an open snapshot its waves are merged next.
    faults.reach(FaultPoint.SILVER_RECORDED)
    return row
