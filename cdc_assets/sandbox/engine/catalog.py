"""The catalogue: an immutable picture of every entry, stored row by row in DuckDB."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import Any

from cdc_assets.sandbox.collations import tells_case
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.duck import Connection

CREATE = "CREATE TABLE IF NOT EXISTS catalog.entries(kind VARCHAR, key VARCHAR, body VARCHAR)"


class Catalog:
    """One state of the catalogue; a change makes a new one."""

    def __init__(self, items: dict[tuple[str, str], Any], version: int = 0) -> None:
        self._items = items
        self.version = version
        self.derived: dict[Hashable, Any] = {}
        """What others worked out of this state, to be found again."""

    @classmethod
    def load(cls, connection: Connection, version: int = 0) -> Catalog:
        """Read the stored catalogue."""
        rows = connection.rows("SELECT kind, key, body FROM catalog.entries WHERE kind <> 'Macros'")
        return cls({(kind, key): e.of_json(kind, body) for kind, key, body in rows}, version)

    def put(self, connection: Connection, *items: Any) -> Catalog:
        """Store entries, new or changed, in the connection's transaction; the new catalogue."""
        changed = dict(self._items)
        for item in items:
            kind = type(item).__name__
            if (kind, item.key) in changed:
                self._remove(connection, kind, item.key)
            connection.execute(
                "INSERT INTO catalog.entries VALUES (?, ?, ?)", [kind, item.key, e.to_json(item)]
            )
            changed[(kind, item.key)] = item
        return Catalog(changed, self.version + 1)

    def drop(self, connection: Connection, *items: Any) -> Catalog:
        """Remove entries in the connection's transaction; the new catalogue."""
        changed = dict(self._items)
        for item in items:
            kind = type(item).__name__
            self._remove(connection, kind, item.key)
            changed.pop((kind, item.key), None)
        return Catalog(changed, self.version + 1)

    @staticmethod
    def _remove(connection: Connection, kind: str, key: str) -> None:
        connection.execute("DELETE FROM catalog.entries WHERE kind = ? AND key = ?", [kind, key])

    def of_kind(self, kind: type[e.Entry]) -> list[e.Entry]:
        """Every entry of a kind."""
        return [item for (name, _), item in self._items.items() if name == kind.__name__]

    # --- databases and tables ------------------------------------------------------------------

    @cached_property
    def databases(self) -> dict[str, e.Database]:
        """Databases by lower-case name."""
        return {d.name.lower(): d for d in self.of_kind(e.Database)}

    def database(self, number: int) -> e.Database:
        """The database with that id."""
        found: e.Database = self._items[("Database", str(number))]
        return found

    @cached_property
    def _tables(self) -> dict[tuple[int, str, str], e.Table]:
        return {
            (t.database, t.schema, t.name)
            if t.exact
            else (t.database, t.schema.lower(), t.name.lower()): t
            for t in self.of_kind(e.Table)
        }

    def table(self, database: int, schema: str, name: str) -> e.Table | None:
        """The table of that name, whatever its case unless that tells names apart."""
        if self.tells_case(database):
            return self._tables.get((database, schema, name))
        return self._tables.get((database, schema.lower(), name.lower()))

    def tells_case(self, database: int) -> bool:
        """Whether names in the database that differ in case alone are two."""
        return tells_case(self.database(database).collation)

    def table_by_id(self, number: int) -> e.Table | None:
        """The table with that object id."""
        return self._items.get(("Table", str(number)))

    def existing_table(self, number: int) -> e.Table:
        """The table with that object id, which must be there."""
        found: e.Table = self._items[("Table", str(number))]
        return found

    def tables_of(self, database: int) -> list[e.Table]:
        """A database's tables by id."""
        return sorted(
            (t for t in self._tables.values() if t.database == database), key=lambda t: t.id
        )

    @cached_property
    def _views(self) -> dict[tuple[int, str, str], e.View]:
        return {(v.database, v.schema.lower(), v.name.lower()): v for v in self.of_kind(e.View)}

    def view(self, database: int, schema: str, name: str) -> e.View | None:
        """The view of that name, whatever its case."""
        return self._views.get((database, schema.lower(), name.lower()))

    def views_of(self, database: int) -> list[e.View]:
        """A database's views by id."""
        return sorted(
            (v for v in self._views.values() if v.database == database), key=lambda v: v.id
        )

    @cached_property
    def _referencing(self) -> dict[int, list[tuple[e.Table, e.ForeignKey]]]:
        found: dict[int, list[tuple[e.Table, e.ForeignKey]]] = {}
        for table in self._tables.values():
            for key in table.foreign_keys:
                found.setdefault(key.target, []).append((table, key))
        return found

    def referencing(self, target: int) -> list[tuple[e.Table, e.ForeignKey]]:
        """The foreign keys that reference a table, with the tables they are on."""
        return self._referencing.get(target, [])

    def mapping(self, database: int) -> e.Table | None:
        """cdc.lsn_time_mapping of a database."""
        return self.table(database, "cdc", "lsn_time_mapping")

    # --- capture instances ---------------------------------------------------------------------

    @cached_property
    def _by_source(self) -> dict[int, tuple[e.Instance, ...]]:
        found: dict[int, tuple[e.Instance, ...]] = {}
        for instance in sorted(self.of_kind(e.Instance), key=lambda i: i.table):
            found[instance.source] = (*found.get(instance.source, ()), instance)
        return found

    def instances_of(self, source: int) -> tuple[e.Instance, ...]:
        """The capture instances of a table."""
        return self._by_source.get(source, ())

    @cached_property
    def _by_database(self) -> dict[int, list[e.Instance]]:
        found: dict[int, list[e.Instance]] = {}
        for instance in sorted(self.of_kind(e.Instance), key=lambda i: i.table):
            found.setdefault(instance.database, []).append(instance)
        return found

    @cached_property
    def _by_name(self) -> dict[tuple[int, str], list[e.Instance]]:
        found: dict[tuple[int, str], list[e.Instance]] = {}
        for instance in self.of_kind(e.Instance):
            found.setdefault((instance.database, instance.name.lower()), []).append(instance)
        return found

    def instances(self, database: int) -> list[e.Instance]:
        """The capture instances of a database."""
        return list(self._by_database.get(database, ()))

    def instance(self, database: int, name: str) -> e.Instance | None:
        """An instance by name: exactly first, else whatever its case unless that tells."""
        same = self._by_name.get((database, name.lower()), [])
        other = same[0] if same and not self.tells_case(database) else None
        return next((i for i in same if i.name == name), other)

    # --- logins and settings -------------------------------------------------------------------

    def login(self, name: str) -> e.Login | None:
        """A login by name."""
        return self._items.get(("Login", name.lower()))

    def principal(self, database: int, name: str) -> e.Principal | None:
        """A database user or role by name."""
        return self._items.get(("Principal", f"{database}/{name.lower()}"))

    def user_of(self, database: int, login: str) -> e.Principal | None:
        """A login's user in a database."""
        wanted = login.lower()
        return next(
            (
                p
                for p in self.of_kind(e.Principal)
                if p.database == database and p.login is not None and p.login.lower() == wanted
            ),
            None,
        )

    @cached_property
    def permissions(self) -> dict[tuple[int, str, int | None], list[e.Permission]]:
        """GRANTs and DENYs by database, lower-case principal and object (None: wider ones)."""
        found: dict[tuple[int, str, int | None], list[e.Permission]] = {}
        for item in self.of_kind(e.Permission):
            key = (item.database, item.principal.lower(), item.object)
            found.setdefault(key, []).append(item)
        return found

    def roles_of(self, database: int, user: str) -> Iterable[str]:
        """The user's own name, public, and the roles it is a member of."""
        yield user
        yield "public"
        for item in self.of_kind(e.Principal):
            if item.database == database and user.lower() in (m.lower() for m in item.members):
                yield item.name

    def setting(self, name: str, default: str) -> str:
        """A server setting."""
        found = self._items.get(("Setting", name))
        return found.value if found is not None else default
