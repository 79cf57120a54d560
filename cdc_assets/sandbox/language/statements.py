"""The syntax tree of statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from cdc_assets.sandbox.language.nodes import CommonTable, Node, Query, SelectItem, Values
from cdc_assets.sandbox.language.tablenodes import (
    CheckDefinition,
    ColumnDefinition,
    KeyDefinition,
    ReferenceDefinition,
    TableDefinition,
)
from cdc_assets.sandbox.results import SqlType

# What stands in a table's parentheses is part of its statement, for whoever reads one.
__all__ = [
    "CheckDefinition",
    "ColumnDefinition",
    "KeyDefinition",
    "ReferenceDefinition",
    "TableDefinition",
]

Name = tuple[str, ...]


class Statement:
    """Anything that can stand in a batch; the parser notes on which line it begins."""

    __slots__ = ("line",)
    line: int


@dataclass(frozen=True, slots=True)
class QueryStatement(Statement):
    """A SELECT, of rows or into variables."""

    query: Query


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """INSERT; `source` is None for DEFAULT VALUES."""

    target: Name
    columns: tuple[str, ...]
    source: Query | Values | Execute | None
    output: tuple[SelectItem, ...] = ()


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """UPDATE … SET … FROM … WHERE."""

    target: Name
    assignments: tuple[tuple[str, Node], ...]
    source: Node | None
    where: Node | None
    tables: tuple[CommonTable, ...] = ()
    top: Node | None = None
    output: tuple[SelectItem, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """DELETE FROM … FROM … WHERE."""

    target: Name
    source: Node | None
    where: Node | None
    tables: tuple[CommonTable, ...] = ()
    top: Node | None = None
    output: tuple[SelectItem, ...] = ()


@dataclass(frozen=True, slots=True)
class MergeAction(Node):
    """One WHEN of a MERGE; `kind` is matched, not_matched or not_matched_by_source."""

    kind: OneOf["matched", "not_matched", "not_matched_by_source"]
    condition: Node | None
    action: OneOf["UPDATE", "DELETE", "INSERT"]
    assignments: tuple[tuple[str, Node], ...] = ()
    columns: tuple[str, ...] = ()
    values: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge(Statement):
    """MERGE."""

    target: Name
    alias: str | None
    source: Node
    condition: Node
    actions: tuple[MergeAction, ...]
    tables: tuple[CommonTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Truncate(Statement):
    """TRUNCATE TABLE."""

    target: Name


# --- control -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declare(Statement):
    """DECLARE of one variable."""

    name: str
    type: SqlType
    value: Node | None


@dataclass(frozen=True, slots=True)
class DeclareTable(Statement):
    """DECLARE @t TABLE (…)."""

    name: str
    definition: TableDefinition


@dataclass(frozen=True, slots=True)
class SetVariable(Statement):
    """SET @x = …."""

    name: str
    value: Node


@dataclass(frozen=True, slots=True)
class SetOption(Statement):
    """SET NOCOUNT ON and its kind: the option's words, then its value's."""

    option: str
    value: str


@dataclass(frozen=True, slots=True)
class Block(Statement):
    """BEGIN … END."""

    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If(Statement):
    """IF … ELSE."""

    condition: Node
    then: Statement
    otherwise: Statement | None


@dataclass(frozen=True, slots=True)
class While(Statement):
    """WHILE."""

    condition: Node
    body: Statement


@dataclass(frozen=True, slots=True)
class TryCatch(Statement):
    """BEGIN TRY … BEGIN CATCH."""

    attempt: tuple[Statement, ...]
    handler: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Jump(Statement):
    """BREAK, CONTINUE or RETURN."""

    kind: OneOf["BREAK", "CONTINUE", "RETURN"]
    value: Node | None = None


@dataclass(frozen=True, slots=True)
class Print(Statement):
    """PRINT."""

    value: Node


@dataclass(frozen=True, slots=True)
class Raise(Statement):
    """RAISERROR(…) or THROW …; without arguments a bare THROW."""

    kind: OneOf["RAISERROR", "THROW"]
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class WaitFor(Statement):
    """WAITFOR DELAY."""

    delay: Node


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """One argument of an EXEC; `name` is empty when positional."""

    name: str
    value: Node
    output: bool = False


@dataclass(frozen=True, slots=True)
class Execute(Statement):
    """EXEC procedure …; or EXEC (text), whose text stands in `dynamic`."""

    procedure: Name
    arguments: tuple[Argument, ...] = ()
    status: str | None = None
    dynamic: Node | None = None


@dataclass(frozen=True, slots=True)
class TransactionControl(Statement):
    """BEGIN, COMMIT, ROLLBACK or SAVE TRANSACTION; a name may be a variable's, with its @."""

    kind: OneOf["BEGIN", "COMMIT", "ROLLBACK", "SAVE"]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Use(Statement):
    """USE."""

    database: str


# --- definitions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """CREATE TABLE."""

    name: Name
    definition: TableDefinition


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """CREATE, ALTER or CREATE OR ALTER VIEW; `text` is the query's, `definition` all of it."""

    kind: OneOf["CREATE", "ALTER", "CREATE OR ALTER"]
    name: Name
    columns: tuple[str, ...]
    query: Query
    text: str
    definition: str


@dataclass(frozen=True, slots=True)
class CreateIndex(Statement):
    """CREATE [UNIQUE] INDEX."""

    table: Name
    key: KeyDefinition


@dataclass(frozen=True, slots=True)
class AlterTable(Statement):
    """ALTER TABLE … ADD / DROP COLUMN / ALTER COLUMN / DROP CONSTRAINT."""

    name: Name
    action: OneOf["ADD", "DROP COLUMN", "ALTER COLUMN", "DROP CONSTRAINT"]
    definition: TableDefinition | None = None
    names: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """DROP TABLE, DATABASE, SCHEMA, USER, LOGIN or INDEX (`index` on the named table)."""

    kind: str
    names: tuple[Name, ...]
    if_exists: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class CreateType(Statement):
    """CREATE TYPE … FROM a built-in type."""

    name: Name
    type: SqlType
    nullable: bool | None = None


@dataclass(frozen=True, slots=True)
class CreateSchema(Statement):
    """CREATE SCHEMA."""

    name: str


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    """CREATE DATABASE."""

    name: str
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """ALTER DATABASE … SET option value, COLLATE or MODIFY NAME; name None is CURRENT."""

    name: str | None
    option: str
    value: str


@dataclass(frozen=True, slots=True)
class CreateLogin(Statement):
    """CREATE or ALTER LOGIN … WITH PASSWORD."""

    name: str
    password: str
    default_database: str | None = None
    alter: bool = False


@dataclass(frozen=True, slots=True)
class CreateUser(Statement):
    """CREATE USER … FOR LOGIN."""

    name: str
    login: str


@dataclass(frozen=True, slots=True)
class CreateRole(Statement):
    """CREATE ROLE."""

    name: str


@dataclass(frozen=True, slots=True)
class AlterRole(Statement):
    """ALTER ROLE … ADD / DROP MEMBER."""

    name: str
    member: str
    add: bool


@dataclass(frozen=True, slots=True)
class Grant(Statement):
    """GRANT, DENY or REVOKE; `target` None is the database, `schema` a whole schema."""

    kind: OneOf["GRANT", "DENY", "REVOKE"]
    permissions: tuple[str, ...]
    target: Name | None
    schema: str | None
    columns: tuple[str, ...]
    principals: tuple[str, ...]
