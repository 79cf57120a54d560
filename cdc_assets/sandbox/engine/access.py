"""What a login may do: administrators everything, others what was granted to them."""

from __future__ import annotations

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.catalog import Catalog
from cdc_assets.sandbox.results import SqlError

_DATA_ROLES = {
    "SELECT": {"db_owner", "db_datareader"},
    "INSERT": {"db_owner", "db_datawriter"},
    "UPDATE": {"db_owner", "db_datawriter"},
    "DELETE": {"db_owner", "db_datawriter"},
}


class Access:
    """One login's rights, looked up in one catalogue."""

    def __init__(self, catalog: Catalog, login: e.Login) -> None:
        self.catalog = catalog
        self.login = login

    @property
    def administrator(self) -> bool:
        """Whether it is a sysadmin."""
        return self.login.administrator

    def user(self, database: int) -> str | None:
        """The login's user name in a database, None where it has none."""
        if self.administrator:
            return "dbo"
        found = self.catalog.user_of(database, self.login.name)
        if found is not None:
            return found.name
        # The system databases let anyone in, as guest.
        return "guest" if database <= 4 else None

    def may_enter(self, database: int) -> bool:
        """Whether it may use a database."""
        return self.user(database) is not None

    def roles(self, database: int) -> frozenset[str]:
        """Its user's name, public and roles, in lower case."""
        key = ("roles", self.login.key, database)
        if key not in self.catalog.derived:
            user = self.user(database)
            names = self.catalog.roles_of(database, user) if user is not None else ()
            self.catalog.derived[key] = frozenset(name.lower() for name in names)
        found: frozenset[str] = self.catalog.derived[key]
        return found

    def owner(self, database: int) -> bool:
        """Whether it is db_owner there."""
        return self.administrator or "db_owner" in self.roles(database)

    def _granted(self, table: e.Table, permission: str) -> list[e.Permission]:
        found = []
        for role in self.roles(table.database):
            own = self.catalog.permissions.get((table.database, role, table.id), [])
            wide = self.catalog.permissions.get((table.database, role, None), [])
            found += [
                item
                for item in (*own, *wide)
                if item.name in (permission, "CONTROL")
                and (item.schema is None or item.schema.lower() == table.schema.lower())
            ]
        return found

    def readable(self, table: e.Table) -> frozenset[str] | None:
        """Lower-case names of the columns it may SELECT; None means all."""
        if self.administrator or self._by_role(table, "SELECT"):
            return None
        grants = self._granted(table, "SELECT")
        whole = [g for g in grants if not g.columns]
        if any(g.denied for g in whole):
            return frozenset()
        denied = {c for g in grants if g.denied for c in g.columns}
        if any(not g.denied for g in whole) or self._reads_mapping(table):
            if not denied:
                return None
            return frozenset(c.name.lower() for c in table.columns) - denied
        return frozenset(c for g in grants if not g.denied for c in g.columns) - denied

    def _by_role(self, table: e.Table, permission: str) -> bool:
        return bool(self.roles(table.database) & _DATA_ROLES.get(permission, {"db_owner"}))

    def _reads_mapping(self, table: e.Table) -> bool:
        """cdc.lsn_time_mapping is readable with a grant on any change table."""
        if (table.schema, table.name) != ("cdc", "lsn_time_mapping"):
            return False
        return any(self.reads(table.database, i) for i in self.catalog.instances(table.database))

    def reads(self, database: int, instance: e.Instance) -> bool:
        """Whether it may see an instance: its columns selectable, its gating role held."""
        if self.owner(database):
            return True
        if instance.role is not None and instance.role.lower() not in self.roles(database):
            return False
        source = self.catalog.table_by_id(instance.source)
        if source is None:
            return False
        readable = self.readable(source)
        if readable is None:
            return True
        live = {c.id: c.name.lower() for c in source.columns}
        return all(live[c.id] in readable for c in instance.columns if c.id in live)

    def sees(self, table: e.Table) -> bool:
        """Whether the catalogue views show it."""
        if self.owner(table.database):
            return True
        if self._reads_mapping(table):
            return True
        return any(
            self._granted(table, name)
            for name in ("SELECT", "INSERT", "UPDATE", "DELETE", "VIEW DEFINITION")
        ) or self._by_role(table, "SELECT")

    def may(self, table: e.Table, permission: str) -> bool:
        """Whether it may INSERT, UPDATE, DELETE, ALTER, … a table."""
        if self.owner(table.database) or self._by_role(table, permission):
            return True
        grants = self._granted(table, permission)
        return bool(grants) and not any(g.denied for g in grants)

    def require(self, table: e.Table, permission: str) -> None:
        """Raise Msg 229 where `may` says no."""
        if not self.may(table, permission):
            raise self.denied(permission, table.name, table.schema, table.database)

    def require_select(self, table: e.Table) -> frozenset[str] | None:
        """The readable columns; raises Msg 229 where there are none."""
        readable = self.readable(table)
        if readable is not None and not readable:
            raise self.denied("SELECT", table.name, table.schema, table.database)
        return readable

    def denied(self, permission: str, name: str, schema: str, database: int) -> SqlError:
        """Msg 229."""
        return SqlError(
            229,
            f"The {permission} permission was denied on the object '{name}', database "
            f"'{self.catalog.database(database).name}', schema '{schema}'.",
            14,
            5,
        )

    def require_owner(self, database: int, what: str) -> None:
        """Raise Msg 262 unless it is db_owner."""
        if not self.owner(database):
            raise SqlError(
                262,
                f"{what} permission denied in database '{self.catalog.database(database).name}'.",
                14,
            )

    def require_administrator(self, what: str) -> None:
        """Raise Msg 15247 unless it is a sysadmin."""
        if not self.administrator:
            raise SqlError(15247, f"User does not have permission to perform this action ({what}).")
