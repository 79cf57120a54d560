"""Names in a query: relations, scopes, and what the engine must answer while binding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from cdc_assets.sandbox.language import errors, types
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import SqlError, SqlType


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column of something in FROM; `sql` is its physical name."""

    name: str
    sql: str
    type: SqlType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Relation:
    """Something in FROM: `sql` is what DuckDB reads."""

    sql: str
    columns: tuple[RelationColumn, ...]
    names: tuple[str, ...] = ()
    object_id: int | None = None
    readable: frozenset[str] | None = None
    """Names of the columns (lower case) the login may read; None means all."""
    reads: frozenset[int] = frozenset()
    """Ids of the tables behind it, where it is a view."""
    exact: bool = False
    """Whether case tells its columns' names apart."""

    def named(self, name: str) -> list[RelationColumn]:
        """The columns that a name may mean; of several that differ in case, the one as written."""
        wanted = name.lower()
        same = [c for c in self.columns if c.name.lower() == wanted]
        alike = [c for c in same if c.name == name]
        return alike if self.exact or (len(same) > 1 and alike) else same


@dataclass(frozen=True, slots=True)
class Source:
    """A relation under its alias in one query."""

    alias: str
    names: tuple[str, ...]
    relation: Relation

    def answers_to(self, qualifier: tuple[str, ...]) -> bool:
        """Whether `qualifier.column` can mean this source."""
        wanted = tuple(part.lower() for part in qualifier)
        own = tuple(part.lower() for part in self.names)
        return own[-len(wanted) :] == wanted if len(wanted) <= len(own) else False


@dataclass(slots=True)
class Scope:
    """The sources one SELECT sees, and those around it."""

    parent: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    """For strings in GROUP BY: the expression's text, and what stands for its group."""
    inside_aggregate: bool = False
    inside_window: bool = False
    as_written: bool = False
    """Binding an expression only to see whether it is a GROUP BY key."""

    clause: str = ""
    """The clause being bound where it refuses aggregates or window functions."""

    keys: frozenset[str] = frozenset()
    """The texts of the GROUP BY expressions."""

    loose: list[str] = field(default_factory=list)
    """Columns bound outside of aggregates and keys, as messages show them."""

    aggregated: bool = False
    lifted: dict[str, str] = field(default_factory=dict)
    """Window keys that DuckDB wants as columns: their text, and the column's name."""

    @contextmanager
    def within(self, clause: str) -> Iterator[None]:
        """Bind a clause."""
        saved, self.clause = self.clause, clause
        try:
            yield
        finally:
            self.clause = saved

    def covered(self, mark: int) -> None:
        """Forget the columns noted since `mark`: an aggregate or a key stands around them."""
        del self.loose[mark:]

    @property
    def lifted_text(self) -> str:
        """What FROM needs in addition for the lifted keys."""
        items = ", ".join(f"{text} AS {name}" for text, name in self.lifted.items())
        return f" CROSS JOIN LATERAL (SELECT {items}) AS lifted" if items else ""

    def reference(self, source: Source, column: RelationColumn) -> Value:
        """A column of this scope or one around it, noted where it is not grouped by."""
        value = reference(source, column)
        owner: Scope | None = self
        while owner is not None and not any(s is source for s in owner.sources):
            owner = owner.parent
        if owner is not None and value.sql not in owner.keys:
            owner.loose.append(f"{source.names[-1]}.{column.name}")
        return value

    def find(self, parts: tuple[str, ...]) -> tuple[Source, RelationColumn] | None:
        """The column that `parts` names here or further out; Msg 209 when two match."""
        *qualifier, name = parts
        found = [
            (source, column)
            for source in self.sources
            if not qualifier or source.answers_to(tuple(qualifier))
            for column in source.relation.named(name)
        ]
        if len(found) > 1:
            raise errors.ambiguous_column(name)
        if found:
            return found[0]
        return self.parent.find(parts) if self.parent else None

    def knows(self, qualifier: tuple[str, ...]) -> bool:
        """Whether a source here or further out has that name."""
        if any(source.answers_to(qualifier) for source in self.sources):
            return True
        return self.parent.knows(qualifier) if self.parent else False

    def column(self, parts: tuple[str, ...]) -> Value:
        """A column reference; raises Msg 207, 209, 230 or 4104."""
        found = self.find(parts)
        if found is None:
            if len(parts) > 1 and not self.knows(parts[:-1]):
                raise errors.unbound_identifier(".".join(parts))
            raise errors.invalid_column(parts[-1])
        return self.reference(*found)


def reference(source: Source, column: RelationColumn) -> Value:
    """A source's column as a value; raises Msg 230 where the login may not read it."""
    readable = source.relation.readable
    if readable is not None and column.name.lower() not in readable:
        *_, schema, table = ("", *source.relation.names)[-2:]
        raise SqlError(
            230,
            f"The SELECT permission was denied on the column '{column.name}' of the object "
            f"'{table}', schema '{schema}'.",
            14,
        )
    if column.type.name in types.OPAQUE:
        raise errors.unsupported(f"The value of a column of type {column.type.name}")
    return Value(f"{source.alias}.{column.sql}", column.type, column.nullable)


class Environment(Protocol):
    """What the engine answers while a statement is bound."""

    def relation(self, parts: tuple[str, ...]) -> Relation:
        """A table or view by name; raises Msg 208 or 229."""
        ...

    def function_relation(self, name: tuple[str, ...], arguments: Sequence[Value]) -> Relation:
        """A table-valued function; raises Msg 208."""
        ...

    def variable(self, name: str) -> Value:
        """A local or system variable; raises Msg 137."""
        ...

    def function(self, name: tuple[str, ...], arguments: Sequence[Value]) -> Value | None:
        """A function that needs the server's state, or None when it is not one."""
        ...

    def zone(self, name: str) -> str:
        """The IANA name of a Windows time zone; raises Msg 9820."""
        ...
