"""Control and the facts for those who only read: nothing is written, not even a migration.

Columns that an older table lacks are NULL. One of a later release is refused: what it says may
mean something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from cdc_assets.contract import CONTROL, FACTS, Event, TableContract
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.migrating import check_known
from cdc_assets.lake.tables import StorageOptions, query
from cdc_assets.planning.literals import quoted
from cdc_assets.planning.records import ControlRow, FactsRow


def control_rows(uri: str, options: StorageOptions) -> dict[str, ControlRow] | None:
    """Every row of a control table by its table's name; None where there is no such table.

    Raises `TableNewerError`, `TableReplacedError`, and as `lake_failures` does.
    """
    table = _open(uri, CONTROL, options)
    if table is None:
        return None
    rows = (ControlRow(**row) for row in _rows(table, CONTROL, "true", "table_name"))
    return {row.table_name: row for row in rows}


@dataclass(frozen=True, slots=True)
class ToldFacts:
    """A facts table as it was when it was opened."""

    table: DeltaTable

    @classmethod
    def at(cls, uri: str, options: StorageOptions) -> ToldFacts | None:
        """That of a place; None where there is none. Raises as `control_rows` does."""
        table = _open(uri, FACTS, options)
        return None if table is None else cls(table)

    def targets(self) -> frozenset[str]:
        """What they call the tables that they speak of."""
        return self._distinct("target", "target IS NOT NULL")

    def app_ids(self, target: str) -> frozenset[str]:
        """The transaction ids of a table's commits."""
        return self._distinct("app_id", f"{_is(target)} AND app_id IS NOT NULL")

    def events(self, target: str | None = None) -> list[FactsRow]:
        """The events of a table, or of all, oldest first, without those of chunks."""
        if "event" not in {field.name for field in self.table.schema().fields}:
            return []
        where = f"event IS NOT NULL AND event <> '{Event.SNAPSHOT_CHUNK}'"
        if target is not None:
            where += f" AND {_is(target)}"
        return [FactsRow(**r) for r in _rows(self.table, FACTS, where, "written_at NULLS FIRST")]

    def _distinct(self, column: str, where: str) -> frozenset[str]:
        found = query(f"SELECT DISTINCT {column} FROM facts WHERE {where}", facts=self.table)
        return frozenset(found[column].to_pylist())


def _is(target: str) -> str:
    return "target = '" + target.replace("'", "''") + "'"


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
