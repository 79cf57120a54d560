"""The parser's definition statements: CREATE, ALTER, DROP, GRANT."""

from __future__ import annotations

from typing import Literal as OneOf

from cdc_assets.sandbox.language import errors
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language import tokens as t
from cdc_assets.sandbox.language.tabledefinitions import Elements, TableParser
from cdc_assets.sandbox.results import SqlError


class DefinitionParser(TableParser):
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
        if self.accept("VIEW"):
            return self._view("CREATE")
        if self.accept_phrase("OR", "ALTER"):
            if self.accept("VIEW"):
                return self._view("CREATE OR ALTER")
            raise self._unsupported("CREATE OR ALTER")
        raise self._unsupported("CREATE")

    def _view(self, kind: OneOf["CREATE", "ALTER", "CREATE OR ALTER"]) -> s.Statement:
        if self.index != len(kind.split()) + 1:
            raise SqlError(111, f"'{kind} VIEW' must be the first statement in a query batch.", 15)
        name = self.object_name()
        columns = self.name_list() if self.at("(") else ()
        if self.at("WITH"):
            raise errors.unsupported(f"A view WITH {self.ahead().text.upper()}")
        self.expect("AS")
        start = self.token.start
        query = self.query()
        text = self._text_from(start)
        if self.accept("WITH"):
            self.expect_phrase("CHECK", "OPTION")
        definition = self._text_from(0)
        while self.accept(";"):
            pass
        if self.token.kind != t.END:
            raise errors.syntax(self.token.text, keyword=self.token.is_reserved)
        return s.CreateView(kind, name, columns, query, text, definition)

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
        if self.accept("VIEW"):
            return self._view("ALTER")
        raise self._unsupported("ALTER")

    def _alter_table(self) -> s.Statement:
        start = self.tokens[self.index - 2].start
        name = self.object_name()
        if self.accept("WITH"):
            if self.accept("NOCHECK"):
                raise errors.unsupported("WITH NOCHECK")
            self.expect("CHECK")
        if self.accept("ADD"):
            found = Elements()
            while True:
                self._table_element(found)
                if not self.accept(","):
                    break
            definition = found.definition()
            return s.AlterTable(name, "ADD", definition, (), self._text_from(start))
        if self.accept_phrase("ALTER", "COLUMN"):
            column = self._column(Elements())
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

    # --- DROP, GRANT ---------------------------------------------------------------------------

    def _drop(self) -> s.Statement:
        start = self.tokens[self.index - 1].start
        kinds = ("TABLE", "VIEW", "DATABASE", "SCHEMA", "TYPE", "USER", "LOGIN", "ROLE", "INDEX")
        if not self.at(*kinds):
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
