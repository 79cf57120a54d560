"""Backups of a database inside the store, and their restore: its rows and LSNs go back with it."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.lsn import Lsn
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import lsns
from cdc_assets.sandbox.engine.catalog import Catalog
from cdc_assets.sandbox.engine.duck import Connection
from cdc_assets.sandbox.engine.store import Store
from cdc_assets.sandbox.results import SqlError

MAX_BACKUPS = 16
"""Backups that one store keeps; each is a copy of its database's rows."""


@dataclass(frozen=True, slots=True)
class _Copied:
    """A relation and the rows of it that are the database's."""

    name: str
    copy: str
    rows: str = "TRUE"


def backup(store: Store, database: e.Database, name: str) -> None:
    """Keep the database as it is now under a name, in the place of an earlier one of that name."""
    with store.transaction() as connection:
        known = connection.rows("SELECT id, name, database FROM catalog.backups")
        for number, other, owner in known:
            if (other, owner) == (name, database.id):
                _forget(connection, number)
        if len(known) >= MAX_BACKUPS:
            raise SqlError(
                3201,
                f"The sandbox keeps at most {MAX_BACKUPS} backups. Drop a database that has some.",
            )
        number = max((row[0] for row in known), default=0) + 1
        for copied in _relations(store.catalog, database):
            connection.execute(
                f"CREATE TABLE backups.b{number}_{copied.copy} AS SELECT * FROM {copied.name} "
                f"WHERE {copied.rows}"
            )
        connection.execute(f"CREATE TABLE backups.b{number}_entries(kind VARCHAR, body VARCHAR)")
        for entry in (database, *_entries(store.catalog, database)):
            connection.execute(
                f"INSERT INTO backups.b{number}_entries VALUES (?, ?)",
                [type(entry).__name__, e.to_json(entry)],
            )
        last = store.last_lsns.get(database.id, lsns.FIRST)
        connection.execute(
            "INSERT INTO catalog.backups VALUES (?, ?, ?, ?)",
            [number, name, database.id, last.text],
        )


def restore(store: Store, database: e.Database, name: str) -> None:
    """Bring a backup back: rows, capture instances, change tables, and the log's position."""
    with store.commit_lock:
        before = store.catalog.tables_of(database.id)
        catalog, last = _replace(store, database, name)
        store.catalog = catalog
        store.last_lsns[database.id] = last
        for table in (*before, *catalog.tables_of(database.id)):
            store.identities.forget(table.id)
            store.serials[table.id] += 1


def _replace(store: Store, database: e.Database, name: str) -> tuple[Catalog, Lsn]:
    """The database's rows and entries out of the backup; the catalogue and the last LSN."""
    with store.transaction() as connection:
        found = connection.one(
            "SELECT id, lsn FROM catalog.backups WHERE name = ? AND database = ?",
            [name, database.id],
        )
        if found is None:
            raise SqlError(3201, f"Cannot open backup device '{name}': there is no such backup.")
        number = int(found[0])
        last = lsns.forked(Lsn(found[1]), store.last_lsns.get(database.id, lsns.FIRST))
        remove(connection, store.catalog, database)
        catalog = store.catalog.drop(connection, *_entries(store.catalog, database))
        entries = [
            e.of_json(kind, body)
            for kind, body in connection.rows(f"SELECT kind, body FROM backups.b{number}_entries")
        ]
        catalog = catalog.put(connection, *entries, e.Setting(f"lsn/{database.id}", last.text))
        for copied in _relations(catalog, database):
            source = f"SELECT * FROM backups.b{number}_{copied.copy}"
            if copied.name.startswith("data."):
                connection.execute(f"CREATE TABLE {copied.name} AS {source}")
            else:
                connection.execute(f"INSERT INTO {copied.name} {source}")
    return catalog, last


def forget(connection: Connection, database: int) -> None:
    """Remove a dropped database's backups."""
    for (number,) in connection.rows(f"SELECT id FROM catalog.backups WHERE database = {database}"):
        _forget(connection, number)


def _forget(connection: Connection, number: int) -> None:
    tables = connection.rows(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'backups' AND "
        f"starts_with(table_name, 'b{number}_')"
    )
    for (table,) in tables:
        connection.execute(f"DROP TABLE backups.{table}")
    connection.execute(f"DELETE FROM catalog.backups WHERE id = {number}")


def remove(connection: Connection, catalog: Catalog, database: e.Database) -> None:
    """Drop a database's relations and its rows in the shared ones."""
    for copied in _relations(catalog, database):
        if copied.name.startswith("data."):
            connection.execute(f"DROP TABLE {copied.name}")
        else:
            connection.execute(f"DELETE FROM {copied.name} WHERE {copied.rows}")


def _relations(catalog: Catalog, database: e.Database) -> list[_Copied]:
    """Every relation with rows of the database."""
    instances = catalog.instances(database.id)
    numbers = ", ".join(str(i.table) for i in instances) or "0"
    return [
        *(_Copied(t.physical, f"t{t.id}") for t in catalog.tables_of(database.id)),
        *(_Copied(i.log, f"log{i.table}") for i in instances),
        _Copied("catalog.commits", "commits", f"database = {database.id}"),
        _Copied("catalog.watermarks", "watermarks", f"instance IN ({numbers})"),
    ]


def _entries(catalog: Catalog, database: e.Database) -> list[e.Owned]:
    """What the catalogue holds of the database, besides itself."""
    everything: list[e.Owned] = []
    for kind in e.OWNED:
        everything += catalog.of_kind(kind)
    return [item for item in everything if item.database == database.id]
