"""Verdicts as they stand in the lake, for those who may read and nothing else: nothing is written.

A table of ours is opened without being brought to the newest version: columns it lacks are NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from cdc_assets.contract import CONTROL, FACTS, Event, TableContract
from cdc_assets.errors import TableReplacedError
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.migrating import check_known
from cdc_assets.lake.places import Places
from cdc_assets.lake.tables import StorageOptions, query
from cdc_assets.planning.finality import Told, Verdict, bronze_verdict, silver_verdict
from cdc_assets.planning.merging import quoted
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.spellings import bronze_of


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """Control and the facts of one lake, as they are read; `facts` None where there are none."""

    control: Mapping[str, ControlRow]
    facts: DeltaTable | None

    @classmethod
    def read(
        cls, control: str, facts: str, options: StorageOptions, *, facts_may_lack: bool = False
    ) -> Bookkeeping | None:
        """Both, control first; None where there is no control table.

        Raises `TableReplacedError` where control stands and the facts do not: what is lost is
        told by them alone.
        """
        found = _open(control, CONTROL, options)
        if found is None:
            return None
        rows = [ControlRow(**row) for row in _rows(found, CONTROL, "true", "table_name")]
        table = _open(facts, FACTS, options)
        if table is None and not facts_may_lack:
            raise TableReplacedError(
                f"there is no Delta table at {facts}, and it alone knows what is lost",
                where=control,
                hint="Name the facts' place, or restore them from a copy.",
            )
        return cls({row.table_name: row for row in rows}, table)

    def events(self, name_of: Callable[[frozenset[str]], str | None]) -> list[FactsRow] | None:
        """A table's events, oldest first, without those of chunks.

        `name_of` tells what the facts call it, from what they call all.
        """
        if self.facts is None:
            return None
        if "event" not in {field.name for field in self.facts.schema().fields}:
            return []
        found = query(
            "SELECT DISTINCT target FROM facts WHERE target IS NOT NULL", facts=self.facts
        )
        target = name_of(frozenset(found["target"].to_pylist()))
        if target is None:
            return []
        text = target.replace("'", "''")
        where = f"event IS NOT NULL AND event <> '{Event.SNAPSHOT_CHUNK}' AND target = '{text}'"
        rows = _rows(self.facts, FACTS, where, "written_at NULLS FIRST")
        return [FactsRow(**row) for row in rows]


def read_verdict(
    book: Bookkeeping | None, places: Places, target: str, bronze: str | None, granularity: str
) -> Verdict:
    """The verdict of the table that a caller names.

    It is a silver table's where `bronze` names that table's, where it is called `silver/<table>`,
    or where its row holds a position; else one of bronze. Facts speak of bronze alone.
    """
    control = book.control if book else {}
    rows = frozenset(control)
    name = places.row(rows, target) or places.name(target)
    uri = places.of_call(target, rows) or target
    row = control.get(name)
    source = bronze or bronze_of(name)
    is_silver = source is not None or (row is not None and row.snapshot_lsn is not None)
    if not is_silver:
        source = target
    events = (
        None
        if book is None or source is None
        else book.events(lambda targets: places.row(targets, source))
    )
    told = Told(name, uri, row, events, granularity)
    if not is_silver:
        return bronze_verdict(told)
    of_bronze = places.row(rows, source) if source else None
    return silver_verdict(told, control.get(of_bronze or ""))


def _open(uri: str, contract: TableContract, options: StorageOptions) -> DeltaTable | None:
    with lake_failures(uri):
        try:
            table = DeltaTable(uri, storage_options=dict(options))
        except TableNotFoundError:
            return None
        check_known(table, contract, where=uri)
        return table


def _rows(
    table: DeltaTable, contract: TableContract, where: str, order: str
) -> list[dict[str, Any]]:
    there = {field.name for field in table.schema().fields}
    names = ", ".join(quoted(name) for name in contract.names if name in there)
    found = query(f"SELECT {names} FROM t WHERE {where} ORDER BY {order}", t=table)
    return list(found.to_pylist())
