"""The control table: one row per table, moved forward by one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, write_deltalake

from cdc_assets.clock import utc_now
from cdc_assets.contract import CONTROL
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.kept import Kept
from cdc_assets.lake.opening import BOOKKEEPING, ensure_table, open_table
from cdc_assets.lake.tables import StorageOptions, query, retry_conflicts
from cdc_assets.planning.records import ControlRow

_NAMES = tuple(f.name for f in fields(ControlRow))
_READ = f"SELECT {', '.join(f'`{name}`' for name in _NAMES)} FROM control"

Update = Callable[[Mapping[str, ControlRow]], Iterable[ControlRow]]
"""From the rows as they stand to the rows to write; pure, since it may be asked again."""


class Control:
    """The control table of one database."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self._uri = uri
        self._options = options
        self._kept = Kept(uri, CONTROL, options)

    def read(self) -> dict[str, ControlRow]:
        """Every row, by table name."""
        table = self._kept.current()
        return {} if table is None else _by_name(query(_READ, control=table))

    def update(self, how: Update) -> dict[str, ControlRow]:
        """Write what `how` makes of the rows as they stand, in one commit.

        A lost conflict starts over from a fresh read, so a row another writer moved is never
        moved back. Gives the rows written.
        """
        with lake_failures(self._uri):
            return retry_conflicts(lambda: self._update_once(how), where=self._uri)

    def change(self, name: str, how: Callable[[ControlRow], ControlRow]) -> None:
        """Write what `how` makes of one table's row; of an empty one where it has none."""
        self.update(lambda rows: [how(rows.get(name) or ControlRow(name))])

    def _update_once(self, how: Update) -> dict[str, ControlRow]:
        table = open_table(self._uri, CONTROL, self._options)
        if table is None:
            if not list(how({})):
                return {}
            table = ensure_table(self._uri, CONTROL, self._options, properties=BOOKKEEPING)
        there = query("SELECT * FROM control", control=table)
        rows = [replace(row, updated_at=utc_now()) for row in how(_by_name(there))]
        if not rows:
            return {}
        # A table of a few rows is written anew in a fifth of the time of a MERGE, and as safely:
        # without retries the commit is the next version after the one that was read, or none.
        write_deltalake(
            table,
            _with_rows(pa.schema(table.schema().to_arrow()), there, rows),
            mode="overwrite",
            commit_properties=CommitProperties(max_commit_retries=0),
        )
        return {row.table_name: row for row in rows}


def _by_name(found: pa.Table) -> dict[str, ControlRow]:
    known = found.select(list(_NAMES)).to_pylist()
    return {row["table_name"]: ControlRow(**row) for row in known}


def _with_rows(schema: pa.Schema, there: pa.Table, rows: Sequence[ControlRow]) -> pa.Table:
    """The rows that are there with these in their places; columns of others keep their values."""
    names = pa.array([row.table_name for row in rows], pa.string())
    is_written = pc.is_in(there["table_name"], value_set=names)
    before = {row["table_name"]: row for row in there.filter(is_written).to_pylist()}
    own = [{name: getattr(row, name) for name in _NAMES} for row in rows]
    now = [{**before.get(row["table_name"], {}), **row} for row in own]
    written = pa.Table.from_pylist(now, schema=schema)
    return pa.concat_tables([there.filter(pc.invert(is_written)).cast(schema), written])
