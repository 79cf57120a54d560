"""Apply bronze to silver: one pinned version, one ranking, one MERGE, then position and verdict.

The order of reading is what makes it safe (`silver.reading`). The position is written after the
MERGE; applying again from behind changes nothing, since a call always reaches bronze's head.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TypeVar

from cdc_assets import faults
from cdc_assets.contract import CHANGE_FEED_PROPERTY, DELETED_AT, Column, silver_columns
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError, UnexpectedError, UnsupportedColumnError, expected
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.failures import lake_error
from cdc_assets.lake.features import beyond_reading
from cdc_assets.lake.lake import Lake, Made
from cdc_assets.lake.tables import beyond_arrow, table_id
from cdc_assets.names import folded
from cdc_assets.planning.advancing import follow_bronze
from cdc_assets.planning.applying import ApplyWork, moved, plan_apply
from cdc_assets.planning.plans import ApplyResult, EngineChoice, RankLimit
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.verdict import Hold, silver_hold
from cdc_assets.silver.checks import check_chunks, check_instances, check_order
from cdc_assets.silver.history import apply_history
from cdc_assets.silver.keys import remembered, silver_keys, wanted_keys
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
    snapshot_offset,
    whole_snapshot,
)
from cdc_assets.silver.target import Target, There, make_ready

_log = logging.getLogger(__name__)

T = TypeVar("T")

RECORD_EVERY_SECONDS = 5.0
"""How long the positions and verdicts of finished tables may wait for those of the others."""


@dataclass(frozen=True, slots=True)
class _Merged:
    """A table whose MERGE is done, and whose position and verdict are to be recorded."""

    found: Read
    work: ApplyWork
    target: Target
    keys: tuple[str, ...]
    result: ApplyResult
    engine: EngineChoice

    @property
    def table(self) -> SilverTable:
        """Where all of it is."""
        return self.found.table

    @property
    def overtaken(self) -> ApplyOutcome:
        """That another call came first."""
        key, engine = self.table.name.key, str(self.engine)
        return ApplyOutcome(key, bronze_found=True, overtaken=True, engine=engine)


def apply_tables(database: Database, tables: Sequence[str]) -> dict[str, ApplyOutcome]:
    """Bring these silver tables of the settings up to bronze's head; see `apply_all`.

    And after it the histories of those that have one: each fails its table alone, too, and its
    error stands beside what was done with silver. Raises `TablePausedError` where one stands still.
    """
    database.check_active(tables)
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
    bronze exists and its first snapshot is in it. One table's error is its outcome. Those that are
    done are recorded together: each commit of control costs as much as a small table's MERGE.
    """
    with ThreadPoolExecutor(parallel_max) as pool:
        before = list(pool.map(lambda t: _guarded(t, lambda: look(t)), tables))
        told = read_told(lake, [one for one in before if isinstance(one, Before)])

        def apply(found: Before | ApplyOutcome) -> ApplyOutcome | _Merged:
            if isinstance(found, ApplyOutcome):
                return found
            return _guarded(found.table, lambda: _apply(found, told[found.table]))

        working = [pool.submit(apply, found) for found in before]
        outcomes = {outcome.table: outcome for outcome in _recorded(lake, working)}
    return {table.name.key: outcomes[table.name.key] for table in tables}


def _recorded(
    lake: Lake, working: Sequence[Future[ApplyOutcome | _Merged]]
) -> Iterator[ApplyOutcome]:
    """The tables' outcomes, those that have merged once they are recorded."""
    waiting = set(working)
    while waiting:
        done, waiting = wait(waiting, timeout=RECORD_EVERY_SECONDS)
        results = [future.result() for future in done]
        yield from (one for one in results if isinstance(one, ApplyOutcome))
        yield from _record_each(lake, [one for one in results if isinstance(one, _Merged)])


def _record_each(lake: Lake, merged: Sequence[_Merged]) -> list[ApplyOutcome]:
    """Their outcomes once recorded: together, and where that fails, which may be one's, alone."""
    if len(merged) > 1:
        try:
            return _record(lake, merged)
        except Exception:  # noqa: BLE001 - each is tried alone, and that is its outcome
            _log.warning("recorded one by one: together it failed", exc_info=True)

    def alone(one: _Merged) -> ApplyOutcome:
        return _guarded(one.table, lambda: _record(lake, [one])[0])

    return [alone(one) for one in merged]


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


def _apply(before: Before, told: Told) -> ApplyOutcome | _Merged:
    """One table's call, once control and the facts are read.

    Beside an open snapshot a rebuild is only half of it: its waves follow at once, from a fresh
    look, which has to find the rebuild recorded.
    """
    merged = _merge_once(before, told)
    if isinstance(merged, ApplyOutcome) or not merged.work.is_rebuild:
        return merged
    if not told.waves or merged.work.waves:
        return merged
    table = before.table
    (outcome,) = _record(table.lake, [merged])
    if not outcome.rebuilt:
        return outcome
    again = look(table)
    further = _merge_once(again, read_told(table.lake, [again])[table])
    if isinstance(further, _Merged):
        (further,) = _record(table.lake, [further])
    return replace(
        further,
        rebuilt=True,
        upserted=outcome.upserted + further.upserted,
        deleted=outcome.deleted + further.deleted,
    )


def _merge_once(before: Before, told: Told) -> ApplyOutcome | _Merged:
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
    if not work.is_empty:
        check_chunks(found, by_engine=True)
    check_instances(found, work)
    wanted = wanted_keys(found.table.keys, work.position, found.snapshots)
    keys = silver_keys(wanted, found.captured, where=str(before.table.name))
    check_order(found, work, keys)
    target = _target(found, work, keys)
    if target is None:
        return ApplyOutcome(key, bronze_found=True, overtaken=True)
    result, engine = _merged(found, target, keys, work)
    merged = _Merged(found, work, target, keys, result, engine)
    return merged.overtaken if result.overtaken else merged


def _target(found: Read, work: ApplyWork, keys: tuple[str, ...]) -> Target | None:
    """Silver, made where it is missing; None where another call has made it anew."""
    before, table = found.before, found.table
    anew = _begins_anew(found, work)
    is_replaced = found.given_up or found.recorded.table_id not in (None, before.silver_id)
    if is_replaced or anew:
        # Before another table takes its place: an empty silver must not carry a verdict. For
        # another key the position stays until it is there, since that tells a rerun of the key.
        forget = ControlRow.without_position if is_replaced else ControlRow.without_verdict
        table.lake.control.change(table.name.silver, forget)
        faults.reach(FaultPoint.SILVER_FORGOTTEN)
    made, there = _made(table, found.captured, keys), There(before.silver, before.version)
    target = make_ready(table, made, there, found.snapshots.discarded, anew=anew)
    faults.reach(FaultPoint.SILVER_CREATED)
    return target


def _begins_anew(found: Read, work: ApplyWork) -> bool:
    """Whether silver is to be emptied first.

    Also one that keeps deleted rows, where nothing says since when those are gone that its source
    lacks: an open snapshot's waves lack what is not read yet.
    """
    if found.given_up or found.is_other or (work.has_other_key and not found.table.keys):
        return True
    is_there = found.before.silver is not None
    in_parts = work.is_rebuild and work.rows_of is None
    return bool(found.table.keeps_deleted) and in_parts and is_there


def _made(table: SilverTable, captured: tuple[Column, ...], keys: tuple[str, ...]) -> Made:
    keeps = bool(table.keeps_deleted)
    if keeps and any(folded(column.name) == DELETED_AT.name for column in captured):
        raise UnsupportedColumnError(
            f"bronze has a column {DELETED_AT.name}, which `deletes: soft` would take",
            where=str(table.name),
            hint="Give it another name (`rename`), reset the table, and load it anew.",
        )
    columns = silver_columns(captured, keeps_deleted=keeps)
    feed = {CHANGE_FEED_PROPERTY: "true"} if table.change_data_feed else {}
    return replace(
        Made.silver(table.name, columns),
        added=(DELETED_AT,) if keeps else (),
        properties={**remembered(keys), **feed},
    )


def _merged(
    found: Read, target: Target, keys: tuple[str, ...], work: ApplyWork
) -> tuple[ApplyResult, EngineChoice]:
    """The MERGE, where there is something to merge, and who did it."""
    table, silver = found.table, target.delta
    # A snapshot's own rows are at it, and those of a wave may be.
    has_rows_at = (work.is_rebuild or work.waves) and not work.since.is_zero
    above = work.since.previous() if has_rows_at else work.since
    rows = 0 if work.is_empty else found.files.rows_above(above)
    beyond = beyond_arrow(silver, target.columns) or beyond_reading(found.bronze)
    choice = table.choose(beyond, rows)
    if work.is_empty:
        silver.update_incremental()
        same = (silver.transaction_version(table.name.apply_app) or 0) == target.version
        return ApplyResult(overtaken=not same, version=silver.version()), choice
    is_marked = work.rows_of is not None and table.keeps_deleted
    gone = snapshot_offset(found, work.rows_of) if work.rows_of and is_marked else None
    into = Merging(target.columns, keys, target.version + 1, choice, gone)
    plan = merge_plan(found, work, into)
    if rows > table.rank_rows_max:
        plan = replace(plan, limit=RankLimit(table.rank_rows_max, above))
    result = table.engine(choice).apply(plan, found.bronze)
    faults.reach(FaultPoint.SILVER_MERGED)
    return result, choice


def _record(lake: Lake, merged: Sequence[_Merged]) -> list[ApplyOutcome]:
    """Positions and verdicts, in one commit, from the rows as they stand."""

    def update(rows: Mapping[str, ControlRow]) -> Iterator[ControlRow]:
        for one in merged:
            row = _moved_row(one, rows)
            if row is not None:
                yield row

    rows = lake.control.update(update)
    # Beside an open snapshot its waves are merged next.
    faults.reach(FaultPoint.SILVER_RECORDED)
    return [_outcome(one, rows.get(one.table.name.silver)) for one in merged]


def _moved_row(merged: _Merged, rows: Mapping[str, ControlRow]) -> ControlRow | None:
    """A table's row after its MERGE.

    None where another call has put a silver in this one's place since: its row stays.
    """
    found, table, name = merged.found, merged.table, merged.table.name.silver
    silver_id = table_id(merged.target.delta)
    row = rows.get(name) or ControlRow(name)
    if row.table_id not in {None, silver_id, found.recorded.table_id}:
        return None
    row = moved(row, silver_id, merged.work.position)
    if not table.has_facts:
        return row
    version = merged.result.version
    return follow_bronze(row, found.verdict, found.snapshots, version, table.granularity)


def _outcome(merged: _Merged, row: ControlRow | None) -> ApplyOutcome:
    """What came of a table's call; `row` is as it was recorded, and None where it was not."""
    if row is None:
        return merged.overtaken
    found, position = merged.found, merged.work.position
    return ApplyOutcome(
        table=merged.table.name.key,
        bronze_found=True,
        rebuilt=merged.work.is_rebuild and (position.snapshot or position.opened) is not None,
        applied_lsn=position.applied,
        finalized_until=row.finalized_until,
        hold=silver_hold(found.verdict, row, found.snapshots),
        upserted=merged.result.upserted,
        deleted=merged.result.deleted,
        waves=len(merged.work.waves),
        engine=str(merged.engine),
        columns=merged.target.columns,
        keys=merged.keys,
    )
