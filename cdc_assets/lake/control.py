"""The control table: one row per table, moved forward by one MERGE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable

from cdc_assets.clock import utc_now
from cdc_assets.contract import CONTROL
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.opening import ensure_table, open_table
from cdc_assets.lake.tables import StorageOptions, query, retry_conflicts
from cdc_assets.planning.records import ControlRow

_NAMES = tuple(f.name for f in fields(ControlRow))

Update = Callable[[Mapping[str, ControlRow]], Iterable[ControlRow]]
"""From the rows as they stand to the rows to write; pure, since it may be asked again."""


class Control:
    """The control table of one database."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self._uri = uri
        self._options = options

    def read(self) -> dict[str, ControlRow]:
        """Every row, by table name."""
        table = open_table(self._uri, CONTROL, self._options)
        return {} if table is None else _rows(table)

    def merge(self, update: Update) -> dict[str, ControlRow]:
        """Write what `update` makes of the rows as they stand, in one MERGE.

        A lost conflict starts over from a fresh read, so a row another writer moved is never
        moved back. Gives the rows written.
        """
        with lake_failures(self._uri):
            return retry_conflicts(lambda: self._merge_once(update), where=self._uri)

    def change(self, name: str, how: Callable[[ControlRow], ControlRow]) -> None:
        """Write what `how` makes of one table's row; of an empty one where it has none."""
        self.merge(lambda rows: [how(rows.get(name) or ControlRow(name))])

    def _merge_once(self, update: Update) -> dict[str, ControlRow]:
        table = open_table(self._uri, CONTROL, self._options)
        if table is None:
            if not list(update({})):
                return {}
            table = ensure_table(self._uri, CONTROL, self._options)
        rows = [replace(row, updated_at=utc_now()) for row in update(_rows(table))]
        if not rows:
            return {}
        every = {f"`{name}`": f"s.`{name}`" for name in _NAMES}
        (
            table.merge(
                _to_arrow(table, rows),
                "t.`table_name` = s.`table_name`",
                source_alias="s",
                target_alias="t",
                commit_properties=CommitProperties(max_commit_retries=0),
            )
            .when_matched_update(every)
            .when_not_matched_insert(every)
            .execute()
        )
        return {row.table_name: row for row in rows}


def _rows(table: DeltaTable) -> dict[str, ControlRow]:
    names = ", ".join(f"`{name}`" for name in _NAMES)
    found = query(f"SELECT {names} FROM control", control=table)
    return {row["table_name"]: ControlRow(**row) for row in found.to_pylist()}


def _to_arrow(table: DeltaTable, rows: list[ControlRow]) -> pa.Table:
    schema = pa.schema(table.schema().to_arrow())
    data = {name: [getattr(row, name) for row in rows] for name in _NAMES}
    return pa.table(data, schema=pa.schema([schema.field(name) for name in _NAMES]))
