"""Starting a table anew: the event is the commit point, what follows may be done again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.contract import Event
from cdc_assets.engines.database import Database
from cdc_assets.errors import CommitConflictError
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import table_id
from cdc_assets.names import TableName
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import Snapshots


def reset(database: Database, key: str) -> FactsRow:
    """Give up a table's bronze, silver and history, positions and gaps: a first snapshot follows.

    Batch ids go on. Gives the event; raises `CommitConflictError` where another reset came first.
    """
    table, facts = database.table(key), database.lake.facts
    control = database.lake.control.read()
    discarded = {
        "bronze": _id(database.lake.bronze(table), control.get(table.bronze)),
        "silver": _id(database.lake.silver(table), control.get(table.silver)),
        "history": _id(database.lake.history(table), control.get(table.history)),
    }
    row = FactsRow(
        target=table.bronze,
        event=str(Event.RESET),
        detail=json.dumps(discarded),
        written_at=utc_now(),
    )
    version = (facts.version_of(table.reset_app) or 0) + 1
    if not facts.append([FactsEntry((row,), table.reset_app, version)]):
        raise CommitConflictError(
            "another reset came first", where=str(table), hint="Run it again if one is not enough."
        )
    faults.reach(FaultPoint.RESET_RECORDED)
    clear(database, [table])
    return row


def clear(database: Database, tables: Sequence[TableName]) -> None:
    """Take positions and verdicts from the control rows of tables that were reset."""

    def cleared(rows: Mapping[str, ControlRow]) -> list[ControlRow]:
        names = [name for table in tables for name in (table.bronze, table.silver, table.history)]
        return [rows[name].without_position() for name in names if name in rows]

    database.lake.control.update(cleared)


def is_stale(control: ControlRow | None, snapshots: Snapshots) -> bool:
    """Whether a control row speaks of a table that a reset has given up."""
    return control is not None and control.table_id in snapshots.discarded


def _id(table: DeltaTable | None, control: ControlRow | None) -> str | None:
    """The id of the table that is there, else of the one that control knew."""
    if table is not None:
        return table_id(table)
    return control.table_id if control else None
