"""Table variables and temporary tables: DuckDB's temporary tables, seen by one session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.catalog import Catalog
from cdc_assets.sandbox.engine.columns import columns_of, columns_of_query, keys_of
from cdc_assets.sandbox.engine.duck import Connection
from cdc_assets.sandbox.engine.journal import MAX_JOURNAL_BYTES
from cdc_assets.sandbox.engine.store import Store
from cdc_assets.sandbox.engine.tableconstraints import refuse_in_temporary
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language import types
from cdc_assets.sandbox.language.sources import Bound
from cdc_assets.sandbox.results import SqlError

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.session import EngineSession


_KEPT = "kept"


class TemporaryTable(e.Table):
    """A table variable in the place of a stored table."""

    __slots__ = ("_physical",)

    def __init__(self, variable: e.TableVariable) -> None:
        e.Table.__init__(self, 0, 0, "dbo", variable.name, 0, variable.columns, variable.keys)
        object.__setattr__(self, "_physical", variable.physical)

    @property
    def physical(self) -> str:
        """Its name in DuckDB."""
        found: str = object.__getattribute__(self, "_physical")
        return found


class TemporaryWork(Work):
    """What changes of a temporary table need of a transaction: next to nothing."""

    def __init__(
        self, store: Store, connection: Connection, catalog: Catalog, variable: e.TableVariable
    ) -> None:
        self.store = store
        self.connection = connection
        self._catalog = catalog
        self._identities = variable.identities

    @property
    def current(self) -> Catalog:
        """The catalogue as the session sees it."""
        return self._catalog

    def take_identities(self, table: e.Table, column: e.Column, count: int) -> int:
        """The first of `count` new identity values; they end with the table."""
        seed, step = column.identity or (1, 1)
        first = self._identities.get(column.id, seed - step) + step
        self._identities[column.id] = first + step * (count - 1)
        return first

    def note_identity(self, table: e.Table, column: e.Column, value: int) -> None:
        """No explicit values are inserted."""

    def wrote(self, table: e.Table) -> None:
        """Nobody else reads it."""

    def lock_rows(self, table: e.Table, stage: str, count: int) -> None:
        """Nobody else can change them."""

    def lock_keys(self, table: e.Table, key: e.Key, select: str, count: int) -> None:
        """Nobody else can take them."""

    def took_keys(self, table: e.Table, key: e.Key, select: str) -> None:
        """Nobody else can take them."""

    def relies_on(self, table: e.Table) -> None:
        """Nothing references it."""

    def keep_keys(self) -> None:
        """There are none."""


def create_temporary(session: EngineSession, name: str, definition: s.TableDefinition) -> None:
    """DECLARE @t TABLE (…) or CREATE TABLE #t (…)."""
    refuse_in_temporary(definition)
    session.begin_temporary(name)
    columns = columns_of(session.binder(), definition.columns, session.context.collation)
    _create(session, name, columns, keys_of(name, columns, definition.keys))
    session.close_reader()
    _make(session, session.context.temporary[name.lower()])


def create_temporary_from(session: EngineSession, name: str, bound: Bound) -> int:
    """SELECT … INTO #t; how many rows it has."""
    columns = columns_of_query(bound)
    session.begin_temporary(name)
    items = ", ".join(f"x{c.id} AS {c.physical}" for c in columns)
    count = session.context.connection.stage("stage", f"SELECT {items} FROM ({bound.sql}) AS q")
    _create(session, name, columns, ())
    physical = session.context.temporary[name.lower()].physical
    session.context.connection.execute(f"CREATE TEMP TABLE {physical} AS FROM temp.stage")
    return count


def _create(
    session: EngineSession, name: str, columns: tuple[e.Column, ...], keys: tuple[e.Key, ...]
) -> None:
    key = name.lower()
    if key in session.context.temporary:
        if name.startswith("@"):
            raise SqlError(134, f"The variable name '{name}' has already been declared.", 15)
        raise SqlError(2714, f"There is already an object named '{name}' in the database.", 16, 6)
    physical = f"temp.v{session.context.store.new_object_id()}"
    session.context.temporary[key] = e.TableVariable(name, physical, columns, keys)


def drop_temporary(session: EngineSession, name: str) -> bool:
    """DROP TABLE #t; False where there is none."""
    if name.lower() not in session.context.temporary:
        return False
    session.begin_temporary(name)
    session.close_reader()
    found = session.context.temporary.pop(name.lower())
    session.context.connection.execute(f"DROP TABLE {found.physical}")
    return True


def table_variables(session: EngineSession) -> dict[str, pa.Table]:
    """The rows of the table variables, which a rollback leaves alone.

    None of those whose rows went down with a transaction that could not be made again.
    """
    found, left = {}, MAX_JOURNAL_BYTES
    for name, variable in session.context.temporary.items():
        if not name.startswith("@"):
            continue
        try:
            rows = session.context.connection.arrow(f"FROM {variable.physical}")
        except duckdb.Error:
            continue
        left -= rows.nbytes
        if left >= 0:
            found[name] = rows
    return found


def keep_table_variables(session: EngineSession, kept: Mapping[str, pa.Table]) -> None:
    """Give them the rows that they had before a rollback; those without any are gone."""
    connection = session.context.connection
    for name in [n for n in session.context.temporary if n.startswith("@")]:
        variable, rows = session.context.temporary[name], kept.get(name)
        connection.execute(f"DROP TABLE IF EXISTS {variable.physical}")
        if rows is None:
            del session.context.temporary[name]
            continue
        _make(session, variable)
        connection.register(_KEPT, rows)
        connection.stage("stage", f"FROM {_KEPT}")
        connection.unregister(_KEPT)
        connection.execute(f"INSERT INTO {variable.physical} FROM temp.stage")


def _make(session: EngineSession, variable: e.TableVariable) -> None:
    text = ", ".join(f"{c.physical} {types.physical(c.type)}" for c in variable.columns)
    session.context.connection.execute(f"CREATE TEMP TABLE {variable.physical} ({text})")
