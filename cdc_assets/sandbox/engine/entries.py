"""What the catalogue holds: databases, tables, capture instances, logins, grants."""

from __future__ import annotations

import dataclasses
import json
import types as python_types
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from cdc_assets.sandbox.results import DEFAULT_COLLATION, SqlType

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Database:
    """A database; times in ticks of the server's clock."""

    id: int
    name: str
    created: int
    collation: str = DEFAULT_COLLATION
    cdc_enabled: bool = False
    snapshot_allowed: bool = False
    schemas: tuple[str, ...] = ("dbo",)

    @property
    def key(self) -> str:
        """Its key among its kind."""
        return str(self.id)


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column; `default` and `computed` are T-SQL expressions."""

    id: int
    name: str
    type: SqlType
    nullable: bool = True
    identity: tuple[int, int] | None = None
    default: str | None = None
    computed: str | None = None
    persisted: bool = False
    alias_id: int | None = None
    """user_type_id of its alias type."""

    @property
    def physical(self) -> str:
        """Its name in DuckDB."""
        return f"c{self.id}"

    @property
    def generated(self) -> bool:
        """Whether INSERT and UPDATE may not give it a value."""
        return self.computed is not None or self.type.name == "rowversion"


@dataclass(frozen=True, slots=True)
class AliasType:
    """A type made by CREATE TYPE … FROM; `id` is its user_type_id."""

    id: int
    database: int
    schema: str
    name: str
    type: SqlType
    nullable: bool = True

    @property
    def key(self) -> str:
        """Its key among its kind."""
        return str(self.id)


@dataclass(frozen=True, slots=True)
class Key:
    """A primary key, unique constraint or index: ids of its columns, and which descend."""

    id: int
    name: str
    primary: bool
    unique: bool
    clustered: bool
    columns: tuple[int, ...]
    descending: tuple[int, ...] = ()
    constraint: bool = True


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint; `column` where it was written with a column."""

    id: int
    name: str
    text: str
    column: int | None = None


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A FOREIGN KEY: ids of its columns, of the table it references, and of that one's columns."""

    id: int
    name: str
    columns: tuple[int, ...]
    target: int
    target_columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `shipped` for the ones that CDC makes, `exact` where case tells names apart."""

    id: int
    database: int
    schema: str
    name: str
    created: int
    columns: tuple[Column, ...]
    keys: tuple[Key, ...] = ()
    shipped: bool = False
    next_column: int = 1
    checks: tuple[Check, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    exact: bool = False

    @property
    def key(self) -> str:
        """Its key among its kind."""
        return str(self.id)

    @property
    def physical(self) -> str:
        """Its name in DuckDB."""
        return f"data.t{self.id}"

    def column(self, name: str) -> Column | None:
        """The column of that name, whatever its case unless that tells names apart."""
        if self.exact:
            return next((c for c in self.columns if c.name == name), None)
        wanted = name.lower()
        return next((c for c in self.columns if c.name.lower() == wanted), None)

    def by_id(self, column: int) -> Column:
        """The column with that id."""
        return next(c for c in self.columns if c.id == column)

    @property
    def primary(self) -> Key | None:
        """Its primary key."""
        return next((k for k in self.keys if k.primary), None)


@dataclass(frozen=True, slots=True)
class View:
    """A view: its query as T-SQL text, and the whole definition that made it."""

    id: int
    database: int
    schema: str
    name: str
    created: int
    columns: tuple[Column, ...]
    query: str
    definition: str

    @property
    def key(self) -> str:
        """Its key among its kind."""
        return str(self.id)

    def as_table(self) -> Table:
        """What grants and column lists see: a table without rows of its own."""
        return Table(self.id, self.database, self.schema, self.name, self.created, self.columns)


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A column as an instance captured it: the source's may change or go afterwards."""

    id: int
    name: str
    type: SqlType
    computed: bool = False


@dataclass(frozen=True, slots=True)
class Instance:
    """A capture instance; `table` is its change table's id, `source` the tracked table's."""

    table: int
    database: int
    name: str
    source: int
    created: int
    columns: tuple[CapturedColumn, ...]
    key_columns: tuple[int, ...] = ()
    index_name: str | None = None
    role: str | None = None
    supports_net_changes: bool = False
    filegroup: str | None = None

    @property
    def key(self) -> str:
        """Its key among its kind."""
        return str(self.table)

    @property
    def log(self) -> str:
        """The DuckDB table of changes committed or pending, before capture moved them."""
        return f"data.log{self.table}"

    @property
    def mask_bytes(self) -> int:
        """Bytes of an update mask."""
        return (len(self.columns) + 7) // 8


@dataclass(frozen=True, slots=True)
class DdlChange:
    """One row of sp_cdc_get_ddl_history."""

    instance: int
    database: int
    source: int
    number: int
    command: str
    time: int
    lsn: str
    required_column_update: bool = False

    @property
    def key(self) -> str:
        """Its key among its kind."""
        return f"{self.instance}/{self.number}"


@dataclass(frozen=True, slots=True)
class Login:
    """A server login; the password only as a salted hash."""

    name: str
    salt: str
    digest: str
    administrator: bool = False
    database: str = "master"

    @property
    def key(self) -> str:
        """Its key among its kind."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Principal:
    """A database user (with its login) or role (without)."""

    database: int
    name: str
    login: str | None = None
    members: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its key among its kind."""
        return f"{self.database}/{self.name.lower()}"


@dataclass(frozen=True, slots=True)
class Permission:
    """A GRANT or DENY on an object, a schema (`schema`) or the database (neither)."""

    database: int
    principal: str
    name: str
    object: int | None = None
    schema: str | None = None
    columns: tuple[str, ...] = ()
    denied: bool = False

    @property
    def key(self) -> str:
        """Its key among its kind."""
        target = str(self.object) if self.object is not None else self.schema or ""
        return f"{self.database}/{self.principal.lower()}/{self.name}/{target}"


Owned = Table | View | AliasType | Instance | DdlChange | Principal | Permission
"""What belongs to one database."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A server setting."""

    name: str
    value: str

    @property
    def key(self) -> str:
        """Its key among its kind."""
        return self.name


@dataclass(frozen=True, slots=True)
class TableVariable:
    """A table variable or temporary table: its columns in DuckDB's temporary schema."""

    name: str
    physical: str
    columns: tuple[Column, ...]
    keys: tuple[Key, ...] = field(default=())
    identities: dict[int, int] = field(default_factory=dict)
    """The last value given to each identity column, by the column's id."""


OWNED = get_args(Owned)
KINDS: dict[str, type] = {kind.__name__: kind for kind in (Database, Login, Setting, *OWNED)}
"""Every kind that the catalogue keeps, by the name that it is stored under."""


def to_json(entry: Any) -> str:
    """An entry as text."""
    return json.dumps(dataclasses.asdict(entry), separators=(",", ":"))


def of_json(kind: str, body: str) -> Any:
    """An entry from its text."""
    return _build(KINDS[kind], json.loads(body))


def _build(kind: type, data: dict[str, Any]) -> Any:
    hints = _hints(kind)
    return kind(**{name: _value(hints[name], value) for name, value in data.items()})


_known_hints: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _known_hints:
        _known_hints[kind] = get_type_hints(kind)
    return _known_hints[kind]


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if get_origin(hint) is python_types.UnionType:
        hint = next(a for a in get_args(hint) if a is not type(None))
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        return tuple(_value(inner, item) for item in value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _build(hint, value)
    return value
