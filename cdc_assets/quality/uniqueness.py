"""Whether silver holds each key once: asked of its data, so by a run, and never by a tick.

It reads the key's columns alone, and counts at most `arrow_rank_rows_max` keys at once: a larger
table is gone over range by range of the key, which upkeep keeps its files in the order of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltalake import DeltaTable

from cdc_assets.clock import utc_now
from cdc_assets.contract import DELETED_AT
from cdc_assets.engines.arrow.cutting import ranges_of
from cdc_assets.engines.database import Database
from cdc_assets.lake.features import beyond_reading
from cdc_assets.lake.tables import columns_of, file_actions, query, table_id
from cdc_assets.names import TableName
from cdc_assets.planning.bounds import is_bounded
from cdc_assets.planning.columns import find_name
from cdc_assets.planning.health import NOTHING_LOADED, PAUSED
from cdc_assets.planning.literals import quoted
from cdc_assets.planning.snapshots import snapshots_by_target
from cdc_assets.planning.uniqueness import (
    Uniqueness,
    judge_unique,
    of_today,
    repeated_keys,
    uncut,
    within,
)
from cdc_assets.planning.verdict import Reason
from cdc_assets.silver.keys import made_with

_EVERY = "true"
_CURRENT = "`_valid_to_lsn` IS NULL"


@dataclass(frozen=True, slots=True)
class _Held:
    """A table that holds rows by key, at one version, and which of its rows are there now."""

    uri: str
    table: DeltaTable
    live: str

    @property
    def at(self) -> str:
        """Which table it is, and its version."""
        return f"{table_id(self.table)}@{self.table.version()}"


def unique_keys(database: Database, key: str, checked: str = "") -> Uniqueness:
    """Whether silver, and the current states of a history, hold each key of a table once.

    `checked` is what the last check gave: what is the same still is not read again. Raises what
    the lake raises, and `ExtraMissingError` for a table that Spark alone can read where it is not.
    """
    name = database.table(key)
    if database.settings.is_paused(key):
        return Uniqueness(False, Reason.PAUSED, f"Not counted. {PAUSED}.")
    held = list(_held(database, name))
    if not held:
        return Uniqueness(False, Reason.NEVER_LOADED, NOTHING_LOADED)
    at = ",".join(one.at for one in held)
    if at == checked:
        return judge_unique(0, 1, 1, checked)
    keys = _keys(database, name, held[0].table)
    found = [_counted(database, key, one, keys) for one in held]
    worst = next((one for one in found if not one.passed), found[0])
    parts = all(one.checked for one in found)
    return Uniqueness(
        worst.passed, worst.reason, worst.text, sum(one.keys for one in found), at if parts else ""
    )


def _held(database: Database, name: TableName) -> Iterator[_Held]:
    silver = database.lake.silver(name)
    if silver is None:
        return
    kept = any(column.name == DELETED_AT.name for column in columns_of(silver))
    live = f"{quoted(DELETED_AT.name)} IS NULL" if kept else _EVERY
    yield _Held(name.silver_uri, silver, live)
    history = database.lake.history(name) if database.settings.scd_of(name.key) == 2 else None
    if history is not None:
        yield _Held(name.history_uri, history, _CURRENT)


def _keys(database: Database, name: TableName, silver: DeltaTable) -> tuple[str, ...]:
    """The key that silver was made with; of one that does not say, the settings' or snapshot's."""
    keys = made_with(silver) or database.settings.tables[name.key].keys
    if not keys:
        complete = snapshots_by_target(database.lake.facts.events())[name.bronze].complete
        keys = complete.keys if complete is not None else ()
    there = {column.name for column in columns_of(silver)}
    return tuple(find_name(key, there) or key for key in keys)


def _counted(database: Database, key: str, held: _Held, keys: tuple[str, ...]) -> Uniqueness:
    """One table's count, by who can read it."""
    if not keys:
        return Uniqueness(False, Reason.NEVER_LOADED, NOTHING_LOADED)
    if beyond := beyond_reading(held.table):
        # Spark puts on disk what it has no memory for.
        engine = database.engine(database.choose(key, beyond))
        text = repeated_keys(keys, held.live, _EVERY)
        (row,) = engine.select(held.uri, held.table.version(), text)
        return judge_unique(int(row["keys"]), 1, 1, held.at)
    rows, rows_max = _rows(held.table), database.settings.arrow_rank_rows_max
    if rows <= rows_max:
        return judge_unique(_repeated(held, keys, _EVERY), 1, 1, held.at)
    columns = {column.name: column for column in columns_of(held.table)}
    cuttable = [columns[one] for one in keys if one in columns and is_bounded(columns[one])]
    ranges = ranges_of(held.table, cuttable, rows_max)
    if not ranges:
        return uncut(rows, rows_max)
    today = of_today(ranges, utc_now().date())
    repeated = sum(_repeated(held, keys, within(part)) for part in today)
    return judge_unique(repeated, len(today), len(ranges), held.at)


def _repeated(held: _Held, keys: tuple[str, ...], of: str) -> int:
    found = query(repeated_keys(keys, held.live, of), bronze=held.table)
    return int(found["keys"][0].as_py())


def _rows(table: DeltaTable) -> int:
    """Rows by the log; a file that does not tell counts as none."""
    return sum(rows or 0 for rows in file_actions(table, "num_records"))
