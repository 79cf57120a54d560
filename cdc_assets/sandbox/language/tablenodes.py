"""The syntax tree of a table's parentheses."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.sandbox.language.nodes import Node
from cdc_assets.sandbox.results import SqlType

Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnDefinition(Node):
    """A column of CREATE TABLE; texts are T-SQL expressions, `alias` a type not built in."""

    name: str
    type: SqlType | None
    collation: str | None = None
    nullable: bool | None = None
    identity: tuple[int, int] | None = None
    default_text: str | None = None
    computed_text: str | None = None
    persisted: bool = False
    alias: Name = ()
    alias_id: int | None = None


@dataclass(frozen=True, slots=True)
class KeyDefinition(Node):
    """PRIMARY KEY, UNIQUE or CREATE INDEX: columns with a descending flag."""

    name: str | None
    primary: bool
    unique: bool
    columns: tuple[tuple[str, bool], ...]
    clustered: bool | None = None


@dataclass(frozen=True, slots=True)
class CheckDefinition(Node):
    """CHECK (…): a T-SQL condition, with the column that it was written with."""

    name: str | None
    text: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class ReferenceDefinition(Node):
    """FOREIGN KEY … REFERENCES …; without target columns the primary key's."""

    name: str | None
    columns: tuple[str, ...]
    target: Name
    target_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableDefinition(Node):
    """What stands in the parentheses of CREATE TABLE."""

    columns: tuple[ColumnDefinition, ...]
    keys: tuple[KeyDefinition, ...] = ()
    checks: tuple[CheckDefinition, ...] = ()
    references: tuple[ReferenceDefinition, ...] = ()
