"""Runs the statements of a batch: control flow, variables, SET; the rest it hands on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import duckdb

from cdc_assets.sandbox.engine import ddl, messages, options, procedures, registry, security
from cdc_assets.sandbox.engine.calling import Caller
from cdc_assets.sandbox.engine.failures import (
    ATTENTION,
    STATEMENT_TERMINATED,
    Abort,
    Reach,
    outcome,
)
from cdc_assets.sandbox.engine.metadata import split_name
from cdc_assets.sandbox.engine.statements import StatementRunner
from cdc_assets.sandbox.engine.temporary import create_temporary
from cdc_assets.sandbox.language import errors, nodes, types, values
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.folding import attempt
from cdc_assets.sandbox.language.parser import parse_batch
from cdc_assets.sandbox.language.scope import Scope
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import (
    DatabaseChanged,
    Failed,
    Message,
    OutputParameters,
    Result,
    RowCount,
    SqlError,
    SqlType,
)

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.session import EngineSession

_MAX_DEPTH = 32
_NO_OUTPUTS: Mapping[str, str] = MappingProxyType({})
_CHANGES = (s.Insert, s.Update, s.Delete, s.Merge)


class _JumpError(Exception):
    """BREAK, CONTINUE or RETURN on its way to the loop or batch it ends."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Interpreter:
    """Runs parsed statements for a session."""

    def __init__(self, session: EngineSession) -> None:
        self.session = session
        self.context = session.context
        self.runner = StatementRunner(session, self)
        self.caller = Caller(self)
        self._depth = 0
        self._tries = 0
        runners: dict[type[s.Statement], Any] = {
            s.QueryStatement: self.runner.query,
            s.Insert: self.runner.change,
            s.Update: self.runner.change,
            s.Delete: self.runner.change,
            s.Merge: self.runner.change,
            s.Truncate: self.runner.truncate,
            s.Execute: self.caller.execute,
            s.Declare: self._variables,
            s.DeclareTable: self._variables,
            s.SetVariable: self._variables,
            s.SetOption: self._option,
            s.TransactionControl: self._transaction,
            s.Use: self._use,
            s.Print: self._print,
            s.Raise: self._raise,
            s.Jump: self._jump,
            s.WaitFor: self._wait,
        }
        self._runners = runners

    # --- entries -------------------------------------------------------------------------------

    def dynamic(
        self, text: str, parameters: dict[str, Value], outputs: Sequence[str] = ()
    ) -> Iterator[Result]:
        """Run a text out of a batch: an error that ends it lets the batch go on."""
        try:
            statements = parse_batch(text)
        except SqlError as error:
            yield from self._lost(error)
            return
        try:
            yield from self._scope(statements, parameters, outputs)
        except Abort as abort:
            if abort.reach != Reach.SCOPE:
                raise
            yield from self._lost(abort.error)

    def _lost(self, error: SqlError) -> Iterator[Result]:
        """A dynamic text ended with an error, which its caller's CATCH block may take."""
        if self._tries:
            raise Abort(error, Reach.STATEMENT) from error
        self.context.error_number = error.number
        yield Failed(error)

    def batch(
        self, text: str, parameters: dict[str, Value], outputs: Sequence[str] = ()
    ) -> Iterator[Result]:
        """Run a batch with its parameters as variables; at its end `outputs` of them."""
        self._tries = 0
        yield from self._scope(parse_batch(text), parameters, outputs)

    def _scope(
        self,
        statements: Sequence[s.Statement],
        parameters: dict[str, Value],
        outputs: Sequence[str],
    ) -> Iterator[Result]:
        if self._depth >= _MAX_DEPTH:
            raise SqlError(
                217,
                "Maximum stored procedure, function, trigger, or view nesting level exceeded "
                "(limit 32).",
            )
        saved, self.context.variables = self.context.variables, dict(parameters)
        self._depth += 1
        try:
            yield from self._returning(statements)
            ended = [(name, self.context.variables[name]) for name in outputs]
        finally:
            self._depth -= 1
            self.context.variables = saved
            if not self._depth:
                self.session.drop_variables()
        if ended:
            yield OutputParameters(0, tuple((n, v.type, attempt(v)) for n, v in ended))

    def _returning(self, statements: Sequence[s.Statement]) -> Iterator[Result]:
        """Statements to their end, or to a RETURN."""
        try:
            yield from self._run(statements)
        except _JumpError as jump:
            if jump.kind != "RETURN":
                number = 135 if jump.kind == "BREAK" else 136
                text = f"Cannot use a {jump.kind} statement outside the scope of a WHILE statement."
                raise SqlError(number, text, 15) from None

    def procedure(self, name: str, arguments: Sequence[procedures.Argument]) -> Iterator[Result]:
        """Run a procedure by name."""
        self._tries = 0
        try:
            yield from registry.run(self, tuple(part for part in _split(name)), arguments)
        except SqlError as error:
            call = s.Execute(())
            if outcome(error, call, xact_abort=self.context.options.xact_abort).dooms:
                self.session.abandon()
            raise

    def _run(self, statements: Sequence[s.Statement]) -> Iterator[Result]:
        for statement in statements:
            yield from self.statement(statement)

    # --- one statement -------------------------------------------------------------------------

    def statement(self, statement: s.Statement) -> Iterator[Result]:
        """Run one statement; an error ends it, or more than it as `failures` says."""
        try:
            control = self._control(statement)
            if control is not None:
                yield from control
                return
            self.session.engine.counters.execution(self.context.login.name)
            self.session.reading = frozenset()
            yield from self._leaf(statement)
            if not isinstance(statement, s.Execute):
                self.context.error_number = 0
            return
        except SqlError as error:
            failure = error
        except duckdb.Error as error:
            failure = self.session.failed(error)
            failure.__cause__ = error
        yield from self._failed(statement, failure)

    def _failed(self, statement: s.Statement, error: SqlError) -> Iterator[Result]:
        self.context.error_number = error.number
        error.line = error.line or statement.line
        found = outcome(error, statement, xact_abort=self.context.options.xact_abort)
        if self._tries:
            if found.dooms and self.context.transactions:
                self.context.doomed = True
            raise Abort(error, found.reach)
        if found.dooms:
            self.session.abandon()
        if found.reach != Reach.STATEMENT:
            raise Abort(error, found.reach)
        yield Failed(error)
        if isinstance(statement, _CHANGES):
            text = "The statement has been terminated."
            yield Message(STATEMENT_TERMINATED, text, state=0)

    def _control(self, statement: s.Statement) -> Iterator[Result] | None:
        if isinstance(statement, s.Block):
            return self._run(statement.body)
        if isinstance(statement, s.If):
            return self._if(statement)
        if isinstance(statement, s.While):
            return self._while(statement)
        if isinstance(statement, s.TryCatch):
            return self._try(statement)
        return None

    def _leaf(self, statement: s.Statement) -> Iterator[Result]:
        run = self._runners.get(type(statement))
        if run is not None:
            yield from run(statement)
            return
        if security.handles(statement):
            security.apply(self.session, statement)
        elif ddl.handles(statement):
            ddl.apply(self.session, statement)
        else:
            raise errors.unsupported(type(statement).__name__)
        self.context.row_count = 0
        yield RowCount(None)

    def _option(self, statement: s.SetOption) -> Iterator[Result]:
        options.apply(self.session, statement)
        yield RowCount(None)

    def _use(self, statement: s.Use) -> Iterator[Result]:
        self.context.database = self.context.find_database(statement.database).name
        yield DatabaseChanged(self.context.database)

    def _print(self, statement: s.Print) -> Iterator[Result]:
        yield Message(0, str(self.text(statement.value)))

    def _jump(self, statement: s.Jump) -> Iterator[Result]:
        if statement.value is not None:
            text = "A RETURN statement with a return value cannot be used in this context."
            raise SqlError(178, text, 15)
        raise _JumpError(statement.kind)

    # --- control flow --------------------------------------------------------------------------

    def _test(self, condition: nodes.Node) -> bool:
        self.session.prepare_read()
        text = self.session.binder().condition(condition, Scope())
        row = self.context.connection.one(f"SELECT CASE WHEN {text} THEN TRUE ELSE FALSE END")
        self.context.error_number = 0
        return bool(row and row[0])

    def _if(self, statement: s.If) -> Iterator[Result]:
        if self._test(statement.condition):
            yield from self.statement(statement.then)
        elif statement.otherwise is not None:
            yield from self.statement(statement.otherwise)

    def _while(self, statement: s.While) -> Iterator[Result]:
        while self._test(statement.condition):
            self.session.check_cancelled()
            try:
                yield from self.statement(statement.body)
            except _JumpError as jump:
                if jump.kind == "BREAK":
                    return
                if jump.kind == "RETURN":
                    raise

    def _try(self, statement: s.TryCatch) -> Iterator[Result]:
        caught: SqlError | None = None
        self._tries += 1
        try:
            yield from self._run(statement.attempt)
        except Abort as abort:
            # What the batch's compilation found, no CATCH block of the same batch takes.
            if abort.reach == Reach.SCOPE or abort.error.number == ATTENTION:
                raise
            caught = abort.error
        finally:
            self._tries -= 1
        if caught is None:
            return
        self.context.caught.append(caught)
        try:
            yield from self._run(statement.handler)
        finally:
            self.context.caught.pop()

    def _raise(self, statement: s.Raise) -> Iterator[Result]:
        arguments = [self.constant(node, None) for node in statement.arguments]
        yield messages.raised(statement.kind, arguments, self.context.caught)

    def _transaction(self, statement: s.TransactionControl) -> Iterator[Result]:
        name = statement.name
        if name is not None and name.startswith("@"):
            name = str(self.text(nodes.Variable(name)))
        if statement.kind == "SAVE":
            self.session.save(name or "")
            yield RowCount(None)
            return
        if statement.kind == "BEGIN":
            self.session.begin(name)
        elif statement.kind == "COMMIT":
            self.session.commit()
        else:
            self.session.rollback(name)
        yield RowCount(None, statement.kind)

    def _wait(self, statement: s.WaitFor) -> Iterator[Result]:
        text = str(self.text(statement.delay))
        try:
            hours, minutes, seconds = (*text.split(":"), "0")[:3]
            duration = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
        except ValueError:
            raise SqlError(
                148, f"Incorrect time syntax in time string '{text}' used with WAITFOR.", 15
            ) from None
        end = time.monotonic() + duration
        while (left := end - time.monotonic()) > 0:
            self.session.check_cancelled()
            time.sleep(min(left, 0.05))
        yield RowCount(None)

    # --- variables -----------------------------------------------------------------------------

    def _variables(self, statement: s.Statement) -> Iterator[Result]:
        if isinstance(statement, s.Declare):
            key = statement.name.lower()
            if key in self.context.variables:
                raise SqlError(
                    134,
                    f"The variable name '{statement.name}' has already been declared. Variable "
                    "names must be unique within a query batch or stored procedure.",
                    15,
                )
            self.context.variables[key] = values.null(statement.type)
            if statement.value is not None:
                self.set_variable(statement.name, statement.value)
        elif isinstance(statement, s.DeclareTable):
            create_temporary(self.session, statement.name, statement.definition)
        elif isinstance(statement, s.SetVariable):
            self.set_variable(statement.name, statement.value)
        yield from ()

    def set_variable(self, name: str, node: nodes.Node) -> None:
        """SET @x = …."""
        kind = self.session.binder().environment.variable(name).type
        self.context.variables[name.lower()] = values.of_python(self.constant(node, kind), kind)

    def constant(self, node: nodes.Node, kind: SqlType | None) -> object:
        """An expression's Python value, in a type or its own."""
        self.session.prepare_read()
        bound = self.session.binder().value(node, Scope())
        value = convert(bound, kind) if kind is not None else bound
        if value.is_constant and value.sql == bound.sql:
            return value.constant
        row = self.context.connection.one(f"SELECT {value.sql}")
        return row[0] if row else None

    def text(self, node: nodes.Node) -> object:
        """An expression as a string; NULL is empty."""
        value = self.constant(node, types.nvarchar(-1))
        return "" if value is None else value


def _split(name: str) -> tuple[str, ...]:
    parts = split_name(name)
    if parts is None:
        raise errors.unknown_procedure(name)
    return parts
