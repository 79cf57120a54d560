"""T-SQL batches, parsed: the whole text first, as SQL Server does; on an error nothing runs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import TypeVar

from cdc_assets.sandbox.language import errors, nodes
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language import tokens as t
from cdc_assets.sandbox.language.changes import ChangeParser

N = TypeVar("N")

_BATCH_CACHE = 512
_REFUSED = {
    "GOTO": "GOTO",
    **dict.fromkeys(("OPEN", "FETCH", "CLOSE", "DEALLOCATE"), "A cursor"),
    **{word: word for word in ("BULK", "BACKUP", "RESTORE", "KILL", "DBCC", "CHECKPOINT")},
}


@lru_cache(maxsize=_BATCH_CACHE)
def parse_batch(text: str) -> tuple[s.Statement, ...]:
    """The statements of a batch; raises `SqlError` with T-SQL's number for what it cannot read."""
    return StatementParser(text).batch()


@lru_cache(maxsize=_BATCH_CACHE)
def parse_expression(text: str) -> nodes.Node:
    """One expression, as a default or a computed column has it."""
    return _whole(text, StatementParser.expression)


@lru_cache(maxsize=_BATCH_CACHE)
def parse_query(text: str) -> nodes.Query:
    """One query expression, as a view has it."""
    return _whole(text, StatementParser.query)


@lru_cache(maxsize=_BATCH_CACHE)
def parse_condition(text: str) -> nodes.Node:
    """One search condition, as a CHECK constraint has it."""
    return _whole(text, StatementParser.condition)


def _whole(text: str, read: Callable[[StatementParser], N]) -> N:
    """What a rule reads, where it reads the whole text."""
    parser = StatementParser(text)
    found = read(parser)
    if parser.token.kind != t.END:
        parser.fail()
    return found


class StatementParser(ChangeParser):
    """Reads statements."""

    @cached_property
    def _line_ends(self) -> list[int]:
        return [place for place, letter in enumerate(self.text) if letter == "\n"]

    def batch(self) -> tuple[s.Statement, ...]:
        """Every statement up to the end of the text."""
        found = []
        while self._more():
            found.append(self.statement())
        return tuple(found)

    def _more(self) -> bool:
        while self.accept(";"):
            pass
        return self.token.kind != t.END

    def statement(self) -> s.Statement:
        """One statement, with its line."""
        line = bisect_left(self._line_ends, self.token.start) + 1
        statement = self._statement()
        # Not a field: two statements that differ in their lines alone are the same statement.
        made = statement.body if isinstance(statement, s.Block) else ()
        for one in (statement, *made):
            if not hasattr(one, "line"):  # DECLARE and SET make several out of one
                object.__setattr__(one, "line", line)
        return statement

    def _statement(self) -> s.Statement:
        first = not self.index
        upper = self.token.upper if self.token.kind == t.WORD else ""
        reader = {
            "SELECT": self._query_statement,
            "WITH": self._with,
            "INSERT": self.insert,
            "UPDATE": self.update,
            "DELETE": self.delete,
            "MERGE": self.merge,
            "TRUNCATE": self.truncate,
            "DECLARE": self._declare,
            "SET": self._set,
            "IF": self._if,
            "WHILE": self._while,
            "BEGIN": self._begin,
            "COMMIT": self._end_transaction,
            "ROLLBACK": self._end_transaction,
            "SAVE": self._savepoint,
            "EXEC": self.execute,
            "EXECUTE": self.execute,
            "PRINT": self._print,
            "RAISERROR": self._raiserror,
            "THROW": self._throw,
            "RETURN": self._jump,
            "BREAK": self._jump,
            "CONTINUE": self._jump,
            "USE": self._use,
            "WAITFOR": self._waitfor,
        }.get(upper)
        if reader is not None:
            return reader()
        if self.at("("):
            return self._query_statement()
        definition = self.definition()
        if definition is not None:
            return definition
        if upper in _REFUSED:
            raise errors.unsupported(_REFUSED[upper])
        if self.at_identifier() and self.ahead().text == ":":
            raise errors.unsupported("A label")
        if first and self.at_identifier():
            return self._procedure_call(None)  # the first statement may leave out EXEC
        return self.fail()

    # --- queries and changes -------------------------------------------------------------------

    def _query_statement(self) -> s.Statement:
        return s.QueryStatement(self.query())

    def _with(self) -> s.Statement:
        tables = self.common_tables()
        if self.at("UPDATE"):
            return self.update(tables)
        if self.at("DELETE"):
            return self.delete(tables)
        if self.at("MERGE"):
            return self.merge(tables)
        if self.at("INSERT"):
            insert = self.insert()
            if not isinstance(insert.source, nodes.Query):
                self.fail()
            source = nodes.Query(
                insert.source.body,
                insert.source.order_by,
                insert.source.offset,
                insert.source.fetch,
                tables,
            )
            return s.Insert(insert.target, insert.columns, source, insert.output)
        query = self.query()
        return s.QueryStatement(
            nodes.Query(query.body, query.order_by, query.offset, query.fetch, tables)
        )

    # --- control -------------------------------------------------------------------------------

    def _declare(self) -> s.Statement:
        self.expect("DECLARE")
        found: list[s.Statement] = []
        if self.ahead().upper in ("CURSOR", "INSENSITIVE", "SCROLL"):
            raise errors.unsupported("A cursor")
        while True:
            name = self.variable()
            self.accept("AS")
            if self.at("CURSOR"):
                raise errors.unsupported("A cursor")
            if self.accept("TABLE"):
                found.append(s.DeclareTable(name, self.table_definition()))
            else:
                kind = self.type_name()
                value = self.expression() if self.accept("=") else None
                found.append(s.Declare(name, kind, value))
            if not self.accept(","):
                return found[0] if len(found) == 1 else s.Block(tuple(found))

    def _set(self) -> s.Statement:
        self.expect("SET")
        if self.token.kind == t.VARIABLE:
            name = self.variable()
            op = self.expect("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=")
            value = self.expression()
            if op != "=":
                value = nodes.Arithmetic(op[0], nodes.Variable(name), value)
            return s.SetVariable(name, value)
        if self.accept_phrase("TRANSACTION", "ISOLATION", "LEVEL"):
            words = [self.advance().upper]
            if words[0] in ("READ", "REPEATABLE"):
                words.append(self.advance().upper)
            return s.SetOption("TRANSACTION ISOLATION LEVEL", " ".join(words))
        return self._set_option()

    def _set_option(self) -> s.Statement:
        options = [self.advance().upper]
        while self.accept(","):
            options.append(self.advance().upper)
        if options[0] == "IDENTITY_INSERT":
            name = ".".join(
                f"[{part.replace(chr(93), chr(93) * 2)}]" for part in self.object_name()
            )
            return s.SetOption(f"IDENTITY_INSERT {name}", self.expect("ON", "OFF"))
        if options[0] == "STATISTICS":
            options = [f"STATISTICS {self.advance().upper}"]
        token = self.token
        if token.kind in (t.INTEGER, t.STRING, t.NSTRING, t.WORD, t.QUOTED, t.VARIABLE) or self.at(
            "-"
        ):
            sign = "-" if self.accept("-") else ""
            value = sign + self.advance().value
        else:
            self.fail()
        found = tuple(s.SetOption(option, value) for option in options)
        return found[0] if len(found) == 1 else s.Block(found)

    def _if(self) -> s.Statement:
        self.expect("IF")
        condition = self.condition()
        then = self._nested()
        start = self.index
        self._more()
        if self.accept("ELSE"):
            return s.If(condition, then, self._nested())
        self.index = start
        return s.If(condition, then, None)

    def _nested(self) -> s.Statement:
        if not self._more():
            self.fail()
        return self.statement()

    def _while(self) -> s.Statement:
        self.expect("WHILE")
        condition = self.condition()
        return s.While(condition, self._nested())

    def _begin(self) -> s.Statement:
        self.expect("BEGIN")
        if self.accept("TRAN", "TRANSACTION"):
            return s.TransactionControl("BEGIN", self._transaction_name())
        if self.accept("TRY"):
            attempt = self._until_end("TRY")
            self._more()
            self.expect_phrase("BEGIN", "CATCH")
            return s.TryCatch(attempt, self._until_end("CATCH"))
        return s.Block(self._until_end(None))

    def _until_end(self, what: str | None) -> tuple[s.Statement, ...]:
        body = []
        while self._more() and not self.at("END"):
            body.append(self.statement())
        self.expect("END")
        if what is not None:
            self.expect(what)
        return tuple(body)

    def _transaction_name(self) -> str | None:
        if self.token.kind == t.VARIABLE:
            return self.variable()
        return self.identifier() if self.at_identifier() else None

    def _end_transaction(self) -> s.Statement:
        kind = self.expect("COMMIT", "ROLLBACK")
        name = None
        if self.accept("TRAN", "TRANSACTION"):
            name = self._transaction_name()
        else:
            self.accept("WORK")
        return s.TransactionControl("COMMIT" if kind == "COMMIT" else "ROLLBACK", name)

    def _savepoint(self) -> s.Statement:
        self.expect("SAVE")
        self.expect("TRAN", "TRANSACTION")
        name = self._transaction_name()
        if name is None:
            self.fail()
        return s.TransactionControl("SAVE", name)

    def _print(self) -> s.Statement:
        self.expect("PRINT")
        return s.Print(self.expression())

    def _raiserror(self) -> s.Statement:
        self.expect("RAISERROR")
        self.expect("(")
        arguments = self._list()
        self.expect(")")
        if self.accept("WITH"):
            self.expect("NOWAIT", "LOG", "SETERROR")
        return s.Raise("RAISERROR", arguments)

    def _throw(self) -> s.Statement:
        self.expect("THROW")
        if self.token.kind in (t.INTEGER, t.VARIABLE):
            return s.Raise("THROW", self._list())
        return s.Raise("THROW", ())

    def _jump(self) -> s.Statement:
        kind = self.expect("RETURN", "BREAK", "CONTINUE")
        if kind != "RETURN":
            return s.Jump("BREAK" if kind == "BREAK" else "CONTINUE")
        value = None
        if self.token.kind in (t.INTEGER, t.VARIABLE) or self.at("-", "("):
            value = self.expression()
        return s.Jump("RETURN", value)

    def _use(self) -> s.Statement:
        self.expect("USE")
        return s.Use(self.identifier())

    def _waitfor(self) -> s.Statement:
        self.expect_phrase("WAITFOR", "DELAY")
        return s.WaitFor(self.expression())

    def execute(self) -> s.Execute:
        """EXEC of a procedure or of a text."""
        self.expect("EXEC", "EXECUTE")
        if self.accept("("):
            text = self.expression()
            self.expect(")")
            return s.Execute((), dynamic=text)
        status = None
        if self.token.kind == t.VARIABLE and self.ahead().upper == "=":
            status = self.variable()
            self.advance()
        return self._procedure_call(status)

    def _procedure_call(self, status: str | None) -> s.Execute:
        name = self.object_name()
        arguments: list[s.Argument] = []
        if self._starts_argument():
            arguments.append(self._argument())
            while self.accept(","):
                arguments.append(self._argument())
        return s.Execute(name, tuple(arguments), status)

    def _starts_argument(self) -> bool:
        token = self.token
        literal = token.kind in (t.STRING, t.NSTRING, t.INTEGER, t.DECIMAL, t.FLOAT, t.HEX)
        return (
            literal
            or token.kind in (t.VARIABLE, t.QUOTED)
            or self.at("NULL", "DEFAULT", "-", "+")
            or self.at_identifier()
        )

    def _argument(self) -> s.Argument:
        name = ""
        if self.token.kind == t.VARIABLE and self.ahead().upper == "=":
            name = self.variable()
            self.advance()
        if self.accept("DEFAULT"):
            value: nodes.Node = nodes.Constant("default", "")
        elif self.at_identifier():
            value = nodes.Constant(t.NSTRING, self.identifier())  # a bare word is a string here
        else:
            value = self._unary()
        output = bool(self.accept("OUTPUT", "OUT"))
        return s.Argument(name, value, output)
