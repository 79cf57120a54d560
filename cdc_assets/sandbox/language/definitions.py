"""The parser's definition statements: CREATE, ALTER, DROP, GRANT."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc_assets.sandbox.language import errors, types
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language import tokens as t
from cdc_assets.sandbox.language.permissions import PermissionParser
from cdc_assets.sandbox.results import SqlError, SqlType


@dataclass(slots=True)
class _Elements:
    """What a table's parentheses have given so far."""

    columns: list[s.ColumnDefinition] = field(default_factory=list)
    keys: list[s.KeyDefinition] = field(default_factory=list)
    checks: list[s.CheckDefinition] = field(default_factory=list)
    references: list[s.ReferenceDefinition] = field(default_factory=list)

    def definition(self) -> s.TableDefinition:
        return s.TableDefinition(
            tuple(self.columns), tuple(self.keys), tuple(self.checks), tuple(self.references)
        )


class DefinitionParser(PermissionParser):
    """Reads definitions."""

    def definition(self) -> s.Statement | None:
        """A definition statement, or None when none starts here."""
        kind = self.token.upper if self.token.kind == t.WORD else ""
        if kind not in {"CREATE", "ALTER", "DROP", "GRANT", "DENY", "REVOKE"}:
            return None
        self.advance()
        if kind == "CREATE":
            return self._create()
        if kind == "ALTER":
            return self._alter()
        if kind == "DROP":
            return self._drop()
        return self.grant("GRANT" if kind == "GRANT" else "DENY" if kind == "DENY" else "REVOKE")

    def _unsupported(self, verb: str) -> SqlError:
        return errors.unsupported(f"{verb} {self.token.text.upper()}")

    # --- CREATE --------------------------------------------------------------------------------

    def _create(self) -> s.Statement:
        if self.accept("TABLE"):
            name = self.object_name()
            definition = self.table_definition()
            self._storage()
            return s.CreateTable(name, definition)
        if self.accept("SCHEMA"):
            schema = self.identifier()
            if self.accept("AUTHORIZATION"):
                self.identifier()
            return s.CreateSchema(schema)
        if self.accept("TYPE"):
            return self._type()
        if self.accept("DATABASE"):
            database = self.identifier()
            collation = self.identifier() if self.accept("COLLATE") else None
            return s.CreateDatabase(database, collation)
        if self.accept("LOGIN"):
            return self._login(alter=False)
        if self.accept("USER"):
            return self._user()
        if self.accept("ROLE"):
            return s.CreateRole(self.identifier())
        if self.at("UNIQUE", "INDEX", "CLUSTERED", "NONCLUSTERED"):
            return self._index()
        raise self._unsupported("CREATE")

    def _type(self) -> s.CreateType:
        name = self.object_name()
        if not self.accept("FROM"):
            raise errors.unsupported("CREATE TYPE of anything but an alias of a built-in type")
        kind = self.type_name()
        nullable = None
        if self.accept("NULL"):
            nullable = True
        elif self.accept_phrase("NOT", "NULL"):
            nullable = False
        return s.CreateType(name, kind, nullable)

    def _storage(self) -> None:
        """What may follow a table's parentheses and says only where its pages lie."""
        while self.at("ON", "TEXTIMAGE_ON"):
            self.advance()
            self.identifier()
        if self.at("WITH") and self.ahead().upper == "(":
            raise errors.unsupported("A table option")

    def _login(self, *, alter: bool) -> s.Statement:
        name = self.identifier()
        self.expect("WITH")
        self.expect("PASSWORD")
        self.expect("=")
        password = self.string()
        default = None
        while self.accept(","):
            option = self.identifier().upper()
            self.expect("=")
            if option == "DEFAULT_DATABASE":
                default = self.identifier()
            elif option in ("CHECK_POLICY", "CHECK_EXPIRATION"):
                self.expect("ON", "OFF")
            else:
                raise errors.unsupported(f"The login option {option}")
        return s.CreateLogin(name, password, default, alter)

    def _user(self) -> s.Statement:
        name = self.identifier()
        login = name
        if self.accept("FOR", "FROM"):
            self.expect("LOGIN")
            login = self.identifier()
        if self.accept("WITH"):
            self.expect_phrase("DEFAULT_SCHEMA", "=")
            if self.identifier().lower() != "dbo":
                raise errors.unsupported("A default schema other than dbo")
        return s.CreateUser(name, login)

    def _index(self) -> s.Statement:
        unique = bool(self.accept("UNIQUE"))
        clustered = self._clustered()
        self.expect("INDEX")
        name = self.identifier()
        self.expect("ON")
        table = self.object_name()
        columns = self._key_columns()
        if self.accept("INCLUDE"):
            self.name_list()
        if self.at("WHERE"):
            raise errors.unsupported("A filtered index")
        return s.CreateIndex(table, s.KeyDefinition(name, False, unique, columns, clustered))

    def _clustered(self) -> bool | None:
        found = self.accept("CLUSTERED", "NONCLUSTERED")
        return None if found is None else found == "CLUSTERED"

    def table_definition(self) -> s.TableDefinition:
        """The parenthesized columns and constraints."""
        self.expect("(")
        found = _Elements()
        while True:
            self._table_element(found)
            if not self.accept(",") or self.at(")"):
                break
        self.expect(")")
        return found.definition()

    def _table_element(self, found: _Elements) -> None:
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

    def _column(self, found: _Elements) -> s.ColumnDefinition:
        name = self.identifier()
        if self.accept("AS"):
            text = self._expression_text()
            persisted = bool(self.accept("PERSISTED"))
            nullable = False if self.accept_phrase("NOT", "NULL") else None
            return s.ColumnDefinition(
                name, None, computed_text=text, persisted=persisted, nullable=nullable
            )
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

    def _column_constraint(self, found: _Elements, column: str, name: str | None) -> bool:
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

    # --- ALTER ---------------------------------------------------------------------------------

    def _alter(self) -> s.Statement:
        if self.accept("TABLE"):
            return self._alter_table()
        if self.accept("DATABASE"):
            name = None if self.accept("CURRENT") else self.identifier()
            if self.accept("COLLATE"):
                return s.AlterDatabase(name, "COLLATE", self.identifier())
            if self.accept_phrase("MODIFY", "NAME"):
                self.expect("=")
                return s.AlterDatabase(name, "NAME", self.identifier())
            self.expect("SET")
            option = self.identifier().upper()
            value = self.expect("ON", "OFF") if self.at("ON", "OFF") else self.identifier()
            if self.accept("WITH"):
                self.expect("ROLLBACK", "NO_WAIT")
                self.accept("IMMEDIATE")
            return s.AlterDatabase(name, option, value.upper())
        if self.accept("LOGIN"):
            return self._login(alter=True)
        if self.accept("ROLE"):
            role = self.identifier()
            add = self.expect("ADD", "DROP") == "ADD"
            self.expect("MEMBER")
            return s.AlterRole(role, self.identifier(), add)
        raise self._unsupported("ALTER")

    def _alter_table(self) -> s.Statement:
        start = self.tokens[self.index - 2].start
        name = self.object_name()
        if self.accept("WITH"):
            if self.accept("NOCHECK"):
                raise errors.unsupported("WITH NOCHECK")
            self.expect("CHECK")
        if self.accept("ADD"):
            found = _Elements()
            while True:
                self._table_element(found)
                if not self.accept(","):
                    break
            definition = found.definition()
            return s.AlterTable(name, "ADD", definition, (), self._text_from(start))
        if self.accept_phrase("ALTER", "COLUMN"):
            column = self._column(_Elements())
            definition = s.TableDefinition((column,), ())
            return s.AlterTable(name, "ALTER COLUMN", definition, (), self._text_from(start))
        self.expect("DROP")
        column_kind = self.accept("COLUMN", "CONSTRAINT")
        if column_kind is None:
            column_kind = "CONSTRAINT"
        names = [self.identifier()]
        while self.accept(","):
            names.append(self.identifier())
        action = "DROP COLUMN" if column_kind == "COLUMN" else "DROP CONSTRAINT"
        return s.AlterTable(
            name,
            "DROP COLUMN" if action == "DROP COLUMN" else "DROP CONSTRAINT",
            None,
            tuple(names),
            self._text_from(start),
        )

    def _text_from(self, start: int) -> str:
        return self.text[start : self.tokens[self.index - 1].end]

    # --- DROP, GRANT ---------------------------------------------------------------------------

    def _drop(self) -> s.Statement:
        start = self.tokens[self.index - 1].start
        if not self.at("TABLE", "DATABASE", "SCHEMA", "TYPE", "USER", "LOGIN", "ROLE", "INDEX"):
            raise self._unsupported("DROP")
        kind = self.advance().upper
        if_exists = self.accept_phrase("IF", "EXISTS")
        names = []
        while True:
            name = self.object_name()
            if kind == "INDEX":
                self.expect("ON")
                name = (*self.object_name(), name[-1])
            names.append(name)
            if not self.accept(","):
                return s.Drop(kind, tuple(names), if_exists, self._text_from(start))
