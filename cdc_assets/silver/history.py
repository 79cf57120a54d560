"""A table's history, brought up to bronze after silver: see `planning.history`, decision 0026.

The order of reading is silver's: history's transaction version, then control and the facts, then
bronze at one version. Position and verdict come after the MERGE, which finds what it has written
if it is made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.contract import Column, captured_of_bronze, history_columns
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.bronze import head_above
from cdc_assets.lake.features import beyond_reading, unreadable
from cdc_assets.lake.lake import Made
from cdc_assets.lake.rowfiles import RowFiles
from cdc_assets.lake.tables import beyond_arrow, columns_of, query, table_id
from cdc_assets.lsn import Lsn
from cdc_assets.planning.advancing import follow_bronze
from cdc_assets.planning.bounds import Times
from cdc_assets.planning.history import (
    HistoryPosition,
    HistoryWork,
    TakenSnapshot,
    history_texts,
    missed,
    plan_history,
    taken_snapshots,
)
from cdc_assets.planning.literals import lsn_literal
from cdc_assets.planning.plans import ApplyPlan, ApplyResult, RankLimit
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import Snapshots, by_target, snapshots_of
from cdc_assets.settings import EngineName
from cdc_assets.silver.keys import differ, made_with, remembered, silver_keys
from cdc_assets.silver.places import SilverTable
from cdc_assets.silver.plan import call_tag
from cdc_assets.silver.target import Target, There, make_ready

CALLS_MAX = 100
"""Snapshots that one call takes in, one MERGE each; the next call goes on."""


@dataclass(frozen=True, slots=True)
class HistoryOutcome:
    """What a call did: versions begun and versions ended, by the commits of their ends."""

    written: int = 0
    overtaken: bool = False
    applied_lsn: Lsn | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What a call rests on, in the order that it was read."""

    table: SilverTable
    history: DeltaTable | None
    version: int
    row: ControlRow
    verdict: ControlRow
    snapshots: Snapshots
    taken: Sequence[TakenSnapshot]
    bronze: DeltaTable
    captured: tuple[Column, ...]
    is_other: bool = False

    @property
    def history_id(self) -> str | None:
        """Delta's id of it."""
        return table_id(self.history) if self.history is not None else None

    @property
    def given_up(self) -> bool:
        """Whether a reset has left it to be emptied."""
        return self.history_id in self.snapshots.discarded

    @property
    def replaced(self) -> bool:
        """Whether control speaks of another table than the one that is there now, if one is."""
        return self.begins_anew or self.row.table_id not in (None, self.history_id)

    @property
    def begins_anew(self) -> bool:
        """Whether it has to be emptied: given up, made by keys that are not meant any more, or
        made without a snapshot that was told of too late."""
        return self.given_up or self.is_other or self.has_missed

    @property
    def has_missed(self) -> bool:
        """Whether a snapshot says something new below the changes that it has."""
        is_told = self.history_id is not None and self.row.table_id == self.history_id
        return is_told and missed(HistoryPosition.of(self.row), self.taken) is not None

    @property
    def position(self) -> HistoryPosition:
        """As control has it of this very table."""
        if self.replaced or self.history_id is None or self.row.table_id is None:
            return HistoryPosition()
        return HistoryPosition.of(self.row)


def apply_history(table: SilverTable) -> HistoryOutcome:
    """Bring a table's history up to bronze; does nothing until a snapshot is settled.

    Raises `SilverKeyError`, and what an apply of silver raises.
    """
    written, outcome = 0, HistoryOutcome()
    for _ in range(CALLS_MAX):
        known = _known(table)
        end = known.verdict.end if known else None
        opened = known.snapshots.open.at.lsn if known and known.snapshots.open else None
        work = plan_history(known.position, known.taken, opened, end) if known else None
        if known is None or work is None:
            break
        outcome = _apply(known, work)
        written += outcome.written
        if outcome.overtaken or work.at is None:
            break
    return replace(outcome, written=written)


def _known(table: SilverTable) -> _Known | None:
    name, lake = table.name, table.lake
    history = lake.history(name)
    version = history.transaction_version(name.history_app) if history is not None else None
    control = lake.control.read()
    events = by_target(lake.facts.events()).get(name.bronze, [])
    snapshots = snapshots_of(events)
    bronze = lake.bronze(name)
    verdict = control.get(name.bronze_row)
    if bronze is None or table_id(bronze) in snapshots.discarded or verdict is None:
        return None
    if verdict.table_id in snapshots.discarded:
        return None
    row = control.get(name.history) or ControlRow(name.history)
    return _Known(
        table=table,
        history=history,
        version=version or 0,
        row=row,
        verdict=verdict,
        snapshots=snapshots,
        taken=taken_snapshots(events, table.keys),
        bronze=bronze,
        captured=captured_of_bronze(columns_of(bronze)),
        is_other=history is not None and _is_other(history, row, events, table.keys),
    )


def _is_other(
    history: DeltaTable, row: ControlRow, events: Sequence[FactsRow], keys: tuple[str, ...]
) -> bool:
    """Whether the keys that were named when it was made told rows apart that these do not.

    Those of the snapshots count that it has taken in; where none were named, or are, their own.
    """
    then = made_with(history)
    if then is None or not differ(then or ("",), keys or ("",)):
        return False
    pairs = zip(taken_snapshots(events, then), taken_snapshots(events, keys), strict=True)
    return any(
        differ(old.keys, new.keys)
        for old, new in pairs
        if row.applied_lsn is None or str(new.at.lsn) <= row.applied_lsn
    )


def _apply(known: _Known, work: HistoryWork) -> HistoryOutcome:
    head = _head(known, work)
    position = work.after(known.position, head)
    if head is None and work.at is None:
        is_ours = _record(known, known.history_id, position, None)
        return HistoryOutcome(overtaken=not is_ours, applied_lsn=position.applied)
    name, lake = known.table.name, known.table.lake
    complete = known.snapshots.complete
    keys = silver_keys(
        work.keys or (complete.keys if complete else ()), known.captured, where=str(name)
    )
    if known.replaced:
        # Before another table takes its place: an empty history must not carry a verdict. What it
        # has missed its position alone tells a rerun, so that stays until the other one is there.
        forget = ControlRow.without_position
        if known.has_missed and not known.given_up:
            forget = ControlRow.without_verdict
        lake.control.change(name.history, forget)
        faults.reach(FaultPoint.HISTORY_FORGOTTEN)
    target = make_ready(
        known.table,
        _made(known),
        There(known.history, known.version),
        known.snapshots.discarded,
        anew=known.begins_anew,
    )
    faults.reach(FaultPoint.HISTORY_CREATED)
    result = _merge(known, work, target, keys) if target is not None else None
    if target is None or result is None or result.overtaken:
        return HistoryOutcome(overtaken=True)
    is_ours = _record(known, table_id(target.delta), position, result.version)
    return HistoryOutcome(result.upserted, overtaken=not is_ours, applied_lsn=position.applied)


def _made(known: _Known) -> Made:
    made = Made.history(known.table.name, history_columns(known.captured))
    return replace(made, properties=remembered(known.table.keys))


def _merge(known: _Known, work: HistoryWork, target: Target, keys: tuple[str, ...]) -> ApplyResult:
    table, columns = known.table, target.columns
    beyond = beyond_arrow(target.delta, columns) or beyond_reading(known.bronze)
    # A snapshot's own rows are at it.
    above = work.above.previous() if work.snapshot is not None else work.above
    rows = RowFiles.of(known.bronze).rows_above(above)
    choice = table.choose(beyond, rows)
    times = Times.SPARK if choice.name == EngineName.SPARK else Times.DATAFUSION
    told = {"applied_lsn": str(work.upto), "bronze_version": known.bronze.version()}
    plan = ApplyPlan(
        table=str(table.name),
        bronze_uri=table.name.bronze_uri,
        bronze_version=known.bronze.version(),
        silver_uri=table.name.history_uri,
        columns=columns,
        keys=(*keys, "_valid_from_lsn"),
        texts=history_texts(known.captured, keys, work, times),
        rebuild=False,
        tag=call_tag(table.name.history_app, target.version + 1, told),
        limit=RankLimit(table.rank_rows_max, above) if rows > table.rank_rows_max else None,
    )
    result = table.engine(choice).apply(plan, known.bronze)
    faults.reach(FaultPoint.HISTORY_MERGED)
    return result


def _head(known: _Known, work: HistoryWork) -> Lsn | None:
    """The newest change among a call's.

    Of a bronze that only Spark reads its log tells, or control: then it may be any up to the end
    of the call.
    """
    bronze = known.bronze
    if unreadable(bronze):
        newest = head_above(
            bronze, Lsn.of_int(0), known.table.name.changes_app, known.verdict.changed_lsn
        )
        return None if newest is not None and newest <= work.above else work.upto
    row = query(
        "SELECT max(`_start_lsn`) AS lsn FROM bronze WHERE `_operation` <> 0"
        f" AND `_start_lsn` > {lsn_literal(work.above)}"
        f" AND `_start_lsn` <= {lsn_literal(work.upto)}",
        bronze=bronze,
    ).to_pylist()[0]
    return Lsn.parse_optional(row["lsn"])


def _record(
    known: _Known, history_id: str | None, position: HistoryPosition, version: int | None
) -> bool:
    """Position and verdict; never back, but for a new history.

    False where another call has put a history in this one's place since: its row stays.
    """
    name = known.table.name.history
    ours = {None, history_id, known.row.table_id}
    found: list[bool] = []

    def update(rows: Mapping[str, ControlRow]) -> Iterator[ControlRow]:
        old = rows.get(name) or ControlRow(name)
        found.append(old.table_id in ours)
        if not found[-1]:
            return
        row = old
        if row.table_id != history_id:
            row = replace(row.without_position(), table_id=history_id)
        row = known.position.moved(row, position)
        row = follow_bronze(row, known.verdict, known.snapshots, version, known.table.granularity)
        if row != old:
            yield row

    known.table.lake.control.update(update)
    # Another snapshot may be taken in next.
    faults.reach(FaultPoint.HISTORY_RECORDED)
    return found[-1]
