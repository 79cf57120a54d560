"""The parser's tables: columns, keys, constraints."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc_assets.sandbox.language import errors, types
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.permissions import PermissionParser
from cdc_assets.sandbox.results import SqlError, SqlType


@dataclass(slots=True)
class Elements:
    """What a table's parentheses have given so far."""

    columns: list[s.ColumnDefinition] = field(default_factory=list)
    keys: list[s.KeyDefinition] = field(default_factory=list)
    checks: list[s.CheckDefinition] = field(default_factory=list)
    references: list[s.ReferenceDefinition] = field(default_factory=list)

    def definition(self) -> s.TableDefinition:
        """All of it."""
        return s.TableDefinition(
            tuple(self.columns), tuple(self.keys), tuple(self.checks), tuple(self.references)
        )


class TableParser(PermissionParser):
    """Reads what stands in a table's parentheses."""

    def _clustered(self) -> bool | None:
        found = self.accept("CLUSTERED", "NONCLUSTERED")
        return None if found is None else found == "CLUSTERED"

    def table_definition(self) -> s.TableDefinition:
        """The parenthesized columns and constraints."""
        self.expect("(")
        found = Elements()
        while True:
            self._table_element(found)
            if not self.accept(",") or self.at(")"):
                break
        self.expect(")")
        return found.definition()

    def _table_element(self, found: Elements) -> None:
        name = self.identifier() if self.accept("CONSTRAINT") else None
        if self.at("PRIMARY", "UNIQUE"):
            found.keys.append(self._table_key(name))
        elif self.at("CHECK"):
            found.checks.append(self._check(name, None))
        elif self.at("FOREIGN"):
            self.expect_phrase("FOREIGN", "KEY")
            found.references.append(self._reference(name, self.name_list()))
        elif self.at("INDEX"):
            raise errors.unsupported("An INDEX in a table")
        elif name is not None and self.at("DEFAULT"):
            raise errors.unsupported("A DEFAULT constraint added to a column")
        elif name is not None:
            self.fail()
        else:
            found.columns.append(self._column(found))

    def _check(self, name: str | None, column: str | None) -> s.CheckDefinition:
        self.expect("CHECK")
        if self.at("NOT"):
            raise errors.unsupported("NOT FOR REPLICATION")
        start = self.token.start
        self.expect("(")
        self.condition()
        self.expect(")")
        return s.CheckDefinition(name, self._text_from(start), column)

    def _reference(self, name: str | None, columns: tuple[str, ...]) -> s.ReferenceDefinition:
        self.expect("REFERENCES")
        target = self.object_name()
        wanted = self.name_list() if self.at("(") else ()
        while self.accept("ON"):
            self.expect("DELETE", "UPDATE")
            if not self.accept_phrase("NO", "ACTION"):
                raise errors.unsupported(f"A foreign key's {self.token.text}")
        if self.at("NOT"):
            raise errors.unsupported("NOT FOR REPLICATION")
        return s.ReferenceDefinition(name, columns, target, wanted)

    def _table_key(self, name: str | None) -> s.KeyDefinition:
        primary = self.expect("PRIMARY", "UNIQUE") == "PRIMARY"
        if primary:
            self.expect("KEY")
        clustered = self._clustered()
        return s.KeyDefinition(name, primary, True, self._key_columns(), clustered)

    def _key_columns(self) -> tuple[tuple[str, bool], ...]:
        self.expect("(")
        columns = []
        while True:
            name = self.identifier()
            columns.append((name, self.accept("ASC", "DESC") == "DESC"))
            if not self.accept(","):
                break
        self.expect(")")
        return tuple(columns)

    def _column(self, found: Elements) -> s.ColumnDefinition:
        name = self.identifier()
        if self.accept("AS"):
            return self._computed_column(found, name)
        written = self.token.upper
        kind, alias = self._column_type(name)
        nullable = False if written in ("ROWVERSION", "TIMESTAMP") else None
        collation = identity = default = None
        constraint = None
        while True:
            if self.accept("COLLATE"):
                collation = self.identifier()
            elif self.accept("NULL"):
                nullable = True
            elif self.accept_phrase("NOT", "NULL"):
                nullable = False
            elif self.accept("IDENTITY"):
                identity = self._identity()
            elif self.accept("CONSTRAINT"):
                constraint = self.identifier()
            elif self.accept("DEFAULT"):
                default = self._expression_text()
            elif self._column_constraint(found, name, constraint):
                constraint = None
            elif self.at("ROWGUIDCOL", "SPARSE"):
                self.advance()
            elif self.at("GENERATED"):
                raise errors.unsupported(f"A {self.token.upper} column option")
            else:
                break
        return s.ColumnDefinition(name, kind, collation, nullable, identity, default, alias=alias)

    def _computed_column(self, found: Elements, name: str) -> s.ColumnDefinition:
        text = self._expression_text()
        persisted = bool(self.accept("PERSISTED"))
        nullable = False if self.accept_phrase("NOT", "NULL") else None
        constraint = self.identifier() if self.accept("CONSTRAINT") else None
        if not self._column_constraint(found, name, constraint) and constraint is not None:
            self.fail()
        return s.ColumnDefinition(
            name, None, computed_text=text, persisted=persisted, nullable=nullable
        )

    def _column_type(self, name: str) -> tuple[SqlType, s.Name]:
        """A built-in type, one that a column may only have, or the name of an alias."""
        if self.at(",", ")"):
            raise SqlError(173, f"The definition for column '{name}' must include a data type.", 15)
        if self.token.text.lower() in types.OPAQUE:
            return SqlType(self.advance().text.lower()), ()
        if types.is_built_in(self.token.text) and self.ahead().text != ".":
            return self.type_name(), ()
        if self.token.upper == "SYS":
            return self.type_name(), ()
        return types.UNKNOWN, self.object_name()

    def _column_constraint(self, found: Elements, column: str, name: str | None) -> bool:
        """A constraint written with its column, if one stands here."""
        if self.at("PRIMARY", "UNIQUE"):
            found.keys.append(self._column_key(column, name))
        elif self.at("CHECK"):
            found.checks.append(self._check(name, column))
        elif self.at("FOREIGN", "REFERENCES"):
            self.accept_phrase("FOREIGN", "KEY")
            found.references.append(self._reference(name, (column,)))
        else:
            return False
        return True

    def _column_key(self, column: str, name: str | None) -> s.KeyDefinition:
        primary = self.expect("PRIMARY", "UNIQUE") == "PRIMARY"
        if primary:
            self.expect("KEY")
        return s.KeyDefinition(name, primary, True, ((column, False),), self._clustered())

    def _identity(self) -> tuple[int, int]:
        if not self.accept("("):
            return (1, 1)
        seed = self.integer()
        self.expect(",")
        step = self.integer()
        self.expect(")")
        return (seed, step)

    def _expression_text(self) -> str:
        """An expression, kept as T-SQL text for the catalogue."""
        start = self.token.start
        self.expression()
        return self.text[start : self.tokens[self.index - 1].end]

    def _text_from(self, start: int) -> str:
        return self.text[start : self.tokens[self.index - 1].end]
